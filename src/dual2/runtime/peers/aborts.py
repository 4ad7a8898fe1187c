"""Why a run ends for all parties: a typed reason, who ended it, and that party's words.

What a peer says is quoted, with its name, and decides nothing. Only the reason has consequences,
and only as far as a peer's word may go: see :meth:`Failure.error`.
"""

import json
from dataclasses import dataclass
from enum import StrEnum

from dual2.errors import Dual2Error, PeerError, PeerMissing, PeerRefused
from dual2.files import parse_json
from dual2.runtime.peers.claims import Claim, parse_claims
from dual2.runtime.peers.frames import Frame, Kind, frame_of
from dual2.runtime.peers.hello import printable

_NAME_CHARACTERS, _TEXT_CHARACTERS = 100, 1000
"""Most characters of a name and of the words that travel in an ABORT frame."""
_TEXT_WITH_CLAIMS = 200
"""Most characters of the words beside claims, which need most of the frame."""


class Reason(StrEnum):
    """Why a run ends."""

    REFUSED = "refused"  # a party's own data or files cannot be used; it computed nothing
    FAILED = "failed"  # a party's program failed
    FAULT = "fault"  # a party found another one missing or at fault
    MISSING = "missing"  # a party is missing, the others may go on without it
    STOPPED = "stopped"  # an operator ended the run for all
    LEFT = "left"  # this process ends, the run does not: nobody is told


@dataclass(frozen=True)
class Failure:
    """Why the run cannot go on.

    Attributes
    ----------
    origin : str
        The party that ended it, as far as known.
    text : str
        Its words.
    reason : Reason
        See there.
    sender : str
        The neighbour that passed the news on; empty if it began here.
    claims : tuple of Claim
        Who is missing, signed; not verified yet.
    """

    origin: str
    text: str
    reason: Reason
    sender: str = ""
    claims: tuple[Claim, ...] = ()

    @property
    def quiet(self) -> bool:
        """Whether the others are not told."""
        return self.reason is Reason.LEFT

    @property
    def message(self) -> str:
        """What the operator reads; the words of others are quoted, with their names."""
        if not self.sender:
            return self.text
        if self.origin == self.sender:
            return f'{self.sender} ended the run ({self.reason}). It says: "{self.text}"'
        return (
            f"{self.sender} passes on that {self.origin} ended the run ({self.reason}), in these "
            f'words: "{self.text}"'
        )

    def error(self, totals: int) -> PeerError:
        """What the program ends with, after so many totals.

        The word of a peer that it was refused counts as long as there is no total: then nothing is
        lost by a new start. Later it only ends the run, and the state stays.
        """
        if self.reason is Reason.MISSING:
            return PeerMissing(self.message, claims=self.claims)
        refused = self.reason is Reason.REFUSED and not totals
        return (PeerRefused if refused else PeerError)(self.message)

    def abort(self, run: bytes) -> Frame:
        """The frame that tells a neighbour."""
        return frame_of(Kind.ABORT, run, self.packed())

    def packed(self) -> bytes:
        """The payload of an ABORT frame."""
        claims = [one.packed() for one in self.claims]
        most = _TEXT_WITH_CLAIMS if claims else _TEXT_CHARACTERS
        words = self.origin, str(self.reason), self.text[:most], claims
        return json.dumps(words, ensure_ascii=False).encode()


def parse_abort(frame: Frame, sender: str) -> Failure:
    """What an ABORT frame of a neighbour says; what cannot be read counts as a failure of its own.

    Examples
    --------
    >>> frame = Failure("lab", "no table", Reason.REFUSED).abort(bytes(16))
    >>> parse_abort(frame, "lab").message
    'lab ended the run (refused). It says: "no table"'
    """
    try:
        words = parse_json(bytes(frame.payload).decode(), f"the ABORT of {sender}")
        origin, reason, text, claims = words
        said, claims = Reason(reason), parse_claims(claims)
    except (ValueError, TypeError, Dual2Error):
        return Failure(sender, "(its reason cannot be read)", Reason.FAILED, sender)
    if said is Reason.LEFT:
        said = Reason.FAILED
    return Failure(printable(origin, _NAME_CHARACTERS), printable(text, 2000), said, sender, claims)
