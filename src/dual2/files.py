"""Writing files so that a reader sees the old content or the new, never a part."""

import os
import tempfile
from pathlib import Path

from dual2.errors import Dual2Error


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
