"""Parameters of the methods with exact local solves, and their rows in the table of methods."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from dual2.algorithms.admm import ADMM, DC, DPMM, IDC, NECPD, TRACKING, Scalars
from dual2.algorithms.coupling import PACE, UNIT, mean_row2
from dual2.algorithms.method import Method
from dual2.algorithms.needs import CONE_H, LIPSCHITZ_F, POINT_H, PROX_G, Condition, Needs
from dual2.algorithms.parameters import Parameter, Values, number
from dual2.algorithms.single_loop import single_loop_method


def _lambda_max(v: Values) -> float:
    return float(v.network.lambda_max) or 1.0


def _pace(v: Values) -> float:
    """Tracking-ADMM's penalty, which waits for the tracker."""
    gap = min(1.0, v.mixing * float(v.network.lambda_min)) or 1.0
    return gap * math.sqrt(v.scales.mu * v.scales.L) / mean_row2(v.problem)


def _by_degree(v: Values) -> float:
    degree = max(1.0, 2.0 * len(v.network.edges) / v.network.n)
    return 0.5 / (degree * v.scales.unit)


def _mixing(source: str) -> Parameter:
    return Parameter("mixing", source, lambda v: min(2.0, 1.0 / _lambda_max(v)))


def _near(name: str) -> Parameter:
    return Parameter(name, "10/μ", lambda v: 10.0 / v.scales.mu)


_C = Parameter("c", f"1/(2·mean degree·unit), unit = {UNIT}", _by_degree)
_RELAXATION = number("0 < {name} < 2", lambda theta: 0 < theta < 2)


def _admm(
    name: str, kind: int, summary: str, declared: tuple[Parameter, ...],
    scalars: Callable[[Values], Scalars], h: Condition = POINT_H, **more: Any,
) -> Method:  # fmt: skip
    make, needs = partial(ADMM, kind=kind, scalars=scalars), Needs(LIPSCHITZ_F, PROX_G, h)
    return single_loop_method(name, make, summary, needs, declared, **more)


ADMM_METHODS = [
    _admm(
        "Tracking-ADMM", TRACKING,
        "ADMM with a tracker of the coupling's violation, exact local solves",
        (Parameter("c", PACE, _pace), _mixing("W = I - mixing·C, min(2, 1/λ_max)")),
        lambda v: Scalars(v.c, v.mixing),
        vectors="2", reveals="dual vectors and trackers, which start at A_i x_i - b_i",
    ),
    _admm(
        "NECPD", NECPD, "proximal method on the dual consensus problem, exact local solves",
        (
            Parameter("rho", UNIT, lambda v: v.scales.unit), Parameter("eta", "ρ", lambda v: v.rho),
            _near("tau"), _mixing("min(2, 1/λ_max)"),
        ),
        lambda v: Scalars(v.rho, v.mixing, v.eta / v.rho, proximal=1.0 / v.tau),
        reconstructed=True,
    ),
    _admm(
        "DC-ADMM", DC, "consensus ADMM on the dual, exact local solves", (_C,),
        lambda v: Scalars(v.c), reconstructed=True,
    ),
    _admm(
        "IDC-ADMM", IDC, "consensus ADMM on the dual, one proximal gradient step per iteration",
        (_C, Parameter("beta", "L_i + σ̄²(A_i)/(2c d_i)")), lambda v: Scalars(v.c),
        reconstructed=True,
    ),
    _admm(
        "DPMM", DPMM, "proximal method of multipliers, exact local solves",
        (
            Parameter("gamma", f"2·{UNIT}", lambda v: 2.0 * v.scales.unit), _near("alpha"),
            Parameter("beta", "0.9/(γ λ_max)", lambda v: 0.9 / (v.gamma * _lambda_max(v))),
            Parameter("theta", "1", 1.0, _RELAXATION),
        ),
        lambda v: Scalars(v.gamma, eta=v.beta, theta=v.theta, proximal=1.0 / v.alpha), CONE_H,
    ),
]  # fmt: skip
"""Rows of the table of methods."""
