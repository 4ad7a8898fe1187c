"""``dual2 learn``: models of columns that several organisations hold."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dual2.commands.common_options import EXIT, Force
from dual2.commands.party import (
    AsJson,
    Log,
    LogFormat,
    PartyFile,
    Patience,
    Quiet,
    Resume,
    forbid_core_dumps,
    reporting,
    show_findings,
    show_status,
    with_patience,
)
from dual2.errors import CapabilityError

learn_app = typer.Typer(no_args_is_help=True, help="Models of columns of several organisations.")


@learn_app.command()
def example(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write.")],
    hosts: Annotated[bool, typer.Option("--hosts", help="One machine each, by name.")] = False,
    force: Force = False,
) -> None:
    """Write three folders, as three organisations would have them, to try things out."""
    with _needs_sklearn():
        from dual2.learn.vertical.example import PARTIES, write_example
    write_example(folder, force, hosts)
    print(f"{folder}: {', '.join(PARTIES)}. In each of the three folders, at about the same time:")
    for line in ("summary", "align", "fit"):
        print(f"  dual2 learn {line} party.toml")
    print("  dual2 learn predict party.toml new.csv")


@learn_app.command()
def summary(file: PartyFile) -> None:
    """What the study does, and what each party learns of the others; computes nothing."""
    own = _read(file, None)
    from dual2.learn.vertical.session import summary as words

    print(words(own))


@learn_app.command()
def check(
    file: PartyFile,
    seconds: Annotated[float, typer.Option(help="How long to try to reach a peer.")] = 5.0,
) -> None:
    """Look at files, table, keys, dates and who can be reached; computes nothing."""
    with _needs_sklearn():
        from dual2.learn.vertical.preflight import check_learn_party
    show_findings(check_learn_party(file, seconds))


@learn_app.command()
def status(file: PartyFile, as_json: AsJson = False) -> None:
    """How a party does, in each run of its study; exit code 4 if one was killed."""
    show_status(file, as_json)


@learn_app.command()
def run(
    file: PartyFile,
    rows: Annotated[
        Path | None, typer.Option("--predict", metavar="ROWS", help="New rows.")
    ] = None,
    name: Annotated[str, typer.Option(help="Of these predictions, the same everywhere.")] = "1",
    patience: Patience = None,
    quiet: Quiet = False,
    log: Log = LogFormat.TEXT,
) -> None:
    """Align, fit and predict in one process; goes on where an earlier attempt ended."""
    with reporting(quiet, log) as report:
        own = _read(file, patience)
        from dual2.learn.vertical.stages import run_stages

        model = run_stages(own, rows, name, report)
    raise typer.Exit(EXIT.get(str(model.about["status"]), 3))


@learn_app.command()
def align(
    file: PartyFile,
    resume: Resume = False,
    force: Force = False,
    patience: Patience = None,
    quiet: Quiet = False,
    log: Log = LogFormat.TEXT,
) -> None:
    """Find the rows that all parties have, without showing others; STATE/rows.json."""
    with reporting(quiet, log) as report:
        own = _read(file, patience)
        from dual2.learn.vertical.fitting import align as find_rows

        find_rows(own, resume, force, report)


@learn_app.command()
def fit(
    file: PartyFile,
    resume: Resume = False,
    force: Force = False,
    patience: Patience = None,
    quiet: Quiet = False,
    log: Log = LogFormat.TEXT,
) -> None:
    """Train with the other parties; the own part of the model is in STATE/model.json."""
    with reporting(quiet, log) as report:
        own = _read(file, patience)
        from dual2.learn.vertical.fitting import fit as train

        model = train(own, resume, force, report)
    raise typer.Exit(EXIT.get(str(model.about["status"]), 3))


@learn_app.command()
def predict(
    file: PartyFile,
    rows: Annotated[Path, typer.Argument(metavar="ROWS", help="New rows: CSV or Parquet.")],
    name: Annotated[str, typer.Option(help="Of these predictions, the same everywhere.")] = "1",
    accept_unsolved: Annotated[
        bool, typer.Option("--accept-unsolved", help="Use a model that has not converged.")
    ] = False,
    resume: Resume = False,
    force: Force = False,
    patience: Patience = None,
    quiet: Quiet = False,
    log: Log = LogFormat.TEXT,
) -> None:
    """Predict for new rows; who the study names finds STATE/predictions-NAME.csv."""
    with reporting(quiet, log) as report:
        own = _read(file, patience)
        from dual2.learn.vertical.prediction import predict as predict_rows

        predict_rows(
            own, rows, name, resume, force, report, "unsolved" if accept_unsolved else None
        )


def _read(file: Path, patience: float | None) -> Any:
    """The party, read by a part of the package that needs scikit-learn."""
    forbid_core_dumps()
    with _needs_sklearn():
        from dual2.learn.vertical.party_file import read_learn_party
    own = read_learn_party(file)
    return replace(own, party=with_patience(own.party, patience))


@contextmanager
def _needs_sklearn() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise CapabilityError(str(error)) from error
