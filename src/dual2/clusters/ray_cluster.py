"""Workers as Ray actors: data is placed in them once, messages go from actor to actor."""

import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dual2.errors import CapabilityError, Dual2Error
from dual2.runtime.cluster import Cluster, ClusterWorker, Task, WorkerLost, supervise
from dual2.runtime.mailbox import Array, Mailbox
from dual2.runtime.waiting import TIMEOUT

MAIL, CONTROL = 64, 4
"""Threads of an actor that take messages, and that answer the driver."""
MOST_ON_THE_WAY = 4
"""Messages to one actor that may be under way: beyond, a sender waits (back-pressure)."""


def load_ray() -> Any:
    """The module ``ray``, or an error that says how to get it."""
    try:
        import ray
    except ImportError as error:
        raise CapabilityError(
            "runtime=Ray(...) needs Ray. Install it with: pip install 'dual2[ray]'"
        ) from error
    return ray


class RayMailbox(Mailbox):
    """Messages between Ray actors."""

    def __init__(self, ray: Any, peers: Sequence[Any], worker: ClusterWorker, **options: Any):
        super().__init__(**options)
        self.ray, self.peers, self.worker = ray, peers, worker
        self._on_the_way: dict[int, list[Any]] = {rank: [] for rank in range(self.size)}

    def send(self, rank: int, key: str, array: Array) -> None:
        """Call the other actor; wait if too many messages to it are under way."""
        waiting = self._on_the_way[rank]
        waiting.append(self.peers[rank].put.remote(self.rank, key, array))
        if len(waiting) > MOST_ON_THE_WAY:
            self.ray.get(waiting.pop(0), timeout=self.timeout)

    def take(self, rank: int, key: str, seconds: float) -> Array:
        """Take it from the own inbox."""
        return self.worker.inbox.take(rank, key, seconds)


class RayWorker(ClusterWorker):
    """The content of an actor; ``run`` in a thread of its own, mail and control in others."""

    def connect(self, peers: Sequence[Any]) -> int:
        """Learn the other actors; the number of this process."""
        self.peers = list(peers)
        return os.getpid()

    def work(self, task: Task, part: Any, options: dict[str, Any]) -> Any:
        """Do a part of a run here."""
        mailbox = RayMailbox(load_ray(), self.peers, self, **options)
        return task(mailbox, self, part)


class Ray(Cluster):
    """Workers as Ray actors.

    Actors live until :meth:`close`, with the data that was placed in them; the object is a context
    manager. If Ray is not running, it is started on this machine.

    Parameters
    ----------
    workers : int
        How many actors.
    address : str, optional
        Of a running Ray cluster, as ``ray.init`` takes it; by default the one that this program is
        connected to, else a new one here.
    partition, timeout
        See :class:`dual2.runtime.Cluster`.
    **actor_options
        Of each actor, as ``ray.remote`` takes them, for instance ``num_cpus``, ``resources`` or
        ``scheduling_strategy``; by default one processor each.

    Examples
    --------
    .. code-block:: python

        with Ray(workers=8) as cluster:
            result = dual2.solve(problem, network, runtime=cluster)
    """

    def __init__(
        self,
        workers: int,
        address: str | None = None,
        partition: Sequence[int] | Array | None = None,
        timeout: float = TIMEOUT,
        **actor_options: Any,
    ) -> None:
        super().__init__(workers, partition, timeout)
        self._ray = load_ray()
        self._options = {"num_cpus": 1} | actor_options
        self._actors: list[Any] = []
        if not self._ray.is_initialized():
            self._start(address)

    def _start(self, address: str | None) -> None:
        """Connect, or start Ray here with as many processors as there are workers."""
        if address is not None:
            self._ray.init(address=address, log_to_driver=False)
            return
        cpus = max(self.workers * self._options["num_cpus"], os.cpu_count() or 1)
        self._ray.init(
            num_cpus=int(np.ceil(cpus)), include_dashboard=False, log_to_driver=False,
            _node_ip_address="127.0.0.1",
            _temp_dir=os.environ.get("RAY_TMPDIR") or tempfile.gettempdir() + "/ray",
        )  # fmt: skip

    def close(self) -> None:
        """End the actors; what was placed in them is gone."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        self.forget()

    @property
    def actors(self) -> tuple[Any, ...]:
        """The actors, started if there are none."""
        if not self._actors:
            groups = {"mail": MAIL, "control": CONTROL}
            remote = self._ray.remote(concurrency_groups=groups, **self._options)(_with_groups())
            self._actors = [remote.remote() for _ in range(self.workers)]
            self._ray.get([actor.connect.remote(self._actors) for actor in self._actors])
        return tuple(self._actors)

    def run(self, task: Task, parts: Sequence[Any], watch: Callable[[Any], Any]) -> list[Any]:
        """Run the task in each actor; see :class:`~dual2.runtime.Cluster`."""
        ray, actors, run = self._ray, self.actors, self.next_run()
        ray.get([actor.begin.remote(run) for actor in actors])
        shared = {
            "size": len(actors), "partition": self.partition, "timeout": self.timeout, "run": run
        }  # fmt: skip
        answers = [
            actor.work.remote(task, part, shared | {"rank": rank})
            for rank, (actor, part) in enumerate(zip(actors, parts, strict=True))
        ]
        waiting, failures = dict(zip(answers, range(len(answers)), strict=True)), []

        def wait(seconds: float) -> bool:
            done, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=seconds)
            for one in done:
                rank = waiting.pop(one)
                error = self._failure(one, rank, parts[rank])
                if error is not None:
                    failures.append(error)
                    for actor in actors:
                        actor.fail.remote(str(error))
            return not waiting

        def ask() -> bool:
            try:
                return bool(watch(ray.get(actors[0].progress.remote(), timeout=5.0)))
            except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
                return False  # that the actor is lost is seen by its answer

        def stop() -> None:
            for actor in actors:
                actor.stop.remote()

        supervise(wait, ask, stop)
        if failures:
            self.close()
            raise failures[0]
        return ray.get(answers)

    def _failure(self, answer: Any, rank: int, part: Any) -> Exception | None:
        """What went wrong in a worker, if anything did."""
        exceptions = self._ray.exceptions
        try:
            self._ray.get(answer)
        except exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            return cause if isinstance(cause, Dual2Error) else error
        except exceptions.RayActorError as error:
            why = str(error).splitlines()[0]
            return WorkerLost(rank, why, self.agents_of(rank, part))
        return None


def _with_groups() -> type[RayWorker]:
    """The class of the actors, whose methods run in their groups of threads."""
    method = load_ray().method

    class GroupedRayWorker(RayWorker):
        put = method(concurrency_group="mail")(ClusterWorker.put)
        stop = method(concurrency_group="control")(ClusterWorker.stop)
        fail = method(concurrency_group="control")(ClusterWorker.fail)
        progress = method(concurrency_group="control")(ClusterWorker.progress)

    return GroupedRayWorker
