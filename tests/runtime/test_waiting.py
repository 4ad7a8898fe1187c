"""Waiting: polls where the processor is free, naps where others take it, by a clock of our own."""

import pytest

from dual2.runtime import waiting


class Time:
    """Stands still except in naps and offers of the processor; an offer takes ``offer`` seconds."""

    def __init__(self, offer):
        self.now, self.offer, self.offers, self.naps = 100.0, offer, 0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.naps.append(seconds)
        self.now += seconds

    def give(self):
        self.offers += 1
        self.now += self.offer


@pytest.fixture
def at(monkeypatch):
    """A machine whose offers take so long, about which nothing is known yet."""

    def start(offer):
        time = Time(offer)
        monkeypatch.setattr(waiting, "_machine", waiting.Machine())
        monkeypatch.setattr(waiting, "monotonic", time.monotonic)
        monkeypatch.setattr(waiting, "sleep", time.sleep)
        monkeypatch.setattr(waiting, "_yield", time.give)
        return time

    return start


class Request:
    """Complete at the poll ``after``."""

    def __init__(self, after):
        self.left = after

    @classmethod
    def Testall(cls, requests):
        for request in requests:
            request.left -= 1
        return all(request.left <= 0 for request in requests)

    def Test(self):
        return self.left <= 0


def wait(polls, seconds=60.0):
    waiting.wait_all(Request, [Request(polls)], [1], seconds, "rows")


def naps_next(time):
    """Whether the next wait naps."""
    time.naps.clear()
    wait(30)
    return bool(time.naps)


@pytest.mark.parametrize("offer, naps", [(1e-6, False), (5e-3, True)])
def test_naps_follow_where_others_take_the_processor(at, offer, naps):
    time = at(offer)
    for _ in range(100):
        wait(30)
    before = time.offers
    assert naps_next(time) is naps
    assert (time.offers == before) is naps


def test_a_crowd_is_forgotten(at):
    time = at(5e-3)
    for _ in range(100):
        wait(30)
    time.now += 10.0
    time.offer = 1e-6
    for _ in range(3):
        wait(30)
    assert not naps_next(time)


def test_a_rare_loss_is_no_crowd(at):
    """Every process loses its processor now and then."""
    time = at(1e-6)
    for k in range(1000):
        time.offer = 5e-3 if k % 200 == 0 else 1e-6
        wait(30)
    assert not naps_next(time)


def test_long_waits_are_slept_through(at):
    """A second costs a few processor milliseconds, not one; no nap is longer than a millisecond."""
    time = at(1e-6)
    with pytest.raises(waiting.NeighbourTimeout, match="rank 1 did not answer for 1 s"):
        wait(10**9, 1.0)
    assert time.offers < 1100
    assert 900 < len(time.naps) < 1200
    assert max(time.naps) <= 1e-3


def test_a_process_that_was_stopped_blames_nobody(at, monkeypatch):
    """An hour between two polls: the neighbours have the whole time left, and no more."""
    time = at(1e-6)

    def stopped(seconds):
        time.sleep(seconds)
        time.now += 3600.0 if len(time.naps) == 100 else 0.0

    monkeypatch.setattr(waiting, "sleep", stopped)
    wait(1200, 60.0)
    assert time.now > 3700.0
    time.naps.clear()
    begun = time.now
    with pytest.raises(waiting.NeighbourTimeout, match="did not answer for 2 s"):
        wait(10**9, 2.0)
    assert 3601.0 < time.now - begun < 3603.0
