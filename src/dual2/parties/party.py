"""``party.toml``: what belongs to one party alone.

::

    name = "lab"
    study = "study.toml"
    data = "lab.npz"                  # the agent's A, f, g
    key = "lab.key"                   # rights 0600
    certificate = "lab.pem"
    listen = "0.0.0.0:7443"
    state = "state"
    status = "127.0.0.1:7480"         # read-only page, optional
    sync = true                       # what was said is on the disk before it is said
revoked = "revoked.txt"           # fingerprints that are no longer accepted, optional

    [peers.hospital]                  # whom this party dials
    address = "dual2.hospital.example:7443"
"""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dual2.errors import Dual2Error, unknown_name
from dual2.files import read_toml
from dual2.parties.revocation import without_revoked
from dual2.parties.study import Study, entries, read_study
from dual2.runtime.peers.connection_manager import Timing
from dual2.runtime.peers.identity import (
    fingerprint,
    load_key,
    parse_certificate,
    read_certificate,
    validity,
)
from dual2.runtime.peers.shared_port import SharedPort
from dual2.runtime.peers.wire_transport import Neighbour

NEEDED: dict[str, type] = dict.fromkeys(
    ("name", "study", "data", "key", "certificate", "state"), str
)
OPTIONAL: dict[str, type] = {
    "listen": str,
    "status": str,
    "patience": float,
    "progress_patience": float,
    "dead": float,
    "sync": bool,
    "peers": dict,
    "revoked": str,
}


@dataclass(frozen=True)
class Party:
    """A party's file, read and checked."""

    file: Path
    study: Study
    me: int
    data: Path
    key: Path
    certificate: Path
    state: Path
    listen: tuple[str, int] | None
    status: tuple[str, int] | None
    neighbours: tuple[Neighbour, ...]
    timing: Timing
    sync: bool = True
    port: SharedPort | None = None  # open already, for several runs of one process

    @property
    def name(self) -> str:
        """The party's name in the study."""
        return self.study.names[self.me]

    @property
    def home(self) -> Path:
        """Where answers are, whichever parties are missing."""
        return self.state.parent if self.study.excluded else self.state


def read_party(file: Path) -> Party:
    """Read ``party.toml`` and the study; an error says what is wrong and where."""
    table = entries(read_toml(file), str(file), NEEDED, OPTIONAL)
    return party_of(table, file, read_study(file.parent / table["study"]))


def party_of(table: dict[str, Any], file: Path, study: Study) -> Party:
    """The party of a study that a table of entries describes; paths are beside ``file``."""
    where, folder = str(file), file.parent
    if table["name"] not in study.names:
        raise Dual2Error(f"{where}: {unknown_name('party', table['name'], study.names)}")
    if "revoked" in table:
        study = without_revoked(study, folder / table["revoked"])
    me = study.names.index(table["name"])
    timing = _timing(table, where)
    party = Party(
        file,
        study,
        me,
        folder / table["data"],
        folder / table["key"],
        folder / table["certificate"],
        folder / table["state"],
        _address(table["listen"], f"{where}: listen") if "listen" in table else None,
        _page(table, where),
        _neighbours(table.get("peers", {}), study, me, where),
        timing,
        table.get("sync", True),
    )
    _check_identity(party)
    waits = [n.name for n in party.neighbours if n.address is None]
    if waits and party.listen is None:
        raise Dual2Error(f'{where} lacks listen = "host:port": {", ".join(waits)} will dial here.')
    return party


def _timing(table: dict[str, Any], where: str) -> Timing:
    """How long this party waits, and for what."""
    patience = _seconds(table, "patience", Timing.patience, where)
    progress = _seconds(table, "progress_patience", max(Timing.progress, patience), where)
    if progress < patience:
        raise Dual2Error(
            f"{where}: progress_patience is {progress:g}; expected at least patience, "
            f"{patience:g}: a party that waits for a missing one sends nothing either."
        )
    return Timing(_seconds(table, "dead", Timing.dead, where), patience, progress)


def _seconds(table: dict[str, Any], name: str, default: float, where: str) -> float:
    value = float(table.get(name, default))
    if not 0.1 <= value <= 1e7:
        raise Dual2Error(f"{where}: {name} is {value:g}; expected seconds from 0.1 to 1e7.")
    return value


def _address(text: Any, where: str) -> tuple[str, int]:
    host, _, port = str(text).rpartition(":")
    if not isinstance(text, str) or not host or not port.isdigit() or not int(port) < 65536:
        raise Dual2Error(f"{where} is {text!r}; expected host:port.")
    return host.strip("[]"), int(port)


def _page(table: dict[str, Any], where: str) -> tuple[str, int] | None:
    if "status" not in table:
        return None
    host, port = _address(table["status"], f"{where}: status")
    try:
        inside = ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = host == "localhost"
    if not inside:
        raise Dual2Error(f"{where}: status is {host}; the page is for loopback only (127.0.0.1).")
    return host, port


def _neighbours(peers: dict[str, Any], study: Study, me: int, where: str) -> tuple[Neighbour, ...]:
    around = {study.names[i]: i for i in study.neighbours(me)}
    for name in peers:
        if name not in around:
            raise Dual2Error(f"{where}: peers.{unknown_name('neighbour', name, around)}")
    found = []
    for name, i in around.items():
        address = None
        if study.dials(me, i):
            if name not in peers:
                raise Dual2Error(f"{where} lacks peers.{name}.address: this party dials {name}.")
            entry = entries(peers[name], f"{where}: peers.{name}", {"address": str}, {})
            address = _address(entry["address"], f"{where}: peers.{name}.address")
        found.append(Neighbour(i, name, study.members[i].fingerprints, address))
    return tuple(found)


def _check_identity(party: Party) -> None:
    """The certificate is that of the study, is valid, and belongs to the key."""
    der, key = read_certificate(party.certificate), load_key(party.key)
    member = party.study.members[party.me]
    if fingerprint(der) not in member.fingerprints:
        raise Dual2Error(
            f"{party.certificate} has the fingerprint {fingerprint(der)}, the study says "
            f"{' or '.join(member.fingerprints)} for {member.name}."
        )
    if parse_certificate(der).public_key() != key.public_key():
        raise Dual2Error(f"{party.key} is not the key of {party.certificate}.")
    wrong = validity(der)
    if wrong and not wrong.startswith("ends"):
        raise Dual2Error(f"{party.certificate} {wrong}. Ask for a new one; is the clock right?")
