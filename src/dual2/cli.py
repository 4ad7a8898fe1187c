"""The command ``dual2``: problem folders in, solutions and figures out.

Exit codes: 0 converged or done, 2 bad input or usage, 3 not converged, 4 a peer is missing or at
fault, 5 the answer could not be written, 130 interrupted.
"""

import errno
import io
import sys
from collections.abc import Sequence

from dual2.commands import NOT_WRITTEN
from dual2.errors import Dual2Error, PeerError, StateError
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
        raise SystemExit(_exit_code(error)) from None


def _exit_code(error: Exception) -> int:
    if isinstance(error, PeerError):
        return 4
    if isinstance(error, StateError):
        return NOT_WRITTEN
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
    return NOT_WRITTEN if isinstance(error, OSError) and error.errno in full else 2


if __name__ == "__main__":
    main()
