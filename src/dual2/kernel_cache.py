"""Where compiled kernels are kept, and which of them may be used.

Numba's own disk cache looks only at the file of the function it stores, so an edit in a kernel
that lives in another file leaves a stale caller behind. Here every cached kernel carries a stamp
of the sources of all modules that contain compiled code (those that import ``dual2.compiled``): any
edit recompiles, into a folder of its own, since an index of older kernels may name types that have
moved and cannot even be read. If no cache directory is writable, kernels compile in memory, and a
warning says so once.

Before it compiles, a kernel is looked up among the shipped ones (:mod:`dual2.shipped_kernels`).
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
from numba.core.caching import FunctionCache, IndexDataCacheFile

from dual2.shipped_kernels import Shipped, find_shipped

_PACKAGE = Path(__file__).resolve().parent
_MARK = b"from dual2.compiled import"
_log = logging.getLogger("dual2")


@functools.cache
def source_stamp(package: Path = _PACKAGE) -> str:
    """Hash of every module with compiled code, and of the compiler's version."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {np.__version__}".encode())
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if _MARK in text or path.name == "compiled.py":
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + text)
    return digest.hexdigest()


def cache_root() -> Path:
    """The folder that ``DUAL2_CACHE_DIR`` decides, else ``XDG_CACHE_HOME``, else ``~/.cache``."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("DUAL2_CACHE_DIR") or Path(home) / "dual2")


@functools.cache
def cache_directory() -> Path | None:
    """Directory of the compiled kernels; None if none is writable.

    Each installation of the package has a folder of its own in :func:`cache_root`, from which the
    kernels of older sources are removed.
    """
    own = cache_root() / hashlib.sha256(str(_PACKAGE).encode()).hexdigest()[:12]
    path = own / source_stamp()[:12]
    try:
        if not path.is_dir():
            shutil.rmtree(own, ignore_errors=True)
            path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        _log.warning(
            "dual2 cannot write its compiled kernels to %s (%s); every process compiles them "
            "again. Set DUAL2_CACHE_DIR to a writable folder.",
            path,
            error,
        )
        return None
    return path


@functools.cache
def shipped() -> Shipped | None:
    """The kernels that came compiled, if they fit these sources, this compiler and processor."""
    return find_shipped(source_stamp())


class Locator:
    """Tells Numba where a kernel is cached and what makes it stale.

    Numba finds it by ``CACHE_LOCATOR_CLASSES``, a setting of the whole process, which is therefore
    set only while the cache of one of our kernels is made.
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
        """Tells functions of one name apart; for those of the package the same everywhere."""
        path = Path(self._py_file)
        inside = path.is_relative_to(_PACKAGE)
        name = path.relative_to(_PACKAGE).as_posix() if inside else self._py_file
        return f"{self._line}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "Locator":
        """The locator of one kernel."""
        return cls(py_func, py_file)


class KernelCache(FunctionCache):
    """Of one kernel: first the shipped ones, then those that this machine has compiled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        settings: Any = config
        before = settings.CACHE_LOCATOR_CLASSES
        settings.CACHE_LOCATOR_CLASSES = f"{__name__}.Locator"
        try:
            super().__init__(function)
        finally:
            settings.CACHE_LOCATOR_CLASSES = before
        self._shipped, found = None, shipped()
        if found is not None:
            name, stamp = self._impl.filename_base, self._impl.locator.get_source_stamp()
            self._shipped = IndexDataCacheFile(str(found.folder), name, stamp)
        if cache_directory() is None:
            self.disable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled kernel for these types, or None: then Numba compiles it."""
        found = shipped()
        if self._shipped is not None and found is not None:
            target_context.refresh()
            key = self._index_key(sig, target_context.codegen())
            data = self._shipped.load((key[0], found.target, *key[2:]))
            if data is not None:
                return self._impl.rebuild(target_context, data)
        return super().load_overload(sig, target_context)
