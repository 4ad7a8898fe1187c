"""What goes wrong on the links of a simulated network: losses, delays, stragglers, cuts.

All of it is drawn from one seed. Losses are independent, or come in spells (the two-state channel
of Gilbert and Elliott: Gilbert, Bell System Technical Journal 39, 1960, 1253-1265).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse.csgraph import connected_components

from dual2.errors import NetworkError, counted
from dual2.network import AnyNetwork
from dual2.network.gossip import Tree, adjacency_of, distances, spanning_tree

Array = np.ndarray


@dataclass(frozen=True)
class Faults:
    """What goes wrong, and how often. Times are in delays of a link: a message takes one.

    Parameters
    ----------
    loss : float
        Share of the messages that are lost, 0 ≤ loss < 1.
    burst : float
        Messages that a link loses in a row, on average, once it loses one; by default, 1, losses
        are independent (the average is then 1/(1 - loss)).
    both : bool
        Whether a link is down in both directions at the same time, instead of each by itself.
    jitter : float
        Mean of an exponentially distributed delay on top of each message's own.
    straggle : float
        Probability that an agent is late with what it sends next.
    lateness : float
        Mean of an exponentially distributed time by which it is.
    cut : mapping of (int, int) to float
        Links that are gone for good, and from which time on.
    seed : int
        Of all that is random.

    Examples
    --------
    >>> Faults(loss=0.1, cut={(0, 1): 50.0}).loss
    0.1
    >>> Faults(loss=1.5)
    Traceback (most recent call last):
    dual2.errors.NetworkError: loss = 1.5 found; expected a number with 0 ≤ loss < 1.
    """

    loss: float = 0.0
    burst: float = 1.0
    both: bool = False
    jitter: float = 0.0
    straggle: float = 0.0
    lateness: float = 10.0
    cut: Mapping[tuple[int, int], float] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no probability, no time, no link."""
        limits = {"loss": (0, 1), "straggle": (0, 1), "burst": (1, math.inf)}
        limits |= {"jitter": (0, math.inf), "lateness": (0, math.inf)}
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not isinstance(value, int | float) or not low <= value < high:
                above = "" if high == math.inf else f" < {high}"
                raise NetworkError(
                    f"{name} = {value!r} found; expected a number with {low} ≤ {name}{above}."
                )
        if self.loss > 0 and self.burst > 1 and self.loss >= self.burst / (1 + self.burst):
            raise NetworkError(
                f"loss = {self.loss:g} cannot come in spells of {self.burst:g}: a link would have "
                "to begin one with every message. Use longer spells, or fewer losses."
            )
        for link, time in self.cut.items():
            if len(link) != 2 or link[0] == link[1] or not time >= 0:
                raise NetworkError(
                    f"cut has {link!r}: {time!r}; expected two agents and a time ≥ 0."
                )


class Wires:
    """The two directions of every link of a graph: numbers, what they lose, which are left.

    Direction e takes the row of agent ``sender[e]`` to ``receiver[e]``, in the order of
    ``network.neighbours``.

    Examples
    --------
    >>> from dual2.network import Network
    >>> wires = Wires(Network([(0, 1), (1, 2)]), Faults())
    >>> wires.sender.tolist(), wires.receiver.tolist(), wires.number([2], [1]).tolist()
    ([1, 0, 2, 1], [0, 1, 1, 2], [2])
    """

    def __init__(self, network: AnyNetwork, faults: Faults) -> None:
        pointers, self.sender, _ = network.neighbours
        self.n, self.edges, self.faults = network.n, network.edges, faults
        self.receiver = np.repeat(np.arange(network.n), np.diff(pointers))
        self._keys = self.receiver * network.n + self.sender
        self.back = self.number(self.receiver, self.sender)
        self.link = np.minimum(np.arange(len(self.back)), self.back)
        self.gone = np.zeros(len(self.back), dtype=bool)
        self.ends = np.full(len(self.back), np.inf)
        for (i, j), time in faults.cut.items():
            self.ends[self._both(i, j)] = time
        self._rng = np.random.default_rng(faults.seed)
        self._bad = self._rng.random(len(self.back)) < faults.loss
        self.tree: Tree = network.tree

    def number(self, senders: Array | list[int], receivers: Array | list[int]) -> Array:
        """Numbers of the directions from ``senders`` to ``receivers``."""
        return np.searchsorted(self._keys, np.asarray(receivers) * self.n + np.asarray(senders))

    def _both(self, i: int, j: int) -> Array:
        known = np.flatnonzero((self.sender == i) & (self.receiver == j))
        if not known.size:
            raise NetworkError(f"cut names the link ({i}, {j}), which the network does not have.")
        return np.append(known, self.back[known])

    # -- random numbers -----------------------------------------------------------------------
    def lost(self, used: Array, now: Array) -> Array:
        """Which of the messages sent at the times ``now`` in directions ``used`` are lost."""
        f = self.faults
        found = self.ends[used] <= now
        if f.loss == 0:
            return found
        at = self.link[used] if f.both else used
        draws = self._rng.random(len(self.back))[at]
        if f.burst == 1:
            return found | (draws < f.loss)
        begin = f.loss / (f.burst * (1 - f.loss))  # spells take the share ``loss`` of the time
        self._bad[at] = np.where(self._bad[at], draws >= 1 / f.burst, draws < begin)
        return found | self._bad[at]

    def delays(self, count: int) -> Array:
        """How long messages take: 1, and what jitter adds."""
        if self.faults.jitter == 0:
            return np.ones(count)
        return 1.0 + self.faults.jitter * self._rng.exponential(size=count)

    def late(self) -> Array:
        """By how much each agent is late with what it sends."""
        f = self.faults
        if f.straggle == 0:
            return np.zeros(self.n)
        marked = self._rng.random(self.n) < f.straggle
        return np.where(marked, f.lateness * self._rng.exponential(size=self.n), 0.0)

    # -- links that are gone ------------------------------------------------------------------
    def give_up(self, numbers: Array) -> None:
        """Leave links out for good; the spanning tree is made anew where it used one.

        The network must stay connected.
        """
        self.gone[numbers] = self.gone[self.back[numbers]] = True
        left = self._left()
        parts = connected_components(adjacency_of(self.n, left), directed=False)[1]
        apart = np.flatnonzero(parts != parts[self.tree.root])
        if apart.size:
            raise NetworkError(
                f"The network has fallen apart: {counted(int(self.gone.sum()) // 2, 'link')} gone, "
                f"and no way is left from agent {self.tree.root} to agent {apart[0]}."
            )
        child = np.flatnonzero(self.tree.parent >= 0)
        if self.gone[self.number(child, self.tree.parent[child])].any():
            self.tree = spanning_tree(self.n, left)

    def hops(self, node: int) -> Array:
        """Links between an agent and every other, over what is left."""
        return distances(adjacency_of(self.n, self._left()), node)

    def _left(self) -> Array:
        i, j = self.edges.T
        return self.edges[~self.gone[self.number(i, j)]]
