"""Decorators for compiled kernels, cached on disk by what *all* kernels say.

Numba's own disk cache looks only at the file of the function it stores, so an edit in a kernel
that lives in another file leaves a stale caller behind. Here every cached kernel carries a stamp
of the sources of all modules that contain compiled code (those that import this one): any edit
recompiles, into a folder of its own, since an index of older kernels may name types that have moved
and cannot even be read. Where no cache directory is writable, kernels compile in memory and say so
once.
"""

import functools
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config

_PACKAGE = Path(__file__).resolve().parent
_MARK = b"dual2.compiled"
_log = logging.getLogger("dual2")

REASSOCIATE = {"reassoc", "contract", "nsz"}
"""What ``fast_compiled`` allows: reordering of sums, so that they run in SIMD registers."""


@functools.cache
def source_stamp(package: Path = _PACKAGE) -> str:
    """Hash of every module with compiled code, and of the compiler's version."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {np.__version__}".encode())
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if _MARK in text:
            digest.update(str(path.relative_to(package)).encode() + b"\0" + text)
    return digest.hexdigest()


@functools.cache
def cache_directory() -> Path | None:
    """Directory of the compiled kernels; None where none is writable.

    ``DUAL2_CACHE_DIR`` decides, else ``XDG_CACHE_HOME``, else ``~/.cache``; each installation
    of the package has a folder of its own, from which the kernels of older sources are removed.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    root = Path(os.environ.get("DUAL2_CACHE_DIR") or Path(home) / "dual2")
    own = root / hashlib.sha256(str(_PACKAGE).encode()).hexdigest()[:12]
    path = own / source_stamp()[:12]
    try:
        if not path.is_dir():
            shutil.rmtree(own, ignore_errors=True)
            path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        _log.warning(
            "dual2 cannot write its compiled kernels to %s (%s); they are compiled anew in every "
            "process. Set DUAL2_CACHE_DIR to a writable folder.",
            path,
            error,
        )
        return None
    return path


class Locator:
    """Tells Numba where a kernel is cached and what makes it stale.

    Numba finds it by ``CACHE_LOCATOR_CLASSES``, a setting of the whole process, which is therefore
    set only while one of our kernels is made.
    """

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        self._py_file = py_file
        self._line = py_func.__code__.co_firstlineno

    def ensure_cache_path(self) -> None:
        """Make the directory again if a process with newer sources has removed it."""
        Path(self.get_cache_path()).mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        """Directory of all kernels."""
        return str(cache_directory())

    def get_source_stamp(self) -> str:
        """The same for all kernels of the package; one outside changes with its own file too."""
        path = Path(self._py_file)
        outside = path.is_file() and not path.is_relative_to(_PACKAGE)
        return source_stamp() + (hashlib.sha256(path.read_bytes()).hexdigest() if outside else "")

    def get_disambiguator(self) -> str:
        """Tells functions of one name apart."""
        return f"{self._line}-{hashlib.sha256(self._py_file.encode()).hexdigest()[:8]}"

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "Locator":
        """The locator of one kernel."""
        return cls(py_func, py_file)


def _compile(
    function: Callable[..., Any], fastmath: set[str] | bool = False, forceinline: bool = False
) -> Any:
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": fastmath,
        "forceinline": forceinline,
        "no_cfunc_wrapper": True,
    }
    if cache_directory() is None:
        return numba.njit(**options)(function)
    settings: Any = config
    before, settings.CACHE_LOCATOR_CLASSES = settings.CACHE_LOCATOR_CLASSES, f"{__name__}.Locator"
    try:
        return numba.njit(cache=True, **options)(function)
    finally:
        settings.CACHE_LOCATOR_CLASSES = before


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a kernel: strict arithmetic, no GIL, cached on disk.

    Examples
    --------
    >>> @compiled
    ... def twice(x):
    ...     return x + x
    >>> twice(2.0)
    4.0
    """
    return _compile(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a kernel into its callers: for loops over one row inside a loop over rows.

    Such helpers take whole arrays and indices, not row views: a view costs two atomic
    reference counts, which for short rows is more than the work.
    """
    return _compile(function, forceinline=True)


def spliced(function: Callable[..., Any]) -> Any:
    """Make a kernel part of the text of its callers: for parts of one loop that call much.

    A kernel that is called is compiled together with all that it calls, and its caller together
    with all of that again, so that each level costs as much as the whole.
    """
    return numba.njit(nogil=True, error_model="numpy", inline="always")(function)


def fast_compiled(function: Callable[..., Any]) -> Any:
    """Compile a sum (dot product, norm) that may be reordered; see ``REASSOCIATE``."""
    return _compile(function, REASSOCIATE, forceinline=True)
