"""Parties as a transport: masked sums along the tree, maxima made of them, rows to neighbours.

The program's thread works here, and runs the links of the hub where it waits. Every call is
numbered, so that a party that was killed repeats what it did and falls in with the others where it
was.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from dual2.engine.fixed_point import add_words
from dual2.errors import CapabilityError, PeerError
from dual2.network import AnyNetwork, Network
from dual2.runtime.exact import Encode
from dual2.runtime.peers.frames import MARK, Frame, Kind, frame_of, mark_of
from dual2.runtime.peers.hub import Hub
from dual2.runtime.peers.journal import Journal
from dual2.runtime.peers.largest import find_largest, ordered, unordered
from dual2.runtime.peers.link import KEEP, Link
from dual2.runtime.peers.masks import Masks, Randomness
from dual2.runtime.transport import Messages, Transport
from dual2.runtime.tree import without_nan

Array = np.ndarray
CHUNK = 32_768
"""Words of 64 bits in one frame of a sum: longer ones travel in several, one behind the other."""
_SYNC = 64
"""Consumed frames after which their log is brought to the disk."""
_TICK = 0.5
_COURTESY = 2.0
"""How long to wait for a neighbour that needs nothing any more, as a multiple of ``dead``."""


@dataclass
class Progress:
    """What an observer may know: sums so far, and on whom the program waits since when."""

    sums: int = 0
    rounds: int = 0
    waiting: str = ""
    since: float = 0.0


class Parties(Transport):
    """One agent per party, each in a process of its own organisation.

    Parameters
    ----------
    hub : Hub
        The links to the neighbours, already started or not.
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
    """

    exact = alike = True

    def __init__(
        self, hub: Hub, journal: Journal, network: Network, names: list[str], own: Randomness
    ) -> None:
        super().__init__()
        self.hub, self.journal, self.names, self.own = hub, journal, names, own
        self.rank, self.size, self.exact = hub.me, network.n, True
        self.masks: Masks | None = None
        self.pairs: Masks | None = None
        self.progress = Progress()
        tree, me = network.tree, hub.me
        self.parent = None if me == tree.root else int(tree.parent[me])
        children = np.flatnonzero(np.asarray(tree.parent) == me).tolist()
        self.children = [int(c) for c in children if c not in (me, tree.root)]
        self._index = self._round = 0
        self._told: dict[int, int] = {}
        self._heard: dict[int, int] = {}
        self._chain = bytes(MARK)
        for peer, frames in journal.frames.items():
            if peer not in hub.links:
                raise PeerError(f"The journal has frames of party {peer}, which is no neighbour.")
            hub.links[peer].refill(frames)
        for link in hub.links.values():
            link.fresh = journal.new

    def owners(self, network: AnyNetwork) -> Array:
        """Party i owns agent i."""
        return np.arange(network.n)

    # -- frames ----------------------------------------------------------------------------------
    def _send(self, peer: int, kind: Kind, values: Array | bytes | None, tag: int) -> None:
        self._send_all([peer], kind, values, tag)

    def _send_all(
        self, peers: Sequence[int], kind: Kind, values: Array | bytes | None, tag: int
    ) -> None:
        """The same frame to some peers."""
        frame = frame_of(kind, self.hub.meaning.run, values, tag, self._chain)
        for peer in peers:
            link = self.hub.links[peer]
            if link.unconfirmed > KEEP:
                self._await_room(link)
            with self.hub.lock:
                link.make(frame)
        self.hub.flush(peers)

    def _await_room(self, link: Link) -> None:
        """Wait until a peer has what was sent before."""
        if self.journal.unsynced:
            self.sync()  # both may be waiting for each other's word
        self._wait(lambda: link.unconfirmed <= KEEP, link.peer)

    def _take(self, peer: int, kind: Kind, tag: int) -> Frame:
        """The next frame of a peer, which must be what the program expects; logged."""
        link = self.hub.links[peer]
        if not link.inbox:
            self._wait(lambda: bool(link.inbox), peer)
        with self.hub.lock:
            frame, old = link.consume()
        if (frame.kind, frame.tag) != (kind, tag):
            self._blame(peer, f"sent {frame.kind.name} {frame.tag}; {kind.name} {tag} expected")
        if not old:
            self.journal.consume(peer, frame)
            if self.journal.unsynced >= _SYNC:
                self.sync()
        return frame

    def _numbers(self, peer: int, kind: Kind, tag: int, like: Array) -> Frame:
        frame = self._take(peer, kind, tag)
        dtype = 1 if like.dtype.kind == "f" else 2
        if frame.shape != like.shape or frame.dtype != dtype:
            self._blame(peer, f"sent an array of shape {frame.shape}; {like.shape} expected")
        if kind in (Kind.UP, Kind.DOWN) and frame.chain != self._chain:
            self._blame(
                peer, "has seen other totals than this party: somebody on the way changes them"
            )
        return frame

    def _wait(
        self, ready: Callable[[], bool], *peers: int, patience: float | None = None
    ) -> None:
        """Wait for some peers; one whose link is down has the study's patience, or another one."""
        if ready():
            return
        hub, begun = self.hub, time.monotonic()
        patience = hub.timing.patience if patience is None else patience
        while not ready():
            peer = next((one for one in peers if not hub.links[one].inbox), peers[0])
            if hub.failure is not None:
                raise PeerError(hub.failure.text)
            down = peer not in hub.connections
            if down and peer in hub.strange:
                self._lost(hub.refusals[peer])
            since = max(hub.down_since[peer], begun)
            if down and time.monotonic() - since > patience:
                self._lost(self._unreachable(peer))
            self.progress.waiting, self.progress.since = self.names[peer], begun
            hub.wait(ready, _TICK)
        self.progress.waiting = ""

    def _await(self, peers: Sequence[int]) -> None:
        """Wait until something came from each of some peers, for all at once."""
        links = [self.hub.links[peer] for peer in peers]
        self._wait(lambda: all(one.inbox for one in links), *peers)

    def _unreachable(self, peer: int) -> str:
        address = self.hub.neighbours[peer].address
        where = f" ({address[0]}:{address[1]})" if address else ""
        why = self.hub.refusals.get(peer, "")
        return (
            f"{self.names[peer]}{where} was unreachable for {self.hub.timing.patience:g} s (sum "
            f"{self._index}). {why + ' ' if why else ''}State is kept: start it again, then "
            "--resume."
        )

    def _lost(self, text: str) -> NoReturn:
        raise PeerError(text)

    def _blame(self, peer: int, what: str) -> NoReturn:
        text = f"{self.names[peer]} {what}. Its program or its data are at fault; state is kept."
        self.hub.fail(self.names[self.rank], text)
        raise PeerError(text)

    def sync(self) -> None:
        """Bring the journal to the disk and tell the peers what they may forget."""
        self.journal.sync()
        with self.hub.lock:
            for link in self.hub.links.values():
                link.settle()
        self.hub.flush(self.hub.links)

    # -- sums ------------------------------------------------------------------------------------
    def sum_words(self, words: Array) -> Array:
        """Sum of all parties' words, which are masked; it takes their place.

        (m, limbs) are m numbers of so many words each, (m,) numbers of one.
        """
        index, self._index = self._index, self._index + 1
        self.progress.sums = self._index
        self.journal.say(index, words.data)
        step = max(1, CHUNK // (words.shape[1] if words.ndim == 2 else 1))
        parts = [words[at : at + step] for at in range(0, len(words), step)]
        for part in parts:
            if self.children:
                self._await(self.children)
            for child in self.children:
                _add(part, self._numbers(child, Kind.UP, index, part).array())
            if self.parent is not None:
                self._send(self.parent, Kind.UP, part, index)
        marks = [self._hand_down(part, index) for part in parts]
        self._chain = mark_of(self._chain, *marks)
        self.hub.audit("sum", index=index, shape=list(words.shape), masked=self.masks is not None)
        return words

    def _hand_down(self, part: Array, index: int) -> bytes:
        """A part of a total, from the parent if there is one, to the children; its hash."""
        mark = b""
        if self.parent is not None:
            frame = self._numbers(self.parent, Kind.DOWN, index, part)
            part[:], mark = frame.array(), frame.mark
        if self.children:
            self._send_all(self.children, Kind.DOWN, part, index)
        return mark or mark_of(part.data)

    def _blank(self, shape: tuple[int, ...]) -> Array:
        """Where this party's words of the next sum are to be added: its masks, or zeros."""
        if self.masks is None:
            return np.zeros(shape, np.uint64)
        return self.masks.draw(self._index, shape)

    def add_words(self, words: Array, fits: bool, network: AnyNetwork) -> tuple[Array, bool]:
        """The masked sum of some words."""

        def encode(place: Array) -> bool:
            add_words(place, words)
            return fits

        return self.add_encoded(words.shape, encode, network)

    def add_encoded(
        self, shape: tuple[int, ...], encode: Encode, network: AnyNetwork
    ) -> tuple[Array, bool]:
        """The masked sum; who has a number that does not fit sends random words everywhere."""
        whole = shape[0] + 2, shape[1]
        block, extra = self._blank(whole), np.zeros((1, shape[1]), np.uint64)
        if not encode(block[:-2]):
            block = self._blank(whole)
            noise = self.own.words(self._index, block.size).reshape(whole)
            noise[-2] = 0
            add_words(block, noise)
        extra[0, 0] = 1
        add_words(block[-2:-1], extra)
        total = self.sum_words(block)
        if total[-2, 0] != self.size or total[-2, 1:].any():
            text = (
                f"The masks of sum {self._index - 1} do not cancel: some party's words are wrong."
            )
            self.hub.fail(self.names[self.rank], text)
            raise PeerError(text)
        return total[:-2], not total[-1].any()

    def max_levels(self, levels: Array, network: AnyNetwork) -> Array:
        """Largest levels, by masked sums."""
        return self._largest(levels.astype(np.uint64), 9).astype(np.int64)

    def max(self, rows: Array, network: AnyNetwork) -> Array:
        """Largest doubles, by masked sums: exact, and nothing else is shown."""
        values = np.max(np.asarray(rows, dtype=np.float64), axis=0)
        values = without_nan(values) if self.strict else values
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
                stage[rows] = self._numbers(peer, Kind.ROWS, tag, stage[rows]).array()

        return ship

    # -- bytes -----------------------------------------------------------------------------------
    def tell(self, peer: int, data: bytes) -> None:
        """Send bytes to a neighbour, to nobody else; they are not masked."""
        tag = self._told[peer] = self._told.get(peer, -1) + 1
        self._send(peer, Kind.ROWS, len(data).to_bytes(8, "little"), tag)
        for at in range(0, len(data), 8 * CHUNK):
            self._send(peer, Kind.ROWS, data[at : at + 8 * CHUNK], tag)

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
        self._chain = mark_of(self._chain, _pack(known))
        return known

    def confirm(self) -> None:
        """An error unless all parties have seen the same totals, whoever passed them on.

        Each tells each other one, under the key that only the two share, the chain of its totals.
        What follows from the totals is to be written after that.
        """
        if self.pairs is None:
            return
        known = self._exchange_entries(self.pairs.tags(self._chain, self.size), 1)
        for i, name in enumerate(self.names):
            if i != self.rank and not self.pairs.is_same(i, known[i], self._chain):
                text = (
                    f"{name} and {self.names[self.rank]} have seen different totals: somebody "
                    "between them changes what it passes on. There is no answer; state is kept."
                )
                self.hub.fail(self.names[self.rank], text)
                raise PeerError(text)

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

    def leave(self) -> list[str]:
        """Say goodbye and wait for the others' goodbyes; the names of those that never came.

        A goodbye says that all before it is on the disk: its sender wants nothing any more but the
        other's goodbye. Nobody leaves before that is on the other's disk too, so whoever comes back
        to find a neighbour's goodbye in its journal may find the neighbour gone, and waits for it
        for a while only.
        """
        self.sync()
        old = [peer for peer, link in self.hub.links.items() if link.from_journal]
        for peer in self.hub.links:
            self._send(peer, Kind.BYE, None, 0)
            self.hub.links[peer].parting = True
        missing = self._hear_goodbyes()
        while_gone = _COURTESY * self.hub.timing.dead
        for peer in set(self.hub.links) - set(missing):
            link, patience = self.hub.links[peer], while_gone if peer in old else None
            try:
                self._wait(lambda link=link: link.over, peer, patience=patience)
            except PeerError:
                missing += [peer] if patience is None else []
        self._part(while_gone)
        return [self.names[peer] for peer in missing]

    def _hear_goodbyes(self) -> list[int]:
        """Consume the others' goodbyes as they come; the peers that never said it."""
        waiting, missing, links = list(self.hub.links), [], self.hub.links
        while waiting:
            try:
                self._wait(lambda: any(links[peer].inbox for peer in waiting), *waiting)
                peer = next(peer for peer in waiting if links[peer].inbox)
                self._take(peer, Kind.BYE, 0)
                self.sync()
                waiting.remove(peer)
            except PeerError:
                missing.append(waiting.pop(0))
        return missing

    def _part(self, seconds: float) -> None:
        """Wait a while for a sign that the neighbours know that they may leave.

        Where it was lost with a connection, they ask for it by the next one.
        """
        links, end = self.hub.links.values(), time.monotonic() + seconds
        told = lambda: all(link.known >= link.durable for link in links)  # noqa: E731
        while not told() and self.hub.failure is None and time.monotonic() < end:
            self.hub.wait(told, min(_TICK, seconds))

    def everyone(self, own: Array, kind: str, seconds: float | None = None) -> Array:
        """Not between organisations."""
        raise CapabilityError("Parties tell nobody else their own numbers; use sums.")

    def collect(self, own: Array, kind: str) -> Array | None:
        """Not between organisations."""
        raise CapabilityError("Parties do not gather their answers; each keeps its own.")

    def abort(self, code: int) -> None:
        """End the run at all parties."""
        self.hub.fail(self.names[self.rank], f"{self.names[self.rank]} ended the run ({code}).")


def _add(total: Array, other: Array) -> None:
    if total.ndim == 1:
        total += other
    else:
        add_words(total, other)


def _pack(entries: Mapping[int, bytes]) -> bytes:
    parts: list[Any] = []
    for number, entry in sorted(entries.items()):
        parts += [number.to_bytes(4, "little"), len(entry).to_bytes(4, "little"), entry]
    return b"".join(parts)
