"""Workers as threads of this process: the smallest engine, for tests and for reading."""

from collections.abc import Callable, Sequence
from threading import Thread
from time import monotonic
from typing import Any

from dual2.runtime.cluster import Cluster, ClusterWorker, Task, supervise
from dual2.runtime.mailbox import Array, Inbox, Mailbox
from dual2.runtime.waiting import TIMEOUT


class ThreadMailbox(Mailbox):
    """Messages between threads: each has the inboxes of all others."""

    def __init__(self, rank: int, inboxes: Sequence[Inbox], **options: Any) -> None:
        super().__init__(rank, len(inboxes), **options)
        self.inboxes = inboxes

    def send(self, rank: int, key: str, array: Array) -> None:
        """Put an array into the inbox of a thread."""
        self.inboxes[rank].put(self.rank, key, array, self.timeout)

    def take(self, rank: int, key: str, seconds: float) -> Array:
        """Take it from the own inbox."""
        return self.inboxes[self.rank].take(rank, key, seconds)


class Threads(Cluster):
    """Workers as threads.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0]], d2.SquaredNorm(w)) for w in (1.0, 2.0, 3.0)]
    >>> problem = d2.Problem(agents, d2.IndicatorPoint([11.0]))
    >>> result = d2.solve(problem, d2.Network([(0, 1), (1, 2)]), runtime=Threads(2))
    >>> print(result.status, [x.round(6).tolist() for x in result.x])
    CONVERGED [[6.0], [3.0], [2.0]]
    """

    def __init__(self, workers: int, partition: Any = None, timeout: float = TIMEOUT) -> None:
        super().__init__(workers, partition, timeout)
        self._workers = [ClusterWorker() for _ in range(workers)]

    def run(self, task: Task, parts: Sequence[Any], watch: Callable[[Any], Any]) -> list[Any]:
        """Run the task in a thread for each worker; see :class:`~dual2.runtime.Cluster`."""
        run, workers = self.next_run(), self._workers
        answers: list[Any] = [None] * len(parts)
        failures: list[BaseException] = []
        for worker in workers:
            worker.begin(run)
        inboxes = [worker.inbox for worker in workers]
        options = {"partition": self.partition, "timeout": self.timeout, "run": run}

        def work(rank: int) -> None:
            try:
                mailbox = ThreadMailbox(rank, inboxes, **options)
                answers[rank] = task(mailbox, workers[rank], parts[rank])
            except BaseException as error:
                failures.append(error)
                for worker in workers:
                    worker.fail(f"worker {rank} has failed: {error}")

        threads = [Thread(target=work, args=(rank,), daemon=True) for rank in range(len(parts))]
        for thread in threads:
            thread.start()

        def wait(seconds: float) -> bool:
            end = monotonic() + seconds
            for thread in threads:
                thread.join(max(0.0, end - monotonic()))
            return not any(thread.is_alive() for thread in threads)

        def stop() -> None:
            for worker in workers:
                worker.stop()

        supervise(wait, lambda: bool(watch(workers[0].latest)), stop)
        if failures:
            self.forget()
            raise failures[0]
        return answers
