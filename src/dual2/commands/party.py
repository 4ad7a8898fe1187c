"""``dual2 party`` and ``dual2 certificates``: runs between organisations."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dual2.commands.options import EXIT, Force
from dual2.errors import Dual2Error
from dual2.files import refuse_existing
from dual2.parties.checking import check_party
from dual2.parties.party import Party, read_party
from dual2.parties.session import run_party
from dual2.parties.status import read_status
from dual2.parties.study import NAME
from dual2.runtime.peers.audit import verify
from dual2.runtime.peers.folder import create
from dual2.runtime.peers.identity import (
    fingerprint,
    load_key,
    make_key,
    make_request,
    make_trial,
    parse_certificate,
    read_certificate,
    validity,
)

party_app = typer.Typer(no_args_is_help=True, help="One party of a run between organisations.")
certificates_app = typer.Typer(no_args_is_help=True, help="Keys and certificates of parties.")
PartyFile = Annotated[Path, typer.Argument(metavar="PARTY.TOML", help="The party's own file.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a run, if any.")]
Patience = Annotated[float | None, typer.Option(help="Seconds to wait for a lost peer.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print errors only.")]


def forbid_core_dumps() -> None:
    """No core dump with keys in it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def with_patience(party: Party, patience: Patience) -> Party:
    """The party, which waits so long for a lost peer if that is said."""
    if patience is None:
        return party
    if not patience > 0:
        raise Dual2Error(f"--patience {patience:g} found; expected seconds > 0.")
    return replace(party, timing=replace(party.timing, patience=patience))


@contextmanager
def telling(quiet: bool) -> Iterator[Callable[[str], None]]:
    """What is called to tell how it goes; after Ctrl-C it is said how to go on."""
    try:
        yield lambda text: None if quiet else print(text, file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("dual2: ended; the state is kept, go on with --resume.", file=sys.stderr)
        raise typer.Exit(130) from None


@party_app.command()
def check(
    file: PartyFile,
    seconds: Annotated[float, typer.Option(help="How long to try to reach a peer.")] = 5.0,
) -> None:
    """Look at files, keys, dates, hashes and who can be reached; computes nothing."""
    findings = check_party(read_party(file), seconds)
    for finding in findings:
        print(f"{'ok' if finding.fine else 'NO':3} {finding.what}: {finding.words}")
    raise typer.Exit(0 if all(finding.fine for finding in findings) else 4)


@party_app.command()
def run(
    file: PartyFile,
    resume: Resume = False,
    patience: Patience = None,
    quiet: Quiet = False,
) -> None:
    """Take part in a run; the answer is in STATE/answer.json."""
    forbid_core_dumps()
    party = with_patience(read_party(file), patience)
    with telling(quiet) as report:
        status = run_party(party, resume, report)
    raise typer.Exit(EXIT.get(status, 3))


@party_app.command()
def status(file: PartyFile) -> None:
    """How a running party does; exit code 0 if it runs or has ended, 4 if it is gone."""
    found = read_status(read_party(file))
    kkt = found.get("kkt")
    print(f"{found['party']}, run {found['run']}: {found['state']}")
    print(f"sum {found.get('sums', 0)}" + ("" if kkt is None else f", residual {kkt:.1e}"))
    if found.get("waiting"):
        print(f"waiting for {found['waiting']} {found['waited']:.0f} s")
    for link in found.get("links", []):
        state = "up" if link["up"] else f"down for {link['down_for']:.0f} s"
        print(f"{link['peer']}: {state}, {link['received']} frames received, {link['kept']} kept")
    raise typer.Exit(4 if found["state"] == "gone" else 0)


@party_app.command()
def audit(
    folder: Annotated[Path, typer.Argument(metavar="STATE", help="The party's state folder.")],
) -> None:
    """Verify the chain of an audit log and count its events."""
    counts = verify(folder / "audit.jsonl")
    print(f"{folder / 'audit.jsonl'}: the chain of {counts.total()} events is whole.")
    for event, count in sorted(counts.items()):
        print(f"{count:8} {event}")


@certificates_app.command()
def trial(
    parties: Annotated[str, typer.Option(metavar="A,B,C", help="Names of the parties.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write.")] = Path("."),
    force: Force = False,
) -> None:
    """Make keys and certificates to try things out, and the lines of the study."""
    names = [name.strip() for name in parties.split(",")]
    for name in names:
        if not NAME.fullmatch(name):
            raise Dual2Error(f"--parties: {name!r} found; expected letters, digits, - _ and dots.")
    if len(set(names)) < len(names):
        raise Dual2Error("--parties: a name is there twice.")
    for name, found in make_trial(out, names, force).items():
        print(
            f'[[parties]]\nname = "{name}"\ncertificate = "{name}.pem"\nfingerprint = "{found}"\n'
        )
    print(
        f"Keys and certificates are in {out}; give each party its own .key only.", file=sys.stderr
    )


@certificates_app.command()
def request(
    name: Annotated[str, typer.Argument(help="Name of the party.")],
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="A key that exists.")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write.")] = Path("."),
    force: Force = False,
) -> None:
    """Make a key (unless given) and a request (CSR) to your own authority."""
    if not NAME.fullmatch(name):
        raise Dual2Error(f"{name!r} found; expected letters, digits, - _ and dots.")
    target = refuse_existing(out / f"{name}.csr", force)
    own = make_key(out / f"{name}.key", force) if key is None else load_key(key)
    create(target, make_request(name, own), 0o644)
    print(target)


@certificates_app.command()
def show(file: Annotated[Path, typer.Argument(metavar="FILE.PEM", help="A certificate.")]) -> None:
    """Show a certificate's name, dates and fingerprint."""
    der = read_certificate(file)
    found = parse_certificate(der)
    print(f"name         {found.subject.rfc4514_string()}")
    print(f"issuer       {found.issuer.rfc4514_string()}")
    print(f"not before   {found.not_valid_before_utc:%Y-%m-%d %H:%M} UTC")
    print(f"not after    {found.not_valid_after_utc:%Y-%m-%d %H:%M} UTC  {validity(der)}".rstrip())
    print(f"fingerprint  {fingerprint(der)}")
