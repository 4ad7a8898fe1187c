"""Lines of a model's file, and errors that name them."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from dual2.errors import ProblemError

MAX_BYTES = 2_000_000_000
"""Longest text that is read, after unpacking."""


def read_lines(path: str | Path) -> list[str]:
    """The lines of a text file, unpacked if its name ends in .gz."""
    path = Path(path)
    if not path.is_file():
        raise ProblemError(f"There is no file {path}. Expected an MPS, QPS, LP or .mat file.")
    try:
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as stream:
                data = stream.read(MAX_BYTES + 1)
        else:
            with path.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ProblemError(f"{path} cannot be read: {error}.") from error
    if len(data) > MAX_BYTES:
        raise ProblemError(f"{path} has more than {MAX_BYTES} bytes of text.")
    return data.decode("utf-8", "surrogateescape").splitlines()


class Place:
    """Where a reader is; it raises errors that name the file and the line."""

    def __init__(self, path: str | Path) -> None:
        self.path, self.line = Path(path), 0

    def fail(self, text: str, line: int | None = None) -> NoReturn:
        """Raise a :class:`ProblemError` about a line; the current one unless told otherwise."""
        raise ProblemError(f"{self.path.name}, line {line or self.line}: {text}")

    def number(self, text: str) -> float:
        """A number of the current line."""
        try:
            value = float("nan" if "_" in text else text.upper().replace("D", "E"))
        except ValueError:
            value = float("nan")
        if value != value:
            self.fail(f"{text!r} is not a number.")
        return value

    def walk(self, lines: list[str]) -> Iterator[str]:
        """The lines one by one; errors name the one that came last."""
        for self.line, text in enumerate(lines, 1):
            yield text
