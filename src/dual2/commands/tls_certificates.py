"""``dual2 certificates``: keys and certificates of parties."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from dual2.commands.common_options import Force
from dual2.errors import Dual2Error
from dual2.files import refuse_existing
from dual2.parties.names import demand_name
from dual2.runtime.peers.folder import create
from dual2.runtime.peers.identity import (
    fingerprint,
    load_key,
    make_key,
    make_request,
    make_self_signed,
    make_trial,
    parse_certificate,
    read_certificate,
    validity,
)

OWN_DAYS = 365
"""Validity of a certificate that a party signs itself."""
certificates_app = typer.Typer(no_args_is_help=True, help="Keys and certificates of parties.")


@certificates_app.command()
def trial(
    parties: Annotated[str, typer.Option(metavar="A,B,C", help="Names of the parties.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write.")] = Path("."),
    force: Force = False,
) -> None:
    """Make keys and certificates to try things out, and the lines of the study."""
    names = [name.strip() for name in parties.split(",")]
    for name in names:
        demand_name(name, "--parties")
    if len(set(names)) < len(names):
        raise Dual2Error("--parties: a name is there twice.")
    for name, found in make_trial(out, names, force).items():
        print(
            f'[[parties]]\nname = "{name}"\ncertificate = "{name}.pem"\nfingerprint = "{found}"\n'
        )
    print(
        f"Keys and certificates are in {out}; give each party its own .key only.", file=sys.stderr
    )


@certificates_app.command("create")
def create_own(
    name: Annotated[str, typer.Argument(help="Name of the party.")],
    days: Annotated[float, typer.Option(help="Validity.")] = OWN_DAYS,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write.")] = Path("."),
    force: Force = False,
) -> None:
    """Make a key and a certificate signed by itself: no authority is needed."""
    demand_name(name, "NAME")
    if not days > 0:
        raise Dual2Error(f"--days {days:g} found; expected a number > 0.")
    found = make_self_signed(out, name, days, force)
    print(f"{out / f'{name}.pem'}: {found}")
    print(f"Send this file. {out / f'{name}.key'} stays here.", file=sys.stderr)


@certificates_app.command()
def request(
    name: Annotated[str, typer.Argument(help="Name of the party.")],
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="A key that exists.")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write.")] = Path("."),
    force: Force = False,
) -> None:
    """Make a key (unless given) and a request (CSR) to your own authority."""
    demand_name(name, "NAME")
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
