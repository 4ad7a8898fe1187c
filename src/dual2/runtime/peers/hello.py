"""The first frame of each connection: who speaks, in which run, from where on.

Nothing is negotiated: what differs is named, and the connection ends.
"""

import json
import os
import time
from dataclasses import dataclass, field
from typing import Any

from dual2.errors import Dual2Error, PeerError
from dual2.files import parse_json
from dual2.runtime.peers.claims import Claim, parse_claims
from dual2.runtime.peers.frames import Frame, Kind, frame_of

PROTOCOL = 6
CHECKING = "check"
"""Incarnation of a process that only looks whether it would be welcome."""
_WORDS = {"protocol": "protocol", "study": "study file", "versions": "set of library versions"}


def printable(text: Any, most: int) -> str:
    r"""What somebody else says, for a terminal or a log: one line, no control characters.

    Examples
    --------
    >>> printable("all well\n\x1b[2Jforged", 100)
    'all well??[2Jforged'
    """
    return "".join(one if one.isprintable() else "?" for one in str(text)[:most])


class Mismatch(PeerError):
    """The peer means something else: one of both has the wrong files."""


class PhaseMismatch(Mismatch):
    """The peer is at another run of the same study, before or after this one: it may still come."""


class GoesOnWithout(PhaseMismatch):
    """The peer goes on without parties that this one still waits for; ``claims`` name them."""

    def __init__(self, text: str, claims: tuple[Claim, ...]) -> None:
        super().__init__(text)
        self.claims = claims


@dataclass(frozen=True)
class SessionIdentity:
    """What must be the same at both ends of every link.

    Attributes
    ----------
    run : bytes
        16 bytes, from the name of the run and the study.
    study : bytes
        SHA-256 of the public files.
    versions : str
        Versions of what computes.
    claims : tuple of Claim
        The parties without which this one goes on.
    excluded : frozenset of str
        Fingerprints of these parties.
    """

    run: bytes
    study: bytes
    versions: str
    claims: tuple[Claim, ...] = ()
    excluded: frozenset[str] = frozenset()
    incarnation: str = field(default_factory=lambda: os.urandom(8).hex())

    def hello(self, party: int, want: int, stable: int, attempt: int = 1) -> Frame:
        """The greeting of a party; ``attempt`` counts those of this process."""
        said = {
            "protocol": PROTOCOL,
            "party": party,
            "study": self.study.hex(),
            "versions": self.versions,
            "incarnation": self.incarnation,
            "attempt": attempt,
            "time": int(time.time()),
            "want": want,
            "stable": stable,
            "claims": [one.packed() for one in self.claims],
        }
        return frame_of(Kind.HELLO, self.run, json.dumps(said).encode())

    def demand_same(self, frame: Frame, party: int, name: str) -> dict[str, Any]:
        """What a greeting says, if it means the same run; an error that names the difference."""
        if frame.kind != Kind.HELLO:
            raise PeerError(f"{name} began with {frame.kind.name}; expected HELLO.")
        said = _read(frame, name)
        own = {"protocol": PROTOCOL, "study": self.study.hex(), "versions": self.versions}
        for key, value in own.items():
            if said[key] != value:
                raise Mismatch(
                    f"{name} has another {_WORDS[key]} ({printable(said[key], 60)}) than this "
                    f"party ({str(value)[:60]}): nothing was computed. Compare: dual2 party check."
                )
        if frame.run != self.run:
            self._compare_claims(said, name)
            raise PhaseMismatch(
                f"{name} is at another run of the same study. All parties run the same command."
            )
        if said["party"] != party:  # runs without other missing parties count differently
            raise Mismatch(
                f"{name} says that it is party {said['party']}; its certificate is that of party "
                f"{party}."
            )
        return said

    def _compare_claims(self, said: dict[str, Any], name: str) -> None:
        """An error if the peer goes on without parties that count here."""
        try:
            claims = parse_claims(said["claims"])
        except ValueError as error:
            raise PeerError(f"The greeting of {name} cannot be read: {error}.") from error
        news = {one.absent for one in claims} - {one.absent for one in self.claims}
        if news:
            listed = ", ".join(sorted(printable(one, 64) for one in news))
            raise GoesOnWithout(f"{name} goes on without {listed}.", claims)


def _read(frame: Frame, name: str) -> dict[str, Any]:
    kinds = {"protocol": int, "party": int, "study": str, "versions": str, "incarnation": str}
    kinds |= {"attempt": int, "time": int, "want": int, "stable": int, "claims": list}
    try:
        said = parse_json(bytes(frame.payload).decode(), f"the greeting of {name}")
    except (UnicodeDecodeError, Dual2Error) as error:
        raise PeerError(f"The greeting of {name} cannot be read: {error}") from error
    wrong = not isinstance(said, dict) or said.keys() != kinds.keys()
    if wrong or any(type(said[key]) is not kind for key, kind in kinds.items()):
        raise PeerError(f"The greeting of {name} has other entries than expected.")
    if not 1 <= said["stable"] <= said["want"]:
        raise PeerError(f"The greeting of {name} wants {said['want']}, stable {said['stable']}.")
    return said
