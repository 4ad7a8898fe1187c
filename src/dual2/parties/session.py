"""``dual2 party run``: one party's part of a run, from its files to its answer.

Three threads: this one listens to the operator; one computes and, where it waits, runs the links;
one runs them while it computes.
"""

import hashlib
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dual2.errors import (
    CapabilityError,
    Dual2Error,
    PeerError,
    PeerMissing,
    Refusal,
    StateError,
)
from dual2.files import read_bytes, read_json
from dual2.methods.registry import find_method
from dual2.parties.absence import Absences, go_on_without_missing
from dual2.parties.audit_heads import AuditHeads
from dual2.parties.json_log import JsonLog
from dual2.parties.machine import machine_in_words, threads_in_words
from dual2.parties.opening import agree_on_masks, make_transport, open_manager
from dual2.parties.party import Party
from dual2.parties.status import Board
from dual2.parties.status_page import serve
from dual2.parties.study import versions_in_words
from dual2.runtime import LocalProblem
from dual2.runtime.peers.aborts import Failure, Reason
from dual2.runtime.peers.audit import Audit
from dual2.runtime.peers.connection_manager import ConnectionManager
from dual2.runtime.peers.folder import create
from dual2.runtime.peers.hello import PROTOCOL
from dual2.runtime.peers.identity import (
    load_key,
    read_certificate,
    validity,
)
from dual2.runtime.peers.journal import KEY_FILE, Journal
from dual2.runtime.peers.masks import Secret
from dual2.runtime.peers.parties import Parties
from dual2.solving.result import Result, Status
from dual2.solving.solve import solve
from dual2.solving.storage import to_json
from dual2.solving.storage.problem_folder import load_agent

ANSWER = "answer.json"


class ShutdownRequested(KeyboardInterrupt):
    """The process is to end, the run is not: the others wait for its return."""


@dataclass
class Outcome:
    """What the computing thread ended with."""

    result: Any = None
    error: BaseException | None = None
    missing: list[str] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)


def run_party(party: Party, resume: bool = False, report: Callable[[str], None] = print) -> Status:
    """Take part in a run; the status that all parties end with.

    The answer is in ``state/answer.json``. Errors of this party are ``Dual2Error``, those of others
    ``PeerError``; in both cases the state is kept.
    """
    return go_on_without_missing(
        party, lambda now, absences, again: _attempt(now, absences, again, report), resume, report
    )


def _attempt(
    party: Party, absences: Absences, resume: bool, report: Callable[[str], None]
) -> Status:
    """The run of the parties that are not missing."""
    finished = _finished(party, resume)
    if finished is not None:
        report(f"{party.home / ANSWER}: the run is over ({finished}).")
        return finished
    warn(party, report)
    agent = load_agent(party.data)

    def work(transport: Parties, board: Board) -> Result:
        result = _solve(party, transport, agent, board)
        transport.confirm()
        document = {"party": party.name, "agent": party.me} | result.as_dict()
        document |= {"missing": absences.names} if absences.names else {}
        create(party.home / ANSWER, to_json(document | {"x": result.x[0].tolist()}).encode())
        return result

    data = hashlib.sha256(read_bytes(party.data)).hexdigest()
    result = take_part(party, work, data, int(agent.A.shape[0]), resume, report, absences)
    report(f"{result.status}: {party.home / ANSWER}. {result.advice}")
    return result.status


def take_part(
    party: Party,
    work: Callable[[Parties, Board], Any],
    data: str,
    width: int,
    resume: bool,
    report: Callable[[str], None],
    absences: Absences | None = None,
) -> Any:
    """Do some work together with the other parties; what it answers.

    Parameters
    ----------
    party : Party
        Who takes part, in which study; its state folder is that of this run alone.
    work : callable
        What is computed, and written: it must do the same after a restart.
    data : str
        Hash of the party's data, which a restart must find again; it travels nowhere.
    width : int
        Numbers in the longest row that goes to a neighbour.
    resume : bool
        Whether to go on with what the state folder has.
    report : callable
        Told how it goes.
    absences : Absences, optional
        Where claims about missing parties are signed; without it they end the run.
    """
    journal = Journal(party.state, _about(party, data), resume, party.sync)
    if isinstance(report, JsonLog):
        report = report.of(party=party.name, run=party.study.name, phase=party.state.name)
    listener = report.write if isinstance(report, JsonLog) else None
    audit = Audit(party.state / "audit.jsonl", party.study.name, listener)
    board = Board(party.state / "status.json", party)
    manager, outcome = open_manager(party, audit, max(1, width)), Outcome()
    try:
        audit("start", party=party.name, resumed=bool(journal.frames))
        transport, secret = make_transport(party, manager, journal)
        board.transport = transport
        transport.heads = heads = _audit_heads(party, audit)
        with serve(party.status, board):
            manager.start()
            program = threading.Thread(
                target=_compute,
                args=(party, transport, secret, work, board, outcome, absences),
                name=f"program {party.name}",
                daemon=True,
            )
            program.start()
            _attend(party, manager, board, outcome, report)
            program.join(10.0)
        if outcome.error is None and not outcome.missing:
            heads.erase()
        return _end(party, outcome, audit, report)
    finally:
        manager.stop()
        board.finish(str(outcome.error or ""))
        audit.close()
        journal.close()


def _finished(party: Party, resume: bool) -> Status | None:
    """How the run ended, if it is over for this party and for its neighbours."""
    file = party.home / ANSWER
    if not file.exists() or (party.state / "journal").exists():
        return None
    if not resume:
        raise Dual2Error(
            f"{file} is the answer of a run that is over. A new one needs a new name of the run "
            "(run = … in the study) and another state folder."
        )
    (party.state / KEY_FILE).unlink(missing_ok=True)
    return Status(read_json(file)["status"])


def _about(party: Party, data: str) -> dict[str, str]:
    """What a journal belongs to. The hash of the data stays here: it travels nowhere."""
    return {
        "run": party.study.run.hex(),
        "study file": party.study.digest.hex(),
        "protocol": str(PROTOCOL),
        "data file": data,
        "set of library versions": versions_in_words(),
        "number of threads": threads_in_words(),
        "kind of processor": machine_in_words(),
    }


def warn(party: Party, report: Callable[[str], None]) -> None:
    """What the study lets others see beyond masked sums; a certificate that soon ends."""
    if soon := validity(read_certificate(party.certificate)):
        report(f"The certificate of {party.name} {soon}.")
    method = find_method(party.study.public.options["method"])
    if not party.study.masked:
        report("Sums are not masked: a parent in the tree sees the part of each of its children.")
    if method.name not in ("Newton", "L-BFGS"):
        report(
            f"{method.name} sends vectors to neighbours, which are not masked; they see: "
            f"{method.reveals or 'every dual vector'}."
        )


# -- the computing thread --------------------------------------------------------------------------
def _compute(
    party: Party,
    transport: Parties,
    secret: Secret,
    work: Callable[[Parties, Board], Any],
    board: Board,
    outcome: Outcome,
    absences: Absences | None,
) -> None:
    try:
        transport.pairs = agree_on_masks(party, transport, secret)
        transport.masks = transport.pairs if party.study.masked else None
        outcome.result = work(transport, board)
        outcome.missing = transport.leave()
        if not outcome.missing:
            transport.journal.erase()
            secret.erase()
    except BaseException as error:
        outcome.error = _claimed(transport, error, absences)
        transport.manager.end(_failure(party.name, outcome.error))
    finally:
        outcome.done.set()


def _claimed(transport: Parties, error: BaseException, absences: Absences | None) -> BaseException:
    """An error with signed claims, if it is that parties are missing and the study allows it.

    Once this party's word of the totals may have reached the others, some of them may have written
    the answer of all: then nobody is claimed to be missing any more.
    """
    if not isinstance(error, PeerMissing) or not error.names:
        return error
    if absences is None or transport.confirming or not absences.allowed:
        return PeerError(str(error))
    try:
        return PeerMissing(str(error), claims=absences.claim(error))
    except Dual2Error as refused:
        return refused


def _failure(name: str, error: BaseException) -> Failure:
    """What the others are told of an error here."""
    if isinstance(error, PeerMissing):
        return Failure(name, str(error), Reason.MISSING, claims=error.claims)
    return Failure(name, *_public(name, error))


def _audit_heads(party: Party, audit: Audit) -> AuditHeads:
    """What this party signs about its log."""
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256

    key = load_key(party.key)
    sign = lambda text: key.sign(text, ECDSA(SHA256()))  # noqa: E731
    return AuditHeads(audit, party.study.run, party.study.members, sign)


def _solve(party: Party, transport: Parties, agent: Any, board: Board) -> Result:
    public = party.study.public
    share = LocalProblem({party.me: agent}, public.h, public.network.n)
    options: dict[str, Any] = public.options | {"record": False, "progress": False}
    return solve(share, public.network, runtime=transport, callback=board.tell, **options)


def _public(name: str, error: BaseException) -> tuple[str, Reason]:
    """What the others are told of an error here: nothing about this party's data."""
    if isinstance(error, PeerError):
        return str(error), Reason.FAULT
    if isinstance(error, StateError):
        return f"{name} has no room for its state.", Reason.LEFT
    if isinstance(error, Refusal):
        return f"{name} had to stop: {error.public_message}", Reason.REFUSED
    if isinstance(error, CapabilityError):
        text = f"{name} cannot take part: its functions do not meet what the method needs."
        return text, Reason.FAILED
    kind = "its input was refused" if isinstance(error, Dual2Error) else "its program failed"
    return f"{name} had to stop: {kind}. Its own messages say why.", Reason.FAILED


# -- the operator's thread -------------------------------------------------------------------------
def _attend(
    party: Party,
    manager: ConnectionManager,
    board: Board,
    outcome: Outcome,
    report: Callable[[str], None],
) -> None:
    """Tell how it goes, and listen to signals, until the computing thread ends."""
    before = {}

    def leave(number: int, frame: object) -> None:
        raise ShutdownRequested

    if threading.current_thread() is threading.main_thread():
        before = {s: signal.signal(s, leave) for s in (signal.SIGTERM, signal.SIGHUP)}
    told, pause = 0.0, 1.0 if sys.stderr.isatty() else 10.0
    try:
        while not outcome.done.wait(0.25):
            line = board.refresh(manager)
            if time.monotonic() - told >= pause and line:
                told = time.monotonic()
                if isinstance(report, JsonLog):
                    report.progress(board.now)
                else:
                    report(line)
    except ShutdownRequested:
        manager.fail(party.name, f"{party.name} was asked to end.", Reason.LEFT)
        outcome.done.wait(5.0)
        raise
    except KeyboardInterrupt:
        text = f"{party.name} was stopped by its operator: the run is over for all."
        manager.fail(party.name, text, Reason.STOPPED)
        outcome.done.wait(5.0)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(party: Party, outcome: Outcome, audit: Audit, report: Callable[[str], None]) -> Any:
    if outcome.error is not None:
        audit("end", status="ERROR")
        raise outcome.error
    status = getattr(outcome.result, "status", Status.CONVERGED)
    audit("end", status=str(status))
    if outcome.missing:
        report(
            f"{', '.join(outcome.missing)} did not say goodbye within "
            f"{party.timing.patience:g} s and may lack this party's last messages. They are kept: "
            "the same command with --resume serves them."
        )
    return outcome.result
