"""What several commands share: arguments, the value of rho, exit codes."""

from pathlib import Path
from typing import Annotated

import typer

from dual2.errors import Dual2Error
from dual2.solving.result import Status

EXIT = {Status.CONVERGED: 0, Status.INTERRUPTED: 130}
"""Exit code of each status; 3 for the others."""
NOT_WRITTEN = 5
"""Exit code where the answer could not be written (it is printed)."""

Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Problem folder.")]


def rho_value(text: str | None) -> str | float | None:
    """``--rho`` as ``solve`` takes it."""
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise Dual2Error(f"--rho {text!r} found; expected auto, 0 or a positive number.") from None
