"""Parameters of the methods with exact local solves, and their rows in the table of methods."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from dual2.algorithms.admm import ADMM, KINDS, Data
from dual2.algorithms.admm_kernel import ETA, GAMMA, IDC, SCALARS, SIGMA, THETA, Q
from dual2.algorithms.coupling import (
    PACE,
    UNIT,
    cone_h,
    coupling_cone,
    lipschitz_f,
    mean_row2,
    scales,
)
from dual2.algorithms.idea import IDEA_METHODS
from dual2.algorithms.local_argmin import penalty_rows
from dual2.algorithms.method import Method, Needs, Plan, Settings
from dual2.algorithms.needs import point_h
from dual2.algorithms.parameters import given_parameters, positive
from dual2.errors import CapabilityError
from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Problem
from dual2.runtime import place
from dual2.theory.conditions import verdict_on

Values = dict[str, tuple[Any, str]]


def plan_admm(problem: Problem, network: Network | ChebyshevNetwork, settings: Settings) -> Plan:
    """Choose every parameter of one of the methods of :mod:`.admm`."""
    kind = KINDS[settings.method]
    if isinstance(network, ChebyshevNetwork) and settings.method in ("DC-ADMM", "IDC-ADMM"):
        raise CapabilityError(
            f"{settings.method} works on the graph itself, not on a polynomial of its gossip "
            "matrix: give the network that chebyshev() was called on (its attribute base)."
        )
    runtime = place(problem, network)
    values = _values(settings, problem, network)
    data = _data(kind, {name: value for name, (value, _) in values.items()}, problem, network)
    vectors = 2 if settings.method == "Tracking-ADMM" else 1
    parameters: Values = {"method": (settings.method, "given or default")}
    parameters |= values | {
        "rounds_per_iteration": (int(network.rounds), "exchanges of one product with C"),
        "vectors_per_iteration": (vectors * int(network.rounds), "p-vectors sent per neighbour"),
    }
    return Plan(ADMM(runtime, data), runtime, parameters, _explain(settings.method, problem))


# -- parameters --------------------------------------------------------------------------------
def _values(
    settings: Settings, problem: Problem, network: Network | ChebyshevNetwork
) -> dict[str, tuple[Any, str]]:
    """The method's parameters, as given or by its rule."""
    found = scales(problem)
    unit, mu = found.unit, found.mu
    method, lam = settings.method, float(network.lambda_max) or 1.0
    mixing = (min(2.0, 1.0 / lam), "W = I - mixing·C, positive semidefinite")
    near = (10.0 / mu, "10/μ: derived")
    degree = max(1.0, 2.0 * len(network.edges) / network.n)
    rules: dict[str, Values] = {
        "Tracking-ADMM": {"c": (None, PACE), "mixing": mixing},
        "NECPD": {"rho": (unit, UNIT), "eta": (None, "η = ρ"), "tau": near, "mixing": mixing},
        "DC-ADMM": {"c": (0.5 / (degree * unit), f"1/(2·mean degree·unit), unit = {UNIT}")},
        "DPMM": {
            "gamma": (2.0 * unit, f"2·{UNIT}"), "alpha": near,
            "beta": (None, "0.9/(γ λ_max(C))"), "theta": (1.0, "default"),
        },
    }  # fmt: skip
    curvature = (None, "L_i + σ̄²(A_i)/(2c d_i): derived")
    rules["IDC-ADMM"] = rules["DC-ADMM"] | {"beta": curvature}
    rule = rules[method]
    given = _given(settings, rule)
    values = rule | {name: (positive(name, v), "given") for name, v in given.items()}
    if method == "Tracking-ADMM" and values["c"][0] is None:
        gap = min(1.0, values["mixing"][0] * float(network.lambda_min)) or 1.0
        values["c"] = (gap * math.sqrt(mu * found.L) / mean_row2(problem), PACE)
    if method == "NECPD" and values["eta"][0] is None:
        values["eta"] = (values["rho"][0], "η = ρ, the largest that is proved")
    if method == "DPMM":
        if values["beta"][0] is None:
            values["beta"] = (0.9 / (values["gamma"][0] * lam), values["beta"][1])
        if not values["theta"][0] < 2:
            raise CapabilityError(f"theta = {values['theta'][0]!r} found; expected 0 < theta < 2.")
    return values


def _given(settings: Settings, known: Iterable[str]) -> dict[str, Any]:
    """The caller's parameters; ρ of NECPD is the argument ``rho`` of solve."""
    if settings.method == "NECPD" and settings.rho != "auto":
        own = dict(settings.parameters or {}) | {"rho": settings.rho}
        settings = replace(settings, rho="auto", parameters=own)
    return given_parameters(settings, known)


def _data(
    kind: int, v: dict[str, Any], problem: Problem, network: Network | ChebyshevNetwork
) -> Data:
    """The parameters as the kernel reads them."""
    n, rows = problem.n, len(problem.agents)
    b, low, high = coupling_cone(problem.h, problem.p)
    degrees = np.maximum(np.bincount(network.edges.ravel(), minlength=n), 1).astype(float)
    degrees = degrees[problem.owned]
    penalty = v.get("c", v.get("rho", v.get("gamma")))
    assert isinstance(penalty, float)
    weights = (
        0.5 / (penalty * degrees) if kind in (KINDS["DC-ADMM"], IDC) else np.full(rows, penalty)
    )
    L = np.array([agent.f.L for agent in problem.agents], dtype=float)
    safe = L + problem.sigma.max2 * weights
    steep = np.full(rows, v["beta"]) if kind == IDC and v["beta"] is not None else safe
    scalars = np.zeros(SCALARS)
    scalars[GAMMA], scalars[SIGMA] = penalty, v.get("mixing", 1.0)
    scalars[ETA] = v["eta"] / v["rho"] if "eta" in v else v.get("beta") or 0.0
    scalars[THETA] = v.get("theta", 1.0)
    scalars[Q] = 1.0 / v["tau"] if "tau" in v else 1.0 / v["alpha"] if "alpha" in v else 0.0
    return Data(
        kind, np.tile(b / n, (rows, 1)), degrees, np.where(steep > 0, steep, 1.0), scalars,
        penalty_rows(weights, low, high),
    )  # fmt: skip


def _explain(method: str, problem: Problem) -> str:
    text = f"{method}: {SUMMARIES[method]}."
    verdict = verdict_on(method, problem)
    if verdict is not None:
        text += (
            f"\nThe published conditions hold ({verdict.reason})."
            if verdict.accepted
            else f"\nOutside the published conditions ({verdict.reason}): convergence is observed, "
            "not proved."
        )
    return f"{text}\nThe penalty decides the speed; dual2.tune searches for a good one."


# -- the table ---------------------------------------------------------------------------------
SUMMARIES = {
    "Tracking-ADMM": "ADMM with a tracker of the coupling's violation, exact local solves",
    "NECPD": "proximal method on the dual consensus problem, exact local solves",
    "DC-ADMM": "consensus ADMM on the dual, exact local solves",
    "IDC-ADMM": "consensus ADMM on the dual, one proximal gradient step per iteration",
    "DPMM": "proximal method of multipliers, exact local solves",
}
_POINT = Needs("convex, L known", "prox-friendly", "a point", test_f=lipschitz_f, test_h=point_h)
_CONE = Needs(
    "convex, L known", "prox-friendly", "z = b, z ≤ b or z ≥ b in each row",
    test_f=lipschitz_f, test_h=cone_h,
)  # fmt: skip
_SOURCES = {
    "Tracking-ADMM": {"c": PACE, "mixing": "W = I - mixing·C, min(2, 1/λ_max)"},
    "NECPD": {"rho": UNIT, "eta": "ρ", "tau": "10/μ", "mixing": "min(2, 1/λ_max)"},
    "DC-ADMM": {"c": f"1/(2·mean degree·unit), unit = {UNIT}"},
    "IDC-ADMM": {
        "c": f"1/(2·mean degree·unit), unit = {UNIT}", "beta": "L_i + σ̄²(A_i)/(2c d_i)",
    },
    "DPMM": {"gamma": f"2·{UNIT}", "alpha": "10/μ", "beta": "0.9/(γ λ_max)", "theta": "1"},
}  # fmt: skip
_REVEALS = {"Tracking-ADMM": "dual vectors and trackers, which start at A_i x_i - b_i"}

ADMM_METHODS: list[Method] = [
    *(
        Method(
            name=name, plan=plan_admm, summary=summary, needs=_CONE if name == "DPMM" else _POINT,
            vectors="2" if name == "Tracking-ADMM" else "1", sources=_SOURCES[name],
            reconstructed=name in ("NECPD", "DC-ADMM", "IDC-ADMM"),
            reveals=_REVEALS.get(name, "dual vectors"),
        )
        for name, summary in SUMMARIES.items()
    ),
    *IDEA_METHODS,
]  # fmt: skip
"""Rows of the table of methods, IDEA and Proj-IDEA included."""
