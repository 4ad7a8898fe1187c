"""From a problem to a run that is ready: reduced if need be, planned, begun.

A method's own plan chooses its parameters; here is what is the same for all methods.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np

from dual2.engine.local import OPERATOR_A
from dual2.engine.pack import DATA, MATRICES, PackedBlock
from dual2.errors import CapabilityError, ProblemError
from dual2.functions import Proximable, Smooth
from dual2.methods.method import Algorithm, Method, Plan, SelfTerminating
from dual2.methods.parameters import Settings, Sourced
from dual2.methods.registry import require
from dual2.network import AnyNetwork
from dual2.problem import Problem
from dual2.problem.ingredients import coupling_response, coupling_step
from dual2.runtime import LocalProblem, Runtime
from dual2.solving.balance import Balance, balanced
from dual2.solving.choice import MethodChoice
from dual2.solving.driver import Driver
from dual2.solving.reductions import Reduction, keeps, reductions_of
from dual2.solving.restoring import demand_continuable, find_broken, with_present_names
from dual2.solving.result import Result

Array = np.ndarray
Start = tuple[Any, Any] | tuple[Any, Any, Result] | Result | Mapping[str, Any] | None
SPREAD = 10.0
"""Rows whose lengths differ by at most this factor are left as they are."""
CURVATURES = 1e4
"""Variables of agents whose L_i differ by at most this factor are left as they are."""


def plan_for(
    choice: MethodChoice,
    share: LocalProblem,
    network: AnyNetwork,
    settings: Settings,
    reduce: bool = True,
    scale: str = "auto",
) -> Plan:
    """The method's plan for a problem, by a reduction if it needs one and ``reduce`` allows it.

    Rows and variables are put in balance first where that is needed and ``scale`` allows it.

    Raises
    ------
    CapabilityError
        If the problem is outside the method's class: what fails, which methods would work, and
        which reduction would help.
    """
    method, reduction = choice.method(**(settings.parameters or {})), None
    balance = in_balance(share, scale, method.scale_free)
    inside = share = balance.problem
    if not choice.able and method.lack(share):
        reduction, inside = _reduce(method, share, reduce)
    given = dict(settings.parameters or {}) | {"rho": settings.rho}
    plan = method.plan(inside, network, settings)
    algorithm, runtime, parameters, said = plan.algorithm, plan.runtime, dict(plan.parameters), []
    for name, value in given.items():
        if isinstance(value, Sourced) and name in parameters:
            parameters[name] = float(value), value.source
    if choice.reason:
        parameters = parameters | {"method": (parameters["method"][0], "auto")}
        said.append(f"Method: {choice.reason}.")
    if reduction is not None:
        runtime, how = Runtime(share, network), reduction.explain(share)
        algorithm = ReducedAlgorithm(algorithm, runtime, reduction)
        parameters = parameters | {"reduction": (reduction.name, how)}
        said.append(f"Reduction: {how}.")
    if balance.said:
        parameters = parameters | {"scale": ("powers of two", balance.said)}
        said.append(f"Scaling: {balance.said}.")
    said = [*reversed(said), plan.explanation]
    if method.remark:
        said.append(f"{method.name}: {method.remark}.")
    return Plan(algorithm, runtime, parameters, "\n".join(said), balance.units, balance.lengths)


def in_balance(problem: Problem, scale: str = "auto", free: bool = False) -> Balance:
    """A problem in units in which no row and no agent is far from the others.

    What is agreed are the smallest and the largest L_i and the lengths of the rows. Nothing is done
    for a method that is ``free`` of units itself.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0], [1e-6]], d2.SquaredNorm(1.0)) for _ in range(2)]
    >>> in_balance(d2.Problem(agents, d2.IndicatorAtMost([1.0, 1e-6]))).units.tolist()
    [0.0009765625, 1024.0]
    """
    if scale not in ("auto", "none"):
        raise CapabilityError(f"scale = {scale!r} found; expected 'auto' or 'none'.")
    ones = np.broadcast_to(np.ones(1), sum(problem.dims))
    untouched = Balance(problem, np.ones(problem.p), ones)
    if scale == "none" or free:
        return untouched
    L = problem.sizes.L
    logs = np.log2(np.where((L > 0) & (L < np.inf), L, np.nan))
    ends = problem.largest(np.where(np.isnan(logs), -np.inf, [logs, -logs]).T)
    lengths = np.sqrt(problem.total(problem.sizes.rows**2))
    known = lengths[lengths > 0]
    uneven = known.size > 0 and SPREAD < known.max() / known.min() < np.inf
    steep = np.log2(CURVATURES) < ends.sum() < np.inf
    if not (uneven or steep):
        return untouched
    return balanced(problem, lengths if uneven else None, (logs, ends) if steep else None)


def _reduce(method: Method, share: LocalProblem, allowed: bool) -> tuple[Reduction, Problem]:
    """The first reduction that brings the problem into the method's class, and what it makes."""
    hint = ""
    for reduction in reductions_of(share):
        inside = reduction.apply(share)
        if not method.lack(inside):
            if allowed:
                return reduction, inside
            hint = f" With reduce=True {reduction.explain(share)}."
            break
    try:
        require(method, share)
    except CapabilityError as error:
        raise CapabilityError(f"{error}{hint}") from None
    raise AssertionError("require() refuses what lack() finds lacking")


class ReducedAlgorithm:
    """An algorithm on the problem with y that looks like one on the original problem.

    Parameters
    ----------
    inner : Algorithm
        On the problem with y.
    runtime : Runtime
        Of the original problem: what is judged.
    reduction : Reduction
        What was done.
    """

    def __init__(self, inner: Algorithm, runtime: Runtime, reduction: Reduction) -> None:
        self.inner, self.runtime, self.reduction = inner, runtime, reduction
        self.stride, self.advance = inner.stride, inner.advance
        self.oracle_calls, self.state, self.restore = inner.oracle_calls, inner.state, inner.restore

    @property
    def x(self) -> Array:
        """Flat primal iterate of the original problem."""
        return self.reduction.invert(self.runtime.problem, self.inner.x)

    @property
    def duals(self) -> Array:
        """λ, one row per agent."""
        return self.inner.duals

    @property
    def rounds(self) -> int:
        """Exchanges of p-vectors so far."""
        return self.inner.rounds

    @property
    def vectors(self) -> int:
        """p-vectors sent to each neighbour so far."""
        return self.inner.vectors

    def start(self, x: Array, lam: Array) -> None:
        """Begin from x and λ; y is zero, or what h answers if they are not."""
        problem, y = self.runtime.problem, np.zeros(self.runtime.p)
        if any(self.runtime.which(x, lam)):
            total = self.runtime.allreduce_sum(np.hstack([self.runtime.products(x), lam]))
            s, price = total[: problem.p], total[problem.p :] / problem.n
            z = coupling_response(problem.h, s, price, coupling_step(s, price))
            y = self.reduction.lift(problem, z)
        self.inner.start(np.concatenate([x, y]) if keeps(problem) else x, lam)


def begin(driver: Driver, problem: LocalProblem, start: Start) -> None:
    """Start cold, warm, or where an earlier result or checkpoint of the same run ended."""
    same, earlier = False, None
    if isinstance(start, tuple) and len(start) == 3:
        start, earlier = start[:2], start[2]
    if isinstance(start, Result | Mapping):
        state = start.state if isinstance(start, Result) else start
        same = not problem.anywhere(str(state.get("mark", "")) != driver.mark)
        if same:
            _continue(driver, state)
        if isinstance(start, Result):
            if same:
                driver.adopt(start.trace)
            start = (start.x, start.duals)
        elif not same:
            raise ProblemError(
                "The checkpoint is of another run: the problem, the network, the method or its "
                "parameters have changed. Start afresh, or restore them."
            )
    if same:
        _try_values(problem, driver.algorithm.x * driver.lengths)
        return
    x, lam = _starting_point(problem, start)
    _try_values(problem, x)
    if start is not None:
        x, lam = x / driver.lengths, lam / driver.units
    with problem.comm.from_zero():
        driver.algorithm.start(x, lam)
    if earlier is not None:
        _recall(driver, problem, earlier)


def _recall(driver: Driver, problem: LocalProblem, earlier: Any) -> None:
    """Let the algorithm use what an earlier run has summed, if all agents had the same A_i then."""
    if not isinstance(earlier, Result):
        raise ProblemError(
            f"start must be (x, lam), (x, lam, result) or a Result; found a "
            f"{type(earlier).__name__} in the third place."
        )
    state, kinds = earlier.state, driver.runtime.block.akind
    other = str(state.get("mark", "")).split(" ")[-1] != driver.mark.split(" ")[-1]
    other = other or bool(np.any(kinds == OPERATOR_A)) or find_broken(state) is not None
    size = float(np.size(state.get("products", ())))  # as long everywhere, or of different runs
    differ, most, least = problem.largest(np.tile([other, size, -size], (len(problem.agents), 1)))
    if isinstance(driver.algorithm, SelfTerminating) and not differ and most == -least > 0:
        driver.algorithm.recall(state)


def _continue(driver: Driver, state: Mapping[str, Any]) -> None:
    """Restore a state that fits; what a fresh one looks like shows at the cold start."""
    rt = driver.runtime
    driver.algorithm.start(np.zeros(rt.packed.size), np.zeros((rt.n, rt.p)))
    x, duals = driver.point
    more = {"best_x": x.shape, "best_duals": duals.shape}
    fresh = driver.state()
    growing = driver.algorithm.growing if isinstance(driver.algorithm, SelfTerminating) else None
    state = with_present_names(state, fresh)
    demand_continuable(state, fresh, more, rt.n, growing)
    try:
        driver.restore(dict(state))
    except (LookupError, TypeError, ValueError) as error:
        lacking = ", ".join(sorted(fresh.keys() - state.keys())) or repr(error)
        raise ProblemError(
            f"The stored state cannot be continued: it does not fit or lacks {lacking}."
        ) from error
    if not all(np.isfinite(part).all() for part in driver.point):
        raise ProblemError(
            "The stored state cannot be continued: its iterates are not finite. Start afresh, or "
            "from the pair (x, duals) of the result."
        )


def _starting_point(problem: LocalProblem, start: Any) -> tuple[Array, Array]:
    """x (flat) and the λ_i of a pair, or zeros."""
    n, p = len(problem.agents), problem.p
    if start is None:
        return np.zeros(sum(problem.dims)), np.zeros((n, p))
    if not isinstance(start, tuple | list) or len(start) != 2:
        raise ProblemError(
            f"start must be a pair (x, lam) or a Result; found {type(start).__name__}."
        )
    x = flatten(problem, start[0], "start")
    try:
        lam = np.asarray(start[1], dtype=float)
    except (TypeError, ValueError) as error:
        raise ProblemError(f"The dual start is not an array of numbers: {error}") from error
    if lam.shape not in ((p,), (n, p), (problem.n, p)):
        raise ProblemError(f"The dual start has shape {lam.shape}; expected ({p},) or ({n}, {p}).")
    if not np.all(np.isfinite(lam)):
        raise ProblemError("The dual start contains NaN or infinite entries.")
    if lam.shape == (problem.n, p):
        lam = lam[problem.owned]
    return x, np.array(np.broadcast_to(lam, (n, p)), order="C")


def _try_values(problem: LocalProblem, x: Array) -> None:
    """Call the users' ``value`` once: one that fails must not cost the answer at the end."""
    own = zip(problem.agents, problem.dims, np.cumsum(problem.dims), strict=True)
    parts = ((f, x[end - d : end]) for agent, d, end in own for f in (agent.f, agent.g))
    for function, at in chain([(problem.h, np.zeros(problem.p))], parts):
        if isinstance(function, Smooth | Proximable):
            with suppress(CapabilityError):  # none was given
                function.value(function.prox(at.copy(), 1.0) if function.proximable else at.copy())


def flatten(problem: LocalProblem, x: Any, what: str) -> Array:
    """One vector of one per agent, of all or of those in this process; ``what`` names it."""
    dims = list(problem.dims)
    try:
        if isinstance(x, np.ndarray) and x.ndim == 1 and x.size == sum(dims):
            x = np.split(x, np.cumsum(dims)[:-1])
        parts = [np.atleast_1d(np.asarray(v, dtype=float)).ravel() for v in x]
        if len(parts) == problem.n:
            parts = [parts[i] for i in problem.owned]
    except (TypeError, ValueError) as error:
        raise ProblemError(
            f"{what} must hold one vector of numbers per agent; found {type(x).__name__}: {error}"
        ) from error
    sizes = [v.size for v in parts]
    if sizes != dims:
        raise ProblemError(
            f"{what} must hold one vector per agent, of lengths {_few(dims)}; found {_few(sizes)}."
        )
    flat = np.concatenate(parts)
    if not np.all(np.isfinite(flat)):
        raise ProblemError(f"{what} contains NaN or infinite entries.")
    return flat


def _few(values: Sequence[int]) -> str:
    shown = ", ".join(map(str, values[:6]))
    return f"[{shown}{', …' if len(values) > 6 else ''}]"


def fingerprint(plan: Plan, method: Method) -> str:
    """The method's name, and hashes of everything that the iterates depend on, and of the A_i."""
    rt = plan.runtime
    block, links = rt.block._asdict(), rt.links
    matrices = _digest([block.pop(name) for name in MATRICES])
    others = [block[name] for name in PackedBlock._fields[DATA] if name in block]
    known = [*others, links.nptr, links.nidx, links.weights, links.recurrence]
    parameters: dict[str, Any] = plan.parameters | {"method": method.name}  # whoever chose it
    text = repr((matrices, sorted(parameters.items())))
    return f"{method.name} {_digest(known, text)} {matrices}"


def _digest(arrays: Sequence[Array], text: str = "") -> str:
    digest = hashlib.sha256(text.encode())  # in hardware on most machines
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()[:32]
