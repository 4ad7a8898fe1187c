"""``dual2 party``: runs between organisations.

Every command imports what it needs: looking at a state folder needs no solver.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dual2.commands import exit_code
from dual2.commands.common_options import EXIT
from dual2.errors import Dual2Error

if TYPE_CHECKING:
    from dual2.parties.party import Party

party_app = typer.Typer(no_args_is_help=True, help="One party of a run between organisations.")
PartyFile = Annotated[Path, typer.Argument(metavar="PARTY.TOML", help="The party's own file.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a run, if any.")]
Patience = Annotated[float | None, typer.Option(help="Seconds to wait for a lost peer.")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print errors only.")]


class LogFormat(StrEnum):
    """How a command says what happens, on standard error."""

    TEXT = "text"
    JSON = "json"


Log = Annotated[LogFormat, typer.Option("--log", help="Lines for people, or JSON for programs.")]


def forbid_core_dumps() -> None:
    """No core dump with keys in it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _is_learning(file: Path) -> bool:
    """Whether a party's file belongs to a study of tables."""
    from dual2.files import read_toml

    return "table" in read_toml(file)


def show_findings(findings: list[Any]) -> None:
    """Print what a check found; exit code 4 if something is wrong."""
    for finding in findings:
        print(f"{'ok' if finding.fine else 'NO':3} {finding.what}: {finding.words}")
    raise typer.Exit(0 if all(finding.fine for finding in findings) else 4)


def show_status(file: Path, as_json: bool) -> None:
    """Print what a party has written about its runs; exit code 4 if one was killed."""
    from dual2.parties.status import read_statuses, status_lines

    found = read_statuses(file)
    if as_json:
        print(json.dumps(found))
    else:
        print("\n".join(line for one in found.values() for line in status_lines(one)))
    raise typer.Exit(4 if any(one["state"] == "gone" for one in found.values()) else 0)


def with_patience(party: Party, patience: Patience) -> Party:
    """The party, which waits so long for a lost peer if that is said."""
    if patience is None:
        return party
    if not patience > 0:
        raise Dual2Error(f"--patience {patience:g} found; expected seconds > 0.")
    return replace(party, timing=replace(party.timing, patience=patience))


@contextmanager
def reporting(quiet: bool, log: LogFormat = LogFormat.TEXT) -> Iterator[Callable[[str], None]]:
    """What is called to report how it goes; after Ctrl-C it says how to go on."""
    try:
        if log is LogFormat.JSON:
            with _reporting_json() as report:
                yield report
        else:
            yield lambda text: None if quiet else print(text, file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("dual2: ended; the state is kept, go on with --resume.", file=sys.stderr)
        raise typer.Exit(130) from None


@contextmanager
def _reporting_json() -> Iterator[Callable[[str], None]]:
    """A structured log, whose last line says how the command ends."""
    from dual2.parties.json_log import JsonLog

    log = JsonLog(sys.stderr)
    try:
        yield log
    except KeyboardInterrupt:
        log.write("exit", code=130, text="ended by the operator; the state is kept")
        raise typer.Exit(130) from None
    except (Dual2Error, OSError) as error:
        code = exit_code(error)
        log.write("exit", code=code, kind=type(error).__name__, text=str(error))
        raise typer.Exit(code) from None


@party_app.command()
def check(
    file: PartyFile,
    seconds: Annotated[float, typer.Option(help="How long to try to reach a peer.")] = 5.0,
) -> None:
    """Look at files, keys, dates, hashes and who can be reached; computes nothing."""
    if _is_learning(file):
        from dual2.learn.vertical.preflight import check_learn_party

        findings = check_learn_party(file, seconds)
    else:
        from dual2.parties.checking import check_party
        from dual2.parties.party import read_party

        findings = check_party(read_party(file), seconds)
    show_findings(findings)


@party_app.command()
def run(
    file: PartyFile,
    resume: Resume = False,
    patience: Patience = None,
    quiet: Quiet = False,
    log: Log = LogFormat.TEXT,
) -> None:
    """Take part in a run; the answer is in STATE/answer.json."""
    from dual2.parties.party import read_party
    from dual2.parties.session import run_party

    forbid_core_dumps()
    with reporting(quiet, log) as report:
        status = run_party(with_patience(read_party(file), patience), resume, report)
    raise typer.Exit(EXIT.get(str(status), 3))


@party_app.command()
def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Has a folder with party.toml for each study.")
    ],
    quiet: Quiet = False,
    log: Log = LogFormat.TEXT,
) -> None:
    """Take part in all studies of a folder, in one process and through one port."""
    from dual2.parties.resident import Resident

    forbid_core_dumps()
    with reporting(quiet, log) as report:
        Resident(folder, _find_job, report).run()


def _find_job(folder: Path) -> tuple[Any, tuple[float, ...]]:
    """What a resident process does for a study, and the times of the files that it depends on."""
    file = folder / "party.toml"
    files = [file, folder / "study.toml"]
    if not _is_learning(file):
        from dual2.parties.party import read_party
        from dual2.parties.session import run_party

        def solve(at_port: Any, report: Callable[[str], None]) -> None:
            run_party(at_port(read_party(file)), resume=True, report=report)

        return solve, tuple(one.stat().st_mtime for one in files)

    from dual2.learn.vertical.party_file import read_learn_party
    from dual2.learn.vertical.stages import new_tables, serve_study

    def learn(at_port: Any, report: Callable[[str], None]) -> None:
        own = read_learn_party(file)
        serve_study(replace(own, party=at_port(own.party)), report)

    return learn, tuple(one.stat().st_mtime for one in [*files, *new_tables(folder)])


@party_app.command()
def status(file: PartyFile, as_json: AsJson = False) -> None:
    """How a party does, in each run of its study; exit code 4 if one was killed."""
    show_status(file, as_json)


@party_app.command()
def audit(
    folder: Annotated[Path, typer.Argument(metavar="STATE", help="The party's state folder.")],
    head: Annotated[str, typer.Option(help="A head that its party has signed, from peer_head.")] = (
        ""
    ),
) -> None:
    """Verify the chain of an audit log and count its events."""
    from dual2.runtime.peers.audit import verify

    counts = verify(folder / "audit.jsonl", head)
    print(f"{folder / 'audit.jsonl'}: the chain of {counts.total()} events is whole.")
    if head:
        print(f"It has the signed head {head}.")
    for event, count in sorted(counts.items()):
        print(f"{count:8} {event}")
