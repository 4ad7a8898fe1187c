"""The one way to open a file that somebody else may have written: regular, within limits, named.

What is read is data, never code. Nothing is allocated because a file says so: only as much as it
holds, or up to :func:`allowance` where a short text stands for something larger.
"""

import io
import os
import stat
from typing import NoReturn

from dual2.errors import ProblemError

AnyPath = str | os.PathLike[str]

MOST_TEXT = 16 * 2**20
"""Most bytes of a text; what is larger belongs into an npz file."""

FLOOR, FACTOR = 16 * 2**20, 16
"""What a file of so many bytes may become in memory: FLOOR + FACTOR·bytes, see :func:`allowance`.
Honest data compress less than that, or are small."""

_CHUNK = 2**18
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def allowance(size: int) -> int:
    """Most bytes that the content of ``size`` bytes may expand to.

    Examples
    --------
    >>> allowance(3_000_000) < 70_000_000
    True
    """
    return FLOOR + FACTOR * size


def open_regular(path: AnyPath) -> io.FileIO:
    """Open a regular file; an error for anything else, which might block, never end or act.

    Looked at before it is opened, and once more after, in case that it was exchanged.
    """
    wanted = ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY")
    flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in wanted)
    try:
        _demand_regular(path, os.stat(path))
        descriptor = os.open(path, flags)
        try:
            _demand_regular(path, os.fstat(descriptor))
            return io.FileIO(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except ProblemError:
        raise
    except (OSError, ValueError) as error:
        refuse(path, error)


def _demand_regular(path: AnyPath, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise ProblemError(f"{path} cannot be read: it is {kind}; expected a regular file.")


def refuse(path: AnyPath, error: Exception | str) -> NoReturn:
    """Say that a file cannot be read, and why."""
    cause = error if isinstance(error, Exception) else None
    if isinstance(error, FileNotFoundError):
        raise ProblemError(f"There is no file {path}.") from cause
    raise ProblemError(f"{path} cannot be read: {error}.") from cause


def read_bytes(path: AnyPath, most: int | None = None) -> bytes:
    """The content of a regular file, an error if it has more than ``most`` bytes."""
    with open_regular(path) as stream:
        try:
            size = os.fstat(stream.fileno()).st_size
            data = bytearray()
            while chunk := stream.read(min(_CHUNK, max(size + 1 - len(data), 1))):
                data += chunk
                if most is not None and max(len(data), size) > most:
                    refuse(path, f"it has {max(len(data), size)} bytes; expected at most {most}")
            return bytes(data)
        except OSError as error:
            refuse(path, error)


def read_text(path: AnyPath) -> str:
    """The text of a regular file in UTF-8, of at most :data:`MOST_TEXT` bytes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "note.txt").write_text("λ̄ = 3", encoding="utf-8")
    ...     read_text(pathlib.Path(folder, "note.txt"))
    'λ̄ = 3'
    >>> read_text("/dev/zero")
    Traceback (most recent call last):
    dual2.errors.ProblemError: /dev/zero cannot be read: it is a device; expected a regular file.
    """
    try:
        return read_bytes(path, MOST_TEXT).decode()
    except UnicodeDecodeError as error:
        refuse(path, error)
