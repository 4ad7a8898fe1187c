"""Options that every script has, and tables on the terminal and, if asked for, in a file."""

import argparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SOMETHING_MISSING = 77
"""Exit code with ``--smoke`` if all went well but something was left out, as of a skipped test."""


def parse(
    parser: argparse.ArgumentParser, parts: Iterable[str] = (), /, **smoke: Any
) -> argparse.Namespace:
    """Parse the command line; with ``--smoke`` the defaults are those of ``smoke``.

    Adds ``--smoke``, ``--out`` and, if the script has ``parts``, their names; all of them unless
    told otherwise. Options that are given win in either case.
    """
    known = list(parts)
    if known:
        parser.add_argument("parts", nargs="*", help=f"of {', '.join(known)}; default all")
    parser.add_argument("--smoke", action="store_true", help="a few seconds on small sizes")
    parser.add_argument("--out", help="write the tables to this Markdown file")
    options = parser.parse_args()
    if options.smoke:
        parser.set_defaults(**smoke)
        options = parser.parse_args()
    if known:
        unknown = sorted(set(options.parts) - set(known))
        if unknown:
            parser.error(f"unknown part(s) {', '.join(unknown)}; known: {', '.join(known)}")
        options.parts = options.parts or known
    return options


class Report:
    """Prints tables and sentences as they come; :meth:`end` writes them to ``--out``, if given.

    Parameters
    ----------
    options : argparse.Namespace
        What :func:`parse` found.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._out, self._smoke, self._parts = options.out, options.smoke, []
        self._wrong = self._missing = 0
        self.say(load())

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

    def expect(self, fine: Any, claim: str) -> None:
        """Numbers that must agree: if they do not, the script fails in the end."""
        if not fine:
            self._wrong += 1
            self.say(f"WRONG: {claim}")

    def leave_out(self, reason: str) -> None:
        """Something that cannot be measured here."""
        self._missing += 1
        self.say(f"Left out: {reason}")

    def end(self) -> None:
        """Write the file, if there is one, and leave with the exit code that tells how it went."""
        self.say(load())
        if self._out:
            Path(self._out).write_text("\n\n".join(self._parts) + "\n")
        if self._wrong:
            raise SystemExit(f"{self._wrong} of the numbers above are wrong.")
        if self._missing and self._smoke:
            raise SystemExit(SOMETHING_MISSING)


def report_parts(
    parts: Mapping[str, Callable[[Report, argparse.Namespace], None]], options: argparse.Namespace
) -> None:
    """Report the parts that :func:`parse` found, in their order, and leave."""
    report = Report(options)
    for name in options.parts:
        parts[name](report, options)
    report.end()


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return str(value)


def load() -> str:
    """What else the machine is doing; timings under load are worth less."""
    if not hasattr(os, "getloadavg"):
        return f"{os.cpu_count()} cores."
    return f"Load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
