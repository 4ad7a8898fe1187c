"""Neighbours in other processes: the edges that lead there, and the rows that come over them."""

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dnrm2

from dual2.errors import PeerError
from dual2.network import AnyNetwork

Array = np.ndarray


class Guard:
    """Looks at rows that come from other processes, before anything is made of them.

    A run that diverges does so everywhere at about the same time, and ends with its status. A row
    with NaN or huge numbers among modest ones of here has another cause: whoever sent it.

    Parameters
    ----------
    stage : ndarray
        The own rows, then those of the ghosts.
    ghosts, owners : ndarray
        Numbers of the neighbours elsewhere; rank of each agent.

    Examples
    --------
    >>> stage = np.array([[1.0], [np.nan]])
    >>> Guard(stage, np.array([7]), np.array(7 * [0] + [1])).check()
    Traceback (most recent call last):
    dual2.errors.PeerError: agent 7 (rank 1) sent a row with nan in place 0, ...
    """

    HUGE, MODEST = 1e150, 1e100

    def __init__(self, stage: Array, ghosts: Array, owners: Array) -> None:
        self.own, self.others = np.split(stage, [len(stage) - len(ghosts)])
        self.ghosts, self.owners = ghosts, owners
        self._flat = self.others.reshape(-1)

    def check(self) -> None:
        """An error that names the agent of a row that cannot be right."""
        if dnrm2(self._flat) < self.HUGE:  # a norm that cannot overflow
            return
        modest = bool(np.all(np.abs(self.own) < self.MODEST))
        wrong = np.argwhere(~(np.abs(self.others) < self.HUGE))
        if modest and wrong.size:
            row, place = wrong[0].tolist()
            agent = int(self.ghosts[row])
            raise PeerError(
                f"agent {agent} (rank {self.owners[agent]}) sent a row with "
                f"{self.others[row, place]:g} in place {place}, while all rows here are below "
                f"{self.MODEST:g}. Look at that agent's data and functions; the checkpoints stay."
            )


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


def own_edges(network: AnyNetwork, owners: Array, rank: int) -> OwnEdges:
    """Local view of the public graph.

    Examples
    --------
    >>> from dual2.network import Network
    >>> found = own_edges(Network([(0, 1), (1, 2)]), np.array([0, 0, 1]), 0)
    >>> found.neighbours[1].tolist(), found.ghosts.tolist(), found.outgoing[1].tolist()
    ([1, 0, 2], [2], [1])
    """
    nptr, nidx, weights = network.neighbours
    owned, degrees = np.flatnonzero(owners == rank), np.diff(nptr)
    starts = np.repeat(np.arange(network.n), degrees)
    edges = np.flatnonzero(owners[starts] == rank)
    starts, ends = starts[edges], nidx[edges]
    ghosts = np.unique(ends[owners[ends] != rank])
    ghosts = ghosts[np.argsort(owners[ghosts], kind="stable")]
    place = np.full(network.n, -1)
    place[np.concatenate([owned, ghosts])] = np.arange(len(owned) + len(ghosts))
    pointers = np.concatenate([[0], np.cumsum(degrees[owned])]).astype(np.int64)
    others = sorted({int(r) for r in owners[ghosts]})
    return OwnEdges(
        (pointers, place[ends].astype(np.int64), np.ascontiguousarray(weights[edges])),
        edges,
        ghosts,
        {r: np.unique(place[starts[owners[ends] == r]]) for r in others},
        {r: len(owned) + np.flatnonzero(owners[ghosts] == r) for r in others},
    )


def every_edge(network: AnyNetwork) -> OwnEdges:
    """The view of one process in which every row has each of its neighbours as a ghost of its own.

    Examples
    --------
    >>> from dual2.network import Network
    >>> found = every_edge(Network([(0, 1), (1, 2)]))
    >>> found.neighbours[1].tolist(), found.ghosts.tolist()
    ([3, 4, 5, 6], [1, 0, 2, 1])
    """
    pointers, ends, weights = network.neighbours
    places = network.n + np.arange(len(ends))
    return OwnEdges((pointers, places, weights), np.arange(len(ends)), ends, {0: ends}, {0: places})
