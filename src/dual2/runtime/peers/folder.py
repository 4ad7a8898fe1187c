"""The state folder of a party: its owner's alone, one process at a time, files made whole."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dual2.errors import Dual2Error, PeerError, StateError
from dual2.runtime.peers.crash_points import passing

OWN = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
"""Files of a state folder are its own, never links to others."""


@contextmanager
def keeping(file: Path) -> Iterator[None]:
    """Name the file that cannot be written, and say how to go on."""
    try:
        yield
    except OSError as error:
        raise StateError(
            f"{file} cannot be written: {error.strerror or error}. Nothing was sent that is not "
            "kept. Once it can be written (room, rights) go on with --resume; the others wait."
        ) from error


def write(descriptor: int, content: bytes | bytearray | memoryview) -> None:
    """Write all of it; the system may take a part at a time."""
    done = os.write(descriptor, content)
    while done < len(content):
        done += os.write(descriptor, memoryview(content)[done:])


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, each open to its owner alone."""
    for one in reversed((folder, *folder.parents)):
        if not one.exists():
            one.mkdir(mode=0o700, exist_ok=True)


def lock(folder: Path) -> int:
    """Lock a state folder for this process, or say that another has it."""
    import fcntl  # where there is none, all else of the package works

    make_private(folder)
    found = os.stat(folder)
    if found.st_mode & 0o022 or found.st_uid != os.getuid():
        raise Dual2Error(
            f"Others may write in {folder} (rights {stat.S_IMODE(found.st_mode):04o}, owner "
            f"{found.st_uid}). Expected a folder of your own: chmod 700 {folder}"
        )
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | OWN, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise PeerError(
            f"Another process uses {folder}. Two processes with one state would use masks twice."
        ) from None
    return descriptor


def create(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file beside its place, sync it, rename it, sync its folder."""
    with keeping(path):
        _create(path, content, mode)


def _create(path: Path, content: bytes, mode: int) -> None:
    new = path.with_name(f".{path.name}.new")
    passing("before create")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | OWN, mode)
    try:
        os.fchmod(descriptor, mode)
        write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    passing("before rename")
    os.replace(new, path)
    passing("after rename")
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
