"""Decorators for compiled kernels, cached on disk by what *all* kernels say.

See :mod:`dual2.kernel_cache` for where they are kept, :mod:`dual2.compiling` for what happens while
they compile.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numba

from dual2.compiling import watch_compiler
from dual2.kernel_cache import KernelCache, cache_directory, shipped

REASSOCIATE = {"reassoc", "contract", "nsz"}
"""What ``fast_compiled`` allows: reordering of sums, so that they run in SIMD registers."""

watch_compiler()


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
    kernel: Any = numba.njit(**options)(function)
    if hasattr(kernel, "_cache") and (cache_directory() is not None or shipped() is not None):
        kernel._cache = KernelCache(function)
    return kernel


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


def forceinline(function: Callable[..., Any]) -> Any:
    """Compile a kernel and let LLVM inline it: for loops over one row inside a loop over rows.

    Such helpers take whole arrays and indices, not row views: a view costs two atomic
    reference counts, which for short rows is more than the work.
    """
    return _compile(function, forceinline=True)


def inline(function: Callable[..., Any]) -> Any:
    """Let Numba inline a kernel before types are inferred: for parts of a loop with many calls.

    A kernel that is called is compiled together with all that it calls, and its caller together
    with all of that again, so that each level costs as much as the whole.
    """
    return numba.njit(nogil=True, error_model="numpy", inline="always")(function)


def fast_compiled(function: Callable[..., Any]) -> Any:
    """Compile a sum (dot product, norm) that may be reordered; see ``REASSOCIATE``."""
    return _compile(function, REASSOCIATE, forceinline=True)


_RENAMED = {"inlined": "forceinline", "spliced": "inline"}


def __getattr__(name: str) -> Any:
    """Old names of decorators, for one release."""
    if name not in _RENAMED:
        raise AttributeError(f"module 'dual2.compiled' has no attribute {name!r}")
    new = _RENAMED[name]
    message = f"dual2.compiled.{name} is {new} now; the old name goes with the next release."
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return globals()[new]
