"""Bounds on what matching rows may show: sizes of both sets, and how often ids are matched.

Who deviates can fill its set with guesses. Nothing in the protocol can tell guesses from ids, so a
study bounds how many elements a set may have, absolutely and relative to one's own, and how many
alignments of the same ids there may be. Both sizes are in the audit log.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import NoReturn

from dual2.errors import PeerError, Refusal
from dual2.files import read_json
from dual2.learn.vertical.party_file import LearnParty
from dual2.learn.vertical.tables import Table
from dual2.runtime.peers.folder import create, make_private
from dual2.runtime.peers.parties import Parties

ATTEMPTS = "alignments.json"
_ATTEMPT_STREAM = 2**62 + 4
"""Number of the random words by which an attempt is known after a restart."""


@dataclass(frozen=True)
class RowLimits:
    """What this party accepts from the others in one alignment."""

    own: LearnParty
    transport: Parties
    count: int

    def most(self) -> int:
        """Most elements of another party's set."""
        rows = self.own.study.learning.rows
        return min(rows.maximum, int(rows.ratio * self.count))

    def check(self, peer: int, theirs: int) -> None:
        """Log the sizes of both sets; an error for too large a set, before anything is answered."""
        self.transport.manager.audit(
            "rows", peer=self.own.study.names[peer], own_rows=self.count, their_rows=theirs
        )
        if theirs > self.most():
            self._refuse(peer, theirs)

    def _refuse(self, peer: int, theirs: int) -> NoReturn:
        rows, name = self.own.study.learning.rows, self.own.study.names[peer]
        raise PeerError(
            f"{name} sent {theirs} ids; {self.own.party.name} has {self.count} and accepts "
            f"{self.most()} (rows.maximum = {rows.maximum}, rows.ratio = {rows.ratio:g}). Nothing "
            "was answered: a long list of guesses looks the same. If the table is that long, agree "
            "on larger numbers in the study."
        )


def count_attempt(own: LearnParty, transport: Parties, table: Table) -> None:
    """Count an alignment of these ids, on the disk; an error beyond ``rows.attempts``.

    After a restart an attempt counts once.
    """
    file, most = own.party.state / ATTEMPTS, own.study.learning.rows.attempts
    ids = hashlib.sha256(table.digest([own.id]).encode()).hexdigest()
    attempt = transport.own.words(_ATTEMPT_STREAM, 2).tobytes().hex()
    known: dict[str, list[str]] = read_json(file) if file.exists() else {}
    attempts = known.setdefault(ids, [])
    if attempt in attempts:
        return
    if len(attempts) >= most:
        raise Refusal(
            f"{file}: these ids were matched {len(attempts)} times already, the study allows "
            f"{most}. Each time another party may test a list of guesses. If all agree to go on, "
            "raise rows.attempts in the study.",
            "its ids were matched too often already.",
        )
    attempts.append(attempt)
    make_private(file.parent)
    create(file, json.dumps(known).encode())
    transport.manager.audit("alignment", attempt=len(attempts), own_rows=len(table))
