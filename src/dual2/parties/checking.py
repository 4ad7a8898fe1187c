"""``dual2 party check``: everything that can be known before a run, nothing computed."""

import asyncio
import datetime
import os
import time
from dataclasses import dataclass, replace

from dual2.errors import Dual2Error, PeerError
from dual2.parties.opening import open_manager
from dual2.parties.party import Party
from dual2.parties.study import versions_in_words
from dual2.runtime.peers.connection_manager import ConnectionManager
from dual2.runtime.peers.folder import lock
from dual2.runtime.peers.frames import Kind
from dual2.runtime.peers.hello import CHECKING, PhaseMismatch
from dual2.runtime.peers.identity import read_certificate, validity
from dual2.runtime.peers.link_faults import unreached
from dual2.runtime.peers.wire_transport import HANDSHAKE_SECONDS, Neighbour
from dual2.solving.storage.problem_folder import load_agent

_MAX_CLOCK_SKEW_SECONDS = 60
"""Seconds by which two clocks may differ: certificates have dates."""


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was looked at, whether it is fine, in words."""

    what: str
    fine: bool
    words: str


def check_party(party: Party, seconds: float = HANDSHAKE_SECONDS) -> list[Finding]:
    """Look at files, keys, dates, clock and hashes, and try to reach whom this party dials.

    Each is tried for ``seconds``; who dials this party finds out by its own check.
    """
    agent = load_agent(party.data)
    found = check_members(party)
    words = f"{party.data}: {agent.A.shape[0]} rows, {agent.dim} variables"
    found.insert(1, Finding("data", True, words))
    return [*found, *reach_peers(party, seconds)]


def check_members(party: Party) -> list[Finding]:
    """Look at the study, the certificates of all parties, the clock and the versions."""
    study = party.study
    now = datetime.datetime.now(datetime.UTC)
    dates = validity(read_certificate(party.certificate))
    found = [
        Finding("study", True, f"{study.name}, {len(study.members)} parties, {study.digest.hex()}"),
        Finding("certificate", True, dates or "valid"),
        Finding("clock", True, f"{now:%Y-%m-%d %H:%M:%S} UTC"),
        Finding("versions", True, versions_in_words()),
    ]
    for member in study.members:
        wrong = [validity(der) for der in member.ders]
        if all(wrong):
            fine = any(one.startswith("ends") for one in wrong)
            found.append(Finding(member.name, fine, f"its certificate {wrong[-1]}"))
    return found


def reach_peers(party: Party, seconds: float) -> list[Finding]:
    """Try to reach whom this party dials, unless it is running."""
    try:
        os.close(lock(party.state))
    except PeerError:
        return [Finding("links", True, "the party is running: dual2 party status tells how")]
    manager = open_manager(party, lambda event, **details: None, 1)
    return asyncio.run(_try_all(manager, list(party.neighbours), seconds))


async def _try_all(
    manager: ConnectionManager, neighbours: list[Neighbour], seconds: float
) -> list[Finding]:
    return await asyncio.gather(*(_try(manager, one, seconds) for one in neighbours))


async def _try(manager: ConnectionManager, one: Neighbour, seconds: float) -> Finding:
    """Dial a neighbour and compare what it means with what this party does."""
    if one.address is None:
        return Finding(one.name, True, "dials this party; it tells when it checks")
    try:
        async with asyncio.timeout(seconds):
            connection = await manager.place.carrier.dial(one)
            try:
                if connection.fingerprint not in one.fingerprints:
                    text = f"presents {connection.fingerprint[:8]}…, not that of the study"
                    return Finding(one.name, False, text)
                hello = replace(manager.session, incarnation=CHECKING).hello(manager.me, 1, 1)
                await connection.send(hello.packed())
                frame = await connection.receive()
                if frame is None or frame.kind != Kind.HELLO:
                    return Finding(one.name, False, "closed the connection; its audit log says why")
                try:
                    said = manager.session.demand_same(frame, one.number, one.name)
                except PhaseMismatch:
                    words = f"reached at {connection.address}, now at another run of the study"
                    return Finding(one.name, True, words)
                late = said["time"] - int(time.time())
                clock = (
                    f"; its clock is {late:+d} s from the one here"
                    if abs(late) > _MAX_CLOCK_SKEW_SECONDS
                    else ""
                )
                words = f"reached at {connection.address}, same study{clock}"
                return Finding(one.name, not clock, words)
            finally:
                connection.close()
    except TimeoutError:
        return Finding(one.name, False, f"did not answer for {seconds:g} s")
    except (OSError, EOFError) as error:
        return Finding(one.name, False, str(unreached(error, one.name, one.address)))
    except Dual2Error as error:
        return Finding(one.name, False, str(error))
