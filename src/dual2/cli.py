"""The command ``dual2``: problem folders in, solutions and figures out.

Exit codes: 0 converged or done, 2 bad input or usage, 3 not converged, 4 a peer is missing or at
fault, 5 the answer could not be written, 130 interrupted.
"""

import errno
import io
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from dual2.commands.bench import bench, plot
from dual2.commands.learn import learn_app
from dual2.commands.listing import info, methods
from dual2.commands.options import NOT_WRITTEN
from dual2.commands.party import certificates_app, party_app
from dual2.commands.reproduce import reproduce
from dual2.commands.solving import example, solve, theory
from dual2.errors import Dual2Error, PeerError
from dual2.solving.interrupts import ending_on_request
from dual2.solving.version import __version__

COMMANDS = (example, solve, theory, reproduce, plot, bench, methods, info)
"""Each function is a command of the same name, in this order in the help."""

GUIDE = """\
dual2: decentralised constraint-coupled optimisation.

  dual2 example trial            write an example: a public file, and one file per agent
  dual2 solve trial              solve it; the answer and its certificate
  dual2 theory trial             which methods apply, and what they are predicted to cost
  dual2 reproduce exp1           the paper's first experiment, with figures and a report
  dual2 methods                  every method: what it accepts, what it sends

dual2 --help lists all commands, dual2 COMMAND --help the options of one."""
"""What ``dual2`` alone prints."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def begin(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Decentralised constraint-coupled optimisation."""
    if version:
        print(f"dual2 {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(GUIDE)


for command in COMMANDS:
    app.command()(command)
app.add_typer(learn_app, name="learn")
app.add_typer(party_app, name="party")
app.add_typer(certificates_app, name="certificates")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; always ends with ``SystemExit``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a λ that the terminal cannot show is no failure
            stream.reconfigure(errors="replace")
    try:
        with ending_on_request():
            app(args=None if arguments is None else list(arguments), prog_name="dual2")
    except (Dual2Error, OSError) as error:
        print(f"dual2: {error}", file=sys.stderr)
        raise SystemExit(_exit_code(error)) from None


def _exit_code(error: Exception) -> int:
    if isinstance(error, PeerError):
        return 4
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
    return NOT_WRITTEN if isinstance(error, OSError) and error.errno in full else 2


if __name__ == "__main__":
    main()
