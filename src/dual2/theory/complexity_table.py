"""The full complexity table of the paper (appendix "Full Version"), row by row.

𝒜 counts evaluations of ∇f and prox_g, ℬ products with 𝐀, 𝐀ᵀ and evaluations of ∇h* or prox_{h*}.
O(·) and Õ(·) are read with the constant and the hidden logarithm set to 1.
"""

from dataclasses import dataclass

from dual2.theory.saddle_table import Formula

ASSUMPTIONS = {
    "①": "prox_{h*} can be computed",
    "②": "h is the indicator of a point (h* is linear)",
    "③": "∇h* can be computed",
    "A_i = I, ②": "every A_i is the identity and h is the indicator of a point",
}
"""Column "additional assumptions". A blank of the paper is ③: h* enters by its gradient."""


@dataclass(frozen=True)
class Bound:
    """One row of the table."""

    method: str  # algorithm
    subsolver: str  # solver of the subproblem; empty for methods that have none
    rho: str  # "0" or "ρ*"; empty for methods without ρ
    # "1", "2", "2.1" or "3". The row of Salim's algorithm stands under Case 2 of
    # the paper; its mapping to (SPP) is Case 2.1.
    case: str
    assumption: str  # key of ASSUMPTIONS
    # rounds, oracle_a, oracle_b: communication and oracle complexities
    rounds: Formula
    oracle_a: Formula
    oracle_b: Formula

    @property
    def name(self) -> str:
        """Method and subsolver, as the paper writes them."""
        return f"{self.method}-{self.subsolver}" if self.subsolver else self.method


def _row(
    name: str, rho: str, case: str, assumption: str, rounds: str, a: str, b: str = ""
) -> Bound:
    """Row of the table; a single oracle complexity holds for 𝒜 and ℬ."""
    method, _, subsolver = name.partition("-")
    full = [Formula(f"{text} log(1/ε)") for text in (rounds, a, b or a)]
    return Bound(method, subsolver, rho, case, assumption, *full)


_DUAL = "max(√κ_f, √κ_pd)"
_DUAL_H = "max(√κ_f, √κ_pd, √κ_h*)"
_OUTER = "√(c_1 κ_pd κ_C)"
_OUTER_H = "√κ_C max(√(c_1 κ_pd), √κ_h*)"
_LINEAR_H = "max(κ_pd, κ_h*)"
_ROOT_H = "max(√κ_pd, √κ_h*)"

CASE_1 = (
    _row("DCPA", "", "1", "①", "max(κ_f, κ_pd κ_C)", "max(κ_f, κ_pd κ_C)"),
    _row("NPGA", "", "1", "①", "max(κ_f, κ_pd κ_C)", "max(κ_f, κ_pd κ_C)"),
    _row("iD2A-LPD", "0", "1", "①", _OUTER, f"{_OUTER} {_DUAL}"),
    _row("MiD2A-LPD", "0", "1", "①", _OUTER, f"√(c_1 κ_pd) {_DUAL}"),
    _row("iD2A-LPD", "ρ*", "1", "①", f"√κ_C {_DUAL}", f"√κ_C {_DUAL}"),
    _row("MiD2A-LPD", "ρ*", "1", "①", f"√κ_C {_DUAL}", _DUAL),
    _row("iD2A-iDAPG", "0", "1", "①", _OUTER, "√(κ_f κ_C) κ_pd", "√κ_C κ_pd"),
    _row("MiD2A-iDAPG", "0", "1", "①", _OUTER, "√κ_f κ_pd", "κ_pd"),
    _row("iD2A-iDAPG", "ρ*", "1", "①", "√(κ_pd κ_C)", "√(κ_f κ_pd κ_C)", "√(κ_pd κ_C)"),
    _row("MiD2A-iDAPG", "ρ*", "1", "①", "√(κ_pd κ_C)", "√(κ_f κ_pd)", "√κ_pd"),
    _row("iD2A-LPD", "0", "1", "③", _OUTER_H, f"{_OUTER_H} {_DUAL_H}"),
    _row("MiD2A-LPD", "0", "1", "③", _OUTER_H, f"max(√(c_1 κ_pd), √κ_h*) {_DUAL_H}"),
    _row("iD2A-LPD", "ρ*", "1", "③", f"√κ_C {_DUAL_H}", f"√κ_C {_DUAL_H}"),
    _row("MiD2A-LPD", "ρ*", "1", "③", f"√κ_C {_DUAL_H}", _DUAL_H),
    _row("iD2A-iDAPG", "0", "1", "③", _OUTER_H, f"√(κ_f κ_C) {_LINEAR_H}", f"√κ_C {_LINEAR_H}"),
    _row("MiD2A-iDAPG", "0", "1", "③", _OUTER_H, f"√κ_f {_LINEAR_H}", _LINEAR_H),
    _row(
        "iD2A-iDAPG", "ρ*", "1", "③", f"√κ_C {_ROOT_H}", f"√(κ_f κ_C) {_ROOT_H}", f"√κ_C {_ROOT_H}"
    ),
    _row("MiD2A-iDAPG", "ρ*", "1", "③", f"√κ_C {_ROOT_H}", f"√κ_f {_ROOT_H}", _ROOT_H),
)
"""Case 1: h* is strongly convex. DCPA and NPGA share one line of the paper."""

_RANK = "√(c_1/c_2) √(κ_f κ_A κ_C)"
_RANK_H = "√(1/c_2) √κ_C max(√κ_pd', √(c_1 κ_f κ_A))"
_APDG = "max(√(κ_f κ_A), κ_A)"
_APDG_H = "max(√κ_pd', √(κ_f κ_A), κ_A)"
_FULL = "max(κ_pd', κ_f κ_A)"
_FULL_ROOT = "max(√κ_pd', √(κ_f κ_A))"

CASE_2 = (
    _row("Nedić", "", "2", "A_i = I, ②", "√(κ_f κ_C)", "√(κ_f κ_C)"),
    _row("DCDA", "", "2", "②", "max(κ_f κ_A, κ_C)", "max(κ_f κ_A, κ_C)"),
    _row("MiD2A-Salim", "0", "2.1", "②", _RANK, "√(c_1/c_2) κ_f √κ_A", "√(c_1/c_2) κ_f κ_A"),
    _row("MiD2A-APDG", "ρ*", "2", "①", f"√κ_C {_APDG}", _APDG),
    _row("MiD2A-iDAPG", "0", "2", "①", _RANK, "κ_f^1.5 κ_A", "κ_f κ_A"),
    _row("MiD2A-iDAPG", "ρ*", "2", "①", "√(κ_f κ_A κ_C)", "κ_f √κ_A", "√(κ_f κ_A)"),
    _row("MiD2A-APDG", "0", "2", "③", _RANK_H, f"√(1/c_2) max(√κ_pd', √(c_1 κ_f κ_A)) {_APDG_H}"),
    _row("MiD2A-APDG", "ρ*", "2", "③", f"√κ_C {_APDG_H}", _APDG_H),
    _row("MiD2A-iDAPG", "0", "2", "③", _RANK_H, f"√κ_f {_FULL}", _FULL),
    _row("MiD2A-iDAPG", "ρ*", "2", "③", f"√κ_C {_FULL_ROOT}", f"√κ_f {_FULL_ROOT}", _FULL_ROOT),
)
"""Case 2: all g_i = 0, every A_i of full row rank. (80) of Nedić et al. is "Nedić"; the
logarithm that MiD2A-APDG with ρ = 0 lacks in print is supplied."""

_AUG, _AUG_P = "max(√κ_pd2, √(κ_f κ_Aρ))", "max(√κ_pd3, √(κ_f κ_A'ρ))"

CASE_3 = (
    _row("DCPA", "", "3", "①", "κ_f κ_Aρ κ_C", "κ_f κ_Aρ κ_C"),
    _row("NPGA", "", "3", "①", "max(κ_f κ_Aρ, κ_C)", "max(κ_f κ_Aρ, κ_C)"),
    _row("iD2A-iDAPG", "ρ*", "3", "①", "√(κ_f κ_Aρ κ_C)", "κ_f √(κ_Aρ κ_C)", "√(κ_f κ_Aρ κ_C)"),
    _row("MiD2A-iDAPG", "ρ*", "3", "①", "√(κ_f κ_A'ρ κ_C)", "κ_f √κ_A'ρ", "√(κ_f κ_A'ρ)"),
    _row("iD2A-iDAPG", "ρ*", "3", "③", f"√κ_C {_AUG}", f"√(κ_f κ_C) {_AUG}", f"√κ_C {_AUG}"),
    _row("MiD2A-iDAPG", "ρ*", "3", "③", f"√κ_C {_AUG_P}", f"√κ_f {_AUG_P}", _AUG_P),
)
"""Case 3: all g_i = 0, [A_1 … A_n] of full row rank."""

BOUNDS = CASE_1 + CASE_2 + CASE_3
"""Every row."""
