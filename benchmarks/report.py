"""Tables on the terminal and, if asked for, as Markdown in a file."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Report:
    """Prints tables and sentences as they come; :meth:`save` writes them to ``out``, if given.

    Parameters
    ----------
    out : str or None
        File to write at the end; None writes nothing.
    """

    def __init__(self, out: str | None = None) -> None:
        self._out, self._parts = out, []

    def say(self, text: str) -> None:
        """A sentence."""
        print(text, flush=True)
        self._parts.append(text)

    def table(self, title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """A table; numbers are rounded to four digits."""
        cells = [list(head), *([_cell(value) for value in row] for row in rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
        lines = [" | ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
        print(f"\n{title}\n{lines[0]}\n{'-+-'.join('-' * w for w in widths)}")
        print("\n".join(lines[1:]), flush=True)
        marked = ["| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in cells]
        self._parts.append("\n".join([f"**{title}**", "", marked[0], "|---" * len(head) + "|"]))
        self._parts[-1] += "\n" + "\n".join(marked[1:])

    def save(self) -> None:
        """Write everything so far to the file, if there is one."""
        if self._out:
            Path(self._out).write_text("\n\n".join(self._parts) + "\n")


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return str(value)


def load() -> str:
    """What else the machine is doing; timings under load are worth less."""
    if not hasattr(os, "getloadavg"):
        return ""
    return f"Load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
