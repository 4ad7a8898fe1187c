"""``solve``: a problem and a network in, a certified answer out."""

import logging
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dual2.compiling import show_compiling
from dual2.errors import CapabilityError, NetworkError, ProblemError
from dual2.methods.method import Method, Plan
from dual2.methods.parameters import Settings
from dual2.methods.registry import AUTO, find_method
from dual2.network import AnyNetwork, ChebyshevNetwork, Network
from dual2.problem import KKT, Problem, error_bounds
from dual2.problem.impossible import proves_infeasible, proves_unbounded
from dual2.problem.separators import near_separators
from dual2.runtime import (
    Cluster,
    RemoteProblem,
    Transport,
    find_communicator,
    find_transport,
    local_problem,
)
from dual2.runtime.gathering import gather_everywhere
from dual2.solving.checks import check_limits, check_randomness, check_requests
from dual2.solving.choice import MethodChoice, choose
from dual2.solving.continuation import Candidates
from dual2.solving.default_network import network_or_default
from dual2.solving.driver import Driver, Outcome
from dual2.solving.empty_agents import EmptyAgents
from dual2.solving.growth import NOT_ATTAINED, falls_far_beyond
from dual2.solving.on_cluster import NEEDS_CLUSTER, solve_on_cluster
from dual2.solving.planning import Start, begin, fingerprint, flatten, plan_for
from dual2.solving.report.network import MOST as MOST_DRAWN
from dual2.solving.result import CALLS, Certificate, Counts, NotSolved, Result, Status
from dual2.solving.run_schedule import StateKeeper
from dual2.solving.version import versions

Array = np.ndarray
_log = logging.getLogger("dual2")
_UNDECIDED = {Status.CONVERGED, Status.STALLED, Status.MAX_ROUNDS, Status.TIME_LIMIT}


def solve(
    problem: Problem | RemoteProblem,
    network: AnyNetwork | None = None,
    *,
    method: str | Method = "auto",
    subsolver: str | Callable[..., Any] = "auto",
    rho: float | str = "auto",
    tol: float = 1e-8,
    atol: float = 0.0,
    max_rounds: int = 10_000_000,
    time_limit: float | None = None,
    constants: str = "tight",
    accuracy: str = "auto",
    start: Start = None,
    reference: Any = None,
    record: bool = True,
    progress: bool | None = None,
    callback: Callable[[dict[str, Any]], Any] | None = None,
    seed: int = 0,
    rng: int | np.random.Generator | None = None,
    runtime: str | Transport | Cluster = "stacked",
    sums: str | None = None,
    reduce: bool = True,
    scale: str = "auto",
    throw: bool = False,
    checkpoints: StateKeeper | None = None,
    **parameters: Any,
) -> Result:
    """Minimise Σ f_i(x_i) + g_i(x_i) + h(Σ A_i x_i) over a network of agents.

    Parameters
    ----------
    problem : Problem or RemoteProblem
        Agents with their f_i, g_i, A_i, and the public h.
    network : Network, optional
        Who talks to whom; node i is agent i. Without one every agent talks to every other one
        (at most 1000 agents), and the explanation says so.
    method : str or Method
        Any name or alias that ``dual2 methods`` lists, any case; ``"auto"`` is the one of least
        predicted waiting time, see :mod:`dual2.solving.choice`, and the explanation says why. As
        an instance it may carry parameters: ``dual2.METHODS["iD2A"](eta=0.03)``.
    subsolver : str or callable
        ``"iDAPG"``, ``"PDPG"``, ``"LPD"``, ``"APDG"``, ``"Salim"``, ``"ABPD-PGS"`` or, for ρ = 0,
        ``"exact"``; ``"auto"`` chooses by predicted cost (parameter ``cost``).
        One of your own is a subclass of :class:`dual2.methods.subsolvers.Subsolver`, or a partial
        application of it.
    rho : float or "auto"
        Augmentation ρ ≥ 0. With 0 the subproblems need no communication; ``"auto"`` is ρ*.
    tol, atol : float
        The KKT residual of every agent and every row (see :class:`dual2.problem.KKT`) must be ≤
        tol·(its scale) + atol; atol is in your units.
    max_rounds : int
        Most exchanges with the neighbours.
    time_limit : float, optional
        Most seconds. Recording and the compiling of kernels at their first use do not count. The
        set-up before the iterations and the certificate after them come on top.
    constants : {"tight", "paper"}
        Which constants of F_ρ to use.
    accuracy : {"auto", "relative", "paper", "literal"}
        How accurately iD2A and MiD2A solve their subproblems; ``"literal"`` follows the printed
        text of the paper in every other respect too.
    start : (x, lam), (x, lam, Result), Result or mapping, optional
        Warm start. A result of the same problem, network and parameters is continued bit for bit;
        so is the state that ``checkpoints`` kept. One in the third place is of another problem
        with the same A_i: Newton's primal mode knows the products that were summed there.
    reference : list of ndarray, optional
        x*; makes the trace record |x - x*|/|x*|.
    record : bool
        Whether to keep a trace.
    progress : bool, optional
        Progress bar; None shows it on a terminal only.
    callback : callable, optional
        Called with ``{"rounds", "kkt", "full", "seconds", "x", "duals"}`` after each stopping
        test; a true answer ends the run. Unless ``full``, ``kkt`` is the agents' local part only.
    seed : int
        For methods that draw random numbers; those that come along draw none.
    rng : int or numpy.random.Generator, optional
        The same under the name that NumPy and SciPy use; give one of the two.
    runtime : str, Mpi or Cluster
        ``"stacked"``: all agents in this process. ``"mpi"``: this process is one of an MPI job and
        works for its own agents only; ``problem`` is the whole problem or a
        :class:`dual2.runtime.LocalProblem` of it. :class:`dual2.runtime.mpi.Mpi` carries options.
        A :class:`dual2.runtime.Cluster` such as :class:`dual2.clusters.Ray` solves in its workers;
        ``problem`` may be a :class:`dual2.runtime.RemoteProblem` then.
    sums : {"tree", "exact"}, optional
        How sums over agents are formed: rounded in the order of the spanning tree (the default), or
        in fixed point modulo 2¹²⁸, each rounded once, so that the answer has the same bits in
        process, over MPI and between parties (where nothing else is used).
    reduce : bool
        Whether a problem outside the method's class may be reduced to one inside, by slack
        variables or by moving h to one agent; see :mod:`dual2.solving.reductions`.
    scale : {"auto", "none"}
        Whether rows of the coupling and agents' variables may be put in balance, see
        :mod:`dual2.solving.balance`; the answer is in your units either way.
    throw : bool
        Raise :class:`NotSolved` unless the status is CONVERGED.
    checkpoints : StateKeeper, optional
        Where to keep the state from time to time: an object with ``due``, ``held`` and
        ``save(rounds, state)``, see :class:`dual2.processes.checkpoints.Checkpoints`.
    **parameters
        Parameters of the method, listed by ``dual2 methods NAME``; for iD2A and MiD2A see
        :class:`dual2.methods.gossip.accuracy.Options`; ``degree`` and ``spectrum`` of MiD2A's
        Chebyshev polynomial; ``cost`` (:class:`dual2.Costs`, ``"communication"`` or
        ``"computation"``) for the automatic choice of the subsolver.

    Returns
    -------
    Result
        Answer, status, counts, certificate, trace, parameters.

    Examples
    --------
    Share a demand of 3 between two producers with quadratic costs:

    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0)), d2.Agent([[1.0]], d2.SquaredNorm(2.0))]
    >>> result = d2.solve(d2.Problem(agents, d2.IndicatorPoint([3.0])), d2.Network([(0, 1)]))
    >>> print(result.status, [round(float(x[0]), 6) for x in result.x])
    CONVERGED [2.0, 1.0]
    """
    if isinstance(runtime, Cluster):
        return solve_on_cluster(dict(locals()))  # the arguments: no other name is bound yet
    if isinstance(problem, RemoteProblem):
        raise ProblemError(NEEDS_CLUSTER)
    network, note = _check_problem(problem, network)
    check_limits(tol, atol, max_rounds, time_limit)
    check_randomness(seed, rng)
    check_requests(callback, checkpoints, {"record": record, "reduce": reduce, "throw": throw})
    show_compiling(progress)
    share = local_problem(problem, find_communicator(network, runtime, sums, start is None))
    empty = EmptyAgents.of(share)
    share, start, callback = empty.filled(share), empty.start(start), empty.callback(callback)
    settings = Settings("", subsolver, rho, constants, accuracy, parameters)
    if isinstance(method, str) and method.lower() == AUTO:
        choice = choose(share, network, settings, tol, start)
    else:
        choice = MethodChoice(find_method(method))
    flat = None if reference is None else flatten(share, empty.point(reference), "reference")
    watched = sys.stderr.isatty() if progress is None else progress
    watched = watched and share.comm.rank == 0

    def attempt(choice: MethodChoice, start: Start, rounds: int, seconds: float | None) -> Result:
        """One method's run, from its plan to its answer."""
        found = choice.method
        given = dict(found.parameters) | parameters
        named = replace(settings, method=found.name, parameters=given)
        plan = plan_for(choice, share, network, named, reduce, scale)
        plan = replace(plan, explanation=f"{plan.explanation} {note}".strip())
        driver = Driver(plan, tol, atol, rounds, seconds, flat, record, callback, checkpoints)
        driver.mark = fingerprint(plan, found)
        begin(driver, share, start)
        _log.info("%s", plan.explanation)
        if watched:
            from dual2.solving.progress import Bar  # the terminal library, only for a watcher

            with Bar(found.name, tol) as bar:
                outcome = driver.run(bar.update)
        else:
            outcome = driver.run()
        with np.errstate(over="ignore", invalid="ignore"):
            result = _assemble(driver, plan, share.whole, outcome, (tol, atol))
        return replace(result, setting=_setting(found.name, problem.p, network))

    def slowest(seconds: float) -> float:
        """The most that any process has spent."""
        return float(share.largest(np.full((len(share.agents), 1), seconds))[0])

    limits = int(max_rounds), time_limit
    result = Candidates(choice, attempt, problem.h, slowest, *limits).run(start)
    result = empty.result(result)
    _log.info("%s after %d rounds", result.status, result.counts.rounds)
    if throw and result.status != Status.CONVERGED:
        raise NotSolved(result)
    return result


def _check_problem(problem: Problem, network: AnyNetwork | None) -> tuple[AnyNetwork, str]:
    """The network, which may be left out, and what the explanation says of that."""
    if not isinstance(problem, Problem):
        raise ProblemError(f"solve needs a Problem first; found {type(problem).__name__}.")
    problem.refresh()
    network, note = network_or_default(problem, network)
    if not isinstance(network, Network | ChebyshevNetwork):
        raise NetworkError(
            f"solve needs a Network; found {type(network).__name__}. Wrap it: Network(graph)."
        )
    if problem.n != network.n:
        raise NetworkError(
            f"The problem has {problem.n} agents but the network has {network.n} nodes. Give one "
            "node per agent."
        )
    return network, note


def _assemble(
    driver: Driver, plan: Plan, problem: Problem, outcome: Outcome, tolerances: tuple[float, float]
) -> Result:
    """The answer in the units of ``problem``, judged there."""
    (tol, atol), status = tolerances, outcome.status
    x, duals = outcome.x * driver.lengths, outcome.duals * driver.units
    if driver.proof is not None and driver.proof.dual is not None:
        duals[:, driver.proof.dual == 0] = 0.0  # dust, without which the answer was proven
    parts = problem.split(x)
    dual, kkt = _judge(driver, problem, parts, duals, atol)
    if status in (Status.CONVERGED, Status.STALLED) and kkt.kkt > tol:
        parts, kkt = _or_zero(problem, parts, dual, kkt, tolerances)
    if status in _UNDECIDED and kkt.kkt <= tol:  # the definitions decide, however the run ended
        status = Status.CONVERGED
    elif status == Status.CONVERGED:
        status = Status.STALLED
    certificate, most, value = _certify(problem, parts, dual, duals, kkt, outcome.counts)
    if status in (Status.INFEASIBLE, Status.UNBOUNDED):
        proof = _impossible(driver, problem, status)
        status = status if proof else Status.STALLED
        certificate = replace(certificate, **proof)
    objective, explanation = _objective(problem, parts, kkt, status, value), plan.explanation
    if status == Status.STALLED and falls_far_beyond(problem, parts, objective):
        explanation = f"{explanation}\n{NOT_ATTAINED}"
    return Result(
        x=parts,
        y=kkt.s,
        dual=dual,
        duals=duals,
        objective=objective,
        status=status,
        counts=replace(outcome.counts, **most),
        certificate=certificate,
        trace=outcome.trace,
        parameters=plan.parameters,
        seconds=driver.schedule.seconds,
        explanation=explanation,
        versions=versions(),
        state=outcome.state,
        owned=problem.owned.tolist(),
    )


def _impossible(driver: Driver, problem: Problem, status: Status) -> dict[str, Any]:
    """The direction that proves the status by the plain definitions; nothing if none does."""
    if status == Status.INFEASIBLE and driver.separator is not None:
        near = near_separators(problem, driver.separator * driver.units)
        proof = next((u for u in near if proves_infeasible(problem, u)), None)
        return {} if proof is None else {"separator": proof.tolist()}
    if status == Status.UNBOUNDED and driver.ray is not None:
        ray = problem.split(driver.ray * driver.lengths)
        return {"ray": [own.tolist() for own in ray]} if proves_unbounded(problem, ray) else {}
    return {}


def _setting(method: str, p: int, network: AnyNetwork) -> dict[str, Any]:
    """What a reader of the result wants to know beside it; edges only where they can be drawn."""
    sizes: dict[str, Any] = {"method": method, "n": network.n, "p": int(p)}
    return sizes | ({"edges": network.edges.tolist()} if network.n <= MOST_DRAWN else {})


def _judge(
    driver: Driver, problem: Problem, x: list[Array], duals: Array, atol: float
) -> tuple[Array, KKT]:
    """The mean price and the residual there, which a run on this very problem has already found."""
    known, same = driver.proof, problem is driver.runtime.problem.whole  # not scaled or reduced
    if same and known is not None and known.dual is not None and known.proof is not None:
        return known.dual, known.proof
    # a method that judges itself has one price, which a mean would round
    dual = duals[0].copy() if driver.self_terminating else problem.total(duals) / problem.n
    return dual, problem.kkt(x, dual, atol)


def _or_zero(
    problem: Problem, x: list[Array], dual: Array, kkt: KKT, tolerances: tuple[float, float]
) -> tuple[list[Array], KKT]:
    """The answer 0 instead of x if it is one.

    Where h allows nothing but 0, x is what rounding left, and has no size to be judged by.
    """
    tol, atol = tolerances
    nothing = [np.zeros_like(part) for part in x]
    there = problem.kkt(nothing, dual, atol)
    return (nothing, there) if there.kkt <= tol else (x, kkt)


def _objective(
    problem: Problem, x: list[Array], kkt: KKT, status: Status, known: float | None
) -> float:
    """Σ f_i + g_i + h(s), see :class:`Result`; NaN if a user's function came without its value."""
    try:
        own = float(problem.total(problem.values(x))[0]) if known is None else known
        h = problem.h.form or problem.h
        value = float(h._value(kkt.s)) + own
        if value == math.inf and status == Status.CONVERGED:
            value = float(h._value(kkt.y)) + own
        return value
    except CapabilityError:
        return math.nan


def _certify(
    problem: Problem, x: list[Array], dual: Array, duals: Array, kkt: KKT, counts: Counts
) -> tuple[Certificate, dict[str, int], float | None]:
    """What the plain NumPy definitions say of the answer; the most calls, and Σ f_i + g_i."""
    apart = np.linalg.norm(duals - dual, axis=1)
    calls = np.broadcast_to([getattr(counts, name) for name in CALLS], (len(apart), len(CALLS)))
    gap, bound, known = error_bounds.certify(problem, x, dual, np.column_stack([apart, calls]))
    most: dict[str, int] = dict(zip(CALLS, known.most[1:].astype(int).tolist(), strict=True))
    certificate = Certificate(
        kkt=kkt.kkt,
        stationarity=kkt.stationarity,
        agent=kkt.agent,
        coupling=kkt.coupling,
        row=kkt.row,
        objective=kkt.objective,
        coordinate=kkt.coordinate,
        consensus=float(known.most[0]),
        gap=gap if math.isfinite(gap) else None,
        x_error=bound.value,
        reason=bound.reason,
    )
    return certificate, most, known.value


def solve_for_all(
    problem: Problem,
    network: AnyNetwork | None = None,
    *,
    runtime: str | Transport = "stacked",
    **options: Any,
) -> Result:
    """:func:`dual2.solve`, with the answers of all agents in every process.

    A run in several processes leaves each with the x_i and λ_i of its own agents. Here they
    exchange them at the end, so that the result is the same in each and as complete as that of one
    process. What is private otherwise, every x_i, becomes known to all. The arguments are those of
    :func:`dual2.solve`, the whole ``problem`` in every process.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0)), d2.Agent([[1.0]], d2.SquaredNorm(2.0))]
    >>> problem, network = d2.Problem(agents, d2.IndicatorPoint([3.0])), d2.Network([(0, 1)])
    >>> [round(float(x[0]), 6) for x in solve_for_all(problem, network).x]
    [2.0, 1.0]
    """
    transport = find_transport(runtime)
    result = solve(problem, network, runtime=transport, **options)
    if len(result.x) == problem.n:
        return result
    network, _ = network_or_default(problem, network)
    x, duals = gather_everywhere(transport, network, problem.dims, result.x, result.duals)
    return replace(result, x=x, duals=duals, owned=list(range(problem.n)))
