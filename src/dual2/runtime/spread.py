"""Agents in several processes: the rows of one of them, and agreement by messages along the tree.

What travels are rows to the processes of neighbours, and partial maxima and sums between the
processes of a parent and a child of the spanning tree. How it travels is the wire's affair.
"""

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from dual2.engine.callbacks import SHIP
from dual2.engine.gossip import STAGE, Links
from dual2.engine.threads import Team, choose_threads
from dual2.network import ChebyshevNetwork, Network
from dual2.runtime.circle import Circle
from dual2.runtime.stacked import Stacked, recurrence_rows

Array = np.ndarray
Messages = Mapping[int, Array]
"""Arrays by the rank of the other end."""


class Wire(Protocol):
    """What carries messages between processes."""

    rank: int
    size: int
    direct: bool
    """Whether agreements go over all processes at once, by :meth:`reduce`, not along the tree."""

    def begin(self) -> None:
        """Set-up is over: from now on the others are expected to answer soon."""
        ...

    def swap(self, outgoing: Messages, incoming: Messages, kind: str) -> None:
        """Send and fill arrays, once."""
        ...

    def exchange(self, stage: Array, outgoing: Messages, incoming: Messages) -> Callable[[], None]:
        """A function that sends rows of ``stage`` by number and fills others, again and again."""
        ...

    def reduce(self, operation: np.ufunc, values: Array) -> Array:
        """The combination of the processes' values."""
        ...


class Level(NamedTuple):
    """What a process does for one level of the tree on the way up.

    ``parents`` are the rows to which the ``len(parents)`` children of this level add, ``local``
    and ``rows`` which of these children are here and where, ``incoming`` which come from a rank,
    ``outgoing`` the rows that go to one.
    """

    parents: Array
    local: Array
    rows: Array
    incoming: dict[int, Array]
    outgoing: dict[int, Array]


class Assembly(Circle):
    """The agents of a network in several processes; see :class:`Circle`.

    Parameters
    ----------
    network : Network or ChebyshevNetwork
        The public graph.
    assignment : ndarray of int64
        Rank of each agent.
    wire : Wire
        What carries the messages.
    """

    def __init__(self, network: Network | ChebyshevNetwork, assignment: Array, wire: Wire) -> None:
        super().__init__(network)
        self.assignment, self.wire = assignment, wire
        self.rank, self.size = wire.rank, wire.size
        self.owned = np.flatnonzero(assignment == wire.rank)
        self._place = np.full(network.n, -1)
        self._place[self.owned] = np.arange(len(self.owned))
        plans = [self._plan(children) for children in self.tree.levels]
        self._levels = [level for level in plans if len(level.parents) or level.outgoing]
        self._source, self._targets = self._ways_down()

    def _plan(self, children: Array) -> Level:
        tree, ranks = self.tree, self.assignment
        mine = children[ranks[tree.parent[children]] == self.rank]
        local = np.flatnonzero(ranks[mine] == self.rank)
        away = children[(ranks[children] == self.rank) & ~np.isin(children, mine)]
        return Level(
            self._place[tree.parent[mine]],
            local,
            self._place[mine[local]],
            {int(r): np.flatnonzero(ranks[mine] == r) for r in set(ranks[mine]) - {self.rank}},
            {
                int(r): self._place[away[ranks[tree.parent[away]] == r]]
                for r in set(ranks[tree.parent[away]])
            },
        )

    def _ways_down(self) -> tuple[int, list[int]]:
        """Which rank tells this one the answer (-1: it knows it), and whom it tells.

        Every process hears it at its agent nearest to the root, from that agent's parent.
        """
        tree, teller = self.tree, np.full(self.size, -1)
        for children in tree.levels:
            for child in children[::-1]:
                teller[self.assignment[child]] = self.assignment[tree.parent[child]]
        teller[self.assignment[tree.root]] = -1
        return int(teller[self.rank]), np.flatnonzero(teller == self.rank).tolist()

    def begin(self) -> None:
        """From now on the others are expected to answer soon."""
        self.wire.begin()

    def _combine(self, operation: np.ufunc, total: Array) -> Array:
        if self.size == 1:
            return super()._combine(operation, total)
        if self.wire.direct:
            return self.wire.reduce(operation, operation.reduce(total, axis=0))
        for level in self._levels:
            if level.incoming or level.outgoing:
                self._climb(operation, total, level)
            else:
                operation.at(total, level.parents, total[level.rows])
        answer = np.empty(total.shape[1])
        if self._source >= 0:
            self.wire.swap({}, {self._source: answer}, "agree down")
        else:
            answer[:] = total[self._place[self.tree.root]]
        if self._targets:
            self.wire.swap(dict.fromkeys(self._targets, answer), {}, "agree down")
        return answer

    def _climb(self, operation: np.ufunc, total: Array, level: Level) -> None:
        """One level of the way up, with messages; children are added in their own order."""
        width = total.shape[1]
        incoming = {r: np.empty((len(at), width)) for r, at in level.incoming.items()}
        outgoing = {r: np.ascontiguousarray(total[at]) for r, at in level.outgoing.items()}
        self.wire.swap(outgoing, incoming, "agree up")
        rows = np.empty((len(level.parents), width))
        rows[level.local] = total[level.rows]
        for r, at in level.incoming.items():
            rows[at] = incoming[r]
        operation.at(total, level.parents, rows)


class OwnEdges(NamedTuple):
    """The edges at the rows of one process.

    Attributes
    ----------
    neighbours : tuple of arrays
        CSR arrays of the weights; columns at or beyond the number of rows are ghosts.
    edges : ndarray
        Which of the network's neighbours these are.
    ghosts : ndarray
        Numbers of the neighbours in other processes, rank by rank.
    outgoing, incoming : dict
        Rows that go to a rank, rows (ghosts) that it fills.
    """

    neighbours: tuple[Array, Array, Array]
    edges: Array
    ghosts: Array
    outgoing: dict[int, Array]
    incoming: dict[int, Array]


def own_edges(network: Network | ChebyshevNetwork, assignment: Array, rank: int) -> OwnEdges:
    """Local view of the public graph.

    Examples
    --------
    >>> found = own_edges(Network([(0, 1), (1, 2)]), np.array([0, 0, 1]), 0)
    >>> found.neighbours[1].tolist(), found.ghosts.tolist(), found.outgoing[1].tolist()
    ([1, 0, 2], [2], [1])
    """
    nptr, nidx, weights = network.neighbours
    owned = np.flatnonzero(assignment == rank)
    parts = [np.arange(nptr[i], nptr[i + 1]) for i in owned]
    edges = np.concatenate([np.zeros(0, np.int64), *parts])
    ends = nidx[edges]
    ghosts = np.unique(ends[assignment[ends] != rank])
    ghosts = ghosts[np.argsort(assignment[ghosts], kind="stable")]
    place = np.full(network.n, -1)
    place[owned] = np.arange(len(owned))
    place[ghosts] = len(owned) + np.arange(len(ghosts))
    pointers = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    starts = np.repeat(np.arange(len(owned)), np.diff(pointers))
    others = sorted({int(r) for r in assignment[ghosts]})
    return OwnEdges(
        (pointers, place[ends].astype(np.int64), np.ascontiguousarray(weights[edges])),
        edges,
        ghosts,
        {r: np.unique(starts[assignment[ends] == r]) for r in others},
        {r: len(owned) + np.flatnonzero(assignment[ghosts] == r) for r in others},
    )


class Spread(Stacked):
    """The rows of the agents of one process; neighbours elsewhere are ghost rows of the stage.

    The compiled loops are those of :class:`Stacked`: before they take differences they call
    back, and the wire exchanges the rows that neighbours need.
    """

    def _connect(self) -> None:
        circle = self.circle
        assert isinstance(circle, Assembly)
        found = own_edges(self.network, circle.assignment, circle.rank)
        self.edges = found.edges
        buffers = np.zeros((3, self.n + len(found.ghosts), self.p))
        self.links = Links(*found.neighbours, recurrence_rows(self.network), buffers)
        callbacks, alone = self.packed.callbacks, self.packed.has_callbacks
        threads = choose_threads(0.0) if "DUAL2_THREADS" in os.environ and not alone else 1
        ship = circle.wire.exchange(buffers[STAGE], found.outgoing, found.incoming)
        callbacks.add(SHIP, 0, ship)
        self.team = Team(threads, callbacks.address)
