"""A link delivers each frame once and in order, over any number of connections and restarts."""

import random
from dataclasses import replace

import numpy as np
import pytest

from dual2.errors import PeerError
from dual2.runtime.peers.conversation import demand_memory
from dual2.runtime.peers.frames import Frame, Kind, frame_of
from dual2.runtime.peers.reliable_channel import Gap, ReliableChannel

RUN = bytes(16)


def number(value: int, kind: Kind = Kind.ROWS) -> Frame:
    return frame_of(kind, RUN, np.array([float(value)]))


class End:
    """One end of a link: a program that sends 0, 1, 2, … and keeps what it consumes."""

    def __init__(self) -> None:
        self.journal: list[Frame] = []
        self.synced = 0
        self.restart()

    def restart(self, lose: int = 0) -> None:
        """Begin again with what is on the disk, and make the same frames again."""
        made = getattr(self, "made", 0)
        del self.journal[max(self.synced, len(self.journal) - lose) :]
        self.synced = len(self.journal)  # a journal that is opened is synced first
        self.link, self.made, self.taken = ReliableChannel(1, "peer"), 0, []
        self.link.refill(self.journal)
        while self.link.inbox:
            self.take()
        while self.made < made:
            self.send()

    def send(self) -> None:
        self.link.enqueue(number(self.made))
        self.made += 1

    def take(self) -> None:
        frame, old = self.link.consume()
        self.taken.append(int(frame.array()[0]))
        if not old:
            self.journal.append(frame)
            self.link.log()

    def sync(self) -> None:
        self.synced = len(self.journal)
        self.link.settle()


def connect(ends: list[End]) -> None:
    hellos = [(end.link.next_in, end.link.durable) for end in ends]
    for end, hello in zip(ends, reversed(hellos), strict=True):
        end.link.on_connect(*hello)


def carry(source: End, target: End, draw: random.Random) -> None:
    """Frames on their way: all, some of them twice, or none from some point on."""
    ack, stable = source.link.next_in, source.link.durable
    for frame in source.link.pending():
        if draw.random() < 0.1:
            raise Gap("the connection broke")
        for _ in range(1 + (draw.random() < 0.2)):
            target.link.accept(replace(frame, ack=ack, stable=stable))
    ping = replace(frame_of(Kind.PING, RUN, tag=source.link.next_out), ack=ack, stable=stable)
    target.link.accept(ping)


@pytest.mark.parametrize("seed", range(40))
def test_every_frame_is_consumed_once_whatever_happens(seed):
    draw, ends = random.Random(seed), [End(), End()]
    connect(ends)
    for _ in range(300):
        k = draw.randrange(2)
        act = draw.choice(["send", "send", "carry", "carry", "take", "take", "sync", "die", "cut"])
        if act == "send":
            ends[k].send()
        elif act == "take" and ends[k].link.inbox:
            ends[k].take()
        elif act == "sync":
            ends[k].sync()
        elif act == "die":
            for one in ends if draw.random() < 0.3 else [ends[k]]:
                one.restart(lose=draw.randrange(4))
            connect(ends)
        elif act == "cut":
            connect(ends)
        elif act == "carry":
            try:
                carry(ends[k], ends[1 - k], draw)
            except Gap:
                connect(ends)
    calm = random.Random(0)
    calm.random = lambda: 0.5  # type: ignore[method-assign]
    connect(ends)
    for k in range(2):
        carry(ends[k], ends[1 - k], calm)
    for one, other in (ends, reversed(ends)):
        while one.link.inbox:
            one.take()
        assert one.taken == list(range(other.made))


def test_a_frame_is_kept_until_the_peer_cannot_want_it_again():
    link = ReliableChannel(1, "lab")
    for k in range(3):
        link.enqueue(number(k))
    link.on_ack(ack=4, stable=1)
    assert [frame.seq for frame in link.out] == [1, 2, 3]
    link.on_ack(ack=4, stable=3)
    assert [frame.seq for frame in link.out] == [3]


def test_a_lost_state_is_named():
    link = ReliableChannel(1, "lab")
    link.enqueue(number(0))
    link.on_ack(ack=2, stable=2)
    with pytest.raises(PeerError, match=r"lab asks for frame 1, .* lost or replaced by an older"):
        link.on_connect(1, 1)


@pytest.mark.parametrize("settled", [False, True], ids=["as it came", "as its hash"])
def test_a_repeated_frame_with_another_content_is_an_error(settled):
    link = ReliableChannel(1, "lab")
    assert link.accept(replace(number(0), seq=1))
    if settled:
        link.consume()
        link.log()
        link.settle()
        assert link.durable == 2
        assert all(isinstance(content, bytes) for content in link._contents)
    assert not link.accept(replace(number(0), seq=1, ack=7, stable=3))
    with pytest.raises(PeerError, match="lab sent frame 1 again with another content"):
        link.accept(replace(number(5), seq=1))


def test_what_is_consumed_but_not_logged_may_be_asked_for_again():
    """Also when the journal is synced for other frames: words whose total is not logged yet."""
    link = ReliableChannel(1, "lab")
    for seq in (1, 2):
        link.accept(replace(number(seq), seq=seq))
    link.consume()
    link.log()
    link.consume()
    link.settle()
    assert link.durable == 2


def test_a_peer_is_told_at_once_what_it_may_forget_if_nothing_else_is_sent_to_it():
    link = ReliableChannel(1, "lab")
    assert link.settle()
    link.enqueue(number(0))
    assert not link.settle()  # the next frame tells
    assert link.settle()


def test_gaps_are_noticed_at_the_next_frame_and_at_a_ping():
    link = ReliableChannel(1, "lab")
    with pytest.raises(Gap):
        link.accept(replace(number(0), seq=2))
    with pytest.raises(Gap):
        link.accept(frame_of(Kind.PING, RUN, tag=2))


def test_a_party_whose_state_was_deleted_is_told():
    """Its peers have frames that it never made: with new keys nothing would fit any more."""
    link = ReliableChannel(1, "lab")
    link.fresh = True
    link.enqueue(number(0))
    assert link.on_connect(2, 1) == 0
    with pytest.raises(PeerError, match="lab has 4 frames of an earlier attempt of its neighbour"):
        link.on_connect(5, 1)
    link.fresh = False  # a state that goes on makes them again
    link.on_connect(5, 1)


def test_a_peer_cannot_fill_the_memory(monkeypatch):
    monkeypatch.setattr("dual2.runtime.peers.reliable_channel.MAX_KEPT_BYTES", 5500)
    link, sent = ReliableChannel(1, "lab"), 0
    with pytest.raises(PeerError, match=r"lab sent \d+ bytes ahead; expected at most 5600"):
        for seq in range(1, 100):
            link.accept(replace(frame_of(Kind.BYE, RUN), seq=seq, ack=1, stable=1), 100)
            sent = seq
    assert 5 < sent < 10
    while link.inbox:
        link.consume()
    assert link.accept(replace(frame_of(Kind.BYE, RUN), seq=sent + 1, ack=1, stable=1), 100)


def test_what_the_journal_gives_back_was_not_sent_ahead(monkeypatch):
    """A long run is resumed while its neighbours already send what comes next."""
    monkeypatch.setattr("dual2.runtime.peers.reliable_channel.MAX_KEPT_BYTES", 5500)
    link = ReliableChannel(1, "lab")
    link.refill([replace(number(k), seq=1 + k) for k in range(50)])
    for seq in (51, 52):
        assert link.accept(replace(number(seq), seq=seq, ack=1, stable=1), 100)
    for _ in range(52):
        link.consume()
    with pytest.raises(PeerError, match=r"lab sent \d+ bytes ahead"):
        for seq in range(53, 100):
            link.accept(replace(number(seq), seq=seq, ack=1, stable=1), 100)


def test_what_cannot_be_stable_is_refused():
    with pytest.raises(PeerError, match="lab calls frames below 7 stable"):
        ReliableChannel(1, "lab").accept(replace(frame_of(Kind.ACK, RUN), ack=3, stable=7))


def test_only_the_last_frames_are_compared(monkeypatch):
    """What is remembered of frames does not grow with the run."""
    link = ReliableChannel(1, "lab")
    for seq in range(1, 6001):
        link.accept(replace(number(seq), seq=seq))
        link.consume()
    assert len(link._contents) < 6000
    assert not link.accept(replace(number(0), seq=1))
    with pytest.raises(PeerError, match="again with another content"):
        link.accept(replace(number(0), seq=6000))


def test_what_was_never_sent_cannot_be_confirmed():
    """A peer says that it has frames that were not made, or that it was told what it was not."""
    for ack, stable in ((3, 1), (2**63, 2**63)):
        link = ReliableChannel(1, "lab")
        link.fresh = True
        link.enqueue(number(0))
        with pytest.raises(PeerError, match=r"lab says that it has frame \d+; 1 were sent"):
            link.accept(replace(frame_of(Kind.PING, RUN), ack=ack, stable=stable))
    with pytest.raises(PeerError, match="lab was never told that its frames below 9 are kept"):
        ReliableChannel(1, "lab").accept(replace(frame_of(Kind.ACK, RUN, tag=9), ack=1, stable=1))


def test_all_neighbours_together_cannot_fill_the_memory(monkeypatch):
    monkeypatch.setattr("dual2.runtime.peers.conversation.MAX_UNREAD_BYTES", 20_000)
    links = [ReliableChannel(k, name) for k, name in enumerate(("lab", "clinic"))]
    for seq in range(1, 8):
        links[0].accept(replace(number(seq), seq=seq))
        demand_memory(links)
    with pytest.raises(PeerError, match=r"\d+ bytes of frames are unread, \d+ of them from clinic"):
        for seq in range(1, 20):
            links[1].accept(replace(number(seq), seq=seq))
            demand_memory(links)
