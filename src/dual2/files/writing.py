"""Files written so that a reader sees the old content or the new, never a part; digests."""

import glob
import hashlib
import io
import os
import platform
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import Dual2Error

DIGEST_SIZE = 16


def refuse_existing(path: str | os.PathLike[str], force: bool = False) -> Path:
    """The path, or an error if something is there already and ``force`` is not set."""
    path = Path(path)
    if path.exists() and not force:
        raise Dual2Error(
            f"{path} exists and would be overwritten. Choose another name or pass --force "
            "(in Python: force=True)."
        )
    return path


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file beside its destination, then rename it into place.

    The folder is created if need be; text is written as UTF-8.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder) / "deep" / "note.txt", "done").read_text()
    'done'
    """
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}{_mark()}")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)  # an interrupt may come just after the renaming
        raise
    return path


def remove_leftovers(folder: Path, prefix: str) -> None:
    """Remove what killed writers left beside files whose names begin with ``prefix``.

    A temporary file carries the machine and the process of its writer: those of processes that
    still live on this machine stay, as do those of other machines for an hour.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rest = Path(folder) / f".x.json.{_machine()}.99999999.abc"
    ...     rest.touch()
    ...     remove_leftovers(Path(folder), "x")
    ...     rest.exists()
    False
    """
    for file in folder.glob(f".{glob.escape(prefix)}*"):
        found = _LEFTOVER.search(file.name)
        if found is None or not file.is_file():
            continue
        here = found["machine"] == _machine()
        if here and _alive(int(found["process"])):
            continue
        if here or time.time() - file.stat().st_mtime > _FOREIGN:
            file.unlink(missing_ok=True)


_LEFTOVER = re.compile(r"\.(?P<machine>[\w-]+)\.(?P<process>\d{1,9})\.[^.]+$")
_FOREIGN = 3600.0
"""Seconds after which the temporary file of another machine counts as left behind."""


def _machine() -> str:
    return re.sub(r"[^\w-]", "-", platform.node()) or "machine"


def _mark() -> str:
    """What the name of a temporary file says about its writer."""
    return f".{_machine()}.{os.getpid()}."


def _alive(process: int) -> bool:
    if process == os.getpid() or os.name != "posix":  # elsewhere os.kill would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def write_arrays(path: str | os.PathLike[str], arrays: dict[str, Any]) -> None:
    """Write an npz file atomically; no pickles."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())


def digest(*parts: Any) -> bytes:
    """16 bytes that differ if the parts do; what is not bytes counts as its ``repr``.

    Examples
    --------
    >>> digest("ab", "c") == digest("a", "bc"), len(digest(b"file"))
    (False, 16)
    """
    total = hashlib.blake2b(digest_size=DIGEST_SIZE)
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        total.update(len(data).to_bytes(8, "little") + data)
    return total.digest()
