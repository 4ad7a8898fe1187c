"""The command ``dual2``: problem folders in, solutions and figures out.

Exit codes: 0 converged or done, 2 bad input or usage, 3 not converged, 130 interrupted.
"""

import io
import sys
from collections.abc import Sequence

import typer

from dual2.commands.bench import bench, plot
from dual2.commands.listing import info, methods
from dual2.commands.reproduce import reproduce
from dual2.commands.solving import example, solve, theory
from dual2.errors import Dual2Error
from dual2.solving.interrupts import ending_on_request

COMMANDS = (example, solve, theory, reproduce, plot, bench, methods, info)
"""Each function is a command of the same name, in this order in the help."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Decentralised constraint-coupled optimisation.",
)
for command in COMMANDS:
    app.command()(command)


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
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
