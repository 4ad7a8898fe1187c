"""The event loop of the links: one thread at a time, and a keeper where nobody waits."""

import asyncio
import socket
import threading
import time

import pytest

from dual2.runtime.peers.shared_event_loop import SharedEventLoop


@pytest.fixture
def turns():
    """A loop whose main coroutine waits for the end of the test."""
    over = asyncio.Event()
    found = SharedEventLoop("keeper", over.wait)  # type: ignore[arg-type]
    found.start()
    yield found
    found.loop.call_soon_threadsafe(over.set)
    found.join(10.0)
    assert not found.alive and found.loop.is_closed()


def test_the_keeper_runs_the_loop_while_others_compute(turns):
    ran = threading.Event()
    with turns:
        turns.loop.call_later(0.01, ran.set)
    assert ran.wait(10.0)


def test_what_is_left_to_do_is_done_at_once(turns, monkeypatch):
    monkeypatch.setattr("dual2.runtime.peers.shared_event_loop._PAUSE", 1e6)
    ran = threading.Event()
    with turns:
        turns.loop.call_soon(ran.set)
    turns.nudge()
    assert ran.wait(10.0)


def test_who_waits_runs_the_loop_in_its_own_thread(turns):
    seen = []

    def act() -> None:
        seen.append(threading.current_thread())
        turns.notice()

    with turns:
        turns.loop.call_later(0.01, act)
        assert turns.run(lambda: bool(seen), 10.0)
        assert not turns.run(lambda: False, 0.01)
    assert seen == [threading.current_thread()]


@pytest.fixture
def mail(turns):
    """What comes through a pair of sockets, with whether the loop ran when it was read."""
    one, other = socket.socketpair()
    seen: list[tuple[bytes, bool]] = []

    def read() -> None:
        seen.append((other.recv(10), turns.loop.is_running()))
        turns.notice()

    with turns:
        turns.loop.add_reader(other, read)
        turns.readers[other.fileno()] = read
    yield one, seen
    with turns:
        turns.loop.remove_reader(other)
        turns.readers.clear()
    one.close()
    other.close()


def test_what_comes_soon_is_read_without_the_loop_which_has_its_turn_too(turns, mail, monkeypatch):
    one, seen = mail
    monkeypatch.setattr("dual2.runtime.peers.shared_event_loop._MOMENT", 10.0)
    for pause, running in ((1e6, False), (0.0, True)):  # how long the loop may rest
        with turns:
            turns._left = True
            turns.run(lambda: False, 1e-3)  # takes what woke up the keeper out of the way
            monkeypatch.setattr("dual2.runtime.peers.shared_event_loop._PAUSE", pause)
            one.send(b"news")
            assert turns.run(lambda: bool(seen), 10.0)
        assert seen.pop() == (b"news", running)


def test_who_waits_for_something_to_be_read_does_what_else_is_to_be_done(turns, mail, monkeypatch):
    monkeypatch.setattr("dual2.runtime.peers.shared_event_loop._MOMENT", 10.0)
    monkeypatch.setattr("dual2.runtime.peers.shared_event_loop._PAUSE", 1e6)
    asked: list[bool] = []
    with turns:
        turns._left = False
        turns.loop.call_soon_threadsafe(lambda: (asked.append(True), turns.notice()))
        begun = time.monotonic()
        assert turns.run(lambda: bool(asked), 10.0)
    assert time.monotonic() - begun < 8.0


def test_turns_exclude_each_other(turns):
    inside, most, count = [], [], [0]

    def take(k: int) -> None:
        for _ in range(50):
            with turns:
                inside.append(k)
                most.append(len(inside))
                turns.run(lambda: False, 1e-4)
                count[0] += 1
                inside.remove(k)

    threads = [threading.Thread(target=take, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert count == [150] and max(most) == 1


def test_the_end_of_the_main_coroutine_ends_all_waiting():
    async def main() -> None:
        await asyncio.sleep(0.05)

    turns = SharedEventLoop("keeper", main)
    turns.start()
    begun = time.monotonic()
    with turns:
        assert not turns.run(lambda: False, 20.0)
    turns.join(10.0)
    assert not turns.alive and time.monotonic() - begun < 15.0
    with turns:
        assert not turns.run(lambda: False, 20.0)
