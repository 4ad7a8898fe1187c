"""Residuals of an iterate, and what they prove: a solution, infeasibility, unboundedness."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dual2.methods.interior_point.state import State

Array = np.ndarray
LEAST_OBJECTIVE = 1e-4
"""Part of the terms of the objective beside which gaps are judged where they cancel."""
CURVED_OBJECTIVE = 1e-2
"""The same where smooth terms have no value in the sums."""
GAP_FACTOR = 10.0
"""Gaps must be so much smaller than residuals."""
OUTWARD, PROVEN = 1e8, 1e-9
"""How far the support of an infeasible problem must exceed what points to infinite sides, and
its own terms."""
RAY = 1e-8
"""How far a ray of an unbounded problem may miss, relative to the fall of the objective."""
_TINY = 1e-300


class Told(Protocol):
    """Fields of the first exchange."""

    def __getitem__(self, name: str) -> Array:
        """A field."""
        ...

    def number(self, name: str) -> float:
        """A field of length 1."""
        ...


@dataclass(frozen=True)
class Residuals:
    """What the sums of the first exchange say about an iterate.

    Attributes
    ----------
    r_p, r_tau : ndarray, float
        Of the coupling and of the embedding's last equation.
    mu : float
        Complementarity per pair.
    relative : float
        The largest relative residual, in scaled and in the user's units; gaps count tenfold.
    objective, magnitude : float
        Primal objective, and the size of its terms.
    balance : float
        |z| over |v|, at most 1.
    norm : float
        Length of all residuals together.
    infeasible, unbounded : bool
        Whether the iterate, as a direction, proves it.
    """

    r_p: Array
    r_tau: float
    mu: float
    relative: float
    objective: float
    magnitude: float
    balance: float
    norm: float
    infeasible: bool
    unbounded: bool


def find_residuals(now: State, told: Told) -> Residuals:
    """Evaluate the sums at (``now.dual``, ``now.tau``, ``now.kappa``)."""
    number, tau, kappa, dual, b = told.number, now.tau, now.kappa, now.dual, now.b
    r_p = told["product"] - b * tau
    vHv, qv, gz, bound = number("vHv"), number("qv"), number("gz"), float(b @ dual)
    mu = (number("sz") + tau * kappa) / max(now.count - now.curved, 1.0)
    r_tau = kappa + vHv / tau + qv + bound + gz
    primal = 0.5 * vHv / tau**2 + qv / tau
    dual_value = -0.5 * vHv / tau**2 - (bound + gz) / tau
    linear = number("magnitude_linear") + float(np.abs(b) @ np.abs(dual))
    terms = number("magnitude_quadratic") / tau**2 + linear / tau
    size = max(abs(primal), abs(dual_value), LEAST_OBJECTIVE * terms, _TINY)
    products = max(number("sz"), float(np.abs(dual) @ np.abs(r_p)), number("v_rd")) / tau**2
    gap = max(abs(primal - dual_value), products) / size
    if now.curved:  # values of smooth terms are not summed
        gap = products / max(CURVED_OBJECTIVE * terms, _TINY)
    relative = max(_primal(now, told, r_p), _dual(told), GAP_FACTOR * gap)
    far = tau < 1e-2 * kappa and not now.curved
    proof = number("support") - bound
    outward = OUTWARD * np.sqrt(number("outward2"))
    infeasible = far and proof > max(outward, PROVEN * linear)
    missed = max(_largest(told["product"]), np.sqrt(max(number("Hv2"), number("ray2"))))
    unbounded = far and qv < 0 and missed <= -RAY * qv
    z = max(_largest(dual), np.sqrt(number("z2")))
    v = np.sqrt(number("v2"))
    norm = float(np.sqrt(number("rd2") + number("rs2") + r_p @ r_p))
    return Residuals(
        r_p=r_p,
        r_tau=r_tau,
        mu=mu,
        relative=relative if np.isfinite(relative) else np.inf,
        objective=primal,
        magnitude=terms,
        balance=min(1.0, z / v) if v > 0 else 1.0,
        norm=norm,
        infeasible=bool(infeasible),
        unbounded=bool(unbounded),
    )


def _primal(now: State, told: Told, r_p: Array) -> float:
    """Relative residual of rows, in both units, and of slacks."""
    sides = np.maximum(told["load"], np.abs(now.b) * now.tau)
    factors = now.factors.prod(axis=0)
    found = _ratio(_largest(r_p), _largest(sides))
    found = max(found, _ratio(_largest(r_p / factors), _largest(sides / factors)))
    return max(found, _ratio(np.sqrt(told.number("rs2")), np.sqrt(told.number("size2"))))


def _dual(told: Told) -> float:
    """Relative residual of stationarity, in both units."""
    pairs = (("rd2", "force2"), ("rd2_user", "force2_user"))
    return max(_ratio(np.sqrt(told.number(r)), np.sqrt(told.number(f))) for r, f in pairs)


def _ratio(top: float, bottom: float) -> float:
    return float(top / max(bottom, _TINY))


def _largest(v: Array) -> float:
    return float(np.abs(v).max(initial=0.0))
