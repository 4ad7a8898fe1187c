"""Model predictive control of subsystems that share resources, without a coordinator."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import ProblemError
from dual2.functions import Function, IndicatorAtMost, IndicatorPoint, PiecewiseQuadratic, Stacked
from dual2.functions.arguments import Array, number
from dual2.mpc.condensed import Condensed, Infeasible
from dual2.mpc.controller_arguments import read_limit, read_states, read_subsystems
from dual2.mpc.plan_inputs import (
    read_disturbances,
    read_previous,
    read_references,
)
from dual2.mpc.simulation import Simulation, simulate
from dual2.mpc.state_space import StateSpace
from dual2.mpc.subsystem import Subsystem
from dual2.mpc.violated_limits import plan_violations
from dual2.participants import distinct_names, read_network
from dual2.problem import Problem
from dual2.solving.result import NotSolved, Result, Status
from dual2.solving.solve import solve_for_all
from dual2.solving.storage.answers import read_result
from dual2.solving.unsolved import (
    Violation,
    check_accept,
    is_solved,
    not_solved,
    warn_unsolved,
)

FORMULATIONS = ("local", "paper")
TOL = 1e-6
"""Default tolerance of a plan's KKT residual."""


@dataclass(frozen=True, eq=False)
class ControlPlan:
    """Inputs over the horizon, and the prices that coordinate them.

    Attributes
    ----------
    inputs : list of ndarray (K, n_u)
        Planned inputs of each subsystem.
    states : list of ndarray (K + 1, n_x)
        The states they lead to, the measured one first.
    usage, price : ndarray (K, n_r)
        Use of each shared resource, and its price (0 where the limit does not bind).
    result : Result
        What :func:`dual2.solve` returned.
    violations : tuple of Violation
        Shared limits that the plan exceeds, and inputs and states out of their bounds.
    """

    inputs: list[Array]
    states: list[Array]
    usage: Array
    price: Array
    result: Result
    violations: tuple[Violation, ...] = ()

    @property
    def solved(self) -> bool:
        """Whether the plan converged; else its inputs may not be applied unseen."""
        return is_solved(self.result)

    def __repr__(self) -> str:
        steps = f"{len(self.usage)} steps of {len(self.inputs)} subsystems"
        if self.solved:
            return f"<ControlPlan of {steps}: {self.result.status}>"
        status = Status(self.result.status)
        return f"<ControlPlan of {steps}: {not_solved(status, self.violations, 'price', 'plan')}>"


class Controller:
    """Plans for all subsystems together: each solves its own part, prices are agreed.

    minimise Σ_i cost_i(x_i, u_i) subject to dynamics and limits of each subsystem and
    Σ_i resource_i·u_i^k ≤ limit^k, k = 0 … K-1.

    Parameters
    ----------
    subsystems : sequence of Subsystem
        One agent each; names must differ.
    horizon : int
        Number K of steps to plan ahead.
    limit : float, vector (n_r,) or matrix (m, n_r)
        Availability of the shared resources; a matrix gives it step by step (in a simulation from
        its first step on), its last row holds for ever after.
    graph : networkx.Graph, edge list or Network
        Who talks to whom, by the subsystems' names or numbers.
    formulation : {"local", "paper"}
        ``"local"``: dynamics and limits stay with the agent, only the resources couple.
        ``"paper"``: states are variables and dynamics are rows of the coupling.
    price_cap : float, optional
        Makes the shared limits soft: an excess costs this much per unit, so that no price exceeds
        it.

    Examples
    --------
    Two rooms, one heater's power between them:

    >>> from dual2 import mpc
    >>> rooms = [mpc.Subsystem(name, A=[[0.9]], B=[[0.5]], Q=1.0, R=0.1, u_min=0.0, u_max=2.0,
    ...                        resource=[[1.0]], x_ref=3.0) for name in ("kitchen", "study")]
    >>> controller = mpc.Controller(rooms, horizon=5, limit=2.5, graph=[("kitchen", "study")])
    >>> plan = controller.plan([[0.0], [1.0]])
    >>> plan.usage[:2].ravel().round(3).tolist(), bool(plan.price[0, 0] > 0)
    ([2.5, 2.5], True)
    """

    def __init__(
        self,
        subsystems: Sequence[Subsystem],
        horizon: int,
        limit: Any,
        graph: Any,
        *,
        formulation: str = "local",
        price_cap: float | None = None,
    ) -> None:
        if not isinstance(horizon, int | np.integer) or horizon < 1:
            raise ProblemError(f"Controller: horizon = {horizon!r}; expected an integer ≥ 1.")
        if formulation not in FORMULATIONS:
            raise ProblemError(
                f"Controller: formulation = {formulation!r}; expected 'local' or 'paper'."
            )
        self.horizon, self.formulation = int(horizon), formulation
        self.limit = read_limit(limit)
        self.price_cap = (
            None if price_cap is None else number("Controller", "price_cap", price_cap, above=0.0)
        )
        self.subsystems = read_subsystems(subsystems, self.limit.shape[1])
        names = distinct_names(self.subsystems, "subsystems")
        self.network = read_network(graph, names, "subsystems")
        self.models = self._models()

    def __repr__(self) -> str:
        return (
            f"Controller({len(self.subsystems)} subsystems, horizon {self.horizon}, "
            f"{self.limit.shape[1]} shared resources, {self.formulation})"
        )

    def _models(self) -> list[Condensed] | list[StateSpace]:
        if self.formulation == "local":
            models = [Condensed(s, self.horizon) for s in self.subsystems]
            for model in models:
                model.inverse  # noqa: B018  (refuses predictions that grow too large)
            return models
        sizes = [self.horizon * s.n_x for s in self.subsystems]
        ends = np.cumsum(sizes)
        return [
            StateSpace(s, self.horizon, int(end) - size, int(ends[-1] - end))
            for s, size, end in zip(self.subsystems, sizes, ends, strict=True)
        ]

    # -- one plan -----------------------------------------------------------------------------

    def problem(
        self,
        states: Sequence[Any],
        disturbances: Any = None,
        time: int = 0,
        *,
        previous: Any = None,
        references: Any = None,
    ) -> Problem:
        """The control problem at measured states as a :class:`dual2.Problem`; see :meth:`plan`.

        Raises
        ------
        Infeasible
            If a subsystem has no plan within its own limits; it names them.
        """
        now, known = read_states(self.subsystems, states), read_disturbances(self, disturbances)
        inputs, wanted = read_previous(self, previous), read_references(self, references)
        parts = zip(self.models, now, known, inputs, wanted, strict=True)
        agents = [m.agent(x, w, u, ref) for m, x, w, u, ref in parts]
        return Problem(agents, self._coupling(known, time))

    def _coupling(self, disturbances: list[Array], time: int) -> Function:
        available = self.available(time).ravel()
        if self.price_cap is None:
            shared: Function = IndicatorAtMost(available)
        else:
            shared = PiecewiseQuadratic(slope_right=self.price_cap, kink=available)
        if self.formulation == "local":
            return shared
        known = np.concatenate([w.ravel() for w in disturbances])
        return Stacked([IndicatorPoint(known), shared], [known.size, available.size])

    def available(self, time: int = 0) -> Array:
        """The limits of the horizon that begins at a time, shape (K, n_r)."""
        rows = np.minimum(time + np.arange(self.horizon), len(self.limit) - 1)
        return self.limit[rows]

    def plan(
        self,
        states: Sequence[Any],
        disturbances: Any = None,
        *,
        start: Any = None,
        time: int = 0,
        previous: Any = None,
        references: Any = None,
        accept: str | None = None,
        **options: Any,
    ) -> ControlPlan:
        """Plan from measured states.

        Parameters
        ----------
        states : sequence of vectors
            The measured state of each subsystem.
        disturbances : sequence of arrays (K, n_x), optional
            Known disturbances w of each subsystem over the horizon; a vector holds for every step.
        start : ControlPlan or (x, duals), optional
            Warm start; a plan made one step earlier is shifted by one step.
        time : int
            Where in the rows of ``limit`` the horizon begins.
        previous : sequence of vectors, optional
            The inputs of the step before, for limits of their rates; without it the first change
            is free.
        references : sequence of arrays (K + 1, n_x), optional
            Where the state of each subsystem should be, now and after each step, instead of
            ``x_ref``; a vector holds for every step.
        accept : {None, "unsolved"}
            A plan that has not converged comes with a warning that says what it violates;
            ``"unsolved"`` takes it without.
        **options
            Options of :func:`dual2.solve` (method, tol = 1e-6, runtime, …). The trace of the run is
            recorded with ``record=True`` or a ``reference`` only.

        Raises
        ------
        Infeasible
            If there is no plan; it names the limits and the steps.
        NotSolved
            With ``throw=True``, if the plan did not converge.
        """
        now, known = read_states(self.subsystems, states), read_disturbances(self, disturbances)
        problem = self.problem(now, known, time, previous=previous, references=references)
        if isinstance(start, ControlPlan):
            x, duals = self.shifted(start, now, known)
            start = (self._answers(problem, x, duals), duals)
        options.setdefault("tol", TOL)
        options.setdefault("record", "reference" in options)
        check_accept("Controller.plan", accept)
        throw = options.pop("throw", False)
        result = solve_for_all(problem, self.network, start=start, **options)
        plan = self.answer(result, now, known, time)
        if throw and not plan.solved:
            raise NotSolved(result)
        if not plan.solved:
            text = not_solved(Status(result.status), plan.violations, "price", "plan")
            warn_unsolved(text, accept)
        return plan

    def answer(
        self,
        result: Result | Mapping[str, Any],
        states: Sequence[Any],
        disturbances: Any = None,
        time: int = 0,
    ) -> ControlPlan:
        """What a result of ``solve(controller.problem(states), controller.network)`` means.

        The JSON document that ``dual2 solve --out`` wrote will do, too.

        Raises
        ------
        Infeasible
            If the result says that there is no plan.
        """
        now, known = read_states(self.subsystems, states), read_disturbances(self, disturbances)
        result = read_result(result, len(self.subsystems))
        if result.status == Status.INFEASIBLE:
            raise self._infeasible(result)
        inputs = [m.inputs(x) for m, x in zip(self.models, result.x, strict=True)]
        four = zip(self.subsystems, now, inputs, known, strict=True)
        paths = [s.path(x, u, w) for s, x, u, w in four]
        usage = sum(u @ s.resource.T for s, u in zip(self.subsystems, inputs, strict=True))
        price = result.dual[-self.limit.shape[1] * self.horizon :].reshape(self.horizon, -1)
        over = np.asarray(usage) - self.available(time)
        found = plan_violations(self.subsystems, inputs, paths, over if self.hard else 0.0 * over)
        return ControlPlan(inputs, paths, np.asarray(usage), price, result, found)

    @property
    def hard(self) -> bool:
        """Whether the shared limits may not be exceeded at any price."""
        return self.price_cap is None

    def shifted(
        self, plan: ControlPlan, states: list[Array], disturbances: list[Array]
    ) -> tuple[list[Array], Array]:
        """A start for the next step: inputs and prices one step on.

        The last inputs follow from the gain, the last prices of the resources go on as between the
        two before, up to 0.
        """
        if [u.shape for u in plan.inputs] != [(self.horizon, s.n_u) for s in self.subsystems]:
            raise ProblemError(
                f"Controller: the plan to start from has {len(plan.inputs)} subsystems and "
                f"{len(plan.usage)} steps; expected one of this controller, with "
                f"{len(self.subsystems)} subsystems and {self.horizon} steps."
            )
        x = []
        for s, model, now, u, w in zip(
            self.subsystems, self.models, states, plan.inputs, disturbances, strict=True
        ):
            moved = np.vstack([u[1:], u[-1:]])
            before = s.path(now, moved, w)[-2]
            moved[-1] = np.clip(s.u_ref - s.gain @ (before - s.x_ref), s.u_min, s.u_max)
            x.append(model.variables(moved, now, w))
        return x, self._shifted_duals(plan.result.duals)

    def _shifted_duals(self, duals: Array) -> Array:
        n, K = len(duals), self.horizon
        sizes = [s.n_x for s in self.subsystems] if self.formulation == "paper" else []
        cuts = np.cumsum([K * size for size in sizes], dtype=int)
        blocks = [part.reshape(n, K, -1) for part in np.split(duals, cuts, axis=1)]
        last = [b[:, -1:] for b in blocks]
        if K > 1:
            last[-1] = np.maximum(2.0 * last[-1] - blocks[-1][:, -2:-1], 0.0)
        moved = zip(blocks, last, strict=True)
        return np.hstack([np.hstack([b[:, 1:], end]).reshape(n, -1) for b, end in moved])

    def _answers(self, problem: Problem, x: list[Array], duals: Array) -> list[Array]:
        """What each subsystem would do at its new state and these prices, which asks nobody.

        x_i = proj(-(q_i + A_iᵀλ_i)/L_i) onto its limits where all of its variables have curvature
        L_i; else the given x_i. What was not foreseen of its own is then part of the start.
        """
        if self.formulation == "paper":
            return x
        answers = []
        for agent, own, price in zip(problem.agents, x, duals, strict=True):
            L, pull = float(agent.f.L), agent.f.grad(np.zeros(agent.dim)) + agent.adjoint(price)
            answers.append(agent.g.prox(-pull / L, 1.0 / L) if agent.f.mu == L > 0 else own)
        return answers

    def _infeasible(self, result: Result) -> Infeasible:
        count = self.limit.shape[1]
        direction = np.abs(np.asarray(result.certificate.separator))[-count * self.horizon :]
        worst = np.flatnonzero(direction > 0.1 * direction.max())
        return Infeasible(None, [(f"resource[{j % count}]", int(j // count)) for j in worst])

    # -- the loop -----------------------------------------------------------------------------

    def simulate(self, states: Sequence[Any], steps: int, **options: Any) -> Simulation:
        """Receding horizon: plan, apply the first inputs, measure, shift; see :func:`simulate`."""
        return simulate(self, read_states(self.subsystems, states), steps, **options)

    def save(
        self,
        path: str | os.PathLike[str],
        states: Sequence[Any],
        disturbances: Any = None,
        force: bool = False,
        **options: Any,
    ) -> Path:
        """Write the problem at measured states as a folder for ``dual2 solve PATH``."""
        from dual2.solving.storage import save_problem

        problem = self.problem(states, disturbances)
        return save_problem(path, problem, self.network, {"tol": TOL} | options, force)
