"""Sums along the tree: words climb, what the root makes of their total comes down.

What climbs is masked. Who sums asks for the words of the total, or for the doubles nearest to them:
these the root forms once for all, and hands down half as many bytes or fewer. It keeps the total
in its journal in the place of what its children sent.
"""

import math
from collections import deque
from collections.abc import Callable
from hashlib import sha256

import numpy as np

from dual2.engine.fixed_point import add_words
from dual2.errors import Dual2Error
from dual2.network import Network
from dual2.runtime.peers.connection_manager import ConnectionManager
from dual2.runtime.peers.exchange import Exchange
from dual2.runtime.peers.frames import Frame, Kind, chain_of
from dual2.runtime.peers.journal import Journal

Array = np.ndarray
Finish = Callable[[Array, int], Array]
"""The doubles that some numbers of a total become; from which one on they are."""
CHUNK_WORDS = 65_536
"""Words of 64 bits in one frame of a sum: longer ones travel in several, one behind the other."""
WINDOW_PARTS = 64
"""Parts that a party sends up beyond those that came down: far fewer than are kept for a peer."""


class TreeSums(Exchange):
    """A party in the spanning tree of the public graph.

    Parameters
    ----------
    manager, journal, names
        As of :class:`Exchange`.
    network : Network
        The public graph: node i is party i.

    Attributes
    ----------
    parent : int or None
        The party that is told sums; the root has none.
    children : list of int
        Those whose sums are added.
    """

    def __init__(
        self, manager: ConnectionManager, journal: Journal, network: Network, names: list[str]
    ) -> None:
        self._totals: deque[Frame] = deque(journal.frames.pop(manager.me, []))
        super().__init__(manager, journal, names)
        tree, me = network.tree, manager.me
        self.parent = None if me == tree.root else int(tree.parent[me])
        children = np.flatnonzero(np.asarray(tree.parent) == me).tolist()
        self.children = [int(c) for c in children if c not in (me, tree.root)]

    def sum_words(self, words: Array, finish: Finish | None = None) -> Array:
        """Sum of all parties' words, which are masked, and must not change any more; it may.

        Long ones travel in parts; the root hands one down while the next is on its way up.
        (m, limbs) are m numbers of so many words each, (m,) numbers of one. With ``finish`` the
        m doubles that it makes of the total.
        """
        index = self._index
        self._index = self.progress.sums = index + 1
        self.journal.append_said(index, words.data)
        if self.parent is None:
            total = self._sum_at_root(words, index, finish)
            self.progress.totals = index + 1
            return total
        total = np.empty(len(words)) if finish else np.empty_like(words)
        parts, digests = _parts(words), list[bytes]()
        for k, (_, part) in enumerate(parts):
            if k >= WINDOW_PARTS:
                digests.append(self._receive(total, parts[k - WINDOW_PARTS], index))
            if frames := self._add_theirs(part, index):
                self._log(frames)
            self._send(self.parent, Kind.UP, part, index)
        self._meanwhile(index, words.shape)
        digests += [self._receive(total, part, index) for part in parts[-WINDOW_PARTS:]]
        self._chain = chain_of(self._chain, *digests)
        self.progress.totals = index + 1
        return total

    def _sum_at_root(self, words: Array, index: int, finish: Finish | None) -> Array:
        """The total, which is handed down, and enters the chain."""
        found = []
        for first, part in _parts(words):
            frames = self._add_theirs(part, index)
            found.append(self._hand_down(part, first, index, frames, finish))
        self._meanwhile(index, words.shape)
        self._chain = chain_of(self._chain, *[sha256(part.data).digest() for part in found])
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
        if len(frames) == len(self.children):
            total = part if finish is None else finish(part, first)
        else:
            total = self._recall(index)
        if self.children:
            sent = self._send_all(self.children, Kind.DOWN, total, index)
            if frames:
                bare = [(child, frame.bare()) for child, frame in frames]
                self._log([*bare, (self.rank, sent)])
        return total

    def _recall(self, index: int) -> Array:
        """The next total that the journal has."""
        if not self._totals or self._totals[0].tag != index:
            raise Dual2Error(
                f"The journal in {self.journal.folder} lacks the total of sum {index}, of which it "
                "has parts. Restore the folder."
            )
        return self._totals.popleft().array()

    def _receive(self, total: Array, part: tuple[int, Array], index: int) -> bytes:
        """A part of the total, from the parent, handed on to the children; its SHA-256."""
        assert self.parent is not None, "the root has made it"
        first, words = part
        place = total[first : first + len(words)]
        frame, old = self._numbers(self.parent, Kind.DOWN, index, place)
        came = frame.array()
        if came.dtype.kind == "f" and math.isnan(came.max()):
            self._blame(self.parent, f"sent a total of sum {index} that is not a number")
        if not old:
            self._log([(self.parent, frame)])
        if self.children:
            self._send_all(self.children, Kind.DOWN, came, index)
        place[:] = came
        return frame.digest()


def _parts(words: Array) -> list[tuple[int, Array]]:
    """What travels in one frame each, with the number that it begins with."""
    if words.size <= CHUNK_WORDS:
        return [(0, words)]
    step = max(1, CHUNK_WORDS // (words.shape[1] if words.ndim == 2 else 1))
    return [(at, words[at : at + step]) for at in range(0, len(words), step)]


def _add(total: Array, other: Array) -> None:
    if total.ndim == 1:
        total += other
    else:
        add_words(total, other)
