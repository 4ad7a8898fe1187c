"""Sums along the tree: words climb, what the root makes of their total comes down.

Who sums asks for words of fixed point, which can be masked, or for the doubles nearest to them:
these the root forms once for all, and hands down half as many bytes or fewer. It keeps the total
in its journal in the place of what its children sent.
"""

import math
from collections import deque
from collections.abc import Callable

import numpy as np

from dual2.engine.fixed_point import add_words
from dual2.network import Network
from dual2.runtime.peers.exchange import Exchange
from dual2.runtime.peers.frames import Frame, Kind, mark_of
from dual2.runtime.peers.hub import Hub
from dual2.runtime.peers.journal import Journal

Array = np.ndarray
Finish = Callable[[Array, int], Array]
"""The doubles that some numbers of a total become; from which one on they are."""
CHUNK = 65_536
"""Words of 64 bits in one frame of a sum: longer ones travel in several, one behind the other."""


class TreeSums(Exchange):
    """A party in the spanning tree of the public graph.

    Parameters
    ----------
    hub : Hub
        The links to the neighbours, not started yet.
    journal : Journal
        What was consumed and said so far.
    network : Network
        The public graph: node i is party i.
    names : list of str
        Of all parties.

    Attributes
    ----------
    parent : int or None
        The party that is told sums; the root has none.
    children : list of int
        Those whose sums are added.
    """

    def __init__(self, hub: Hub, journal: Journal, network: Network, names: list[str]) -> None:
        self._totals: deque[Frame] = deque(journal.frames.pop(hub.me, []))
        super().__init__(hub, journal, names)
        tree, me = network.tree, hub.me
        self.parent = None if me == tree.root else int(tree.parent[me])
        children = np.flatnonzero(np.asarray(tree.parent) == me).tolist()
        self.children = [int(c) for c in children if c not in (me, tree.root)]

    def sum_words(self, words: Array, finish: Finish | None = None) -> Array:
        """Sum of all parties' words, which are masked, and must not change any more; it may.

        Long ones travel in parts; the root hands one down while the next is on its way up.
        (m, limbs) are m numbers of so many words each, (m,) numbers of one. With ``finish`` the
        m doubles that it makes of the total.
        """
        index, parent = self._index, self.parent
        self._index = self.progress.sums = index + 1
        self.journal.say(index, words.data)
        found = []
        for first, part in _parts(words):
            frames = self._add_theirs(part, index) if self.children else []
            if parent is None:
                found.append(self._hand_down(part, first, index, frames, finish))
                continue
            if frames:
                self._log(frames)
            self._send(parent, Kind.UP, part, index)
        self._meanwhile(index, words.shape)
        if parent is not None:
            like = words if finish is None else np.empty(len(words))
            return self._receive(like, _parts(words), index)
        self._chain = mark_of(self._chain, *[mark_of(part.data) for part in found])
        return found[0].copy() if len(found) == 1 else np.concatenate(found)

    def _meanwhile(self, index: int, shape: tuple[int, ...]) -> None:
        """What is to be done for each sum while the others are at work."""

    def _add_theirs(self, part: Array, index: int) -> list[tuple[int, Frame]]:
        """Add the words of the children in the order in which they come; their frames, not logged.

        Those of which the journal has the total have no words.
        """
        waiting, frames = list(self.children), []
        while waiting:
            child = self._first_of(waiting)
            waiting.remove(child)
            frame, old = self._numbers(child, Kind.UP, index, part)
            if frame.payload:
                _add(part, frame.array())
            if not old:
                frames.append((child, frame))
        return frames

    def _hand_down(
        self,
        part: Array,
        first: int,
        index: int,
        frames: list[tuple[int, Frame]],
        finish: Finish | None,
    ) -> Array:
        """The total of a part, at the root: sent to the children, kept in the place of theirs."""
        if self.children and not frames:
            total = self._recall(index)
        else:
            total = part if finish is None else finish(part, first)
        if self.children:
            sent = self._send_all(self.children, Kind.DOWN, total, index)
            if frames:
                bare = [(child, frame.bare()) for child, frame in frames]
                self._log([*bare, (self.rank, sent)])
        return total

    def _recall(self, index: int) -> Array:
        """The next total that the journal has."""
        if not self._totals or self._totals[0].tag != index:
            self._lost(f"The journal lacks the total of sum {index}. Restore the state folder.")
        return self._totals.popleft().array()

    def _receive(self, like: Array, parts: list[tuple[int, Array]], index: int) -> Array:
        """The total, from the parent; it is handed on to the children and enters the chain."""
        assert self.parent is not None, "the root has made it"
        total, marks, finished = np.empty_like(like), [self._chain], like.dtype.kind == "f"
        for first, part in parts:
            place = total[first : first + len(part)]
            frame, old = self._numbers(self.parent, Kind.DOWN, index, place)
            if not old:
                self._log([(self.parent, frame)])
            came = frame.array()
            if finished and math.isnan(came.max()):
                self._blame(self.parent, f"sent a total of sum {index} that is not a number")
            if self.children:
                self._send_all(self.children, Kind.DOWN, came, index)
            place[:] = came
            marks.append(frame.hashed())
        self._chain = mark_of(*marks)
        return total


def _parts(words: Array) -> list[tuple[int, Array]]:
    """What travels in one frame each, with the number that it begins with."""
    if words.size <= CHUNK:
        return [(0, words)]
    step = max(1, CHUNK // (words.shape[1] if words.ndim == 2 else 1))
    return [(at, words[at : at + step]) for at in range(0, len(words), step)]


def _add(total: Array, other: Array) -> None:
    if total.ndim == 1:
        total += other
    else:
        add_words(total, other)
