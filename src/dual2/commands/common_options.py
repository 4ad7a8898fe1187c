"""What several commands share: arguments, the value of rho, exit codes, tables.

Nothing here imports the numerical packages: some commands do without them.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dual2.errors import Dual2Error

if TYPE_CHECKING:
    from rich.table import Table

EXIT = {"CONVERGED": 0, "INTERRUPTED": 130}
"""Exit code of each status (:class:`~dual2.solving.result.Status`); 3 for the others."""

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


def plain_table(title: str, columns: Collection[str], numbers: Collection[str] = ()) -> Table:
    """An empty table with a rule below its head; some of its columns are ``numbers``."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        right = column in numbers
        narrow = right or column in ("q", "method", "sends", "status")
        table.add_column(column, justify="right" if right else "left", no_wrap=narrow)
    return table
