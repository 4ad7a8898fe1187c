"""Agents as processes of an MPI job, by mpi4py.

Everything that leaves a process leaves it here: rows to the processes of neighbours, by persistent
requests that are set up once, and the numbers to be agreed on, along the spanning tree.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dual2.errors import CapabilityError, PeerError, counted
from dual2.network import AnyNetwork
from dual2.runtime.assignment import assign
from dual2.runtime.comm_mode import SETUP, CommMode, NanPolicy
from dual2.runtime.transport import Messages, Transport
from dual2.runtime.tree import without_nan
from dual2.runtime.waiting import TIMEOUT, wait_all

Array = np.ndarray
Observer = Callable[[str, int, int, Array], object]
"""Called with the kind, the ranks of sender and receiver, and the content of each message."""
_ROWS, _AGREE = 1, 2
"""Tags."""
_ANOTHER = "another process"
_PATIENCE = 10.0
"""During the set-up, when kernels are compiled, the others have this many times the time."""


def load_mpi() -> Any:
    """The module ``mpi4py.MPI``, or an error that says how to get it."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise CapabilityError(
            f"runtime='mpi' needs mpi4py and an MPI library ({error}). Install both with: "
            "pip install 'dual2[mpi]'"
        ) from error
    return MPI


class Mpi(Transport):
    """The processes of an MPI job.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        The processes; all of the job unless told otherwise.
    partition : sequence of int, path or None
        Rank of each agent; by default blocks that keep neighbours together.
    reduce : {"tree", "mpi"}
        How maxima and sums are agreed: along a spanning tree of the graph, by messages between
        neighbours only and in an order that does not depend on the processes; or by MPI's own
        reductions, which are faster but leave the graph, and whose sums depend on the number of
        processes in the last digits.
    timeout : float
        Seconds after which a neighbour that does not answer is an error; ten times as many before
        the first iteration, when kernels are compiled.
    observer : callable, optional
        Called with ``(kind, source, destination, array)`` for every message that leaves, kind one
        of ``"rows"``, ``"agree up"``, ``"agree down"``; destination -1 is every process
        (``"reduce"``, ``"greeting"``, ``"end"``, ``"failure"``). ``"gather"`` goes to rank 0, or
        to every process where all want the whole answer.
    """

    def __init__(
        self,
        comm: Any = None,
        partition: Sequence[int] | Array | str | os.PathLike[str] | None = None,
        reduce: str = "tree",
        timeout: float = TIMEOUT,
        observer: Observer | None = None,
    ) -> None:
        if reduce not in ("tree", "mpi"):
            raise CapabilityError(f"reduce={reduce!r} is unknown; use 'tree' or 'mpi'.")
        if not isinstance(timeout, int | float) or not timeout > 0:
            raise CapabilityError(f"timeout={timeout!r} found; expected seconds > 0.")
        super().__init__()
        self.MPI = load_mpi()
        self.comm = self.MPI.COMM_WORLD if comm is None else comm
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.reduce, self.timeout, self.observer = reduce, timeout, observer
        self._partition = partition
        self._owners: WeakKeyDictionary[Any, Array] = WeakKeyDictionary()
        self.neighbours, self._apart, self._emergency = (self.comm.Dup() for _ in range(3))

    def owners(self, network: AnyNetwork) -> Array:
        """Rank of each agent of a network."""
        if network not in self._owners:
            self._owners[network] = assign(network, self.size, self._partition)
        return self._owners[network]

    def owned(self, network: AnyNetwork) -> Array:
        """Numbers of the agents of this process."""
        return np.flatnonzero(self.owners(network) == self.rank)

    # -- during the run ------------------------------------------------------------------------
    def exchange(self, stage: Array, outgoing: Messages, incoming: Messages) -> Callable[[], None]:
        """Persistent requests on the rows of ``stage``; call the answer to exchange them."""
        return Shipment(self, stage, outgoing, incoming)

    def sendrecv(self, outgoing: Messages, incoming: Messages, kind: str) -> None:
        """Send and fill arrays, once."""
        requests = [self.neighbours.Irecv(array, rank, _AGREE) for rank, array in incoming.items()]
        for rank, array in outgoing.items():
            self.observe(kind, rank, array)
            requests.append(self.neighbours.Isend(array, rank, _AGREE))
        self.wait(requests, [*incoming, *outgoing], kind, [a.size for a in incoming.values()])

    @property
    def any_order(self) -> bool:
        """Whether MPI's own reduction adds up."""
        return self.reduce == "mpi" and self.size > 1

    def sum(self, rows: Array, network: AnyNetwork, mode: CommMode = SETUP) -> Array:
        """Along the tree, or by MPI's own reduction."""
        if self.any_order and not (self.exact if mode.exact is None else mode.exact):
            return self._all(self.MPI.SUM, rows.sum(axis=0), mode)
        return super().sum(rows, network, mode)

    def max(self, rows: Array, network: AnyNetwork, mode: CommMode = SETUP) -> Array:
        """Along the tree, or by MPI's own reduction."""
        direct = self.reduce == "mpi" and self.size > 1
        if direct:
            return self._all(self.MPI.MAX, rows.max(axis=0), mode)
        return super().max(rows, network, mode)

    def _all(self, operation: Any, values: Array, mode: CommMode) -> Array:
        raises = mode.nan_policy is NanPolicy.RAISE
        values = without_nan(values) if raises else values
        answer = np.empty_like(values)
        self.observe("reduce", -1, values)
        self.wait([self.comm.Iallreduce(values, answer, operation)], [_ANOTHER], "reduce")
        if raises and np.isnan(answer).any():
            raise PeerError(
                "Another process has sent NaN to a reduction of MPI, which does not tell who. Run "
                "with --reduce tree (in Python Mpi(reduce='tree')) to learn its rank."
            )
        return answer

    def wait(
        self,
        requests: list[Any],
        ranks: Sequence[int | str],
        what: str,
        lengths: Sequence[int] = (),
    ) -> None:
        """Wait for requests, or fail when the time is over.

        The first requests bring so many numbers (``lengths``); a message with more or fewer is an
        error that names its sender.
        """
        patience = 1.0 if self.iterating else _PATIENCE
        statuses = [self.MPI.Status() for _ in requests]
        try:
            wait_all(self.MPI.Request, requests, ranks, patience * self.timeout, what, statuses)
        except self.MPI.Exception as error:
            fine = (self.MPI.SUCCESS, self.MPI.ERR_PENDING)
            odd = [r for r, s in zip(ranks, statuses, strict=True) if s.Get_error() not in fine]
            raise PeerError(_complaint(odd[0] if odd else _ANOTHER, what, error)) from error
        for rank, length, status in zip(ranks, lengths, statuses, strict=False):
            found = status.Get_count(self.MPI.DOUBLE)
            if found != length:
                some = "part of a number" if found < 0 else counted(found, "number")
                raise PeerError(_complaint(rank, what, f"{some}, {length} expected"))

    # -- before and after the run --------------------------------------------------------------
    def allgather(self, own: Array, kind: str, seconds: float | None = None) -> Array:
        """Tell every process a few numbers and hear theirs; see :class:`Transport`."""
        comm = self._apart if seconds is None else self._emergency
        every = np.zeros((self.size, own.size), own.dtype)
        self._bring(comm.Iallgather, own, every, kind, -1, seconds)
        return every

    def gather(self, own: Array, kind: str) -> Array | None:
        """The arrays of all processes, one after the other, at rank 0; None elsewhere."""
        here, size = self.rank == 0, np.array([own.size])
        sizes = np.zeros(self.size, size.dtype)
        self._bring(self._apart.Igather, size, sizes if here else None, kind)
        whole = np.zeros(int(sizes.sum()), own.dtype)
        self._bring(self._apart.Igatherv, own, (whole, sizes) if here else None, kind)
        return whole if here else None

    def _bring(
        self,
        gather: Callable[..., Any],
        own: Array,
        into: Any,
        kind: str,
        to: int = 0,
        seconds: float | None = None,
    ) -> None:
        """One gathering of the processes' arrays, to be filled where they go."""
        self.observe(kind, to, own)
        request = gather(own.flatten(), into)
        limit = self.timeout if seconds is None else seconds
        try:
            wait_all(self.MPI.Request, [request], [_ANOTHER], limit, kind)
        except self.MPI.Exception as error:
            raise PeerError(_complaint(_ANOTHER, kind, error)) from error

    def abort(self, code: int) -> None:
        """End all processes at once."""
        self.comm.Abort(code)

    def observe(self, kind: str, rank: int, array: Array) -> None:
        """Show a message that leaves to the observer."""
        if self.observer is not None:
            self.observer(kind, self.rank, rank, array)


def _complaint(who: int | str, what: str, why: object) -> str:
    name = f"rank {who}" if isinstance(who, int) else who
    return (
        f"{name} sent a message of the wrong length ({what}: {why}). It may run another version of "
        "dual2, or other data; the checkpoints stay."
    )


class Shipment:
    """One exchange of rows with the neighbouring processes, set up once and repeated.

    Rows are sent from where they are and received where they belong.

    Parameters
    ----------
    mpi : Mpi
        What carries them.
    stage : ndarray
        The matrix whose rows travel.
    outgoing, incoming : mapping of int to ndarray
        Rows that go to a rank; consecutive rows that it fills.
    """

    def __init__(self, mpi: Mpi, stage: Array, outgoing: Messages, incoming: Messages) -> None:
        self.mpi, self.stage, self.outgoing = mpi, stage, outgoing
        self.ranks = [*incoming, *outgoing]
        self.lengths = [len(rows) * stage.shape[1] for rows in incoming.values()]
        self.requests: list[Any] = []
        self._start, self._idle = mpi.MPI.Prequest.Startall, True
        width = stage.shape[1]
        for rank, rows in incoming.items():
            part = stage[rows[0] : rows[-1] + 1]
            self.requests.append(mpi.neighbours.Recv_init(part, rank, _ROWS))
        for rank, rows in outgoing.items():
            kind = mpi.MPI.DOUBLE.Create_indexed_block(width, rows * width).Commit()
            self.requests.append(mpi.neighbours.Send_init([stage, 1, kind], rank, _ROWS))
            kind.Free()

    def __call__(self) -> None:
        """Exchange the rows as they are now."""
        if self.mpi.observer is not None:
            for rank, rows in self.outgoing.items():
                self.mpi.observe("rows", rank, self.stage[rows])
        self._idle = False
        self._start(self.requests)
        self.mpi.wait(self.requests, self.ranks, "rows", self.lengths)
        self._idle = True

    def __del__(self) -> None:
        """Give the requests back to MPI."""
        if self._idle and not self.mpi.MPI.Is_finalized():
            for request in self.requests:
                request.Free()
