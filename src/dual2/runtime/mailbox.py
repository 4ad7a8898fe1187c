"""Transports made of addressed messages: the base for engines that run many processes.

An engine delivers arrays to the :class:`Inbox` of a process, under a key. Everything else is made
of that here: sums along the tree, rows of neighbours.
"""

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dual2.errors import CapabilityError, PeerError, counted
from dual2.network import AnyNetwork
from dual2.runtime.assignment import assign
from dual2.runtime.transport import Messages, Transport
from dual2.runtime.waiting import TIMEOUT, NeighbourTimeout

Array = np.ndarray
Observer = Callable[[str, int, int, Array], object]
MOST_WAITING = 16
"""Messages of one sender that may wait in an inbox. Every exchange waits for an answer, so a
process is two or three messages ahead at most; more means that it does not follow the protocol."""
SETUP_PATIENCE = 10.0
"""Before the first iteration, when kernels are compiled, others have this many times the time."""
_LOOK = 0.2
"""Seconds between two looks at the clock of a process that waits."""


class Inbox:
    """Arrays that have come for this process, until it takes them. Safe between threads.

    Parameters
    ----------
    most : int
        Messages of one sender that may wait: :meth:`put` blocks beyond them (back-pressure).

    Examples
    --------
    >>> inbox = Inbox()
    >>> inbox.put(1, "rows/1", np.ones(2))
    >>> inbox.take(1, "rows/1", seconds=1.0).tolist()
    [1.0, 1.0]
    """

    def __init__(self, most: int = MOST_WAITING) -> None:
        self.most = most
        self._arrays: dict[tuple[int, str], Array] = {}
        self._waiting: Counter[int] = Counter()
        self._changed = threading.Condition()
        self._failure = ""

    def put(self, source: int, key: str, array: Array, seconds: float = TIMEOUT) -> None:
        """Keep an array of a process until it is taken; wait if too many of that process are here.

        Raises :class:`NeighbourTimeout` if there is no room in time, :class:`PeerError` if the run
        has failed.
        """
        end = monotonic() + seconds
        with self._changed:
            while self._waiting[source] >= self.most and not self._failure:
                if monotonic() >= end:
                    raise NeighbourTimeout(
                        f"{self.most} messages of rank {source} wait to be read for {seconds:g} s."
                    )
                self._changed.wait(_LOOK)
            self._demand_running()
            self._arrays[source, key] = array
            self._waiting[source] += 1
            self._changed.notify_all()

    def has_room(self, source: int) -> bool:
        """Whether another message of a process may come now."""
        return self._waiting[source] < self.most or bool(self._failure)

    def take(self, source: int, key: str, seconds: float) -> Array:
        """The array of a process under a key, as soon as it is here; an error after ``seconds``."""
        end = monotonic() + seconds
        with self._changed:
            while (source, key) not in self._arrays:
                self._demand_running()
                if monotonic() >= end:
                    raise NeighbourTimeout(
                        f"rank {source} did not answer for {seconds:g} s ({key}). Its worker may "
                        "have stopped or be overloaded; allow more time with timeout=... if it is "
                        "only slow."
                    )
                self._changed.wait(_LOOK)
            self._waiting[source] -= 1
            self._changed.notify_all()
            return self._arrays.pop((source, key))

    def fail(self, reason: str) -> None:
        """End all waiting with an error: another process has failed."""
        with self._changed:
            self._failure = self._failure or reason
            self._changed.notify_all()

    def begin(self, run: str) -> None:
        """Forget what earlier runs left; keys of this run begin with its name."""
        with self._changed:
            kept = {k: a for k, a in self._arrays.items() if k[1].startswith(f"{run}/")}
            self._arrays, self._failure = kept, ""
            self._waiting = Counter(source for source, _ in kept)
            self._changed.notify_all()

    def _demand_running(self) -> None:
        if self._failure:
            raise PeerError(self._failure)


class Mailbox(Transport, ABC):
    """A transport of which an engine gives two verbs: ``send`` and ``take``.

    A subclass sends an array to a rank under a key, and takes the array of a rank under a key. Each
    key is used once by each pair of processes. Sums have the bits of one process, since the tree
    decides their order.

    Parameters
    ----------
    rank, size : int
        Number of this process, and of all.
    partition : sequence of int or path, optional
        Rank of each agent; by default blocks that keep neighbours together.
    timeout : float
        Seconds after which a process that does not answer is an error; ten times as many before the
        first iteration.
    observer : callable, optional
        Called with ``(kind, source, destination, array)`` for every message that leaves.
    run : str
        Name of the run, with which all keys begin.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        partition: Sequence[int] | Array | str | None = None,
        timeout: float = TIMEOUT,
        observer: Observer | None = None,
        run: str = "run",
    ) -> None:
        if not isinstance(timeout, int | float) or not timeout > 0:
            raise CapabilityError(f"timeout={timeout!r} found; expected seconds > 0.")
        super().__init__()
        self.rank, self.size = rank, size
        self.timeout, self.observer, self.run = timeout, observer, run
        self._partition = partition
        self._owners: WeakKeyDictionary[Any, Array] = WeakKeyDictionary()
        self._used: Counter[tuple[str, int]] = Counter()

    # -- what an engine gives ------------------------------------------------------------------
    @abstractmethod
    def send(self, rank: int, key: str, array: Array) -> None:
        """Bring an array to a process; its content is nobody else's from then on."""

    @abstractmethod
    def take(self, rank: int, key: str, seconds: float) -> Array:
        """The array that a process sends under a key, as soon as it is here.

        :class:`~dual2.runtime.waiting.NeighbourTimeout` after so many seconds.
        """

    # -- what is made of it --------------------------------------------------------------------
    def owners(self, network: AnyNetwork) -> Array:
        """Rank of each agent of a network."""
        if network not in self._owners:
            self._owners[network] = assign(network, self.size, self._partition)
        return self._owners[network]

    def exchange(self, stage: Array, outgoing: Messages, incoming: Messages) -> Callable[[], None]:
        """A function that sends rows of ``stage``, by rank and number, and fills others."""

        def exchange() -> None:
            for rank, rows in outgoing.items():
                self._post("rows", rank, stage[rows])
            for rank, rows in incoming.items():
                found = self._fetch("rows", rank, len(rows) * stage.shape[1], stage.dtype)
                stage[rows[0] : rows[-1] + 1] = found.reshape(len(rows), -1)

        return exchange

    def sendrecv(self, outgoing: Messages, incoming: Messages, kind: str) -> None:
        """Send arrays to ranks, and fill those that come from ranks."""
        for rank, array in outgoing.items():
            self._post(kind, rank, array, "agree")
        for rank, array in incoming.items():
            found = self._fetch(kind, rank, array.size, array.dtype, channel="agree")
            array[...] = found.reshape(array.shape)

    def allgather(self, own: Array, kind: str, seconds: float | None = None) -> Array:
        """Tell every process an array of one length, and hear theirs; see :class:`Transport`."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        for rank in others:
            self._post(kind, rank, own)
        every = np.zeros((self.size, own.size), own.dtype)
        every[self.rank] = own.ravel()
        for rank in others:
            every[rank] = self._fetch(kind, rank, own.size, own.dtype, seconds)
        return every

    def gather(self, own: Array, kind: str) -> Array | None:
        """The arrays of all processes, one after the other, at rank 0; None elsewhere."""
        if self.rank != 0:
            self._post(kind, 0, own)
            return None
        others = [self._fetch(kind, rank, None, own.dtype) for rank in range(1, self.size)]
        return np.concatenate([own.ravel(), *others])

    def abort(self, code: int) -> None:
        """End this process's part; the engine tells the others."""
        raise SystemExit(code)

    def _key(self, channel: str, direction: str, rank: int) -> str:
        """The next key of a channel to or from a rank: both ends count alike."""
        self._used[f"{channel} {direction}", rank] += 1
        return f"{self.run}/{channel}/{self._used[f'{channel} {direction}', rank]}"

    def _post(self, kind: str, rank: int, array: Array, channel: str | None = None) -> None:
        content = np.array(array, order="C").ravel()  # a copy: buffers are used again
        if self.observer is not None:
            self.observer(kind, self.rank, rank, content)
        self.send(rank, self._key(channel or kind, "to", rank), content)

    def _fetch(
        self,
        kind: str,
        rank: int,
        size: int | None,
        dtype: Any,
        seconds: float | None = None,
        channel: str | None = None,
    ) -> Array:
        """The next array of a kind from a rank; an error if it has another length or type."""
        patience = self.timeout * (1.0 if self.iterating else SETUP_PATIENCE)
        key = self._key(channel or kind, "from", rank)
        found = np.asarray(self.take(rank, key, patience if seconds is None else seconds))
        if found.dtype != dtype or (size is not None and found.size != size):
            expected = "" if size is None else f"{counted(size, 'number')} of "
            raise PeerError(
                f"rank {rank} sent {counted(found.size, 'number')} of type {found.dtype} ({kind}); "
                f"expected {expected}type {dtype}. It may run another version of dual2, or have "
                "other data."
            )
        return found.ravel()
