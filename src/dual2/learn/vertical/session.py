"""A run of a learning study: what all its commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dual2.errors import Dual2Error, PeerError, PeerRefused, Refusal
from dual2.learn.vertical.labels import what_labels_show
from dual2.learn.vertical.learning_terms import GIVEN, HASHES, PSI, Learning
from dual2.learn.vertical.party_file import LearnParty
from dual2.parties.audit_heads import HEAD_FILE
from dual2.parties.session import take_part
from dual2.parties.status import Board
from dual2.runtime.peers.identity import validity
from dual2.runtime.peers.masks import KEY_FILE
from dual2.runtime.peers.parties import Parties

Report = Callable[[str], None]
Work = Callable[[Parties, Board], Any]
ROWS_SHOW = {
    PSI: (
        "Rows: private set intersection. All learn the common rows; each party learns how many "
        "rows it shares with the holder of the labels and how many of these others lack, and the "
        "two how many the other has."
    ),
    HASHES: (
        "Rows: keyed hashes. A weaker guarantee: the holder of the labels sees which hashes each "
        "party has, and whoever has the row key can test any id (some 1e5 guesses a second on one "
        "core: all nine-digit numbers in hours). For ids that are random already."
    ),
    GIVEN: "Rows: as given, the same in the same order everywhere; only their number is compared.",
}
"""What the parties learn of each other's rows."""


def summary(own: LearnParty) -> str:
    """What a study does and what it shows, in words, before anything runs."""
    study, learning = own.study, own.study.learning
    names = study.names
    masks = "Sums: not masked. A parent in the tree sees the part of each of its children."
    if study.masked:
        masks = (
            "Sums: masked. Nobody sees another's part. n - 1 parties together know the part of the "
            "last. Masked, not differentially private."
        )
    chosen = ""
    if learning.search is not None:
        values = ", ".join(f"{value:g}" for value in learning.search.values)
        chosen = f" {learning.search.parameter} from {values} by {learning.search.folds} folds,"
    to = ", ".join(names[i] for i in learning.receivers)
    lines = [
        f"Study {study.name} ({study.digest.hex()[:16]}…) of {', '.join(names)}.",
        f"Model: {learning.model} {learning.options or ''},{chosen} numbers "
        f"{'standardised' if learning.standardize else 'as they are'}, tol = {learning.tol:g}.",
        f"Labels are held by {names[learning.holder]}. Predictions go to {to}.",
        what_labels_show(learning),
        what_columns_show(learning, len(names)),
        *_what_errors_show(learning),
        ROWS_SHOW[learning.rows.policy],
        masks,
    ]
    return "\n".join(lines)


def what_columns_show(learning: Learning, parties: int) -> str:
    """What the parties can learn about columns of the others, in words."""
    if not learning.mixes:
        return (
            "Columns: every party sees the joint score and the dual value of each training row in "
            "each step, and how the scores answer steps. With an l1 penalty or matrices it can "
            "compute single columns of others."
        )
    whose = "of the other party" if parties == 2 else "of all others together, not whose it is"
    return (
        "Columns: the holder of the labels gets one masked sum of randomly mixed columns. From it "
        f"the holder can compute the Gram matrix {whose}, and binary columns by independent "
        "component analysis. The others get their own coefficients and the status."
    )


def _what_errors_show(learning: Learning) -> list[str]:
    """What standard errors show, if the study asks for them."""
    if not learning.evaluation.standard_errors:
        return []
    return [
        "Standard errors: each partner gets the covariance of all mixed coefficients, K(K+1)/2 "
        "numbers that depend on labels and on all columns. On tables with few rows per coefficient "
        "that says something about single labels."
    ]


def demand_consent(own: LearnParty) -> None:
    """An error unless the study accepts, or reduces, what is shown of labels."""
    learning = own.study.learning
    if learning.epsilon is None and not (learning.accepted or learning.private):
        raise Dual2Error(f"{own.study.file} decides nothing about labels. {summary(own)}")


def run_phase(
    own: LearnParty, phase: str, work: Work, data: Callable[[], str], resume: bool, report: Report
) -> Any:
    """Take part in one run of the study.

    ``data`` gives the hash of what a restart must find again; where it refuses the party's own
    data, the others are told before this party ends. After a refusal here, or elsewhere before the
    first total, nothing is left to go on with: the next attempt starts with new keys under the same
    name. No word of a peer removes a state that has a total.
    """
    party = own.at(phase)
    if soon := validity(party.study.members[party.me].der):
        report(f"The certificate of {party.name} {soon}.")
    refusal: Refusal | None = None
    mark = ""
    try:
        mark = data()
    except Refusal as error:
        refusal = error
        report(f"{error} The others are told as soon as they are there; Ctrl-C ends at once.")

    def attempt(transport: Parties, board: Board) -> Any:
        if refusal is not None:
            raise refusal
        return work(transport, board)

    try:
        return take_part(party, attempt, mark, 1, resume, report)
    except (Refusal, PeerError) as error:
        if refusal is not None or isinstance(error, Refusal | PeerRefused):
            forget(own, phase)
        if refusal is not None and error is not refusal:
            raise refusal from error  # nobody was there to be told
        raise


def forget(own: LearnParty, phase: str) -> None:
    """Remove what a run could go on with; its log stays."""
    state = own.at(phase).state
    for name in ("journal", KEY_FILE, HEAD_FILE):
        (state / name).unlink(missing_ok=True)


def is_over(own: LearnParty, phase: str, output: Path, resume: bool, force: bool) -> bool:
    """Whether a run has ended with its output, for this party and for its neighbours.

    ``force`` is for a new attempt: what an earlier one left is forgotten, keys included.
    """
    if force and not resume:
        forget(own, phase)
    if not output.exists() or (own.at(phase).state / "journal").exists():
        return False
    if resume:
        return True
    if not force:
        raise Dual2Error(
            f"{output} exists and would be replaced. Pass --force at all parties (force=True) for "
            "a new attempt, or --resume if it ended there already."
        )
    return False
