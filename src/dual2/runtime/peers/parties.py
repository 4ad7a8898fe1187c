"""Parties as a transport: masked sums along the tree, maxima made of them, rows to neighbours.

The program's thread works here, and runs the links of the manager where it waits. Every call is
numbered, so that a party that was killed repeats what it did and falls in with the others where it
was.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Protocol

import numpy as np

from dual2.engine.fixed_point import add_words
from dual2.errors import CapabilityError, PeerError
from dual2.network import AnyNetwork, Network
from dual2.runtime.comm_mode import SETUP, CommMode, NanPolicy
from dual2.runtime.exact import Decode, Encode
from dual2.runtime.peers.aborts import Reason
from dual2.runtime.peers.connection_manager import ConnectionManager
from dual2.runtime.peers.frames import Frame, Kind, chain_of
from dual2.runtime.peers.journal import Journal
from dual2.runtime.peers.masked_maximum import find_largest, ordered, unordered
from dual2.runtime.peers.masks import Masks, Randomness
from dual2.runtime.peers.tree_sums import CHUNK_WORDS, TreeSums
from dual2.runtime.transport import Messages
from dual2.runtime.tree import without_nan

Array = np.ndarray


class SignedHeads(Protocol):
    """Signed heads of the audit logs."""

    def own(self) -> bytes:
        """What this party signs."""
        ...

    def check(self, number: int, found: bytes) -> None:
        """An error unless another party has signed ``found``."""
        ...


class Parties(TreeSums):
    """One agent per party, each in a process of its own organisation.

    Parameters
    ----------
    manager : ConnectionManager
        The links to the neighbours, not started yet.
    journal : Journal
        What was consumed and said so far.
    network : Network
        The public graph: node i is party i.
    names : list of str
        Of all parties.
    own : Randomness
        Words of this party alone.

    Attributes
    ----------
    masks : Masks or None
        Those of the sums, if they are masked.
    pairs : Masks or None
        The keys that each pair of parties shares, masked or not.
    heads : SignedHeads or None
        What the parties sign about their audit logs, and exchange at the end.
    confirming : bool
        Whether the totals are done, and are being compared.
    """

    exact = alike = True

    def __init__(
        self,
        manager: ConnectionManager,
        journal: Journal,
        network: Network,
        names: list[str],
        own: Randomness,
    ) -> None:
        super().__init__(manager, journal, network, names)
        self.own, self.size, self.exact = own, network.n, True
        self.masks: Masks | None = None
        self.pairs: Masks | None = None
        self.heads: SignedHeads | None = None
        self.confirming = False
        self._round = 0
        self._told: dict[int, int] = {}
        self._heard: dict[int, int] = {}

    def owners(self, network: AnyNetwork) -> Array:
        """Party i owns agent i."""
        return np.arange(network.n)

    # -- sums ------------------------------------------------------------------------------------
    def _meanwhile(self, index: int, shape: tuple[int, ...]) -> None:
        """The audit line of a sum."""
        self.manager.audit("sum", index=index, shape=shape, masked=self.masks is not None)

    def _blank(self, shape: tuple[int, ...]) -> Array:
        """Where this party's words of the next sum are to be added: its masks, or zeros.

        Of numbers of several words the last but one counts this party already.
        """
        if self.masks is not None:
            return self.masks.draw(self._index, self._chain, shape)
        blank = np.zeros(shape, np.uint64)
        if blank.ndim == 2:
            blank[-2, 0] = 1
        return blank

    def add_words(self, words: Array, fits: bool, network: AnyNetwork) -> tuple[Array, bool]:
        """The masked sum of some words."""

        def encode(place: Array) -> bool:
            add_words(place, words)
            return fits

        total = self.sum_words(self._encoded(words.shape, encode))
        count, *more = total[-2].tolist()
        self._demand_all(0 if any(more) else count)
        return total[:-2], not total[-1].any()

    def add_encoded(
        self, shape: tuple[int, int], encode: Encode, decode: Decode, network: AnyNetwork
    ) -> tuple[Array, bool]:
        """The masked sum, which the root decodes for all."""
        width = shape[0]

        def finish(part: Array, first: int) -> Array:
            found = np.empty(len(part))
            inside = max(0, min(len(part), width - first))
            decode(part[:inside], found[:inside], first)
            for k in range(inside, len(part)):  # how many have spoken, whether one did not fit
                lowest, *more = part[k].tolist()
                found[k] = float(lowest) if not any(more) else np.inf
            return found

        total = self.sum_words(self._encoded(shape, encode), finish)
        self._demand_all(total[-2])
        return total[:-2], total[-1] == 0.0

    def _encoded(self, shape: tuple[int, ...], encode: Encode) -> Array:
        """The words of this party, masked, and two numbers more: 1, and whether all fits.

        Who has a number that does not fit sends random words everywhere.
        """
        whole = shape[0] + 2, shape[1]
        block = self._blank(whole)
        if not encode(block[:-2]):
            block = self._blank(whole)
            noise = self.own.words(self._index, block.size).reshape(whole)
            noise[-2] = 0
            add_words(block, noise)
        return block

    def _demand_all(self, count: float) -> None:
        """All parties have spoken, and nobody twice."""
        if count != self.size:
            text = (
                f"The masks of sum {self._index - 1} do not cancel: a party's words are wrong, or "
                "parties were shown different totals before. There is no answer; state is kept."
            )
            self.manager.fail(self.names[self.rank], text)
            raise PeerError(text)

    def max_levels(self, levels: Array, network: AnyNetwork) -> Array:
        """Largest levels, by masked sums."""
        return self._largest(levels.astype(np.uint64), 9).astype(np.int64)

    def max(self, rows: Array, network: AnyNetwork, mode: CommMode = SETUP) -> Array:
        """Largest doubles, by masked sums: exact, and nothing else is shown."""
        values = np.max(np.asarray(rows, dtype=np.float64), axis=0)
        values = without_nan(values) if mode.nan_policy is NanPolicy.RAISE else values
        return unordered(self._largest(ordered(values), 64))

    def _largest(self, values: Array, bits: int) -> Array:
        draw = lambda count: self.own.words(self._index, count)  # noqa: E731

        def add(words: Array) -> Array:
            block = self._blank(words.shape)
            block += words
            return self.sum_words(block)

        return find_largest(values, bits, add, draw)

    # -- rows ------------------------------------------------------------------------------------
    def exchange(self, stage: Array, outgoing: Messages, incoming: Messages) -> Callable[[], None]:
        """Send rows of ``stage`` to the neighbours and fill those of theirs."""

        def ship() -> None:
            tag, self._round = self._round, self._round + 1
            self.progress.rounds = self._round
            for peer, rows in outgoing.items():
                self._send(peer, Kind.ROWS, stage[rows], tag)
            for peer, rows in incoming.items():
                frame, old = self._numbers(peer, Kind.ROWS, tag, stage[rows])
                if not old:
                    self._log([(peer, frame)])
                stage[rows] = frame.array()

        return ship

    # -- bytes -----------------------------------------------------------------------------------
    def tell(self, peer: int, data: bytes) -> None:
        """Send bytes to a neighbour, to nobody else; they are not masked."""
        tag = self._told[peer] = self._told.get(peer, -1) + 1
        self._send(peer, Kind.ROWS, len(data).to_bytes(8, "little"), tag)
        for at in range(0, len(data), 8 * CHUNK_WORDS):
            self._send(peer, Kind.ROWS, data[at : at + 8 * CHUNK_WORDS], tag)

    def hear(self, peer: int, most: int) -> bytes:
        """The bytes that a neighbour tells, at most so many."""
        tag = self._heard[peer] = self._heard.get(peer, -1) + 1
        head = self._take(peer, Kind.ROWS, tag).payload
        length = int.from_bytes(head[:8], "little")
        if len(head) != 8 or length > most:
            self._blame(peer, f"announced {length} bytes; at most {most} expected")
        data = bytearray()
        while len(data) < length:
            part = self._take(peer, Kind.ROWS, tag).payload
            if not 0 < len(part) <= length - len(data):
                self._blame(peer, f"sent {len(part)} bytes; {length - len(data)} expected")
            data += part
        return bytes(data)

    # -- before and after ------------------------------------------------------------------------
    def exchange_keys(self, entry: bytes) -> Mapping[int, bytes]:
        """The entries of all parties; which ones, all totals depend on from then on."""
        known = self._exchange_entries(entry, 0)
        self._chain = chain_of(self._chain, sha256(_pack(known)).digest())
        return known

    def confirm(self) -> None:
        """An error unless all parties have seen the same totals, whoever passed them on.

        Each tells each other one, under the key that only the two share, the chain of its totals.
        What follows from the totals is to be written after that.
        """
        self.confirming = True
        if self.pairs is None:
            return
        tags = self.pairs.tags(self._chain, self.size)
        known = self._exchange_entries(tags + (self.heads.own() if self.heads else b""), 1)
        for i, name in enumerate(self.names):
            if i != self.rank and not self.pairs.is_same(i, known[i], self._chain):
                text = (
                    f"{name} and {self.names[self.rank]} have seen different totals: somebody "
                    "between them changes what it passes on. There is no answer; state is kept."
                )
                self.manager.fail(self.names[self.rank], text)
                raise PeerError(text)
            if i != self.rank and self.heads is not None:
                self.heads.check(i, known[i][len(tags) :])

    def _exchange_entries(self, entry: bytes, tag: int) -> dict[int, bytes]:
        """Some bytes of all parties, up and down the tree."""
        known = {self.rank: entry}
        for child in self.children:
            known |= self._entries(child, self._take(child, Kind.KEYS, tag))
        if self.parent is not None:
            self._send(self.parent, Kind.KEYS, _pack(known), tag)
            known = self._entries(self.parent, self._take(self.parent, Kind.KEYS, tag))
        if known.keys() != set(range(self.size)) or known[self.rank] != entry:
            raise PeerError(
                "The table of what all parties tell lacks one, or has another word of this one."
            )
        self._send_all(self.children, Kind.KEYS, _pack(known), tag)
        return known

    def _entries(self, peer: int, frame: Frame) -> dict[int, bytes]:
        found, data = {}, bytes(frame.payload)
        while data:
            number, length = int.from_bytes(data[:4], "little"), int.from_bytes(data[4:8], "little")
            if len(data) < 8 + length or number >= self.size or number in found:
                self._blame(peer, "sent a table that cannot be read")
            found[number], data = data[8 : 8 + length], data[8 + length :]
        return found

    def allgather(self, own: Array, kind: str, seconds: float | None = None) -> Array:
        """Not between organisations."""
        raise CapabilityError("Parties tell nobody else their own numbers; use sums.")

    def gather(self, own: Array, kind: str) -> Array | None:
        """Not between organisations."""
        raise CapabilityError("Parties do not gather their answers; each keeps its own.")

    def abort(self, code: int) -> None:
        """End the run at all parties."""
        name = self.names[self.rank]
        self.manager.fail(name, f"{name} ended the run ({code}).", Reason.FAILED)


def _pack(entries: Mapping[int, bytes]) -> bytes:
    parts: list[Any] = []
    for number, entry in sorted(entries.items()):
        parts += [number.to_bytes(4, "little"), len(entry).to_bytes(4, "little"), entry]
    return b"".join(parts)
