"""A network that loses, delays and repeats messages, simulated in one process from a seed.

The agents wait for their neighbours only, so every agent has a clock of its own: with s the sender
and r the receiver of a message that took a tries,

    t_r ← max(t_r, t_s + lateness_s + (a - 1)·timeout + delay),

in units of one delay of a link. A sum goes up the tree and down again by the same rule; where rows
are not waited for, all go on together when its answer has reached everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dual2.errors import CapabilityError
from dual2.network import AnyNetwork, Tree
from dual2.runtime.faults import Faults, Wires
from dual2.runtime.transport import Messages, Transport

Array = np.ndarray
POLICIES = ("resend", "stale", "skip")


@dataclass
class Traffic:
    """What has travelled so far.

    Attributes
    ----------
    exchanges, sums : int
        Rounds of gossip; sums and maxima along the tree.
    messages : int
        All that were sent, repetitions included.
    lost, resent, late : int
        Those of them that never came, that repeat a lost one, that came after the deadline.
    missed : int
        Rows that a receiver had to do without.
    repairs : int
        How often a link was given up and what used it begun anew.
    gone : list of (int, int)
        Links that were given up.
    """

    exchanges: int = 0
    sums: int = 0
    messages: int = 0
    lost: int = 0
    resent: int = 0
    late: int = 0
    missed: int = 0
    repairs: int = 0
    gone: list[tuple[int, int]] = field(default_factory=list)


class MessageQueue:
    """Rows that came from the neighbours, one place for each direction, and those still under way.

    Of several late rows of one direction the first counts until it has come.

    Examples
    --------
    >>> box, first = MessageQueue(np.zeros((1, 2))), np.array([0])
    >>> box.keep(first, np.array([True]), np.array([7.0]), np.ones((1, 2)))
    >>> box.deliver(first, np.array([6.0])), box.rows.tolist()
    (None, [[0.0, 0.0]])
    >>> box.deliver(first, np.array([8.0])), box.rows.tolist()
    (None, [[1.0, 1.0]])
    """

    def __init__(self, rows: Array) -> None:
        self.rows, self.heard = rows, np.zeros(len(rows), dtype=bool)
        self._late, self._arrival = np.zeros_like(rows), np.full(len(rows), np.inf)

    def deliver(self, used: Array, deadline: Array) -> None:
        """Take late rows that have come by now."""
        due = used[self._arrival[used] <= deadline]
        self.rows[due], self.heard[due] = self._late[due], True
        self._arrival[due] = np.inf

    def keep(self, used: Array, late: Array, arrival: Array, rows: Array) -> None:
        """Keep rows that are ``late`` until they come."""
        late = late & np.isinf(self._arrival[used])
        self._late[used[late]], self._arrival[used[late]] = rows[late], arrival[late]


class SimulatedNetwork(Transport):
    r"""All agents in this process, their messages over links with :class:`Faults`.

    Give it as ``runtime`` to :func:`dual2.solve`; without faults the run is that of
    ``"stacked"``, bit for bit. Sums and maxima always wait: what is lost is sent again, and where
    a link is given up the spanning tree is made anew without it. For the rows of gossip a policy
    says what a receiver does about one that does not come:

    - ``"resend"``: wait, it is sent again after ``timeout`` until it comes. The iterates are those
      of a network without losses, only later.
    - ``"skip"``: go on after ``timeout`` without this neighbour: its term w_ij(v_i − v_j) is left
      out. If the other end did receive, the terms no longer cancel, and Σ_i (CV)_i ≠ 0.
    - ``"stale"``: go on after ``timeout`` with the last row that came from there.

    A link that fails ``patience`` times in a row is given up by both ends, which from then on leave
    its terms out.

    Parameters
    ----------
    faults : Faults
        What goes wrong; nothing by default.
    policy : {"resend", "skip", "stale"}
        For rows of gossip.
    timeout : float
        How long one waits for a message, in delays of a link.
    patience : int
        Failures in a row after which a link is given up.

    Attributes
    ----------
    traffic : Traffic
        What has travelled.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0]], d2.SquaredNorm(w)) for w in (1.0, 2.0)]
    >>> problem, pair = d2.Problem(agents, d2.IndicatorPoint([3.0])), d2.Network([(0, 1)])
    >>> lossy = SimulatedNetwork(Faults(loss=0.5, seed=3))
    >>> result = d2.solve(problem, pair, method="Newton", runtime=lossy)
    >>> [round(float(x[0]), 6) for x in result.x], lossy.time > result.counts.latency
    ([2.0, 1.0], True)
    """

    by_edge = True

    def __init__(
        self,
        faults: Faults | None = None,
        policy: str = "resend",
        timeout: float = 3.0,
        patience: int = 50,
    ) -> None:
        super().__init__()
        if policy not in POLICIES:
            raise CapabilityError(f"policy={policy!r} is unknown; use one of {POLICIES}.")
        if not isinstance(timeout, int | float) or not timeout >= 1:
            raise CapabilityError(f"timeout={timeout!r} found; expected a number ≥ 1, in delays.")
        if not isinstance(patience, int) or patience < 1:
            raise CapabilityError(f"patience={patience!r} found; expected a whole number ≥ 1.")
        self.faults, self.policy = faults or Faults(), policy
        self.timeout, self.patience, self.traffic = float(timeout), patience, Traffic()
        self._wires: Wires | None = None
        self._clock = np.zeros(0)
        self._misses = np.zeros(0, np.int64)

    @property
    def time(self) -> float:
        """How long it has taken so far, in delays of a link."""
        return float(self._clock.max(initial=0.0))

    def owners(self, network: AnyNetwork) -> Array:
        """All agents are here; the links become those of this network."""
        known = self._wires
        if known is None or known.n != network.n or not np.array_equal(known.edges, network.edges):
            self._wires = Wires(network, self.faults)
            self._clock = np.zeros(network.n)
            self._misses = np.zeros(len(self._wires.sender), np.int64)
        return super().owners(network)

    @property
    def wires(self) -> Wires:
        """The links of the network, known once a run has begun."""
        if self._wires is None:
            raise CapabilityError("The simulated network has no links yet: no run has begun.")
        return self._wires

    # -- sums ---------------------------------------------------------------------------------
    def travel(self, network: AnyNetwork, counted: bool = True) -> Tree:
        """Take a sum up and down the tree, which is made anew where a link has to be given up."""
        self.owners(network)
        if not counted:
            return self.wires.tree
        self.traffic.sums += 1
        while not self._up_and_down(self.wires.tree):
            self.traffic.repairs += 1
        if self.policy != "resend":  # who does not wait must begin together
            self._clock[:] = self.time
        return self.wires.tree

    def _up_and_down(self, tree: Tree) -> bool:
        """Whether all messages came; else a link has been given up."""
        wires = self.wires
        ways = [(children, tree.parent[children]) for children in tree.levels]
        ways += [(parents, children) for children, parents in reversed(ways)]
        for senders, receivers in ways:
            used = wires.number(senders, receivers)
            arrival, failed = self._insist(used, self._clock[senders] + wires.late()[senders])
            np.maximum.at(self._clock, receivers, arrival)
            if failed.any():
                self._give_up(used[failed])
                return False
        return True

    def _insist(self, used: Array, start: Array) -> tuple[Array, Array]:
        """When messages arrive that are repeated until they do, and which links fail."""
        arrival, open_ = start.copy(), np.arange(len(used))
        for tries in range(self.patience):
            begun = start[open_] + tries * self.timeout
            lost = self.wires.lost(used[open_], begun)
            self._count(len(open_), lost, tries > 0)
            came = open_[~lost]
            arrival[came] = begun[~lost] + self.wires.delays(len(came))
            open_ = open_[lost]
            if not open_.size:
                break
        arrival[open_] = start[open_] + self.patience * self.timeout
        failed = np.zeros(len(used), dtype=bool)
        failed[open_] = True
        return arrival, failed

    def _count(self, sent: int, lost: Array, again: bool) -> None:
        self.traffic.messages += sent
        self.traffic.resent += sent if again else 0
        self.traffic.lost += int(lost.sum())

    def _give_up(self, numbers: Array) -> None:
        """Leave links out; their ends tell everybody, over the links that are left."""
        wires = self.wires
        for e in numbers[~wires.gone[numbers]].tolist():
            if not wires.gone[e]:
                i, j = int(wires.sender[e]), int(wires.receiver[e])
                self.traffic.gone.append((min(i, j), max(i, j)))
                wires.give_up(np.array([e]))
                self._clock = np.maximum(self._clock, self._clock[j] + wires.hops(j))

    # -- gossip -------------------------------------------------------------------------------
    def exchange(self, stage: Array, outgoing: Messages, incoming: Messages) -> Callable[[], None]:
        """A function that takes each row of ``stage`` to the neighbours' ghosts behind them."""
        wires, own, ghosts = self.wires, *np.split(stage, [self.wires.n])
        box = MessageQueue(ghosts)

        def ship() -> None:
            self.traffic.exchanges += 1
            came = self._insisted() if self.policy == "resend" else self._once(box, own)
            box.heard |= came
            old = box.heard if self.policy == "stale" else came
            absent = ~old | wires.gone
            ghosts[came] = own[wires.sender[came]]
            ghosts[absent] = own[wires.receiver[absent]]

        return ship

    def _insisted(self) -> Array:
        """Which rows come if all are repeated; those of links that fail do not."""
        wires = self.wires
        used = np.flatnonzero(~wires.gone)
        late = self._clock + wires.late()
        arrival, failed = self._insist(used, late[wires.sender[used]])
        self._clock = late
        np.maximum.at(self._clock, wires.receiver[used], arrival)
        came = ~wires.gone
        if failed.any():
            self.traffic.repairs += 1
            self._give_up(used[failed])
            came = ~wires.gone
        return came

    def _once(self, box: MessageQueue, own: Array) -> Array:
        """Which rows come in time if each is sent once; links that fail too often are given up."""
        wires = self.wires
        used = np.flatnonzero(~wires.gone)
        late = self._clock + wires.late()
        start = late[wires.sender[used]]
        lost = wires.lost(used, start)
        self._count(len(used), lost, again=False)
        arrival = np.where(lost, np.inf, start + wires.delays(len(used)))
        deadline = late[wires.receiver[used]] + self.timeout
        fresh = arrival <= deadline
        self.traffic.late += int(np.sum(~fresh & ~lost))
        self._clock = late
        np.maximum.at(self._clock, wires.receiver[used], np.minimum(arrival, deadline))
        box.deliver(used, deadline)
        box.keep(used, ~fresh & ~lost, arrival, own[wires.sender[used]])
        self.traffic.missed += int(np.sum(~fresh))
        self._misses[used] = np.where(fresh, 0, self._misses[used] + 1)
        failed = used[self._misses[used] >= self.patience]
        if failed.size:
            self.traffic.repairs += 1
            self._give_up(failed)
        came = np.zeros(len(wires.gone), dtype=bool)
        came[used[fresh]] = True
        return came & ~wires.gone
