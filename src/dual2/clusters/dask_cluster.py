"""Workers of a Dask cluster: each keeps its mail, messages go from worker to worker."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import numpy as np

from dual2.errors import CapabilityError
from dual2.runtime.cluster import Cluster, ClusterWorker, Task, WorkerLost, supervise
from dual2.runtime.mailbox import Array, Mailbox
from dual2.runtime.waiting import TIMEOUT

PAUSE = 0.005
"""Seconds between two looks for room in an inbox."""


def load_distributed() -> Any:
    """The module ``distributed``, or an error that says how to get it."""
    try:
        import distributed
    except ImportError as error:
        raise CapabilityError(
            "runtime=Dask(...) needs Dask's distributed. Install it with: pip install 'dual2[dask]'"
        ) from error
    return distributed


class DaskMailbox(Mailbox):
    """Messages between Dask workers, over the connections that these have anyway."""

    def __init__(
        self, dask_worker: Any, handler: str, addresses: Sequence[str], worker: ClusterWorker,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(**options)
        self.dask_worker, self.handler, self.addresses = dask_worker, handler, addresses
        self.worker = worker

    def send(self, rank: int, key: str, array: Array) -> None:
        """Call the handler of the other worker, and wait until it has the array (back-pressure)."""
        loop = self.dask_worker.loop.asyncio_loop
        asyncio.run_coroutine_threadsafe(self._send(rank, key, array), loop).result(self.timeout)

    async def _send(self, rank: int, key: str, array: Array) -> None:
        call = getattr(self.dask_worker.rpc(self.addresses[rank]), self.handler)
        content = {"dtype": array.dtype.str, "data": array.tobytes()}
        await call(source=self.rank, key=key, **content)

    def take(self, rank: int, key: str, seconds: float) -> Array:
        """Take it from the own inbox."""
        return self.worker.inbox.take(rank, key, seconds)


def install(name: str, dask_worker: Any) -> int:
    """Give a Dask worker an inbox, and a handler that fills it; the number of its process."""
    known = dask_worker.__dict__.setdefault("dual2_workers", {})
    if name not in known:
        own = known[name] = ClusterWorker()

        async def put(source: int, key: str, dtype: str, data: bytes) -> None:
            while not own.inbox.has_room(source):  # must not block the worker's event loop
                await asyncio.sleep(PAUSE)
            own.put(source, key, np.frombuffer(data, dtype).copy())

        dask_worker.handlers[name] = put
    return os.getpid()


def remove(name: str, dask_worker: Any) -> None:
    """Take both away again."""
    dask_worker.__dict__.get("dual2_workers", {}).pop(name, None)
    dask_worker.handlers.pop(name, None)


def call(name: str, method: str, *arguments: Any, dask_worker: Any) -> Any:
    """Call a method of the :class:`ClusterWorker` in a Dask worker, whatever it computes."""
    return getattr(dask_worker.__dict__["dual2_workers"][name], method)(*arguments)


def work(task: Task, part: Any, name: str, addresses: Sequence[str], options: Any) -> Any:
    """One worker's part of a run; a task of Dask."""
    dask_worker = load_distributed().get_worker()
    worker = dask_worker.__dict__["dual2_workers"][name]
    return task(DaskMailbox(dask_worker, name, addresses, worker, **options), worker, part)


class Dask(Cluster):
    """Workers of a Dask cluster.

    The object is a context manager. A cluster that it started itself ends with it; in a script, put
    the call under ``if __name__ == "__main__":``, since Dask starts processes that import it.

    Parameters
    ----------
    workers : int
        How many workers take part.
    client : distributed.Client, optional
        Of a running cluster, whose first workers by address take part; by default a cluster of
        processes on this machine.
    partition, timeout
        See :class:`dual2.runtime.Cluster`.

    Examples
    --------
    .. code-block:: python

        with Dask(workers=4) as cluster:
            result = dual2.solve(problem, network, runtime=cluster)
    """

    def __init__(
        self,
        workers: int,
        client: Any = None,
        partition: Sequence[int] | Array | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        super().__init__(workers, partition, timeout)
        self._distributed = load_distributed()
        self._own = client is None
        self._client = self._local() if client is None else client
        self._name = f"dual2_{uuid4().hex[:12]}"
        self._addresses: list[str] = []

    def _local(self) -> Any:
        """A cluster of processes here, without a dashboard."""
        cluster = self._distributed.LocalCluster(
            n_workers=self.workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        )
        return self._distributed.Client(cluster)

    def close(self) -> None:
        """Take the mail out of the workers, and end a cluster that was started here."""
        alive = [one for one in self._addresses if one in self._present()]
        self._client.run(remove, self._name, workers=alive)
        self._addresses = []
        self.forget()
        if self._own:
            cluster = self._client.cluster
            self._client.close()
            cluster.close()

    def _present(self) -> list[str]:
        """Addresses of the workers that the scheduler knows."""
        return sorted(self._client.scheduler_info(n_workers=-1)["workers"])

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of the workers that take part."""
        if not self._addresses:
            self._client.wait_for_workers(self.workers, timeout=self.timeout)
            self._addresses = self._present()[: self.workers]
            self._client.run(install, self._name, workers=self._addresses)
        return tuple(self._addresses)

    def _call(self, method: str, *arguments: Any, workers: Sequence[str]) -> Any:
        """Call a method of some workers; those that are gone are passed over."""
        alive = [one for one in workers if one in self._present()]
        name = self._name
        return self._client.run(call, name, method, *arguments, workers=alive, on_error="ignore")

    def run(self, task: Task, parts: Sequence[Any], watch: Callable[[Any], Any]) -> list[Any]:
        """Run the task in each worker; see :class:`~dual2.runtime.Cluster`."""
        addresses, run, client = list(self.addresses), self.next_run(), self._client
        self._call("begin", run, workers=addresses)
        shared = {
            "size": len(parts), "partition": self.partition, "timeout": self.timeout, "run": run
        }  # fmt: skip
        answers = []
        for rank, (address, part) in enumerate(zip(addresses, parts, strict=True)):
            there = client.scatter(part, workers=[address], hash=False)
            options = shared | {"rank": rank}
            answers.append(client.submit(
                work, task, there, self._name, addresses, options, workers=[address],
                allow_other_workers=False, pure=False, retries=0,
            ))  # fmt: skip
        failures: list[BaseException] = []

        def wait(seconds: float) -> bool:
            with suppress(TimeoutError):
                self._distributed.wait(answers, timeout=seconds)
            present = self._present()
            for rank, (address, answer) in enumerate(zip(addresses, answers, strict=True)):
                error = None
                if answer.status == "error":
                    error = answer.exception()
                elif answer.status != "finished" and address not in present:
                    why = f"{address} is no longer in the cluster"
                    error = WorkerLost(rank, why, self.agents_of(rank, parts[rank]))
                if error is not None:
                    failures.append(error)
                    self._call("fail", str(error), workers=addresses)
                    return True
            return all(answer.status == "finished" for answer in answers)

        def ask() -> bool:
            latest = self._call("progress", workers=addresses[:1])
            return bool(watch(next(iter(latest.values()), None)))

        supervise(wait, ask, lambda: self._call("stop", workers=addresses))
        if failures:
            client.cancel(answers)
            self._addresses = []
            self.forget()
            raise failures[0]
        return client.gather(answers)
