"""``dual2 learn check``: everything that can be known before a run, nothing computed."""

from pathlib import Path

from dual2.errors import Dual2Error
from dual2.learn.vertical.party_file import LearnParty, read_learn_party
from dual2.parties.checking import Finding, check_members, reach_peers
from dual2.runtime.peers.wire_transport import HANDSHAKE_SECONDS

_FIRST_PHASE = "align"
"""Whoever is reached may be at another run of the study: that counts as reached."""


def check_learn_party(file: Path, seconds: float = HANDSHAKE_SECONDS) -> list[Finding]:
    """Look at the files of a party of a learning study, and try to reach whom it dials."""
    own = read_learn_party(file)
    found = check_members(own.party)
    found.insert(1, _check_table(own))
    return [*found, *reach_peers(own.at(_FIRST_PHASE), seconds)]


def _check_table(own: LearnParty) -> Finding:
    """Whether the party's table can be read and has the columns that its file names."""
    try:
        own.check_label()
        table, used = own.table, own.used()
        lacking = [name for name in used if name not in table.columns]
    except Dual2Error as error:
        return Finding("table", False, str(error))
    if lacking:
        return Finding("table", False, f"it lacks the columns {', '.join(lacking)}")
    return Finding("table", True, f"{len(table)} rows, {len(used)} columns are used")
