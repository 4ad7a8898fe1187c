"""Why a run ends for all parties: a typed reason, who ended it, and that party's words.

What a peer says is quoted, with its name, and decides nothing. Only the reason has consequences,
and only as far as a peer's word may go: see :meth:`Failure.error`.
"""

import json
from dataclasses import dataclass
from enum import StrEnum

from dual2.errors import Dual2Error, PeerError, PeerRefused
from dual2.files import parse_json
from dual2.runtime.peers.frames import Frame
from dual2.runtime.peers.hello import printable

_NAME_CHARACTERS, _TEXT_CHARACTERS = 100, 1000
"""Most characters of a name and of the words that travel in an ABORT frame."""


class Reason(StrEnum):
    """Why a run ends."""

    REFUSED = "refused"  # a party's own data or files cannot be used; it computed nothing
    FAILED = "failed"  # a party's program failed
    FAULT = "fault"  # a party found another one missing or at fault
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
    """

    origin: str
    text: str
    reason: Reason
    sender: str = ""

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
        refused = self.reason is Reason.REFUSED and not totals
        return (PeerRefused if refused else PeerError)(self.message)

    def packed(self) -> bytes:
        """The payload of an ABORT frame."""
        words = self.origin, str(self.reason), self.text[:_TEXT_CHARACTERS]
        return json.dumps(words, ensure_ascii=False).encode()


def parse_abort(frame: Frame, sender: str) -> Failure:
    """What an ABORT frame of a neighbour says; what cannot be read counts as a failure of its own.

    Examples
    --------
    >>> from dual2.runtime.peers.frames import Kind, frame_of
    >>> words = Failure("lab", "no table", Reason.REFUSED).packed()
    >>> parse_abort(frame_of(Kind.ABORT, bytes(16), words), "lab").message
    'lab ended the run (refused). It says: "no table"'
    """
    try:
        origin, reason, text = parse_json(bytes(frame.payload).decode(), f"the ABORT of {sender}")
        said = Reason(reason)
    except (ValueError, TypeError, Dual2Error):
        return Failure(sender, "(its reason cannot be read)", Reason.FAILED, sender)
    if said is Reason.LEFT:
        said = Reason.FAILED
    return Failure(printable(origin, _NAME_CHARACTERS), printable(text, 2000), said, sender)
