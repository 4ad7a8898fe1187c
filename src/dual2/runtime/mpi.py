"""Agents as processes of an MPI job, by mpi4py: the wire, and who owns which agents.

Everything that leaves a process leaves it here: rows to the processes of neighbours, by persistent
requests that are set up once, and the numbers to be agreed on, along the spanning tree.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dual2.errors import CapabilityError, NetworkError
from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Problem
from dual2.runtime.partition import assign
from dual2.runtime.share import Share, take_share
from dual2.runtime.spread import Assembly, Messages
from dual2.runtime.waiting import TIMEOUT, wait_all

Array = np.ndarray
Observer = Callable[[str, int, int, Array], object]
"""Called with the kind, the ranks of sender and receiver, and the content of each message."""
_ROWS, _AGREE = 1, 2
"""Tags."""
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


class Mpi:
    """Where agents live when they are spread over the processes of an MPI job.

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
        self.comm = load_mpi().COMM_WORLD if comm is None else comm
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.reduce, self.timeout, self.observer = reduce, timeout, observer
        self._partition = partition
        self._apart, self._emergency = self.comm.Dup(), self.comm.Dup()
        self._wires: WeakKeyDictionary[Any, MpiWire] = WeakKeyDictionary()

    def assignment(self, network: Network | ChebyshevNetwork) -> Array:
        """Rank of each agent of a network."""
        return assign(network, self.size, self._partition)

    def owned(self, network: Network | ChebyshevNetwork) -> Array:
        """Numbers of the agents of this process."""
        return np.flatnonzero(self.assignment(network) == self.rank)

    def share(self, problem: Problem, network: Network | ChebyshevNetwork) -> Share:
        """The agents of this process, of a whole problem or of a share that has them."""
        if problem.n != network.n:
            raise NetworkError(
                f"The problem has {problem.n} agents but the network has {network.n} nodes."
            )
        assignment = self.assignment(network)
        if network not in self._wires:
            self._wires[network] = MpiWire(self, network, assignment)
        self._wires[network].prepare()
        share = take_share(problem, Assembly(network, assignment, self._wires[network]))
        with share.agreement.uncounted():
            most, least = share.largest(np.full((len(share.agents), 2), [share.p, -share.p]))
        if most + least > 0:
            raise NetworkError(
                f"The coupling has {share.p} rows here and {most:g} or {-least:g} in other "
                "processes. Give all of them the same public data."
            )
        return share

    # -- before and after the run --------------------------------------------------------------
    def everyone(self, own: Array, kind: str) -> Array:
        """Tell every process a few bytes and hear theirs, (size, len(own)): greeting and end."""
        return self._tell(self._apart, own, kind, self.timeout)

    def last_words(self, own: Array, seconds: float) -> Array:
        """The same when something has failed, whatever the others are waiting for."""
        return self._tell(self._emergency, own, "failure", seconds)

    def _tell(self, comm: Any, own: Array, kind: str, seconds: float) -> Array:
        every = np.zeros((self.size, own.size), own.dtype)
        self.observe(kind, -1, own)
        request = comm.Iallgather(own.copy(), every)
        wait_all(load_mpi().Request, [request], ["another process"], seconds, kind)
        return every

    def collect(self, own: Array, kind: str) -> Array | None:
        """The arrays of all processes, one after the other, at rank 0; None elsewhere."""
        here, size, sizes, whole = self.rank == 0, np.array([own.size]), None, None
        if here:
            sizes = np.zeros(self.size, size.dtype)
        self._bring(self._apart.Igather, size, sizes, kind)
        if sizes is not None:
            whole = np.zeros(int(sizes.sum()), own.dtype)
        self._bring(self._apart.Igatherv, own, (whole, sizes) if here else None, kind)
        return whole

    def _bring(self, gather: Callable[..., Any], own: Array, place: Any, kind: str) -> None:
        """One gathering at rank 0, to be filled there."""
        self.observe(kind, 0, own)
        request = gather(np.ascontiguousarray(own).ravel(), place)
        wait_all(load_mpi().Request, [request], ["another process"], self.timeout, kind)

    def abort(self, code: int) -> None:
        """End all processes at once."""
        self.comm.Abort(code)

    def observe(self, kind: str, rank: int, array: Array) -> None:
        """Show a message that leaves to the observer."""
        if self.observer is not None:
            self.observer(kind, self.rank, rank, array)


class MpiWire:
    """Messages between neighbouring processes, on a communicator that knows the graph.

    Parameters
    ----------
    mpi : Mpi
        The processes.
    network : Network or ChebyshevNetwork
        The public graph.
    assignment : ndarray
        Rank of each agent.
    """

    def __init__(self, mpi: Mpi, network: Network | ChebyshevNetwork, assignment: Array) -> None:
        self.MPI, self.mpi, self.rank, self.size = load_mpi(), mpi, mpi.rank, mpi.size
        self.direct, self._patience = mpi.reduce == "mpi", _PATIENCE
        ends = assignment[network.edges]
        pairs = np.concatenate([ends, ends[:, ::-1]])
        others = np.unique(pairs[(pairs[:, 0] == self.rank) & (pairs[:, 1] != self.rank), 1])
        around = others.tolist()
        self.comm = mpi.comm.Create_dist_graph_adjacent(around, around, reorder=False)

    def prepare(self) -> None:
        """Set-up, when kernels are compiled: the others have more time to answer."""
        self._patience = _PATIENCE

    def begin(self) -> None:
        """Set-up is over: from now on the others are expected to answer soon."""
        self._patience = 1.0

    def swap(self, outgoing: Messages, incoming: Messages, kind: str) -> None:
        """Send and fill arrays, once."""
        if not outgoing and not incoming:
            return
        requests = [self.comm.Irecv(array, rank, _AGREE) for rank, array in incoming.items()]
        for rank, array in outgoing.items():
            self.mpi.observe(kind, rank, array)
            requests.append(self.comm.Isend(array, rank, _AGREE))
        self.wait(requests, [*incoming, *outgoing], kind)

    def exchange(self, stage: Array, outgoing: Messages, incoming: Messages) -> Callable[[], None]:
        """Persistent requests on the rows of ``stage``; call the answer to exchange them."""
        return Shipment(self, stage, outgoing, incoming)

    def reduce(self, operation: np.ufunc, values: Array) -> Array:
        """MPI's own reduction."""
        answer = np.empty_like(values)
        self.mpi.observe("reduce", -1, values)
        kind = self.MPI.MAX if operation is np.maximum else self.MPI.SUM
        request = self.mpi.comm.Iallreduce(values, answer, kind)
        self.wait([request], ["another process"], "reduce")
        return answer

    def wait(self, requests: list[Any], ranks: Sequence[int | str], what: str) -> None:
        """Wait for requests, or fail when the time is over."""
        wait_all(self.MPI.Request, requests, ranks, self._patience * self.mpi.timeout, what)


class Shipment:
    """One exchange of rows with the neighbouring processes, set up once and repeated.

    Rows are sent from where they are and received where they belong.

    Parameters
    ----------
    wire : MpiWire
        What carries them.
    stage : ndarray
        The matrix whose rows travel.
    outgoing, incoming : mapping of int to ndarray
        Rows that go to a rank; consecutive rows that it fills.
    """

    def __init__(self, wire: MpiWire, stage: Array, outgoing: Messages, incoming: Messages) -> None:
        self.wire, self.stage, self.outgoing = wire, stage, outgoing
        self.ranks = [*incoming, *outgoing]
        self.requests: list[Any] = []
        self._start, self._idle = wire.MPI.Prequest.Startall, True
        width = stage.shape[1]
        for rank, rows in incoming.items():
            part = stage[rows[0] : rows[-1] + 1]
            self.requests.append(wire.comm.Recv_init(part, rank, _ROWS))
        for rank, rows in outgoing.items():
            kind = wire.MPI.DOUBLE.Create_indexed_block(width, rows * width).Commit()
            self.requests.append(wire.comm.Send_init([stage, 1, kind], rank, _ROWS))
            kind.Free()

    def __call__(self) -> None:
        """Exchange the rows as they are now."""
        mpi = self.wire.mpi
        if mpi.observer is not None:
            for rank, rows in self.outgoing.items():
                mpi.observe("rows", rank, self.stage[rows])
        self._idle = False
        self._start(self.requests)
        self.wire.wait(self.requests, self.ranks, "rows")
        self._idle = True

    def __del__(self) -> None:
        """Give the requests back to MPI."""
        if self._idle and not self.wire.MPI.Is_finalized():
            for request in self.requests:
                request.Free()
