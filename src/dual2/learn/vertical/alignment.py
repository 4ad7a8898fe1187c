"""``dual2 learn align``: the same rows in the same order at every party."""

import hmac
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import Dual2Error, PeerError, Refusal
from dual2.files import read_json
from dual2.learn.vertical.ids import TOKEN_BYTES, cut, digest_of, read_ids, tokens_of
from dual2.learn.vertical.intersection import MAX_MESSAGE_BYTES, intersect, intersect_as_holder
from dual2.learn.vertical.learning_terms import GIVEN, PSI
from dual2.learn.vertical.party_file import LearnParty
from dual2.learn.vertical.row_limits import RowLimits, count_attempt
from dual2.learn.vertical.tables import Table
from dual2.runtime.peers.folder import create, make_private
from dual2.runtime.peers.identity import read_private
from dual2.runtime.peers.parties import Parties

Array = np.ndarray
ROWS = "rows.json"
_CHECK = b"dual2 row key"


@dataclass(frozen=True)
class Rows:
    """Rows of a party's table in the common order; ``digest`` is the same at all parties."""

    index: Array
    digest: str
    table: str = ""

    def __len__(self) -> int:
        return len(self.index)


def match_rows(own: LearnParty, transport: Parties, table: Table) -> Rows:
    """Find the common rows, with the other parties."""
    study, policy = own.study, own.study.learning.rows.policy
    if policy == GIVEN:
        rows = Rows(np.arange(len(table)), f"given {len(table)}")
    else:
        ids = read_ids(table, own.id, study.learning.rows.type)
        _demand_maximum(own, table)
        count_attempt(own, transport, table)
        match = _match_by_psi if policy == PSI else _match_by_hashes
        index, tokens = match(own, transport, ids)
        rows = Rows(np.array(index, np.int64), digest_of(tokens), table.digest([own.id]))
    agree_on_rows(own, transport, rows)
    return rows


def _demand_maximum(own: LearnParty, table: Table) -> None:
    """Refuse a table of this party that the others would refuse."""
    most = own.study.learning.rows.maximum
    if len(table) > most:
        raise Refusal(
            f"{table.where} has {len(table)} rows; the study accepts at most {most} of a party "
            "(rows.maximum).",
            f"it has more rows than the study accepts ({most}).",
        )


def agree_on_rows(own: LearnParty, transport: Parties, rows: Rows) -> None:
    """Refuse, at every party, rows that differ, none at all, or too few.

    Numbers v are the same everywhere if and only if n·Σv² = (Σv)²: one sum tells.
    """
    mark = int.from_bytes(hmac.digest(_CHECK, rows.digest.encode(), "sha256")[:6], "big")
    said = np.array([len(rows), mark >> 24, mark & 0xFFFFFF], dtype=np.float64)
    total = transport.sum(np.concatenate([said, said**2])[None], own.study.network)
    count, *digest = [
        len(own.study.members) * int(square) == int(first) ** 2
        for first, square in total.reshape(2, -1).T
    ]
    told = "the parties have different rows."
    if not count:
        here = np.array([[len(rows), -len(rows)]], dtype=np.float64)
        most, least = transport.max(here, own.study.network)
        raise Refusal(
            f"The parties have from {-least:.0f} to {most:.0f} rows (here {len(rows)}). "
            "Expected the same rows everywhere, in the same order.",
            told,
        )
    if not all(digest):
        raise Refusal(
            "The parties' rows come from different alignments. Run dual2 learn align again at all "
            "of them.",
            told,
        )
    minimum = own.study.learning.rows.minimum
    if len(rows) < max(1, minimum):
        told = f"{len(rows)} rows are common to all parties; the study wants at least {minimum}."
        raise Refusal(
            f"{told} Are the ids written in the same way everywhere (type, leading zeros)?", told
        )


def _match_by_psi(
    own: LearnParty, transport: Parties, ids: list[str]
) -> tuple[list[int], list[bytes]]:
    holder, network = own.study.learning.holder, own.study.network
    limits = RowLimits(own, transport, len(ids))
    if own.holds_labels:
        return intersect_as_holder(transport, network, _others(own), ids, limits.check)
    return intersect(transport, network, holder, ids, limits.check)


def _match_by_hashes(
    own: LearnParty, transport: Parties, ids: list[str]
) -> tuple[list[int], list[bytes]]:
    """Hashes go to the holder, which tells the common ones, in their own order."""
    key, holder = _row_key(own), own.study.learning.holder
    check = hmac.digest(key, _CHECK + own.study.run, "sha256")
    found = {token: k for k, token in enumerate(tokens_of(key, ids))}
    limits = RowLimits(own, transport, len(ids))
    if not own.holds_labels:
        transport.tell(holder, check + b"".join(sorted(found)))
        tokens = cut(transport.hear(holder, MAX_MESSAGE_BYTES))
        if any(token not in found for token in tokens):
            name = own.study.names[holder]
            raise PeerError(f"{name} told common rows that this party does not have.")
        return [found[token] for token in tokens], tokens
    common = set(found)
    for peer in _others(own):
        said = transport.hear(peer, MAX_MESSAGE_BYTES)
        if said[:32] != check:
            name = own.study.names[peer]
            told = f"{name} has another row key than the holder of the labels."
            raise Refusal(f"{told} All parties need the same file.", told)
        theirs = set(cut(said[32:]))
        limits.check(peer, len(theirs))
        common &= theirs
    tokens = sorted(common)
    for peer in _others(own):
        transport.tell(peer, b"".join(tokens))
    return [found[token] for token in tokens], tokens


def _others(own: LearnParty) -> list[int]:
    return [i for i in range(len(own.study.members)) if i != own.party.me]


def _row_key(own: LearnParty) -> bytes:
    assert own.row_key is not None, "checked when the file was read"
    key = read_private(own.row_key).strip()
    if len(key) < 2 * TOKEN_BYTES:
        raise Refusal(
            f"{own.row_key} has {len(key)} bytes; expected at least {2 * TOKEN_BYTES} random ones: "
            "openssl rand -hex 32",
            "its row key is too short.",
        )
    return key


# -- kept between the commands ---------------------------------------------------------------------
def save_rows(own: LearnParty, rows: Rows) -> Path:
    """Write the rows for ``fit``; readable by their owner only."""
    document: dict[str, Any] = {
        "study": own.study.digest.hex(),
        "count": len(rows),
        "digest": rows.digest,
        "table": rows.table,
        "index": rows.index.tolist(),
    }
    make_private(own.party.state)
    create(own.party.state / ROWS, json.dumps(document).encode())
    return own.party.state / ROWS


def load_rows(own: LearnParty, table: Table) -> Rows:
    """The rows that ``align`` has found, if they are of this study and this table."""
    file = own.party.state / ROWS
    if own.study.learning.rows.policy == GIVEN:
        return Rows(np.arange(len(table)), f"given {len(table)}")
    if not file.exists():
        raise Dual2Error(f"{file} is not there. First: dual2 learn align {own.party.file}")
    found = read_json(file)
    if not isinstance(found, dict):
        found = {}
    if found.get("study") != own.study.digest.hex():
        raise Refusal(
            f"{file} belongs to another study ({str(found.get('study'))[:12]}…). Run dual2 learn "
            "align again at all parties.",
            "its rows are those of another study.",
        )
    if found.get("table") != table.digest([own.id]):
        raise Refusal(
            f"{table.where} has other ids than when rows were aligned. Run dual2 learn align again "
            "at all parties.",
            "its table has changed since rows were aligned.",
        )
    index = found.get("index") or []
    places = set(index) if isinstance(index, list) and all(type(k) is int for k in index) else ()
    if not places or len(places) < len(index) or not places <= set(range(len(table))):
        raise Refusal(
            f"{file} is damaged. Run dual2 learn align again at all parties, with --force.",
            "its list of common rows cannot be read.",
        )
    return Rows(np.array(index, np.int64), str(found.get("digest")), found["table"])
