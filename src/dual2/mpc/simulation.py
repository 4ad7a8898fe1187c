"""The receding horizon loop, and what it leaves behind."""

import os
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.errors import CapabilityError, ProblemError
from dual2.functions.arguments import Array
from dual2.mpc.condensed import Infeasible
from dual2.mpc.offset_free import OffsetFree, read_gain, read_plants
from dual2.mpc.plan_inputs import read_disturbances, read_references, read_schedule
from dual2.solving.result import NotSolved, Status
from dual2.solving.unsolved import ACCEPT, check_accept, not_solved

if TYPE_CHECKING:
    from dual2.mpc.controller import Controller, ControlPlan

DIVERGED = 1e6
"""States this many times larger than at the start (and than 1) end a simulation."""


@dataclass
class Simulation:
    """A closed loop, step by step.

    Attributes
    ----------
    states : list of ndarray (steps + 1, n_x)
        Measured states of each subsystem.
    inputs : list of ndarray (steps, n_u)
        Applied inputs.
    estimates : list of ndarray (steps, n_x)
        Constant disturbances that each subsystem expected beside the forecast.
    references : list of ndarray (steps, n_x)
        Where the states should have been.
    usage, price, limit : ndarray (steps, n_r)
        Use, price and availability of the shared resources at each step.
    cost : float
        Sum of the stage costs along the way.
    rounds : ndarray (steps,)
        Exchanges with the neighbours that each plan took.
    sums, latency : ndarray (steps,)
        Sums over all subsystems, and all exchanges waited for: rounds and those for agreements.
    floats : ndarray (steps,)
        Numbers that all subsystems together have sent.
    statuses : list of Status
        How each plan ended.
    failure : ProblemError or None
        Why the loop ended early: an :class:`Infeasible`, or a closed loop that diverged.
    """

    controller: "Controller" = field(repr=False)
    states: list[Array] = field(default_factory=list)
    inputs: list[Array] = field(default_factory=list)
    estimates: list[Array] = field(default_factory=list)
    references: list[Array] = field(default_factory=list)
    usage: Array = field(default_factory=lambda: np.zeros((0, 1)))
    price: Array = field(default_factory=lambda: np.zeros((0, 1)))
    limit: Array = field(default_factory=lambda: np.zeros((0, 1)))
    cost: float = 0.0
    rounds: Array = field(default_factory=lambda: np.zeros(0, int))
    sums: Array = field(default_factory=lambda: np.zeros(0, int))
    latency: Array = field(default_factory=lambda: np.zeros(0, int))
    floats: Array = field(default_factory=lambda: np.zeros(0, int))
    statuses: list[Status] = field(default_factory=list)
    failure: ProblemError | None = None

    @property
    def steps(self) -> int:
        """Number of steps made."""
        return len(self.statuses)

    @property
    def unsolved(self) -> list[int]:
        """Steps whose plan did not converge; its inputs were applied all the same."""
        return [t for t, status in enumerate(self.statuses) if status != Status.CONVERGED]

    @property
    def _head(self) -> str:
        return f"{Status.CONVERGED}:" if self.failure is None else "before that:"

    def __str__(self) -> str:
        late = self.unsolved
        worst = f"NOT SOLVED ({self.statuses[late[0]]} in {len(late)} of" if late else self._head
        bound = int((self.price > 1e-9).any(axis=1).sum()) if self.steps else 0
        text = (
            f"{worst} {self.steps} steps{')' if late else ''}, cost {self.cost:.8g}, "
            f"{int(np.sum(self.rounds))} rounds; a shared limit bound in {bound} steps"
        )
        return text if self.failure is None else f"ENDED EARLY: {self.failure}\n{text}"

    def frame(self) -> Any:
        """All series as a tidy pandas frame: step, subsystem, quantity, entry, value.

        The shared resources have their usage, price and limit in rows of subsystem ``""``. States
        have one step more than inputs.
        """
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise CapabilityError("frame needs the package pandas: pip install pandas.") from error
        names = [s.name for s in self.controller.subsystems]
        series = [(name, "state", x) for name, x in zip(names, self.states, strict=True)]
        series += [(name, "input", u) for name, u in zip(names, self.inputs, strict=True)]
        series += [("", kind, getattr(self, kind)) for kind in ("usage", "price", "limit")]
        rows = [
            (step, name, quantity, entry, float(value))
            for name, quantity, values in series
            for (step, entry), value in np.ndenumerate(values)
        ]
        return DataFrame(rows, columns=["step", "subsystem", "quantity", "entry", "value"])

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """States, inputs, shared resources and prices; see :func:`plot_simulation`."""
        from dual2.mpc.simulation_figure import plot_simulation

        return plot_simulation(self, path)


def simulate(
    controller: "Controller",
    states: list[Array],
    steps: int,
    *,
    warm: bool = True,
    forecast: Any = None,
    disturbance: Any = None,
    reference: Any = None,
    plant: Any = None,
    offset_free: bool | float = False,
    previous: Any = None,
    accept: str | None = None,
    **options: Any,
) -> Simulation:
    """Plan, apply the first inputs, measure, and start the next plan from the shifted last one.

    A plan that did not converge ends the loop: its inputs are not applied, and ``failure`` says
    what they violate. ``accept="unsolved"`` applies them, too, with a warning at the end;
    ``throw=True`` raises :class:`dual2.NotSolved` instead.

    Parameters
    ----------
    controller : Controller
        Who plans.
    states : list of vectors
        Where the subsystems start.
    steps : int
        How many steps to make.
    warm : bool
        Whether each plan starts from the last one, shifted by one step; else from zero.
    forecast : callable or sequence of arrays (steps, n_x), optional
        ``forecast(t)``: disturbances known at time t, as for :meth:`Controller.plan`. An array for
        each subsystem has one row for each step, and its last row holds on.
    disturbance : callable or sequence of arrays (steps, n_x), optional
        ``disturbance(t)``: what really acts at time t, one vector per subsystem; by default the
        first step of the forecast.
    reference : callable or sequence of arrays (steps, n_x), optional
        ``reference(t)``: where the states should be from time t on, as for
        :meth:`Controller.plan`.
    plant : sequence or dict by name, optional
        What the subsystems really do: a :class:`Subsystem` with other matrices, or a function of
        (x, u, w, t) that returns the next state. Those that are not named are as modelled.
    offset_free : bool or float
        Whether subsystems estimate constant disturbances from what their models mispredict, and
        plan for the steady state nearest to the reference. A number from 0 to 1 is the share of an
        error that the estimate takes over; True is 0.5.
    previous : sequence of vectors, optional
        Inputs before the first step, for limits of their rates.
    accept : {None, "unsolved"}
        ``"unsolved"`` applies inputs of plans that did not converge, unless by Ctrl-C.
    **options
        Options of :func:`dual2.solve`.
    """
    if not isinstance(steps, int | np.integer) or steps < 0:
        raise ProblemError(f"simulate: steps = {steps!r}; expected an integer ≥ 0.")
    K = controller.horizon
    forecast = read_schedule(controller, "forecast", forecast, K)
    disturbance = read_schedule(controller, "disturbance", disturbance, K)
    reference = read_schedule(controller, "reference", reference, K + 1)
    plants, gain = read_plants(controller.subsystems, plant), read_gain(offset_free)
    estimate = OffsetFree(controller.subsystems, gain)
    log, last, path, rows = Simulation(controller), None, [list(states)], []
    size = max(1.0, *(float(np.abs(x).max()) for x in states))
    check_accept("simulate", accept)
    ended = False
    for t in range(steps):
        known = read_disturbances(controller, None if forecast is None else forecast(t))
        wanted = read_references(controller, None if reference is None else reference(t))
        expected = estimate.disturbances(known)
        targets: Any = None if reference is None else wanted
        if gain:
            targets = estimate.targets(expected, wanted)
        given = {"previous": previous, "references": targets}
        try:
            start = last if warm else None
            last = controller.plan(
                path[-1], expected, start=start, time=t, accept=ACCEPT, **given, **options
            )
        except Infeasible as error:
            error.add_note(f"in step {t} of the simulation")
            log.failure = error
            break
        except NotSolved as error:
            error.add_note(f"in step {t} of the simulation")
            raise
        interrupted = last.result.status == Status.INTERRUPTED
        ended = not last.solved and (accept is None or interrupted)
        if ended:
            log.failure = _unsolved(last, t)
            break
        real = known if disturbance is None else read_disturbances(controller, disturbance(t))
        previous = [u[0] for u in last.inputs]
        now = list(zip(controller.subsystems, path[-1], previous, wanted, strict=True))
        moves = zip(plants, path[-1], previous, real, strict=True)
        path.append([move(x, u, w[0], t) for move, x, u, w in moves])
        log.cost += sum(s.stage_cost(x, u, None if r is None else r.x[0]) for s, x, u, r in now)
        aims = [s.x_ref if r is None else r.x[0] for s, _, _, r in now]
        rows.append((*_row(last, controller.available(t)[0]), estimate.estimates, aims))
        estimate.correct([one[1] for one in last.states], path[-1])
        log.failure = _diverged(controller, path[-1], size, t)
        if log.failure is not None:
            break
    _close(log, path, rows)
    if ended and last is not None:
        warnings.warn(str(log.failure), stacklevel=3)
    if log.unsolved:
        first = log.unsolved[0]
        warnings.warn(
            f"{len(log.unsolved)} of {log.steps} plans did not converge (the first in step "
            f"{first}: {log.statuses[first]}), and their inputs were applied. Raise max_rounds or "
            "loosen tol; throw=True stops there.",
            stacklevel=3,
        )
    return log


def _unsolved(plan: "ControlPlan", t: int) -> ProblemError:
    """Why the loop ends at a plan that has not converged."""
    text = not_solved(Status(plan.result.status), plan.violations, "price", "plan")
    return ProblemError(
        f"{text} Its inputs were not applied in step {t}. Raise max_rounds or loosen tol; "
        f'accept="{ACCEPT}" applies them.'
    )


def _diverged(
    controller: "Controller", states: list[Array], size: float, t: int
) -> ProblemError | None:
    for s, x in zip(controller.subsystems, states, strict=True):
        if not np.abs(x).max() <= DIVERGED * size:
            return ProblemError(
                f"The closed loop is unstable: {s!s} has reached |x| = {np.abs(x).max():.3g} after "
                f"step {t}. Its inputs may be too weak for its disturbances, the horizon too "
                "short, or the terminal cost too small."
            )
    return None


def _row(plan: "ControlPlan", available: Array) -> tuple[Any, ...]:
    """What is kept of a plan: its first step, and how it ended."""
    counts, status = plan.result.counts, plan.result.status
    inputs = [u[0] for u in plan.inputs]
    sent = counts.rounds, counts.sums, counts.latency, counts.floats
    return plan.usage[0], plan.price[0], available, inputs, sent, status


def _close(log: Simulation, path: list[list[Array]], rows: list[tuple[Any, ...]]) -> None:
    """Turn the states and the rows into arrays."""
    systems, count = log.controller.subsystems, log.controller.limit.shape[1]
    columns = list(zip(*rows, strict=True)) or [[]] * 8
    log.states = [np.array([step[i] for step in path]) for i in range(len(systems))]
    log.inputs = [
        np.array([step[i] for step in columns[3]]).reshape(-1, s.n_u) for i, s in enumerate(systems)
    ]
    log.usage, log.price, log.limit = (
        np.array(column, dtype=float).reshape(-1, count) for column in columns[:3]
    )
    sent = np.array(columns[4], dtype=int).reshape(-1, 4).T
    log.rounds, log.sums, log.latency, log.floats = sent
    log.statuses = list(columns[5])
    log.estimates, log.references = (
        [np.array([step[i] for step in column]).reshape(-1, s.n_x) for i, s in enumerate(systems)]
        for column in columns[6:]
    )
