"""Parties over loopback: sums, maxima and rows, deaths at every point, planted bugs, strangers."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import dual2 as d2
from dual2.errors import Dual2Error, PeerError
from dual2.runtime import LocalProblem
from dual2.runtime.comm_mode import ITERATING
from dual2.runtime.peers import crash_points
from dual2.runtime.peers.frames import NUMBERED, chain_of
from dual2.runtime.peers.journal import Journal
from dual2.runtime.peers.parties import Parties
from dual2.runtime.peers.reliable_channel import ReliableChannel
from dual2.runtime.peers.tls_transport import Connection
from party_circle import QUICK, Circle, Fate, Hanging

# A death that is acted leaves sockets to the garbage collector, a real one to the system.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

EDGES = [(0, 1), (1, 2), (1, 3), (2, 3)]
ROOT, LEAF = 1, 0


def numbers(rank: int, k: int, width: int = 5) -> np.ndarray:
    return np.random.default_rng([rank, k]).standard_normal((1, width))


def work(party: Parties) -> list:
    """Some of everything; what a party found."""
    network, found = party.test_network, []  # type: ignore[attr-defined]
    links = [party.manager.links[j] for j in party.children]
    others = list(party.manager.links)
    stage = np.zeros((1 + len(others), 3))
    rows = {j: np.array([1 + k]) for k, j in enumerate(others)}
    ship = party.exchange(stage, dict.fromkeys(others, np.array([0])), rows)
    for k in range(3):
        if party.rank == ROOT:  # what the others send waits before it is consumed
            came = lambda: bool(party.manager.failure) or all(link.inbox for link in links)  # noqa: E731
            party.manager.wait(came, 30.0)
            party.sync()
            wait_until_told(party, links)
        found.append(party.sum(numbers(party.rank, k), network, ITERATING).tolist())
        stage[0] = numbers(party.rank, 10 + k, 3)
        ship()
        found.append(stage[1:].tolist())
    found.append(party.max(np.array([[float(party.rank == 2)]]), network, ITERATING).tolist())
    return found


def wait_until_told(party: Parties, links: list[ReliableChannel]) -> None:
    """Until the others know what has come and what they may forget, unless somebody is away."""
    others, talks = party.test_parties, party.manager._talks  # type: ignore[attr-defined]
    end = time.monotonic() + 10.0
    for link, came, kept in [(link, link.next_in, link.durable) for link in links]:
        while time.monotonic() < end and party.manager.failure is None:
            if link.peer in talks:
                talks[link.peer]._told = 0  # say it once more
                party.manager.flush([link.peer])
            manager = others[link.peer].manager
            own = manager.links[ROOT]
            knows = lambda own=own, came=came, kept=kept: (  # noqa: E731
                own.acknowledged >= came and own.forgotten >= kept
            )
            with manager.changed:
                if manager.changed.wait_for(
                    lambda manager=manager, knows=knows: manager.failure or knows(), 0.05
                ):
                    break


def expected(rank: int) -> list:
    others = sorted({i for edge in EDGES if rank in edge for i in edge} - {rank})
    found = []
    for k in range(3):
        columns = np.vstack([numbers(i, k) for i in range(4)]).T
        found.append([math.fsum(column) for column in columns])
        found.append([numbers(i, 10 + k, 3)[0].tolist() for i in others])
    return [*found, [1.0]]


EXPECTED = [expected(rank) for rank in range(4)]


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    """Certificates, made once."""
    folder = tmp_path_factory.mktemp("keys")
    Circle(folder, EDGES)
    return folder


@pytest.fixture
def make(keys, tmp_path, monkeypatch):
    """A circle of its own with those certificates."""

    def build(**options) -> Circle:
        for file in keys.glob("party*"):
            (tmp_path / file.name).write_bytes(file.read_bytes())
            (tmp_path / file.name).chmod(0o600)
        circle = Circle(tmp_path, EDGES, **options)
        monkeypatch.setattr(
            "dual2.runtime.peers.exchange._SYNC_FRAMES", 2
        )  # often, that more can be lost
        monkeypatch.setattr(Parties, "test_network", circle.network, raising=False)
        monkeypatch.setattr(Parties, "test_parties", circle.parties, raising=False)
        return circle

    return build


@pytest.mark.parametrize("masked", [True, False])
def test_sums_maxima_and_rows(make, masked):
    assert make(masked=masked).run(work) == EXPECTED


POINTS = [
    f"{when} {what}"
    for when, whats in {
        "before": ("create", "rename", "write frame", "write said", "sync", "sync said", "send"),
        "within": ("write frame", "write said"),
        "after": (
            *("rename", "write frame", "write said", "sync", "sync said", "send", "receive"),
        ),
    }.items()
    for what in whats
]


@pytest.mark.parametrize("point", POINTS)
def test_a_party_may_die_at_any_point(make, point):
    """The root dies at the second passage, again later together with a leaf; nothing is lost."""
    circle = make(power_loss="sync" in point or "write" in point)
    later = {} if "create" in point or "rename" in point else {(ROOT, point, 4): (LEAF,)}
    fate = Fate({(ROOT, point, 2): ()} | later)
    assert circle.run(work, fate) == EXPECTED
    assert not fate.deaths and circle.deaths == 1 + 2 * len(later)


def test_the_root_keeps_a_total_that_its_children_need_not_hear_again(make, monkeypatch):
    """It dies when they have the total on disk and it has not, and dies once more later."""
    right = Parties._log

    def log(self, frames):
        if frames[-1][0] == self.rank:  # a total, which was handed down
            links = [self.manager.links[peer] for peer in self.children]
            told = lambda: all(link.forgotten >= link.next_out for link in links)  # noqa: E731
            self.manager.wait(lambda: self.manager.failure is not None or told(), 10.0)
            crash_points.passing("handed down")
        right(self, frames)

    def summing(party: Parties) -> list:
        found = []
        for k in range(4):
            found.append(party.sum(numbers(party.rank, k), circle.network).tolist())
            party.sync()
        return found

    monkeypatch.setattr(Parties, "_log", log)
    circle, fate = make(), Fate({(ROOT, "handed down", 2): (), (ROOT, "handed down", 5): ()})
    found = circle.run(summing, fate)
    assert not fate.deaths and circle.deaths == 2
    columns = [np.vstack([numbers(i, k) for i in range(4)]).T for k in range(4)]
    assert found == [[[math.fsum(c) for c in one] for one in columns]] * 4


@pytest.mark.parametrize("point", ["before write frame", "before send UP", "before send DOWN"])
@pytest.mark.parametrize("power_loss", [False, True])
def test_a_party_between_may_die(make, monkeypatch, point, power_loss):
    """One with a parent and children, in sums of several parts, alone and with one of them."""
    monkeypatch.setattr("dual2.runtime.peers.tree_sums.CHUNK_WORDS", 6)
    monkeypatch.setattr("dual2.runtime.peers.tree_sums.WINDOW_PARTS", 2)
    folder = make().folder / "path"
    circle = Circle(folder, [(0, 1), (1, 2), (2, 3), (3, 4)], power_loss=power_loss)

    def summing(party: Parties) -> list:
        return [
            party.sum(numbers(party.rank, k), circle.network, ITERATING).tolist() for k in range(4)
        ]

    fate = Fate({(1, point, 3): (), (1, point, 7): (2,), (3, point, 6): (4,)})
    found = circle.run(summing, fate)
    assert not fate.deaths and circle.deaths == 5
    columns = [np.vstack([numbers(i, k) for i in range(5)]).T for k in range(4)]
    assert found == [[[math.fsum(c) for c in one] for one in columns]] * 5


LONG = ["before write said", "after sync", "before send UP", "before send DOWN", "after receive"]


@pytest.mark.parametrize("point", LONG)
def test_a_party_may_die_between_the_parts_of_a_long_sum(make, monkeypatch, point):
    """Sums in several frames, which are not copies: what is sent again is what was said."""
    monkeypatch.setattr("dual2.runtime.peers.tree_sums.CHUNK_WORDS", 24)
    monkeypatch.setattr("dual2.runtime.peers.frames._COPIED_BYTES", 0)
    monkeypatch.setattr("dual2.runtime.peers.frames.SHORT_BYTES", 0)
    monkeypatch.setattr("dual2.runtime.peers.reliable_channel.SHORT_BYTES", 0)
    victim, also = (LEAF, ROOT) if point.endswith("UP") else (ROOT, LEAF)
    first, second = (2, 3) if "said" in point else (3, 6)
    fate = Fate({(victim, point, first): (), (victim, point, second): (also,)})
    circle = make(power_loss=True)
    assert circle.run(work, fate) == EXPECTED
    assert not fate.deaths and circle.deaths == 3


# -- planted bugs: the same deaths must show them --------------------------------------------------
def forget_made_again(patch) -> None:
    """(A) A restart without the frames that were kept for the peers."""
    made: dict[tuple[int, int], int] = {}
    right, start = ReliableChannel.enqueue, Parties.__init__

    def make_frame(self, frame):
        if self.next_out < self.lost:
            self.next_out += 1
            return
        right(self, frame)
        made[self.me, self.peer] = self.next_out

    def begin(self, manager, journal, *rest):
        for peer, link in manager.links.items():
            link.me, link.lost = (
                manager.me,
                made.get((manager.me, peer), 1) if journal.frames else 1,
            )
        start(self, manager, journal, *rest)

    patch.setattr(Parties, "__init__", begin)
    patch.setattr(ReliableChannel, "enqueue", make_frame)


def count_received(patch) -> None:
    """(B) Received instead of consumed frames are called stable."""
    patch.setattr(ReliableChannel, "settle", lambda self: setattr(self, "durable", self.next_in))


def forget_on_ack(patch) -> None:
    """(C) A frame is forgotten when it has arrived."""
    right = ReliableChannel.on_ack
    patch.setattr(ReliableChannel, "on_ack", lambda self, ack, stable: right(self, ack, ack))


def never_sync(patch) -> None:
    """(D) The journal is called stable before it is on the disk."""
    patch.setattr(Journal, "sync", lambda self: setattr(self, "unsynced", 0))


def take_twice(patch) -> None:
    """(E) A frame that is sent again is consumed again."""
    right = ReliableChannel.accept

    def accept(self, frame, most=0):
        if 0 < frame.seq < self.next_in:
            self.inbox.append(frame)
            return True
        return right(self, frame, most)

    patch.setattr(ReliableChannel, "accept", accept)


def change_what_was_sent(patch) -> None:
    """(G) The words of a frame, which has no copy of them, change after it was sent."""
    right, send = Parties.sum_words, Parties._send
    sent: dict[int, list] = {}

    def remember(self, peer, kind, values, tag):
        if kind.name == "UP":
            sent.setdefault(self.rank, []).append(values)
        send(self, peer, kind, values, tag)

    def add(self, *rest):
        total = right(self, *rest)
        for values in sent.pop(self.rank, []):
            values[...] = 0
        return total

    patch.setattr(Parties, "_send", remember)
    patch.setattr(Parties, "sum_words", add)


def settle_before_the_total(patch) -> None:
    """(H) Words are called stable before the total that they went into is logged."""
    right = ReliableChannel.settle

    def settle(self):
        self.log()
        return right(self)

    patch.setattr(ReliableChannel, "settle", settle)


def send_twice(patch) -> None:
    """Frames that arrive twice, which no connection does by itself."""
    right = Connection.put

    def put(self, *parts):
        return right(self, *parts) and (parts[0][4] not in NUMBERED or right(self, *parts) or True)

    patch.setattr(Connection, "put", put)


def sync_before_handing_down(patch) -> None:
    """As the root does where it has to wait for room; its children hear of it."""
    right = Parties._send_all

    def send(self, peers, kind, values, tag):
        if kind.name == "DOWN" and self.rank == ROOT:
            self.sync()
            wait_until_told(self, [self.manager.links[peer] for peer in peers])
        return right(self, peers, kind, values, tag)

    patch.setattr(Parties, "_send_all", send)


def test_frames_that_arrive_twice_are_consumed_once(make, monkeypatch):
    send_twice(monkeypatch)
    assert make().run(work) == EXPECTED


DEATHS = {
    forget_made_again: {(ROOT, "before send DOWN", 7): ()},
    count_received: {(ROOT, "before write said", 3): ()},
    forget_on_ack: {(ROOT, "before write said", 3): ()},
    never_sync: {(ROOT, "before write said", 3): ()},
    take_twice: {},
    settle_before_the_total: {(ROOT, "before send DOWN", 7): ()},
}
CONDITIONS = {take_twice: send_twice, settle_before_the_total: sync_before_handing_down}
"""What has to happen for a bug to show, and does not by itself."""


@pytest.mark.parametrize("bug", DEATHS, ids=lambda bug: bug.__name__)
def test_planted_bugs_are_found(make, monkeypatch, bug):
    """Each by one death, which the right program survives."""
    power_loss = bug is not forget_made_again  # whose journal must have what it made frames of
    if bug in CONDITIONS:
        CONDITIONS[bug](monkeypatch)
    circle = make(power_loss=power_loss)
    assert circle.run(work, Fate(DEATHS[bug])) == EXPECTED
    circle.forget()
    bug(monkeypatch)
    monkeypatch.setattr("party_circle.LIMIT", 2.5)
    circle = make(power_loss=power_loss, timing=replace(QUICK, patience=1.0))
    try:
        found = circle.run(work, Fate(DEATHS[bug]))
    except Hanging:
        return
    assert found != EXPECTED


def test_words_that_change_after_they_were_sent_are_found(make, monkeypatch):
    """The root loses all of a sum when everybody has its total, and asks for it once more."""
    monkeypatch.setattr("dual2.runtime.peers.frames._COPIED_BYTES", 0)

    def run(**options) -> list:
        circle = make(power_loss=True, **options)
        monkeypatch.setattr("dual2.runtime.peers.exchange._SYNC_FRAMES", 64)
        fate = Fate({(ROOT, "before sync", 2): ()})
        try:
            return circle.run(work, fate)
        finally:
            assert not fate.deaths and circle.deaths == 1
            circle.forget()

    assert run() == EXPECTED
    change_what_was_sent(monkeypatch)
    monkeypatch.setattr("party_circle.LIMIT", 5.0)
    try:
        found = run(timing=replace(QUICK, patience=1.0))
    except Hanging:
        return
    assert found != EXPECTED


def test_who_changes_a_total_changes_nothing_that_was_sent(make, monkeypatch):
    """Parties change the totals they have got; then one loses all it got, and asks once more."""
    monkeypatch.setattr("dual2.runtime.peers.frames._COPIED_BYTES", 0)
    right = Parties.sum_words

    def spoil(self, *rest):
        total = right(self, *rest)
        found = total.copy()
        total[...] = 0
        return found

    monkeypatch.setattr(Parties, "sum_words", spoil)
    for edges, victim in ((EDGES, LEAF), ([(0, 1), (1, 2), (2, 3), (3, 4)], 0)):
        circle = make(power_loss=True)
        if edges is not EDGES:
            circle = Circle(circle.folder / "path", edges, power_loss=True)
        monkeypatch.setattr("dual2.runtime.peers.exchange._SYNC_FRAMES", 64)

        def summing(party: Parties, circle=circle) -> list:
            network = circle.network
            return [
                party.sum(numbers(party.rank, k), network, ITERATING).tolist() for k in range(3)
            ]

        fate = Fate({(victim, "before sync", 1): ()})
        found = circle.run(summing, fate)
        assert not fate.deaths and circle.deaths == 1
        columns = [np.vstack([numbers(i, k) for i in range(circle.network.n)]).T for k in range(3)]
        assert found == [[[math.fsum(c) for c in one] for one in columns]] * circle.network.n


def say_before_it_is_on_the_disk(self, index: int, words: bytes) -> bool:
    """(F) What is said is logged, but not synced."""
    self.said.append(3, "said", index.to_bytes(8, "little") + bytes(16))
    return True


def test_words_under_a_mask_are_never_replaced(make, monkeypatch):
    """Whoever returns with other data is stopped before it says anything, and all learn who."""
    circle = make(power_loss=True)
    incarnations = []

    def changing(party: Parties) -> list:
        if party.rank == 2:
            incarnations.append(party)
        shift = float(party.rank == 2 and len(incarnations) > 1)
        network = party.test_network  # type: ignore[attr-defined]
        return [party.sum(numbers(party.rank, k) + shift, network).tolist() for k in range(3)]

    def run() -> list:
        incarnations.clear()
        circle.forget()
        return circle.run(changing, Fate({(2, "before send UP", 2): ()}))

    found = run()
    assert isinstance(found[2], Dual2Error) and "computed again with another value" in str(found[2])
    assert all(isinstance(one, PeerError) for k, one in enumerate(found) if k != 2)
    monkeypatch.setattr(
        Journal, "append_said", say_before_it_is_on_the_disk
    )  # a planted bug is found
    assert not any("computed again" in str(one) for one in run())


def test_an_abort_reaches_everybody(make):
    circle = make()

    def stopping(party: Parties) -> None:
        party.sum(numbers(party.rank, 0), party.test_network)  # type: ignore[attr-defined]
        if party.rank == LEAF:
            raise Dual2Error("no more")
        party.sum(numbers(party.rank, 1), party.test_network)  # type: ignore[attr-defined]

    found = circle.run(stopping)
    assert [type(one) for one in found] == [Dual2Error, PeerError, PeerError, PeerError]
    assert all("no more" in str(one) for one in found)


def lie_to(patch, liar: int, victim: int, when: Callable[[int], bool], books: bool = False) -> None:
    """A relay tells one of its children another total; with ``books`` it also keeps its chain."""
    right, chains = Parties._send_all, {}

    def lie(self, peers, kind, values, tag):
        if self.rank != liar or kind.name != "DOWN" or victim not in peers:
            return right(self, peers, kind, values, tag)
        false = values.copy()
        false.flat[0] += false.dtype.type(when(tag))
        sent = right(self, [peer for peer in peers if peer != victim], kind, values, tag)
        true = self._chain
        self._chain = chains.get(victim, true) if books else true
        right(self, [victim], kind, false, tag)
        chains[victim] = chain_of(self._chain, sha256(false.data).digest())
        self._chain = true
        return sent

    right_numbers = Parties._numbers

    def numbers(self, peer, kind, tag, like):
        true = self._chain
        if books and (self.rank, peer) == (liar, victim):
            self._chain = chains.get(victim, true)
        try:
            return right_numbers(self, peer, kind, tag, like)
        finally:
            self._chain = true

    patch.setattr(Parties, "_send_all", lie)
    patch.setattr(Parties, "_numbers", numbers)


def test_who_lies_about_totals_is_found_by_the_chain(make, monkeypatch):
    lie_to(monkeypatch, ROOT, 3, lambda tag: tag == 2)
    found = make(masked=False).run(work)
    assert any("has seen other totals" in str(one) for one in found)
    assert all(isinstance(one, PeerError) for one in found)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("last", [False, True], ids=["two books", "last total"])
def test_different_totals_are_found_before_an_answer_is_written(make, monkeypatch, masked, last):
    """Also where nobody compares: a relay that keeps two chains, or lies in the last sum.

    Masks of parties that have seen different totals do not cancel: that shows at the next sum.
    """

    def summing(party: Parties) -> list:
        network = party.test_network  # type: ignore[attr-defined]
        return [party.sum(numbers(party.rank, k), network, ITERATING).tolist() for k in range(2)]

    lie_to(monkeypatch, ROOT, LEAF, lambda tag: tag == 1 or not last, books=not last)
    found = make(masked=masked).run(summing)
    assert all(isinstance(one, PeerError) for one in found)
    said = "do not cancel" if masked and not last else "have seen different totals"
    assert any(said in str(one) for one in found)


@pytest.mark.parametrize(
    "spoilt, said",
    [
        (lambda total: np.where(np.arange(len(total)) == 2, np.nan, total), "is not a number"),
        (lambda total: total.view(np.uint64), r"sent words of shape (7,); doubles of shape (7,)"),
    ],
    ids=["NaN", "words"],
)
def test_a_total_that_is_none_is_refused(make, monkeypatch, spoilt, said):
    right = Parties._send_all

    def spoil(self, peers, kind, values, tag):
        if self.rank == ROOT and kind.name == "DOWN" and values.dtype.kind == "f" and tag > 1:
            values = spoilt(values)
        return right(self, peers, kind, values, tag)

    monkeypatch.setattr(Parties, "_send_all", spoil)
    found = make().run(work)
    assert all(isinstance(one, PeerError) for one in found)
    assert any(str(one).startswith("party1 sent") and said in str(one) for one in found)


def test_masks_that_do_not_cancel_are_noticed(make, monkeypatch):
    right = Parties.sum_words

    def shift(self, words, *rest):
        if self.rank == 2 and words.ndim == 2:
            words[-2, 0] += np.uint64(1)
        return right(self, words, *rest)

    monkeypatch.setattr(Parties, "sum_words", shift)
    found = make().run(work)
    assert any("do not cancel" in str(one) for one in found)


def record(patch) -> list[tuple]:
    """All that the parties send from now on: who, to how many, kind, shape, and the bytes."""
    sent: list[tuple] = []
    right = Parties._send_all

    def send(self, peers, kind, values, tag):
        data = values if isinstance(values, bytes) else np.ascontiguousarray(values).tobytes()
        sent.append((self.rank, len(peers), kind.name, np.shape(values), data))
        return right(self, peers, kind, values, tag)

    patch.setattr(Parties, "_send_all", send)
    return sent


def demand_noise(sent: list[tuple]) -> None:
    """No chi-square test tells what goes up the tree from random bytes."""
    data = np.frombuffer(b"".join(one[-1] for one in sent if one[2] == "UP"), np.uint8)
    counts = np.bincount(data, minlength=256)
    chi = float(((counts - data.size / 256) ** 2).sum() / (data.size / 256))
    assert data.size > 50_000 and abs(chi - 255) < 6 * math.sqrt(2 * 255)


def test_two_runs_of_the_same_sums_look_alike_on_the_wire(make, monkeypatch):
    """With masks: as many messages, of the same kinds and lengths, whatever the private numbers."""
    sent, looks = record(monkeypatch), []
    for scale in (1.0, 1e-3):
        sent.clear()
        circle = make()

        def summing(party: Parties, scale=scale) -> None:
            network = party.test_network  # type: ignore[attr-defined]
            for k in range(3):
                party.sum(np.full((1, 400), scale * (party.rank + k)), network)

        circle.run(summing)
        circle.forget()
        looks.append([sorted(one[:4] for one in sent if one[0] == i) for i in range(4)])
        demand_noise(sent)
    assert looks[0] == looks[1]


def test_what_a_solve_sends_follows_from_the_totals(make, monkeypatch):
    """How many messages there are, and how long, follows from totals, which all parties see.

    The parties solve a problem, then the same one with their private data exchanged: other words
    at every party, the same totals, and message by message the same kinds and lengths.
    """
    sent, looks, words = record(monkeypatch), [], []
    draw = np.random.default_rng(1)
    agents = [
        d2.Agent(draw.standard_normal((6, 2)), d2.SquaredNorm(1.0), d2.L1Norm(0.1))
        for _ in range(4)
    ]
    h = d2.SquaredLoss(np.arange(6.0))
    network = d2.Network(EDGES)  # what has to be compiled is compiled before anybody waits
    d2.solve(d2.Problem(agents, h), network, method="Newton", sums="exact", record=False)
    for order in ((0, 1, 2, 3), (2, 0, 3, 1)):
        sent.clear()
        circle = make()

        def solving(party: Parties, order=order, circle=circle) -> d2.Result:
            own = {party.rank: agents[order[party.rank]]}
            share = LocalProblem(own, h, 4)
            return d2.solve(share, circle.network, method="Newton", runtime=party, record=False)

        found = circle.run(solving)
        assert {one.status for one in found} == {d2.Status.CONVERGED}
        circle.forget()
        looks.append([[one[:4] for one in sent if one[0] == i] for i in range(4)])
        words.append({one[-1] for one in sent if one[2] == "UP"})
        demand_noise(sent)
    assert looks[0] == looks[1] and len(looks[0][0]) > 10
    assert not words[0] & words[1]


@pytest.mark.parametrize("power_loss", [False, True])
def test_who_returns_when_a_neighbour_has_left_does_not_wait_for_it(make, monkeypatch, power_loss):
    """A neighbour leaves when its goodbye is kept; it is not waited for as one that is missing."""
    circle, fate, gone, missing = make(power_loss=power_loss), Fate(), threading.Event(), []
    monkeypatch.setattr("dual2.runtime.peers.exchange._SYNC_FRAMES", 64)
    right = Parties.leave

    def leave(self):
        late = self.rank == 2 and ROOT not in fate.killed
        if late:  # the root waits for this goodbye, and is killed meanwhile
            assert gone.wait(20.0)
            fate.kill(ROOT)
        found = right(self)
        missing.extend(found if self.manager.failure is None else [])
        if self.rank == LEAF:
            gone.set()
        return found

    monkeypatch.setattr(Parties, "leave", leave)
    assert circle.run(work, fate) == EXPECTED
    assert circle.deaths == 1 and missing == []


def test_a_last_word_that_is_lost_is_said_again(make, monkeypatch):
    """A leaf has all it needs, but the connection breaks where it tells the root so."""
    circle, missing, lost = make(), [], []
    right, put = Parties.leave, Connection.put

    def leave(self):
        found = right(self)
        missing.extend(found)
        return found

    def lose(self, *parts):
        manager = circle.parties[LEAF].manager
        link = manager.links[ROOT]
        if lost or self is not manager.connections.get(ROOT) or not link.parting:
            return put(self, *parts)
        if parts[0][4] in NUMBERED:
            return put(self, *parts)
        if link.drained:
            lost.append(True)
            self.close()
        return True

    monkeypatch.setattr(Parties, "leave", leave)
    monkeypatch.setattr(Connection, "put", lose)
    assert circle.run(work) == EXPECTED
    assert lost and missing == []
