"""How long a party waits for one whose link is down, by a clock of our own."""

from types import SimpleNamespace

import pytest

from dual2.errors import PeerError
from dual2.runtime.peers import exchange
from dual2.runtime.peers.exchange import Exchange, Progress

PATIENCE = 60.0


class Waiting(Exchange):
    """A party between a journal and a manager that do nothing but let half a second pass."""

    def __init__(self, monkeypatch, stopped_at):
        self.now, self.turns, self._index = 0.0, 0, 3
        monkeypatch.setattr(exchange, "time", SimpleNamespace(monotonic=lambda: self.now))

        def wait(ready, tick):
            self.now += tick + (3600.0 if self.turns == stopped_at else 0.0)
            self.turns += 1

        self.names, self.progress = ["me", "clinic"], Progress()
        self.journal = SimpleNamespace(catch_up=lambda: None, unsynced=0)
        self.manager = SimpleNamespace(
            timing=SimpleNamespace(patience=PATIENCE, progress=10 * PATIENCE),
            links={1: SimpleNamespace(inbox=[], next_in=1)},
            neighbours={1: SimpleNamespace(address=("127.0.0.1", 7443))},
            connections={},
            why_down=lambda peer: "no answer",
            strange=(),
            failure=None,
            down_since={1: 0.0},
            wait=wait,
        )


def test_a_party_that_was_stopped_still_waits_for_the_others(monkeypatch):
    """An hour in which it did not run is not counted; the clinic has its whole time."""
    party = Waiting(monkeypatch, stopped_at=5)
    party._wait(lambda: party.turns == 100, 1)
    assert party.now > 3600.0


@pytest.mark.parametrize("stopped_at", [None, 5])
def test_it_waits_no_longer_than_it_should(monkeypatch, stopped_at):
    party = Waiting(monkeypatch, stopped_at)
    with pytest.raises(PeerError, match=r"clinic \(127.0.0.1:7443\) was unreachable for 60 s"):
        party._wait(lambda: False, 1)
    assert abs(0.5 * party.turns - PATIENCE) <= 1.0


def test_a_peer_that_is_there_but_does_not_compute_is_named(monkeypatch):
    party = Waiting(monkeypatch, stopped_at=None)
    party.manager.connections[1] = object()
    with pytest.raises(PeerError, match=r"clinic is connected but has sent nothing new for 600 s"):
        party._wait(lambda: False, 1)
    assert abs(0.5 * party.turns - 10 * PATIENCE) <= 1.0


def test_a_peer_that_makes_progress_has_its_time_again(monkeypatch):
    party = Waiting(monkeypatch, stopped_at=None)
    party.manager.connections[1] = object()
    link = party.manager.links[1]
    party._wait(
        lambda: bool(link.__dict__.update(next_in=party.turns // 900)) or party.turns > 3000, 1
    )
    assert 0.5 * party.turns > 10 * PATIENCE
