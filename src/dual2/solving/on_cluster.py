"""``solve`` from a driver: workers of a cluster run their agents, the driver joins the answers.

Every worker calls the same :func:`dual2.solve` for its own agents. Sums along the tree have the
bits of one process.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dual2.errors import CapabilityError, NetworkError, ProblemError
from dual2.network import AnyNetwork
from dual2.problem import Problem
from dual2.runtime.assignment import assign
from dual2.runtime.cluster import Cluster, ClusterWorker, RemoteProblem
from dual2.runtime.mailbox import Mailbox
from dual2.runtime.share import LocalProblem
from dual2.solving.checks import check_limits, check_randomness
from dual2.solving.default_network import network_or_default
from dual2.solving.result import NotSolved, Result, Status

Array = np.ndarray
NEEDS_CLUSTER = (
    "A RemoteProblem is loaded by the workers of a cluster: pass runtime=Ray(...), Dask(...) or "
    "Threads(...) of dual2.clusters, or give the whole Problem."
)
_REPORTED = ("rounds", "kkt", "full", "seconds")


@dataclass(frozen=True)
class WorkerPart:
    """What a worker is given for one run.

    Attributes
    ----------
    number : int
        Of the problem, under which its part stays in the worker.
    problem : RemoteProblem, dict or None
        Whose agents the worker loads; its agents by number; None if they are placed already.
    h : Function
        The public function.
    n : int
        Number of all agents.
    network : Network
        Who talks to whom.
    options : dict
        Of ``solve``.
    start : Any
        Where to start, for the own agents.
    gather : bool
        Whether the driver wants x_i and λ_i.
    kept : tuple of int
        Problems whose parts stay in the worker.
    """

    number: int
    problem: RemoteProblem | Mapping[int, Any] | None
    h: Any
    n: int
    network: AnyNetwork
    options: dict[str, Any]
    start: Any
    gather: bool
    kept: tuple[int, ...]


def solve_part(mailbox: Mailbox, worker: ClusterWorker, part: WorkerPart) -> Result:
    """One worker's part of a run."""
    from dual2.solving.solve import solve

    owned = np.flatnonzero(mailbox.owners(part.network) == mailbox.rank)
    for number in worker.placed.keys() - set(part.kept):
        del worker.placed[number]
    if isinstance(part.problem, RemoteProblem):
        worker.placed[part.number] = part.problem.part(owned.tolist())
        worker.saves[part.number] = part.problem.save
    elif part.problem is not None:
        worker.placed[part.number] = LocalProblem(part.problem, part.h, part.n)

    def look(info: Mapping[str, Any]) -> bool:
        if mailbox.rank == 0:
            worker.report({name: info[name] for name in _REPORTED})
        return worker.stopping

    options = part.options | {"progress": False, "callback": look, "throw": False}
    problem = worker.placed[part.number]
    result = solve(problem, part.network, runtime=mailbox, start=part.start, **options)
    save = worker.saves.get(part.number)
    if save is not None:
        for i, x in zip(result.owned, result.x, strict=True):
            save(i, x)
    return result if part.gather else replace(result, x=[], duals=result.duals[:0], state={})


def solve_on_cluster(arguments: dict[str, Any]) -> Result:
    """:func:`dual2.solve` with these arguments, in the workers of the cluster that is ``runtime``.

    ``callback`` runs in the driver and gets the rounds and the residual, neither x nor prices.
    """
    cluster, problem, network = (arguments.pop(k) for k in ("runtime", "problem", "network"))
    options = arguments | arguments.pop("parameters")
    check_limits(*(options[k] for k in ("tol", "atol", "max_rounds", "time_limit")))
    check_randomness(options["seed"], options["rng"])
    _demand_possible(problem, options)
    network, note = _network_for(problem, network)
    owners = assign(network, cluster.workers, cluster.partition)
    parts = _parts_for(cluster, problem, network, owners, options)
    throw, callback = options.pop("throw"), options.pop("callback")
    progress, tol = options.pop("progress"), options["tol"]
    parts = [replace(part, options=part.options | options) for part in parts]
    with ExitStack() as stack:
        show = _shown(stack, progress, str(options["method"]), tol)

        def watch(latest: dict[str, Any] | None) -> bool:
            if latest is None:
                return False
            show(latest["rounds"], latest["kkt"])
            return bool(callback is not None and callback(latest))

        found = cluster.run(solve_part, parts, watch)
    result = _joined(found, parts[0].gather, note)
    if throw and result.status != Status.CONVERGED:
        raise NotSolved(result)
    return result


def _demand_possible(problem: Any, options: Mapping[str, Any]) -> None:
    """Refuse what a driver cannot do, before a worker starts."""
    if not isinstance(problem, Problem | RemoteProblem):
        raise ProblemError(
            f"solve needs a Problem or a RemoteProblem first; found {type(problem).__name__}."
        )
    if options["checkpoints"] is not None:
        raise CapabilityError(
            "checkpoints=... is not available with workers of a cluster: the state is in the "
            "workers. Continue a run that was stopped with start=result."
        )
    if options["reference"] is not None and isinstance(problem, RemoteProblem):
        raise CapabilityError("reference=... needs a Problem whose agents the driver knows.")


def _network_for(problem: Any, network: AnyNetwork | None) -> tuple[AnyNetwork, str]:
    """The network of the problem, checked; what the explanation says if it was left out."""
    found, note = network_or_default(problem, network)
    if problem.n != found.n:
        raise NetworkError(
            f"The problem has {problem.n} agents but the network has {found.n} nodes. Give one "
            "node per agent."
        )
    return found, note


def _parts_for(
    cluster: Cluster, problem: Any, network: AnyNetwork, owners: Array, options: dict[str, Any]
) -> list[WorkerPart]:
    """What each worker is given; data that is placed already is not sent again."""
    remote = isinstance(problem, RemoteProblem)
    start, reference = options.pop("start"), options.pop("reference")
    if not remote:
        problem.refresh()
    number, placed = cluster.place(*((problem,) if remote else (*problem.agents, problem.h)))
    parts = []
    for rank in range(cluster.workers):
        owned = np.flatnonzero(owners == rank).tolist()
        data: Any = None
        if not placed:
            data = problem if remote else {i: problem.agents[i] for i in owned}
        begin = _start_of(start, rank, owned)
        own = {} if reference is None else {"reference": [reference[i] for i in owned]}
        gather = problem.gather if remote else True
        public = problem.h, problem.n, network
        parts.append(WorkerPart(number, data, *public, own, begin, gather, cluster.placed))
    return parts


def _start_of(start: Any, rank: int, owned: Sequence[int]) -> Any:
    """The start of one worker's agents."""
    if start is None:
        return None
    if isinstance(start, Result):
        parts = start.state.get("workers")
        if parts is None or rank >= len(parts) or parts[rank].owned != list(owned):
            return [start.x[i] for i in owned], start.dual
        return parts[rank]
    x, lam = start[:2]
    lam = np.asarray(lam, dtype=float)
    return [x[i] for i in owned], lam[list(owned)] if lam.ndim == 2 else lam


def _shown(
    stack: ExitStack, progress: bool | None, label: str, tol: float
) -> Callable[[int, float], None]:
    """What draws the progress, on a terminal or if asked."""
    if not (sys.stderr.isatty() if progress is None else progress):
        return lambda rounds, kkt: None
    from dual2.solving.progress import Bar  # the terminal library, only for a watcher

    return stack.enter_context(Bar(label, tol)).update


def _joined(found: Sequence[Result], gather: bool, note: str) -> Result:
    """One result of the workers' parts: public values from rank 0, private ones from each owner."""
    first = found[0]
    explanation = f"{first.explanation} {note}".strip()
    if not gather:
        return replace(first, owned=[], explanation=explanation)
    owned = [i for part in found for i in part.owned]
    order = np.argsort(owned)
    x = [part for one in found for part in one.x]
    duals = np.vstack([one.duals for one in found])[order]
    certificate = first.certificate
    if certificate.ray is not None:
        rays = [ray for one in found for ray in one.certificate.ray or []]
        certificate = replace(certificate, ray=[rays[i] for i in order])
    return replace(
        first, x=[x[i] for i in order], duals=duals, certificate=certificate,
        explanation=explanation, owned=list(range(len(x))), state={"workers": list(found)},
    )  # fmt: skip
