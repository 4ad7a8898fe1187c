"""Methods with exact local solves: the algorithm, its parameters and its rows in the table.

The iterations are those of :mod:`dual2.methods.gossip.admm_kernel`.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dual2.engine.gossip_kernel import mix_rows
from dual2.errors import CapabilityError
from dual2.methods.coupling import PACE, UNIT, coupling_cone, mean_row2
from dual2.methods.gossip.admm_kernel import (
    DC,
    DPMM,
    IDC,
    NECPD,
    TRACKING,
    ADMMData,
    ADMMParameters,
    ADMMState,
    admm_steps,
)
from dual2.methods.gossip.single_loop import SingleLoop, single_loop_method
from dual2.methods.local.argmin import penalty_rows
from dual2.methods.local.solver_kind import choose_for_penalties
from dual2.methods.method import Method
from dual2.methods.parameters import Parameter, Values, number
from dual2.network import ChebyshevNetwork
from dual2.runtime import Runtime
from dual2.theory.conditions import (
    CONE_H,
    LIPSCHITZ_F,
    POINT_H,
    PROX_G,
    Condition,
    Needs,
    verdict_on,
)

Array = np.ndarray


class ADMM(SingleLoop):
    """One of the methods (``kind``) on one block of agents; iterations in :mod:`.admm_kernel`."""

    layout, conserved = ADMMState, "total"

    def __init__(
        self,
        runtime: Runtime,
        values: Values,
        kind: int,
        scalars: Callable[[Values], ADMMParameters],
    ) -> None:
        super().__init__(runtime, values)
        rt, s, problem = runtime, scalars(values), runtime.problem
        self.sent = 2 * self.stride if kind == TRACKING else self.stride
        b, low, high = coupling_cone(problem.h, rt.p)
        degrees = np.bincount(rt.network.edges.ravel(), minlength=problem.n)[problem.owned]
        degrees, r = np.maximum(degrees, 1).astype(float), np.full(rt.n, s.penalty)
        self.links = rt.links
        if kind in (DC, IDC):
            self._require_graph()
            r = 0.5 / (s.penalty * degrees)
            self.links = rt.links._replace(weights=np.ones_like(rt.links.weights))
        local = self._curvatures(r), penalty_rows(r, low, high), choose_for_penalties(rt)
        room = np.zeros(rt.packed.size), *np.zeros((2, rt.n, rt.p))
        self.data = ADMMData(kind, s, b / problem.n, degrees, *local, *room)

    def _require_graph(self) -> None:
        """Refuse polynomials: consensus ADMM uses the Laplacian."""
        if isinstance(self.runtime.network, ChebyshevNetwork):
            raise CapabilityError(
                f"{self.values.method} works on the graph itself, not on a polynomial of its "
                "gossip matrix: give the network that chebyshev() was called on (its attribute "
                "base)."
            )

    def _curvatures(self, r: Array) -> Array:
        """β_i of IDC-ADMM, unless given L_i + r_i σ̄²(A_i)."""
        problem, given = self.runtime.problem, self.values.given
        steep = np.array([agent.f.L for agent in problem.agents]) + problem.sigma.max2 * r
        if "beta" in given:
            return np.full_like(steep, self.values.beta)
        return np.where(steep > 0, steep, 1.0)

    def begin(self, x: Array, lam: Array) -> None:
        """A start other than zero costs one exchange.

        At the solution A_i x_i - b_i - (1/n)Σ_j(A_j x_j - b_j) is, up to sign and scale, what each
        method accumulates.
        """
        rt, current, kind, s = self.runtime, self.current, self.data.kind, self.data.scalars
        current.x[:], current.lam[:] = x, lam
        warm = rt.anywhere(x)
        if warm:
            current.ax[:] = rt.products(current.x)
            excess = current.ax - self.data.share
            scale = {TRACKING: -1.0, NECPD: s.penalty}.get(kind, 1.0)
            current.total[:] = scale * (excess - rt.allreduce_sum(excess) / rt.problem.n)
        if kind == DPMM:
            current.aux[:] = lam
        elif warm or rt.anywhere(lam):
            self.rounds, self.vectors = self.stride, self.sent
            rt.run(mix_rows, self.links, current.lam, current.clam)
        if kind == TRACKING:
            current.aux[:] = current.total + current.ax - self.data.share
            if self.rounds:
                rt.run(mix_rows, self.links, current.aux, self.data.caux)
                current.total[:] -= s.mixing * self.data.caux

    def step(self, steps: int) -> None:
        """Run the compiled loop."""
        self.runtime.run(admm_steps, self.runtime.block, self.links, self.data, self.current, steps)

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far, inner ones included: the maximum over agents for local work."""
        k, kind, calls = self.iterations, self.data.kind, super().oracle_calls()
        inner = calls["grad_f"]
        products = {"A": k if kind == IDC else inner + k, "AT": inner}
        return calls | products | {"prox_h": k if kind == DPMM else 0, "outer": k}

    def explain(self) -> str:
        """Whether convergence is proved, and what decides the speed."""
        verdict, text = verdict_on(self.values.method, self.values.problem), ""
        if verdict is not None and verdict.accepted:
            text = f"The published conditions hold ({verdict.reason}).\n"
        elif verdict is not None:
            text = f"Outside the published conditions ({verdict.reason}): convergence is observed, "
            text += "not proved.\n"
        return f"{text}The penalty decides the speed; dual2.tune searches for a good one."


# -- parameters and the table ------------------------------------------------------------------


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
    name: str,
    kind: int,
    summary: str,
    declared: tuple[Parameter, ...],
    scalars: Callable[[Values], ADMMParameters],
    h: Condition = POINT_H,
    **more: Any,
) -> Method:
    make, needs = partial(ADMM, kind=kind, scalars=scalars), Needs(LIPSCHITZ_F, PROX_G, h)
    return single_loop_method(name, make, summary, needs, declared, **more)


ADMM_METHODS = [
    _admm(
        "Tracking-ADMM", TRACKING,
        "ADMM with a tracker of the coupling's violation, exact local solves",
        (Parameter("c", PACE, _pace), _mixing("W = I - mixing·C, min(2, 1/λ_max)")),
        lambda v: ADMMParameters(v.c, v.mixing),
        vectors="2", reveals="dual vectors and trackers, which start at A_i x_i - b_i",
    ),
    _admm(
        "NECPD", NECPD, "proximal method on the dual consensus problem, exact local solves",
        (
            Parameter("rho", UNIT, lambda v: v.scales.unit), Parameter("eta", "ρ", lambda v: v.rho),
            _near("tau"), _mixing("min(2, 1/λ_max)"),
        ),
        lambda v: ADMMParameters(v.rho, v.mixing, v.eta / v.rho, proximal=1.0 / v.tau),
        reconstructed=True,
    ),
    _admm(
        "DC-ADMM", DC, "consensus ADMM on the dual, exact local solves", (_C,),
        lambda v: ADMMParameters(v.c), reconstructed=True,
    ),
    _admm(
        "IDC-ADMM", IDC, "consensus ADMM on the dual, one proximal gradient step per iteration",
        (_C, Parameter("beta", "L_i + σ̄²(A_i)/(2c d_i)")), lambda v: ADMMParameters(v.c),
        reconstructed=True,
    ),
    _admm(
        "DPMM", DPMM, "proximal method of multipliers, exact local solves",
        (
            Parameter("gamma", f"2·{UNIT}", lambda v: 2.0 * v.scales.unit), _near("alpha"),
            Parameter("beta", "0.9/(γ λ_max)", lambda v: 0.9 / (v.gamma * _lambda_max(v))),
            Parameter("theta", "1", 1.0, _RELAXATION),
        ),
        lambda v: ADMMParameters(v.gamma, eta=v.beta, theta=v.theta, proximal=1.0 / v.alpha),
        CONE_H,
    ),
]  # fmt: skip
"""Rows of the table of methods."""
