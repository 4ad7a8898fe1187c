"""``dual2 learn``: models of columns that several organisations hold."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dual2.commands.options import EXIT, Force
from dual2.commands.party import PartyFile
from dual2.errors import CapabilityError, Dual2Error
from dual2.solving.result import Status

learn_app = typer.Typer(no_args_is_help=True, help="Models of columns of several organisations.")
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a run, if any.")]
Patience = Annotated[float | None, typer.Option(help="Seconds to wait for a lost peer.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print errors only.")]


@learn_app.command()
def example(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write.")],
    hosts: Annotated[bool, typer.Option("--hosts", help="One machine each, by name.")] = False,
    force: Force = False,
) -> None:
    """Write three folders, as three organisations would have them, to try things out."""
    with _needs_sklearn():
        from dual2.learn.federated.example import PARTIES, write_example
    write_example(folder, force, hosts)
    print(f"{folder}: {', '.join(PARTIES)}. In each of the three folders, at about the same time:")
    for line in ("summary", "align", "fit"):
        print(f"  dual2 learn {line} party.toml")
    print("  dual2 learn predict party.toml new.csv")


@learn_app.command()
def summary(file: PartyFile) -> None:
    """What the study does, and what each party learns of the others; computes nothing."""
    own = _read(file, None)
    from dual2.learn.federated.session import summary as words

    print(words(own))


@learn_app.command()
def align(
    file: PartyFile,
    resume: Resume = False,
    force: Force = False,
    patience: Patience = None,
    quiet: Quiet = False,
) -> None:
    """Find the rows that all parties have, without showing others; STATE/rows.json."""
    own = _read(file, patience)
    from dual2.learn.federated.fitting import align as find_rows

    _run(lambda: find_rows(own, resume, force, _say(quiet)))


@learn_app.command()
def fit(
    file: PartyFile,
    resume: Resume = False,
    force: Force = False,
    patience: Patience = None,
    quiet: Quiet = False,
) -> None:
    """Train with the other parties; the own part of the model is in STATE/model.json."""
    own = _read(file, patience)
    from dual2.learn.federated.fitting import fit as train

    model = _run(lambda: train(own, resume, force, _say(quiet)))
    raise typer.Exit(EXIT.get(Status(model.about["status"]), 3))


@learn_app.command()
def predict(
    file: PartyFile,
    rows: Annotated[Path, typer.Argument(metavar="ROWS", help="New rows: CSV or Parquet.")],
    name: Annotated[str, typer.Option(help="Of these predictions, the same everywhere.")] = "1",
    resume: Resume = False,
    force: Force = False,
    patience: Patience = None,
    quiet: Quiet = False,
) -> None:
    """Predict for new rows; who the study names finds STATE/predictions-NAME.csv."""
    own = _read(file, patience)
    from dual2.learn.federated.prediction import predict as tell

    _run(lambda: tell(own, rows, name, resume, force, _say(quiet)))


def _read(file: Path, patience: float | None) -> Any:
    """The party, read by a part of the package that needs scikit-learn."""
    with suppress(ImportError, OSError, ValueError):  # no core dump with keys in it
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with _needs_sklearn():
        from dual2.learn.federated.party_file import read_learn_party
    own = read_learn_party(file)
    if patience is None:
        return own
    if not patience > 0:
        raise Dual2Error(f"--patience {patience:g} found; expected seconds > 0.")
    timing = replace(own.party.timing, patience=patience)
    return replace(own, party=replace(own.party, timing=timing))


@contextmanager
def _needs_sklearn() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise CapabilityError(str(error)) from error


def _say(quiet: bool) -> Any:
    return (lambda text: None) if quiet else (lambda text: print(text, file=sys.stderr, flush=True))


def _run(work: Any) -> Any:
    try:
        return work()
    except KeyboardInterrupt:
        print("dual2: ended; the state is kept, go on with --resume.", file=sys.stderr)
        raise typer.Exit(130) from None
