"""What makes short sums quick: written and read in one piece, added as they come, synced later."""

import asyncio
import socket
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dual2.runtime.comm_mode import ITERATING
from dual2.runtime.peers import exchange
from dual2.runtime.peers.connection_manager import Timing
from dual2.runtime.peers.exchange import Exchange
from dual2.runtime.peers.frames import Frame, Kind, frame_of
from dual2.runtime.peers.identity import make_trial, read_certificate
from dual2.runtime.peers.secured import Secured
from dual2.runtime.peers.stream_tls import Connection
from dual2.runtime.peers.tls_transport import make_context
from party_circle import Circle

NAMES = ["one", "two"]


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    """Of a client and a server that trust each other."""
    folder = tmp_path_factory.mktemp("keys")
    make_trial(folder, NAMES)
    trusted = [read_certificate(folder / f"{name}.pem") for name in NAMES]
    files = [(folder / f"{name}.key", folder / f"{name}.pem") for name in NAMES]
    return [make_context(*files[k], trusted, bool(k)) for k in range(2)]


async def connect(contexts) -> list[Connection]:
    """Both ends of a connection whose writer has room for little."""
    plain = socket.socketpair()
    for one in plain:
        one.setblocking(False)
    plain[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    ends = [Secured(one, contexts[k], bool(k)) for k, one in enumerate(plain)]
    await asyncio.gather(*(end.shake_hands() for end in ends))
    for end in ends:
        end.getpeername = lambda: ("127.0.0.1", 1)
    return [Connection(end, 1 << 20, 5.0) for end in ends]


def frames_of(lengths: list[int]) -> list[Frame]:
    draw = np.random.default_rng(0).integers
    words = [draw(0, 2**63, length).astype(np.uint64) for length in lengths]
    return [replace(frame_of(Kind.UP, bytes(16), one, k), seq=1 + k) for k, one in enumerate(words)]


def test_frames_that_leave_in_part_arrive_whole_and_in_order(contexts):
    """The first leave at once, one in part, the others wait behind it; short and long ones."""
    frames = frames_of([5, 1000, 2000, 44, 2040, 30_000, 3, 2048, 2100, 1, 70_000, 9])
    partly = []

    async def talk() -> list[Frame | None]:
        writer, reader = await connect(contexts)
        for frame in frames:
            assert writer.put(frame.header(0, 0), frame.payload)
            partly.append(not writer.idle)
        found = [await reader.receive() for _ in frames]
        assert writer.idle
        writer.close()
        reader.close()
        return found

    assert asyncio.run(talk()) == frames
    assert not partly[0] and partly[-1]


def test_several_frames_in_one_record_wait_their_turn(contexts, monkeypatch):
    """Who does not ask for them has few; what was read with them is not lost, nor read twice."""
    monkeypatch.setattr("dual2.runtime.peers.stream_tls.BUFFER_BYTES", 200)
    frames = frames_of([3, 1, 20, 7, 7, 500, 2, 9])

    async def talk() -> list[Frame | None]:
        writer, reader = await connect(contexts)
        together = b"".join(frame.packed() for frame in frames)
        assert writer.put(together[:88], together[88:])
        await asyncio.sleep(0.05)
        assert 0 < len(reader._frames) < len(frames)
        found = [await reader.receive() for _ in frames]
        writer.close()
        reader.close()
        return found

    assert asyncio.run(talk()) == frames


@pytest.mark.parametrize("length", [5, 30_000], ids=["short", "long"])
def test_who_cannot_write_any_more_reads_what_had_come(contexts, length):
    """The last word of a party that has gone may say why; whoever writes to it hears it."""
    last, mine = frames_of([3, length])

    async def talk() -> list[Frame]:
        heard: list[Frame] = []
        writer, reader = await connect(contexts)
        reader._hear = heard.append
        assert writer.put(last.header(0, 0), last.payload)
        writer.close()
        assert not heard and reader.put(mine.header(0, 0), mine.payload)
        with pytest.raises(ConnectionResetError):
            reader.put(mine.header(0, 0), mine.payload)
        return heard

    assert asyncio.run(talk()) == [last]


class Noting(Exchange):
    """A party with stubs for links and journal that notes what it does."""

    def __init__(self, unsynced: int, inboxes: dict[int, list]) -> None:
        self.done: list[str] = []
        links = {
            peer: SimpleNamespace(inbox=inbox, log=lambda: None) for peer, inbox in inboxes.items()
        }
        for link in links.values():
            link.consume = lambda link=link: (link.inbox.pop(0), False)
        self.journal = SimpleNamespace(
            unsynced=unsynced,
            catch_up=lambda: self.done.append("catch up"),
            consume=lambda frames: self.done.append("consume"),
        )
        wait = lambda ready, seconds: self.done.append("wait") or True  # noqa: E731
        self.rank, self.manager = (
            0,
            SimpleNamespace(links=links, failure=None, wait=wait, lock=nullcontext()),
        )

    def _settle(self) -> None:
        self.done.append("sync")


@pytest.mark.parametrize(
    "unsynced, waits, takes",
    [
        (exchange._SYNC_FRAMES - 1, ["catch up", "wait"], ["consume"]),
        (exchange._SYNC_FRAMES, ["sync", "wait"], ["consume"]),
        (2 * exchange._SYNC_FRAMES, ["sync", "wait"], ["consume", "sync"]),
    ],
)
def test_the_journal_is_synced_where_the_program_waits_and_not_much_later(unsynced, waits, takes):
    party = Noting(unsynced, {1: []})
    party._wait(lambda: False, 1)
    assert party.done == waits
    party = Noting(unsynced, {1: [frame_of(Kind.UP, bytes(16), tag=3)]})
    party._take(1, Kind.UP, 3)
    assert party.done == takes


def test_the_words_of_whoever_came_first_are_added_first():
    assert Noting(0, {4: [], 5: [], 6: ["words"]})._first_of([4, 5, 6]) == 6
    assert Noting(0, {4: [], 5: []})._first_of([4, 5]) == 4  # and is waited for


def test_no_more_frames_are_ever_unsynced_than_is_said(tmp_path, monkeypatch):
    """At every party, in sums of one size and of several parts, beside others that are slower."""
    monkeypatch.setattr(exchange, "_SYNC_FRAMES", 4)
    monkeypatch.setattr("dual2.runtime.peers.tree_sums.CHUNK_WORDS", 20)
    circle, most = Circle(tmp_path, [(0, 1), (1, 2), (1, 3)]), [0] * 4
    log = Exchange._log

    def note(self, frames):
        log(self, frames)
        most[self.rank] = max(most[self.rank], self.journal.unsynced)

    monkeypatch.setattr(Exchange, "_log", note)

    def work(party) -> list[float]:
        values = np.arange(8.0)[None] + party.rank
        return [party.sum(values, circle.network, ITERATING).sum() for _ in range(20)]

    assert circle.run(work) == [[160.0] * 20] * 4
    assert all(0 < one < 8 for one in most), most


def test_sums_send_nothing_but_their_frames(tmp_path, monkeypatch):
    """What a peer may forget it hears by the next frame: no other frame, and no other thread."""
    monkeypatch.setattr(exchange, "_SYNC_FRAMES", 4)
    kinds, right = Counter(), Connection.put

    def note(self, head, payload=b""):
        kinds[Kind(head[4])] += 1
        return right(self, head, payload)

    monkeypatch.setattr(Connection, "put", note)
    circle = Circle(tmp_path, [(0, 1), (1, 2)], timing=Timing(dead=600.0))
    before = Counter()

    def work(party) -> None:
        for k in range(40):
            party.sum(np.full((1, 3), float(k)), circle.network, ITERATING)
        before.update(kinds if party.rank == 1 else {})

    circle.run(work)
    assert before[Kind.DOWN] >= 80 and before[Kind.ACK] <= 4, before


def test_who_only_listens_lets_the_other_forget(tmp_path, monkeypatch):
    """Far more than is kept for a peer, one way, without a sign of life in between."""
    monkeypatch.setattr(exchange, "_SYNC_FRAMES", 4)
    monkeypatch.setattr(exchange, "MAX_KEPT_BYTES", 50_000)
    circle = Circle(tmp_path, [(0, 1), (1, 2)], timing=Timing(dead=600.0))

    def work(party) -> int:
        if party.rank == 0:
            for k in range(100):
                party.tell(1, bytes([k]) * 4000)
        elif party.rank == 1:
            return sum(party.hear(0, 4000)[0] for _ in range(100))
        return 0

    assert circle.run(work) == [0, 4950, 0]


@pytest.fixture
def little_room(monkeypatch):
    """So little is kept for a peer that a run fills it."""
    for module in ("reliable_channel", "exchange"):
        monkeypatch.setattr(f"dual2.runtime.peers.{module}.MAX_KEPT_BYTES", 50_000)


def test_long_rows_do_not_wait_for_each_other(tmp_path, little_room):
    """The hub of a star waits for room before its leaves have so many frames that they sync."""
    circle = Circle(tmp_path, [(0, 1), (1, 2), (1, 3), (1, 4)], timing=Timing(dead=600.0))

    def work(party) -> float:
        others = list(party.manager.links)
        stage = np.zeros((1 + len(others), 110))
        rows = {j: np.array([1 + k]) for k, j in enumerate(others)}
        ship = party.exchange(stage, dict.fromkeys(others, np.array([0])), rows)
        for k in range(200):
            stage[0] = k
            ship()
        return float(stage[1:].sum())

    assert circle.run(work) == [199.0 * 110 * j for j in (1, 4, 1, 1, 1)]


def test_a_sum_may_be_longer_than_what_is_kept(tmp_path, monkeypatch, little_room):
    """Parts come down before all have gone up."""
    monkeypatch.setattr("dual2.runtime.peers.tree_sums.CHUNK_WORDS", 20)
    monkeypatch.setattr("dual2.runtime.peers.tree_sums.WINDOW_PARTS", 8)
    monkeypatch.setattr(exchange, "_SYNC_FRAMES", 4)
    circle = Circle(tmp_path, [(0, 1), (1, 2), (2, 3), (3, 4)])

    def work(party) -> list[float]:
        values = np.arange(9000.0)[None] * (1 + party.rank)
        return party.sum(values, circle.network).tolist()

    assert circle.run(work) == [(15 * np.arange(9000.0)).tolist()] * 5
