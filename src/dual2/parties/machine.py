"""What of a machine the last bits of a computation depend on: threads and kind of processor.

A party that restarts must compute the same again, bit for bit, since its words travel under masks
that must not be used twice.
"""

import os
from collections.abc import Mapping

import numpy as np

_BLAS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_OWN = "DUAL2_THREADS"
_KERNELS = ("OPENBLAS_CORETYPE", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NPY_DISABLE_CPU_FEATURES")
"""Variables that choose other instructions than those of the processor."""


def threads_in_words(environment: Mapping[str, str] = os.environ, cores: int | None = None) -> str:
    """Numbers of threads; that of the cores counts only where it decides how many there are.

    Examples
    --------
    >>> threads_in_words({}, 8)
    'OPENBLAS_NUM_THREADS= OMP_NUM_THREADS= MKL_NUM_THREADS= DUAL2_THREADS= on 8 cores'
    >>> threads_in_words({"OMP_NUM_THREADS": "1", "DUAL2_THREADS": "1"}, 8)
    'OPENBLAS_NUM_THREADS= OMP_NUM_THREADS=1 MKL_NUM_THREADS= DUAL2_THREADS=1'
    """
    found = " ".join(f"{name}={environment.get(name, '')}" for name in (*_BLAS, _OWN))
    if threads_are_pinned(environment):
        return found
    return f"{found} on {cores or os.cpu_count()} cores"


def threads_are_pinned(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether variables say how many threads compute, whatever the number of cores."""
    openblas, every, mkl = (bool(environment.get(name)) for name in _BLAS)
    blas = every or (openblas and mkl)  # either library takes the middle one without its own
    return blas and bool(environment.get(_OWN))


def machine_in_words(environment: Mapping[str, str] = os.environ) -> str:
    """What chooses the instructions of the linear algebra and of compiled loops.

    The name of the processor does not count: the same instructions compute the same bits.
    """
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    chosen = [f"{name}={environment[name]}" for name in _KERNELS if environment.get(name)]
    return " ".join([*simd["baseline"], *simd["found"], *chosen])
