"""The complexity table evaluated: which rows hold, what they predict, what a run cost beside."""

import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from dual2.errors import CapabilityError
from dual2.network import AnyNetwork
from dual2.problem import Problem
from dual2.theory.complexity_table import ASSUMPTIONS, BOUNDS, Bound
from dual2.theory.condition_numbers import SYMBOLS, ConditionNumbers, condition_numbers
from dual2.theory.constants import Facts, full_row_rank, gather_facts


@dataclass(frozen=True)
class Complexity:
    """One row of the paper's table for a concrete problem.

    Attributes
    ----------
    method, subsolver, case, assumption : str
        As in :class:`~dual2.theory.complexity_table.Bound`.
    rho : float or None
        Value of ρ; None for methods without.
    applies : bool
        Whether the problem meets the row's assumptions.
    reason : str
        Why it does not, or what to know about the numbers.
    rounds, oracle_a, oracle_b : float
        Predicted rounds and calls to 𝒜 and ℬ until |x - x*|² ≤ ε, every constant inside O(·) and
        every logarithm hidden by Õ(·) taken as 1: for comparing rows, and for growth, not for
        absolute counts. NaN where the row does not apply, infinite where a condition number is.
    formulas : tuple of str
        The three formulas.
    """

    method: str
    subsolver: str
    rho: float | None
    case: str
    assumption: str
    applies: bool
    reason: str
    rounds: float
    oracle_a: float
    oracle_b: float
    formulas: tuple[str, str, str]

    @property
    def name(self) -> str:
        """Method and subsolver, as the paper writes them."""
        return f"{self.method}-{self.subsolver}" if self.subsolver else self.method


def complexities(
    problem: Problem,
    network: AnyNetwork,
    eps: float = 1e-8,
    rho: float | str = "auto",
    numbers: ConditionNumbers | None = None,
) -> list[Complexity]:
    """Every row of the paper's complexity table, evaluated for a problem on a network.

    Parameters
    ----------
    problem, network
        The problem and its network.
    eps : float
        ε in |x - x*|² ≤ ε, 0 < ε < 1.
    rho : float or "auto"
        ``"auto"`` admits the rows with ρ = 0 and those with ρ*; a number only its own kind.
    numbers : ConditionNumbers, optional
        If known already (for the same ρ).

    Returns
    -------
    list of Complexity
        First the rows that apply, by predicted rounds, then the others.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> agents = [d2.Agent(np.eye(2), d2.SquaredNorm(1.0), d2.L1Norm(0.1)) for _ in range(3)]
    >>> problem = d2.Problem(agents, d2.SquaredLoss(np.ones(2)))
    >>> rows = complexities(problem, d2.Network([(0, 1), (1, 2)]))
    >>> len(rows), sum(row.applies for row in rows)
    (34, 18)
    >>> print(f"{rows[0].rounds:.1f} = {rows[0].formulas[0]}")
    55.3 = √κ_C max(√κ_f, √κ_pd) log(1/ε)
    """
    if not 0 < eps < 1:
        raise CapabilityError(f"eps = {eps!r} found; expected a number between 0 and 1.")
    facts = gather_facts(problem)
    numbers = numbers or condition_numbers(problem, network, rho, facts)
    judge = _Judge(facts, full_row_rank(problem), identity_coupling(problem), rho)
    rows = [_evaluate(bound, judge, numbers, eps) for bound in BOUNDS]
    return sorted(rows, key=lambda r: (not r.applies, at_end(r.rounds), at_end(r.oracle_a), r.name))


def identity_coupling(problem: Problem) -> bool:
    """Whether every A_i is the identity (an operator counts as not)."""
    return all(_is_identity(agent.A) for agent in problem.agents)


def _is_identity(A: Any) -> bool:
    rows, columns = A.shape
    if rows != columns or isinstance(A, LinearOperator):
        return False
    entries = A.count_nonzero() if issparse(A) else np.count_nonzero(A)
    return entries == rows and bool(np.all(A.diagonal() == 1.0))


@dataclass(frozen=True)
class _Judge:
    """Whether a row's assumptions hold."""

    facts: Facts
    full_rank: bool | None
    identity: bool
    rho: float | str

    def objection(self, bound: Bound) -> str:
        """What is missing; empty if nothing is."""
        return self._case(bound.case) or self._assumption(bound) or self._rho(bound.rho)

    def _case(self, case: str) -> str:
        facts = self.facts
        if not facts.mu_f > 0 or not math.isfinite(facts.L_f):
            return "some f_i is not strongly convex and smooth"
        if not math.isfinite(facts.L_h):
            return "h* is not smooth: no linear rate is known"
        if case == "1":
            return "" if facts.mu_h > 0 else "h* is not strongly convex"
        if not facts.g_is_zero:
            return "some g_i ≠ 0"
        if case == "3":
            unknown = "it is not known whether [A_1 … A_n] has full row rank"
            missing = "[A_1 … A_n] lacks full row rank"
            return "" if self.full_rank else (unknown if self.full_rank is None else missing)
        return "" if facts.row_rank > 0 else "some A_i lacks full row rank, or its rank is unknown"

    def _assumption(self, bound: Bound) -> str:
        facts = self.facts
        holds = {
            "①": facts.h_prox,
            "②": facts.h_linear,
            "③": facts.h_smooth,
            "A_i = I, ②": self.identity and facts.h_linear,
        }[bound.assumption]
        if not holds:
            return f"needs {bound.assumption}: {ASSUMPTIONS[bound.assumption]}"
        if bound.subsolver == "APDG" and bound.assumption == "①" and not facts.h_linear:
            return "APDG takes no prox of h*, so this row needs a linear h*"
        return ""

    def _rho(self, kind: str) -> str:
        if self.rho == "auto" or not kind:
            return ""
        if kind == "0":
            return "" if self.rho == 0 else f"needs ρ = 0; ρ = {self.rho:g} was given"
        return "needs ρ > 0; ρ = 0 was given" if self.rho == 0 else ""


def _evaluate(bound: Bound, judge: _Judge, numbers: ConditionNumbers, eps: float) -> Complexity:
    objection = judge.objection(bound)
    values = numbers.symbols | {"ε": eps}
    formulas = bound.rounds, bound.oracle_a, bound.oracle_b
    star = numbers.rho_prime if bound.method == "MiD2A" else numbers.rho
    found = [math.nan if objection else formula(values) for formula in formulas]
    return Complexity(
        method=bound.method,
        subsolver=bound.subsolver,
        case=bound.case,
        rho={"": None, "0": 0.0, "ρ*": star}[bound.rho],
        assumption=bound.assumption,
        applies=not objection,
        reason=objection or _remark(bound, numbers),
        rounds=found[0],
        oracle_a=found[1],
        oracle_b=found[2],
        formulas=(str(formulas[0]), str(formulas[1]), str(formulas[2])),
    )


def _remark(bound: Bound, numbers: ConditionNumbers) -> str:
    """What to know about the numbers of a row that applies."""
    symbols = bound.rounds.symbols | bound.oracle_a.symbols
    notes = {numbers.notes.get(SYMBOLS[s], "") for s in symbols if s in SYMBOLS} - {""}
    if notes:
        return "; ".join(sorted(notes))
    if bound.subsolver and bound.assumption == "①":
        return _left_out(bound, numbers)
    return ""


def _left_out(bound: Bound, numbers: ConditionNumbers) -> str:
    """The rows under ① are printed without L_{h*}, which κ_F (Lemma 11) contains."""
    fast = bound.method == "MiD2A"
    augmented = numbers.kappa_A_rho_prime if fast else numbers.kappa_A_rho
    name, dropped, kept = {
        "1": ("κ_h*", numbers.kappa_h, numbers.kappa_pd),
        "2": ("κ_pd'", numbers.kappa_pd_prime, numbers.kappa_f * numbers.kappa_A),
        "3": (
            "κ_pd3" if fast else "κ_pd2",
            numbers.kappa_pd3 if fast else numbers.kappa_pd2,
            numbers.kappa_f * augmented,
        ),
    }[bound.case]
    if not dropped > kept:
        return ""
    return f"optimistic: the printed bound leaves out {name} = {dropped:.3g}, which κ_F contains"


def table(rows: Iterable[Complexity], every: bool = False) -> str:
    """Rows as plain text: those that apply, with ``every`` the others and their reasons too.

    Examples
    --------
    >>> row = Complexity("NPGA", "", None, "1", "①", True, "", 1e3, 1e3, 1e3, ("", "", ""))
    >>> print(table([row]))
    method  ρ  case  with  rounds     𝒜     ℬ
    NPGA    -  1     ①       1000  1000  1000
    """
    lines = [("method", "ρ", "case", "with", "rounds", "𝒜", "ℬ", "")]
    lines += [_cells(row) for row in rows if row.applies or every]
    widths = [max(len(line[k]) for line in lines) for k in range(7)]
    form = "  ".join(f"{{:{'<' if k < 4 else '>'}{width}}}" for k, width in enumerate(widths))
    return "\n".join(f"{form.format(*line)}  {line[7]}".rstrip() for line in lines)


def _cells(row: Complexity) -> tuple[str, ...]:
    rho = "-" if row.rho is None else f"{row.rho:.4g}"
    counts = [count(value) for value in (row.rounds, row.oracle_a, row.oracle_b)]
    return (row.name, rho, row.case, row.assumption, *counts, row.reason)


def count(value: float) -> str:
    """A predicted number of calls, short.

    Examples
    --------
    >>> count(1234.4), count(4.2e7), count(float("nan")), count(float("inf"))
    ('1234', '4.2e+07', '-', 'inf')
    """
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if value < 1e6 else f"{value:.3g}"


def at_end(value: float) -> float:
    """NaN as infinity, for sorting."""
    return math.inf if math.isnan(value) else value


@dataclass(frozen=True)
class Comparison:
    """Measured beside predicted.

    Attributes
    ----------
    row : Complexity or None
        The row of the table that was run, None if the table has none.
    measured : dict
        ``rounds``, ``oracle_a`` = max(∇f, prox_g), ``oracle_b`` = max(𝐀, 𝐀ᵀ, prox_{h*}).
    reason : str
        Which row, or why none.
    """

    row: Complexity | None
    measured: dict[str, int]
    reason: str

    def ratio(self, name: str) -> float:
        """Measured over predicted; NaN without a row."""
        return self.measured[name] / getattr(self.row, name) if self.row else math.nan

    def __str__(self) -> str:
        names = {"rounds": "rounds", "oracle_a": "𝒜", "oracle_b": "ℬ"}
        lines = [self.reason, f"{'':<8}{'measured':>12}{'predicted':>12}{'ratio':>10}"]
        for name, shown in names.items():
            wanted = count(getattr(self.row, name)) if self.row else "-"
            ratio = f"{self.ratio(name):.3g}" if self.row else "-"
            lines.append(f"{shown:<8}{self.measured[name]:>12}{wanted:>12}{ratio:>10}")
        return "\n".join(lines)


def compare(rows: Iterable[Complexity], result: Any) -> Comparison:
    """What a run cost beside what the table predicts for the row that was run.

    Parameters
    ----------
    rows : iterable of Complexity
        From :func:`complexities`, with an ε of the accuracy of the run.
    result : Result
        Of ``solve`` on the same problem and network: its ``counts`` and ``parameters``.
    """
    counts = result.counts
    measured = {
        "rounds": counts.rounds,
        "oracle_a": max(counts.grad_f, counts.prox_g),
        "oracle_b": max(counts.A, counts.AT, counts.prox_h),
    }
    used = {k: v for k, (v, _) in result.parameters.items()}
    suited = [row for row in rows if row.applies and _was_run(row, used)]
    if not suited:
        label = "-".join(filter(None, [str(used["method"]), used.get("subsolver", "")]))
        where = f", ρ = {used['rho']:g}," if "rho" in used else ""
        return Comparison(None, measured, f"The paper's table has no row for {label}{where} here.")
    row = min(suited, key=lambda row: at_end(row.rounds))
    return Comparison(row, measured, f"{row.name}, Case {row.case}, {row.assumption}.")


def _was_run(row: Complexity, used: dict[str, Any]) -> bool:
    """Whether a row describes a run with the given parameters."""
    method = str(used["method"])
    if row.rho is None:
        written = "".join(c for c in unicodedata.normalize("NFD", row.method) if c.isascii())
        return method in (row.method, written) or method.startswith(f"{row.method}-")
    if method != row.method or used.get("subsolver") != row.subsolver:
        return False
    by_gradient = used.get("mapping") == "smooth"
    return (row.rho > 0) == (used["rho"] > 0) and (row.assumption == "③") == by_gradient
