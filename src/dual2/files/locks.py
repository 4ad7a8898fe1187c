"""Locks that end with the process that holds them, however it ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from dual2.errors import Dual2Error


@contextmanager
def locked(path: Path, refusal: str = "") -> Iterator[None]:
    """Be the only process that holds this file, until the end of the block or of the process.

    On systems without ``fcntl`` nobody is kept out. The file is made if need be, and stays;
    ``refusal`` is what to say if another process has it: without it the turn is waited for.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder) / "lock"):
    ...     with locked(Path(folder) / "lock", "Somebody is at work here."):
    ...         pass
    Traceback (most recent call last):
    dual2.errors.Dual2Error: Somebody is at work here.
    """
    with path.open("w") as file:
        if find_spec("fcntl"):
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if refusal else 0))
            except BlockingIOError:
                raise Dual2Error(refusal) from None
        yield
