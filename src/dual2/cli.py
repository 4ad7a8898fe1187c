"""The command ``dual2``: problem folders in, solutions and figures out.

Exit codes: 0 converged or done, 2 bad input or usage, 3 not converged, 4 a peer is missing or at
fault, 5 the answer could not be written, 130 interrupted.
"""

import io
import sys
from collections.abc import Sequence

from dual2.commands import exit_code
from dual2.errors import Dual2Error
from dual2.solving.interrupts import ending_on_request
from dual2.solving.version import __version__


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; always ends with ``SystemExit``."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--version"]:  # before anything else is imported
        print(f"dual2 {__version__}")
        raise SystemExit(0)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a λ that the terminal cannot show is no failure
            stream.reconfigure(errors="replace")
    try:
        with ending_on_request():
            from dual2.commands.app import app

            app(args=given, prog_name="dual2")
    except (Dual2Error, OSError) as error:
        print(f"dual2: {error}", file=sys.stderr)
        raise SystemExit(exit_code(error)) from None


if __name__ == "__main__":
    main()
