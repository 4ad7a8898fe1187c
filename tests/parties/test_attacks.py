"""Strangers and impostors at the door of a party: refused, logged, and the run goes on."""

import asyncio
import json
import select
import socket
import ssl
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dual2.runtime.peers import wire_transport
from dual2.runtime.peers.connection_manager import ConnectionManager
from dual2.runtime.peers.frames import Frame, Kind, frame_of
from dual2.runtime.peers.hello import Mismatch, SessionIdentity
from dual2.runtime.peers.identity import make_certificate, make_key, write_certificate
from dual2.runtime.peers.pending_connections import PendingLimit
from dual2.runtime.peers.tls_transport import dial, make_context
from party_circle import QUICK, RUN, STUDY, Circle

EDGES = [(0, 1)]


@pytest.fixture
def circle(tmp_path) -> Circle:
    return Circle(tmp_path, EDGES, masked=False)


@pytest.fixture
def manager(circle, monkeypatch):
    """Party 0, which listens; party 1 is the one that may dial it."""
    monkeypatch.setattr("dual2.runtime.peers.connection_manager._FAREWELL_SECONDS", 0.1)
    manager = circle.listen(circle.manager(0))
    yield manager
    manager.stop()


def make_identity(folder: Path, name: str, days: float = 30, since: float = 1) -> tuple[Path, Path]:
    key = make_key(folder / f"{name}.key")
    write_certificate(folder / f"{name}.pem", make_certificate("party1", key, None, days, since))
    return folder / f"{name}.key", folder / f"{name}.pem"


def knock(
    manager: ConnectionManager, circle: Circle, files: tuple[Path, Path], *frames: bytes
) -> Frame | None:
    """Dial as somebody with these files, say these bytes; what party 0 answered first."""

    async def talk() -> Frame | None:
        context = make_context(*files, circle.certificates, server=False)
        connection = await dial(("127.0.0.1", manager.port or 0), context, 1 << 20, 5.0)
        try:
            for frame in frames:
                await connection.send(frame)
            async with asyncio.timeout(10.0):
                return await connection.receive()
        finally:
            connection.close()

    return asyncio.run(talk())


def wait_for(circle: Circle, event: str) -> dict:
    """The details of an event in party 0's log."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for who, what, details in list(circle.events):
            if (who, what) == (0, event):
                return details
        time.sleep(0.01)
    raise AssertionError(f"no {event} in {circle.events}")


def own(circle: Circle) -> tuple[Path, Path]:
    return circle.folder / "party1.key", circle.folder / "party1.pem"


def hello(**changes) -> bytes:
    return replace(SessionIdentity(RUN, STUDY, "versions"), **changes).hello(1, 1, 1).packed()


def test_the_right_party_is_greeted(circle, manager):
    found = knock(manager, circle, own(circle), hello())
    assert found is not None and found.kind == Kind.HELLO
    assert wait_for(circle, "link_up")["peer"] == "party1"


@pytest.mark.parametrize(
    "dates, why",
    [({}, "self-signed certificate"), ({"days": -1, "since": 9}, "self-signed certificate")],
    ids=["self-signed with the right name", "expired and unknown"],
)
def test_unknown_certificates_are_refused(circle, manager, dates, why):
    files = make_identity(circle.folder, "thief", **dates)
    with pytest.raises((ssl.SSLError, OSError, EOFError, AssertionError)):
        assert knock(manager, circle, files, hello()) is not None
    assert why in wait_for(circle, "handshake_failed")["why"]
    assert not manager.connections and manager.failure is None


def test_an_expired_certificate_of_the_study_is_refused(tmp_path):
    first = Circle(tmp_path, EDGES)
    (tmp_path / "party1.key").unlink()
    (tmp_path / "party1.pem").unlink()
    files = make_identity(tmp_path, "party1", days=-1, since=9)
    circle = Circle(tmp_path, EDGES)
    assert circle.certificates[1] != first.certificates[1]
    manager = circle.listen(circle.manager(0))
    try:
        with pytest.raises((ssl.SSLError, OSError, EOFError, AssertionError)):
            assert knock(manager, circle, files, hello()) is not None
        assert "expired" in wait_for(circle, "handshake_failed")["why"]
    finally:
        manager.stop()


def test_a_certificate_of_the_study_that_may_not_dial_is_a_stranger(circle, manager):
    files = circle.folder / "party0.key", circle.folder / "party0.pem"
    manager.place.carrier.server.load_verify_locations(cadata=circle.certificates[0])
    assert knock(manager, circle, files, hello()) is None
    assert len(wait_for(circle, "stranger")["fingerprint"]) == 64


def test_tls_1_2_and_plain_text_are_refused(circle, manager):
    context = make_context(*own(circle), circle.certificates, server=False)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", manager.port), 10) as plain:
        with pytest.raises((ssl.SSLError, OSError)):
            context.wrap_socket(plain)
    assert "PROTOCOL" in wait_for(circle, "handshake_failed")["why"]
    circle.events.clear()
    with socket.create_connection(("127.0.0.1", manager.port), 10) as plain:
        plain.sendall(hello())
        wait_for(circle, "handshake_failed")


def test_who_says_nothing_is_gone_after_a_while(circle, manager, monkeypatch):
    monkeypatch.setattr(wire_transport, "HANDSHAKE_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", manager.port), 10) as plain:
        plain.settimeout(20)
        assert plain.recv(1) == b""


@pytest.mark.parametrize(
    "change, words",
    [
        ({"study": bytes(32)}, "another study file"),
        ({"versions": "dual2 0.0"}, "another set of library versions"),
    ],
)
def test_another_study_is_named_and_nothing_computed(circle, manager, change, words):
    knock(manager, circle, own(circle), hello(**change))
    assert words in wait_for(circle, "refused")["why"]
    assert manager.strange == {1} and not manager.connections


def test_a_party_at_another_run_of_the_study_is_named_and_may_come_later(circle, manager):
    knock(manager, circle, own(circle), hello(run=bytes(16)))
    assert "at another run of the same study" in wait_for(circle, "refused")["why"]
    assert not manager.strange and not manager.connections
    knock(manager, circle, own(circle), hello())
    wait_for(circle, "link_up")


@pytest.mark.parametrize(
    "bad, words",
    [
        (replace(frame_of(Kind.ROWS, RUN, np.ones(3)), seq=1, length=99).packed(), "99 bytes"),
        (
            Frame(Kind.UP, 2, (2**28,), seq=1, length=2**31, run=RUN).header(1, 1),
            "expected at most",
        ),
        (replace(frame_of(Kind.ROWS, bytes(16), np.ones(3)), seq=1).packed(), "another run"),
        (bytes(88), "begins with"),
    ],
    ids=["length", "huge", "run", "garbage"],
)
def test_wrong_frames_of_a_known_party_end_the_run_with_its_name(circle, manager, bad, words):
    knock(manager, circle, own(circle), hello(), bad)
    wait_for(circle, "abort")
    assert (
        manager.failure is not None
        and manager.failure.origin == "party1"
        and words in manager.failure.text
    )


def test_a_missing_frame_is_a_gap_and_a_new_connection(circle, manager):
    late = replace(frame_of(Kind.ROWS, RUN, np.ones(3)), seq=5, ack=1, stable=1).packed()
    knock(manager, circle, own(circle), hello(), late)
    assert "is missing before 5" in wait_for(circle, "gap")["why"]
    assert manager.failure is None


def test_a_recorded_stream_cannot_be_replayed(circle, manager):
    """Bytes of an earlier TLS connection mean nothing on a new one."""
    recorded = bytearray()

    async def record() -> None:
        async def relay(source, target, keep):
            try:
                while data := await source.read(65536):
                    recorded.extend(data if keep else b"")
                    target.write(data)
            except OSError:  # cut off
                pass
            target.transport.abort()

        relays = []

        async def both(reader, writer):
            other = await asyncio.open_connection("127.0.0.1", manager.port)
            await asyncio.gather(relay(reader, other[1], True), relay(other[0], writer, False))

        def passing(reader, writer):
            relays.append(asyncio.ensure_future(both(reader, writer)))

        server = await asyncio.start_server(passing, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        context = make_context(*own(circle), circle.certificates, server=False)
        connection = await dial(("127.0.0.1", port), context, 1 << 20, 5.0)
        await connection.send(hello())
        await connection.receive()
        connection.close()
        server.close()
        await asyncio.gather(*relays, return_exceptions=True)

    asyncio.run(record())
    wait_for(circle, "link_up")
    circle.events.clear()
    with socket.create_connection(("127.0.0.1", manager.port), 10) as plain:
        plain.settimeout(20)
        plain.sendall(recorded)
        wait_for(circle, "handshake_failed")
    assert not [what for _, what, _ in circle.events if what == "link_up"]


def test_a_slow_sender_is_cut_off(tmp_path):
    """Who sends a frame byte by byte is silent: only whole frames count."""
    circle = Circle(tmp_path, EDGES, timing=replace(QUICK, dead=0.3))
    manager = circle.listen(circle.manager(0))

    async def dribble() -> None:
        context = make_context(*own(circle), circle.certificates, server=False)
        connection = await dial(("127.0.0.1", manager.port or 0), context, 1 << 20, 5.0)
        await connection.send(hello())
        data = replace(frame_of(Kind.ROWS, RUN, np.ones(999)), seq=1).packed()
        for k in range(len(data)):
            await connection.send(data[k : k + 1])
            await asyncio.sleep(0.05)
            if [1 for _, what, _ in circle.events if what == "link_down"]:
                break
        connection.close()

    try:
        asyncio.run(dribble())
        wait_for(circle, "silent")
        assert manager.links[1].next_in == 1
    finally:
        manager.stop()


def test_a_flood_from_one_address_does_not_keep_others_out(circle, manager):
    """A party takes its time for the handshake; meanwhile somebody else connects 100 times."""
    with ExitStack() as stack:
        slow = stack.enter_context(socket.create_connection(("127.0.0.1", manager.port), 10))
        silent = [silent_visitor(stack, manager, "127.0.0.2") for _ in range(100)]
        assert silent[0].recv(1) == b""
        assert wait_for(circle, "refused")["why"] == "too many strangers from one address"
        context = make_context(*own(circle), circle.certificates, server=False)
        secured = stack.enter_context(context.wrap_socket(slow))
        secured.sendall(hello())
        assert wait_for(circle, "link_up")["peer"] == "party1"


def test_a_flood_from_many_addresses_leaves_room_for_known_ones(circle, manager):
    """Where a party has come from before it may come again, however many strangers knock."""
    knock(manager, circle, own(circle), hello())
    wait_for(circle, "link_up")
    with ExitStack() as stack:
        slow = stack.enter_context(socket.create_connection(("127.0.0.1", manager.port), 10))
        silent = [silent_visitor(stack, manager, f"127.0.1.{k}") for k in range(1, 101)]
        assert silent[0].recv(1) == b""
        context = make_context(*own(circle), circle.certificates, server=False)
        secured = stack.enter_context(context.wrap_socket(slow))
        secured.sendall(hello())
        assert secured.recv(1)


def silent_visitor(stack: ExitStack, manager: ConnectionManager, address: str) -> socket.socket:
    """Somebody at an address who connects and says nothing."""
    found = socket.create_connection(("127.0.0.1", manager.port), 20, source_address=(address, 0))
    return stack.enter_context(found)


def test_a_duplicate_of_a_party_does_not_take_its_place(circle, manager):
    """A second process of party 1 knocks again and again; the first one goes on undisturbed."""
    original, files = SessionIdentity(RUN, STUDY, "versions"), own(circle)
    context = make_context(*files, circle.certificates, server=False)

    async def talk() -> None:
        first = await dial(("127.0.0.1", manager.port), context, 1 << 20, 5.0)
        await first.send(original.hello(1, 1, 1).packed())
        await first.receive()
        for attempt in range(1, 4):
            second = await dial(("127.0.0.1", manager.port), context, 1 << 20, 5.0)
            await second.send(
                SessionIdentity(RUN, STUDY, "versions").hello(1, 1, 1, attempt).packed()
            )
            assert (await second.receive()) is not None
            assert (await second.receive()) is None
            second.close()
        await first.send(replace(frame_of(Kind.ROWS, RUN, np.ones(3)), seq=1, ack=1).packed())
        while manager.links[1].next_in == 1:
            await asyncio.sleep(0.01)
        first.close()

    asyncio.run(asyncio.wait_for(talk(), 30.0))
    assert wait_for(circle, "duplicate")["peer"] == "party1" and manager.failure is None


def test_a_flood_of_strangers_does_not_fill_the_log():
    lines: list[dict] = []
    strangers = PendingLimit(lambda event, **details: lines.append(details))
    for _ in range(5000):
        strangers.log("stranger", address="203.0.113.9")
    assert len(lines) < 200
    strangers.log._room = 1.0
    strangers.log("stranger", address="203.0.113.9")
    assert lines[-1]["left_out"] == 5000 - (len(lines) - 1)


def test_a_known_party_that_reconnects_in_a_loop_does_not_fill_the_log(
    circle, manager, monkeypatch
):
    monkeypatch.setattr("dual2.runtime.peers.pending_connections._BURST_LINES", 4)
    monkeypatch.setattr("dual2.runtime.peers.pending_connections._LINES_PER_SECOND", 0.0)
    manager._channel_logs[1]._room = 4.0
    for _ in range(6):
        assert knock(manager, circle, own(circle), hello()) is not None
    assert len(circle.events) == 4 and manager.failure is None


def test_what_is_put_in_front_of_a_handshake_is_not_believed(tmp_path):
    """Somebody on the way greets in plain text and then passes everything on to the real party."""
    circle = Circle(tmp_path, EDGES, masked=False)
    first = circle.listen(circle.manager(0))
    forged = SessionIdentity(RUN, STUDY, "versions").hello(0, 1, 1).packed()
    forged += frame_of(Kind.ABORT, RUN, b'["party0", "forged"]').packed()
    with socket.create_server(("127.0.0.1", 0)) as between:
        circle.ports[0] = between.getsockname()[1]
        second = circle.manager(1)
        second.start()
        try:
            between.settimeout(20)
            caller, _ = between.accept()
            with caller, socket.create_connection(("127.0.0.1", first.port), 10) as real:
                caller.sendall(forged)
                carry(caller, real)
            assert second.failure is None and not second.connections
        finally:
            second.stop()
            first.stop()


def carry(*ends: socket.socket) -> None:
    """Pass on what two sockets say to each other until one of them ends."""
    while True:
        for one in select.select(ends, [], [], 20)[0]:
            try:
                data = one.recv(65536)
            except ConnectionResetError:  # who hangs up in a handshake has not read all of it
                return
            if not data:
                return
            ends[one is ends[0]].sendall(data)


def test_a_connection_that_ends_in_the_handshake_is_tried_again(tmp_path):
    """Whoever listens hangs up after the first bytes, more than once; then the party is there."""
    circle = Circle(tmp_path, EDGES, masked=False)
    with socket.create_server(("127.0.0.1", 0)) as early:
        circle.ports[0] = early.getsockname()[1]
        second = circle.manager(1)
        second.start()
        early.settimeout(20)
        for _ in range(3):
            caller, _ = early.accept()
            caller.recv(100)
            caller.close()
    first = circle.listen(circle.manager(0))  # at the same port
    try:
        assert wait_for(circle, "link_up")["peer"] == "party1"
    finally:
        second.stop()
        first.stop()


def test_a_greeting_that_was_overtaken_ends_nothing(circle, manager):
    """One that was held up on the way wants frames that the party has confirmed since."""
    session = SessionIdentity(RUN, STUDY, "versions")
    link = manager.links[1]
    link.enqueue(frame_of(Kind.ROWS, RUN, np.ones(3)))
    knock(manager, circle, own(circle), session.hello(1, 2, 2, attempt=2).packed())
    wait_for(circle, "link_up")
    assert link.forgotten == 2
    knock(manager, circle, own(circle), session.hello(1, 1, 1, attempt=1).packed())
    assert wait_for(circle, "late")["peer"] == "party1" and manager.failure is None
    later = SessionIdentity(RUN, STUDY, "versions")
    while 1 in manager.connections:  # until then it counts as a second process
        time.sleep(0.01)
    knock(manager, circle, own(circle), later.hello(1, 2, 2).packed())
    wait_for(circle, "peer_restarted")
    circle.events.clear()
    knock(manager, circle, own(circle), session.hello(1, 1, 1, attempt=3).packed())
    assert wait_for(circle, "late")["peer"] == "party1" and manager.failure is None


def test_what_peers_say_cannot_forge_lines_of_a_terminal(circle, manager):
    said = json.dumps(["lab\n", "failed", "ended\ndual2: all well \x1b[2J", []]).encode()
    knock(manager, circle, own(circle), hello(), frame_of(Kind.ABORT, RUN, said).packed())
    wait_for(circle, "abort")
    assert manager.failure is not None and manager.failure.text == "ended?dual2: all well ?[2J"
    assert manager.failure.message.startswith("party1 passes on that lab? ended the run (failed)")
    with pytest.raises(Mismatch, match=r"\(0\.1\?\[31m\)"):
        odd = SessionIdentity(RUN, STUDY, "0.1\x1b[31m").hello(1, 1, 1)
        SessionIdentity(RUN, STUDY, "versions").demand_same(odd, 1, "lab")


def test_a_name_on_the_list_with_another_key_is_not_dialled(tmp_path):
    """Party 1 dials party 0's address, where somebody else shows a certificate of its own."""
    circle = Circle(tmp_path, EDGES)
    impostor = Circle(tmp_path / "other", EDGES) if (tmp_path / "other").mkdir() is None else None
    assert impostor is not None
    thief = impostor.listen(impostor.manager(0))
    circle.ports[0] = impostor.ports[0]
    manager = circle.manager(1)
    manager.start()
    try:
        end = time.monotonic() + 20
        while 0 not in manager.refusals and time.monotonic() < end:
            time.sleep(0.01)
        assert "cannot be trusted" in manager.refusals[0] and not manager.connections
    finally:
        manager.stop()
        thief.stop()
