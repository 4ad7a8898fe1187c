"""Workers of an engine (Ray, Dask, threads) that solve one problem for a program that drives them.

A :class:`Cluster` starts one task in each worker and brings messages from one to another. What the
task does is elsewhere (:mod:`dual2.solving.on_cluster`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from dual2.errors import CapabilityError, PeerError, ProblemError
from dual2.functions import Function, as_function
from dual2.problem import Agent
from dual2.runtime.assignment import assign
from dual2.runtime.mailbox import Inbox, Mailbox
from dual2.runtime.share import LocalProblem
from dual2.runtime.waiting import TIMEOUT

Array = np.ndarray
MOST_PLACED = 4
"""Problems whose parts stay in the workers; an older one is sent again if it is needed."""
LOOK = 0.2
"""Seconds between two looks of the driver at its workers."""
LoadAgent = Callable[[int], Agent]
SaveAnswer = Callable[[int, Array], None]


@dataclass(frozen=True, eq=False)
class RemoteProblem:
    """A problem whose agents each worker loads by itself, so that no data passes the driver.

    Attributes
    ----------
    load : callable
        ``load(i)`` gives agent i. It runs in the worker that owns the agent, and may read a file, a
        Parquet table or a database there.
    h : Function
        The public function of the coupling.
    n : int
        Number of agents.
    save : callable, optional
        ``save(i, x_i)`` is called in the worker for each of its agents if the run has ended.
    gather : bool
        Whether the driver gets every x_i. By default it does not: ``result.x`` is empty then.

    Examples
    --------
    >>> import dual2 as d2
    >>> from dual2.clusters import Threads
    >>> def load(i):
    ...     return d2.Agent([[1.0]], d2.SquaredNorm(float(i + 1)))
    >>> problem = RemoteProblem(load, d2.IndicatorPoint([3.0]), n=2, gather=True)
    >>> result = d2.solve(problem, d2.Network([(0, 1)]), runtime=Threads(2))
    >>> print(result.status, [x.round(6).tolist() for x in result.x])
    CONVERGED [[2.0], [1.0]]
    """

    load: LoadAgent
    h: Function | Any
    n: int
    save: SaveAnswer | None = None
    gather: bool = False

    def __post_init__(self) -> None:
        if not callable(self.load):
            raise ProblemError(f"load={self.load!r} found; expected a function of i: an Agent.")
        if not isinstance(self.n, int) or self.n < 1:
            raise ProblemError(f"n={self.n!r} found; expected the number of agents.")

    def part(self, owned: Sequence[int]) -> LocalProblem:
        """The agents of one worker, loaded now."""
        agents: dict[int, Agent] = {}
        for i in owned:
            agents[i] = found = self.load(int(i))
            if not isinstance(found, Agent):
                raise ProblemError(
                    f"load({i}) gave {type(found).__name__}; expected a dual2.Agent."
                )
        return LocalProblem(agents, as_function(self.h), self.n)


@dataclass
class ClusterWorker:
    """What an engine keeps in each worker: mail, the last report, and what was placed there.

    Attributes
    ----------
    inbox : Inbox
        Messages of other workers.
    placed : dict
        Parts of problems that stay here between runs, by the number of the problem.
    saves : dict
        What to call with the answers of those that asked for it.
    stopping : bool
        Whether the driver has asked the run to end with the best answer so far.
    latest : dict or None
        How far the run is.
    """

    inbox: Inbox = field(default_factory=Inbox)
    placed: dict[int, LocalProblem] = field(default_factory=dict)
    saves: dict[int, SaveAnswer | None] = field(default_factory=dict)
    stopping: bool = False
    latest: dict[str, Any] | None = None

    def put(self, source: int, key: str, array: Array) -> None:
        """A message of another worker."""
        self.inbox.put(source, key, array)

    def stop(self) -> None:
        """End the run at its next stopping test, with the best answer so far."""
        self.stopping = True

    def fail(self, reason: str) -> None:
        """End the run with an error: another worker has failed."""
        self.inbox.fail(reason)

    def report(self, latest: dict[str, Any]) -> None:
        """Keep how far the run is."""
        self.latest = latest

    def progress(self) -> dict[str, Any] | None:
        """How far the run is, for the driver."""
        return self.latest

    def begin(self, run: str) -> None:
        """A new run: mail, wishes and reports of earlier ones are gone."""
        self.inbox.begin(run)
        self.stopping, self.latest = False, None


Task = Callable[[Mailbox, ClusterWorker, Any], Any]
"""What a worker does with its mailbox, itself and its part of the data."""


class Cluster(ABC):
    """An engine that runs a task in each of its workers; ``solve(..., runtime=cluster)`` takes it.

    Parameters
    ----------
    workers : int
        How many; each owns at least one agent.
    partition : sequence of int or path, optional
        Number of the worker of each agent; by default blocks that keep neighbours together.
    timeout : float
        Seconds after which a worker that does not answer another one is an error.
    """

    def __init__(
        self, workers: int, partition: Sequence[int] | Array | None = None, timeout: float = TIMEOUT
    ) -> None:
        if not isinstance(workers, int) or workers < 1:
            raise CapabilityError(f"workers={workers!r} found; expected a whole number from 1 on.")
        self.workers, self.partition, self.timeout = workers, partition, timeout
        self._placed: dict[int, tuple[object, ...]] = {}
        self._runs = self._problems = 0

    @abstractmethod
    def run(self, task: Task, parts: Sequence[Any], watch: Callable[[Any], Any]) -> list[Any]:
        """What ``task(mailbox, worker, part)`` gives in each worker, by rank.

        ``watch`` is called in the driver a few times a second with the last report of rank 0, or
        None. If it answers true, all workers are asked to stop. A worker that is lost is a
        :class:`WorkerLost`; an error in a worker ends the others and is raised here.
        """

    def place(self, *content: object) -> tuple[int, bool]:
        """The number of a problem that consists of these objects, and whether workers have it.

        Objects are compared by identity, and kept alive while their copies are in the workers.
        """
        for number, known in self._placed.items():
            same = zip(known, content, strict=False)
            if len(known) == len(content) and all(one is other for one, other in same):
                return number, True
        self._problems += 1
        self._placed[self._problems] = content
        if len(self._placed) > MOST_PLACED:
            del self._placed[next(iter(self._placed))]
        return self._problems, False

    @property
    def placed(self) -> tuple[int, ...]:
        """Numbers of the problems that stay in the workers."""
        return tuple(self._placed)

    def forget(self) -> None:
        """Workers have been replaced, or a run has failed: nothing counts as placed any more."""
        self._placed.clear()

    def close(self) -> None:
        """End the workers; what was placed in them is gone."""
        self.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def next_run(self) -> str:
        """A name that no earlier run has."""
        self._runs += 1
        return f"run{self._runs}"

    def agents_of(self, rank: int, part: Any) -> str:
        """The agents of a worker, to be put behind its number in a message."""
        network = getattr(part, "network", None)
        if network is None:
            return ""
        owned = np.flatnonzero(assign(network, self.workers, self.partition) == rank).tolist()
        shown = ", ".join(map(str, owned[:8])) + (", …" if len(owned) > 8 else "")
        return f" (agent{'s' if len(owned) > 1 else ''} {shown})"


def supervise(
    wait: Callable[[float], bool], ask: Callable[[], bool], stop: Callable[[], None]
) -> None:
    """Wait until ``wait(seconds)`` is true; stop the run if ``ask()`` is, or at Ctrl-C.

    At the first Ctrl-C the workers are asked to end with the best answer so far; the second one is
    raised.
    """
    stopped = False
    while True:
        try:
            if wait(LOOK):
                return
            if ask() and not stopped:
                stopped = True
                stop()
        except KeyboardInterrupt:
            if stopped:
                raise
            stopped = True
            stop()


class WorkerLost(PeerError):
    """A worker of the engine has ended before its part was done.

    Parameters
    ----------
    rank : int
        Which one.
    why : str
        What the engine says.
    """

    def __init__(self, rank: int, why: str, agents: str = "") -> None:
        super().__init__(
            f"Worker {rank}{agents} was lost: {why}. Nothing of this run is kept; solve again, and "
            "its data is placed anew."
        )
        self.rank, self.why = rank, why
