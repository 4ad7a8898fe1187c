"""Parties as threads of one process over loopback, which may be killed at any point and return.

A killed party does nothing more: every write, sync and send is behind a crash point, where the dead
are stopped. With ``power_loss`` what was not synced is lost as well.
"""

import asyncio
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from dual2.errors import StateError
from dual2.network import Network
from dual2.runtime.peers import crash_points
from dual2.runtime.peers.aborts import Reason
from dual2.runtime.peers.connection_manager import ConnectionManager, Place, Timing
from dual2.runtime.peers.grpc_transport import GrpcTransport
from dual2.runtime.peers.hello import SessionIdentity
from dual2.runtime.peers.identity import (
    fingerprint,
    load_key,
    make_trial,
    parse_certificate,
    read_certificate,
)
from dual2.runtime.peers.journal import Journal
from dual2.runtime.peers.masks import Masks, Secret, demand_signed, message_of
from dual2.runtime.peers.parties import Parties
from dual2.runtime.peers.tls_transport import TlsTransport, make_context
from dual2.runtime.peers.wire_transport import Neighbour, WireTransport

RUN, STUDY = bytes(range(16)), bytes(range(32))
QUICK = Timing(dead=1.5, patience=30.0, shortest=0.01, longest=0.05)
LIMIT = 60.0
"""Seconds after which a run counts as hanging."""


class Hanging(Exception):
    """A run that did not end in time."""


class Killed(BaseException):
    """The program of a dead party, at the next crash point."""


class Mute(OSError):
    """The links of a dead party: nothing is sent or taken any more."""


def in_loop() -> bool:
    """Whether this is the work of the links, in whichever thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Fate:
    """Who dies where: (party, point, number of the passage) -> also these parties."""

    def __init__(self, deaths: dict[tuple[int, str, int], tuple[int, ...]] | None = None) -> None:
        self.deaths = dict(deaths or {})
        self.dead: set[int] = set()
        self.killed: set[int] = set()
        self.seen: Counter[tuple[int, str]] = Counter()
        self.lock = threading.Lock()
        self.bury: Callable[[int], None] = lambda me: None

    def kill(self, me: int) -> None:
        """A party dies now, wherever it is."""
        with self.lock:
            self.dead.add(me)
            self.killed.add(me)
        self.bury(me)

    def __call__(self, point: str) -> None:
        found = re.fullmatch(r"(?:links|program) (\d+)", threading.current_thread().name)
        if found is None:
            return
        me = int(found[1])
        with self.lock:
            self.seen[me, point] += 1
            also = self.deaths.pop((me, point, self.seen[me, point]), None)
            if also is not None:
                self.dead |= {me, *also}
            dead = me in self.dead
        for victim in (me, *also) if also is not None else ():
            self.bury(victim)
        if dead:
            raise Mute(f"party {me} is dead") if in_loop() else Killed


class Circle:
    """Certificates of some parties on a public graph, and how to run a program at each of them."""

    def __init__(
        self,
        folder: Path,
        edges: list[tuple[int, int]],
        timing: Timing = QUICK,
        masked: bool = True,
        power_loss: bool = False,
        grpc: bool = False,
    ) -> None:
        self.folder, self.edges, self.network = folder, edges, Network(edges)
        self.timing, self.masked, self.power_loss, self.grpc = timing, masked, power_loss, grpc
        self.names = [f"party{i}" for i in range(self.network.n)]
        if not (folder / "party0.pem").exists():
            make_trial(folder, self.names)
        self.certificates = [read_certificate(folder / f"{name}.pem") for name in self.names]
        self.ports: dict[int, int] = {}
        self.where: Callable[[int, int], int] = lambda me, other: self.ports[other]
        self.events: list[tuple[int, str, dict[str, Any]]] = []
        self.audit: Callable[..., None] | None = None
        self.parties: dict[int, Parties] = {}
        self.limit, self.deaths = 1 << 20, 0

    def manager(self, me: int, session: SessionIdentity | None = None) -> ConnectionManager:
        others = sorted({i for edge in self.edges if me in edge for i in edge} - {me})
        neighbours = [
            Neighbour(
                i,
                self.names[i],
                (fingerprint(self.certificates[i]),),
                ("127.0.0.1", self.where(me, i)) if i < me else None,
            )
            for i in others
        ]
        place = Place(("127.0.0.1", self.ports.get(me, 0)), self.carrier(me, others))
        note = lambda event, **details: self.events.append((me, event, details))  # noqa: E731
        audit = self.audit or note
        session = session or SessionIdentity(RUN, STUDY, "versions")
        return ConnectionManager(me, neighbours, session, place, self.timing, audit)

    def carrier(self, me: int, others: list[int]) -> WireTransport:
        """What carries the frames of a party."""
        files = self.folder / f"{self.names[me]}.key", self.folder / f"{self.names[me]}.pem"
        trusted, rest = [self.certificates[i] for i in others], (self.limit, self.timing.dead)
        if self.grpc:
            key, certificate = (file.read_bytes() for file in files)
            pins = {i: [self.certificates[i]] for i in others}
            return GrpcTransport(key, certificate, pins, *rest)
        contexts = [make_context(*files, trusted, server) for server in (True, False)]
        return TlsTransport(*contexts, *rest)

    def listen(self, manager: ConnectionManager) -> ConnectionManager:
        """Start a manager; its port is known from then on."""
        manager.start()
        assert manager.port is not None
        self.ports[manager.me] = manager.port
        return manager

    def program(self, me: int, resume: bool, work: Callable[[Parties], Any]) -> Any:
        """One life of a party: from its state to the end of the program."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        state = self.folder / f"state{me}"
        journal = manager = None
        try:
            journal = Journal(state, {"run": RUN.hex()}, resume)
            key = load_key(self.folder / f"{self.names[me]}.key")
            sign = lambda text: key.sign(text, ECDSA(SHA256()))  # noqa: E731
            secret = Secret(state, message_of(RUN, STUDY, me), sign)
            manager = self.manager(me)
            self.parties[me] = party = Parties(
                manager, journal, self.network, self.names, secret.own
            )
            crash_points.passing("begin")  # who was killed before it could be woken up
            self.listen(manager)
            known = party.exchange_keys(secret.entry)
            party.pairs = Masks(secret, me, self._publics(known, me), RUN, STUDY)
            party.masks = party.pairs if self.masked else None
            found = work(party)
            party.confirm()
            party.leave()
            return found
        except Exception as error:
            if manager is not None:
                reason = Reason.LEFT if isinstance(error, StateError) else Reason.FAULT
                manager.fail(self.names[me], str(error), reason)
            raise
        finally:
            if manager is not None:
                manager.stop()
            if journal is not None:
                if self.power_loss:
                    for log in (journal.consumed, journal.said):
                        os.truncate(log.file, log.durable)
                journal.close()

    def _publics(self, known: Any, me: int) -> dict[int, bytes]:
        return {
            i: demand_signed(
                known[i],
                message_of(RUN, STUDY, i),
                [parse_certificate(self.certificates[i])],
                self.names[i],
            )
            for i in known
            if i != me
        }

    def forget(self) -> None:
        """Begin with empty folders."""
        for state in self.folder.glob("state*"):
            for file in state.iterdir():
                file.unlink()
            state.rmdir()
        self.parties.clear()

    def bury(self, me: int) -> None:
        """Wake up what waits in a party that has just died, and cut its connections."""
        if me not in self.parties:
            return
        manager = self.parties[me].manager
        for connection in list(manager.connections.values()) if manager._alive else ():
            manager._turns.loop.call_soon_threadsafe(connection.close)
        with suppress(AttributeError):  # its loop, if it has not begun
            manager.fail("", "killed", Reason.LEFT)

    def run(self, work: Callable[[Parties], Any], fate: Fate | None = None) -> list[Any]:
        """Run a program at every party, again after each death; results or exceptions."""
        fate = fate or Fate()
        fate.bury = self.bury
        found: list[Any] = [None] * self.network.n

        def live(i: int) -> None:
            resume = False
            while True:
                try:
                    found[i] = self.program(i, resume, work)
                except Killed:
                    pass
                except Exception as error:
                    found[i] = error
                if i not in fate.dead:
                    return
                resume = True
                with fate.lock:  # two may die at once
                    self.deaths += 1
                    fate.dead.discard(i)

        crash_points.listen(fate)
        threads = [
            threading.Thread(target=live, args=(i,), name=f"program {i}", daemon=True)
            for i in range(self.network.n)
        ]
        try:
            for i, thread in enumerate(threads):
                thread.start()
                while i not in self.ports and thread.is_alive():
                    thread.join(0.002)  # who dials it must know where
            end = time.monotonic() + LIMIT
            for thread in threads:
                thread.join(max(0.0, end - time.monotonic()))
            alive = [thread.name for thread in threads if thread.is_alive()]
        finally:
            crash_points.listen(None)
            for party in self.parties.values():
                if party.manager.failure is None:
                    party.manager.fail("", "the test is over")
        for thread in threads:
            thread.join(5.0)
        if alive:
            raise Hanging(alive)
        return found
