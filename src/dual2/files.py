"""Files written so that a reader sees the old content or the new, never a part; digests."""

import hashlib
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from dual2.errors import Dual2Error, ProblemError

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

    Parameters
    ----------
    path : path
        Destination; its folder is created if need be.
    content : str or bytes
        Text is written as UTF-8.

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
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    return path


def write_arrays(
    path: str | os.PathLike[str], arrays: dict[str, Any], save: Callable[..., None] = np.savez
) -> None:
    """Write an npz file atomically, by ``np.savez`` or ``np.savez_compressed``; no pickles."""
    buffer = io.BytesIO()
    save(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of an npz file; no pickles."""
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, BadZipFile) as error:
        raise ProblemError(f"{path} cannot be read as an npz file: {error}.") from error


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
