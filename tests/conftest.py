"""Helpers beside the tests are importable everywhere; kernels are compiled before workers start."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from chromium import browser, show  # noqa: F401


def share_out_the_machine() -> None:
    """Workers and the processes of their tests: one BLAS thread, bytecode kept.

    Several hundred processes import the package: half a second less each where bytecode is kept.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_sessionstart(session) -> None:
    """Where several workers will run, fill the cache of compiled kernels first, each once."""
    if hasattr(session.config, "workerinput") or not session.config.getoption("numprocesses", None):
        return
    share_out_the_machine()
    import warm_up
    from dual2.compiled import cache_directory

    if cache_directory() is None:  # every process of every test would compile for itself
        folder = os.environ["DUAL2_CACHE_DIR"] = tempfile.mkdtemp(prefix="dual2-tests-")
        session.config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    warm = warm_up.mark()
    if warm is not None and warm.exists():
        return
    script = [sys.executable, warm_up.__file__]
    running = [subprocess.Popen([*script, part]) for part in warm_up.PARTS]
    failed = [part.args for part in running if part.wait() != 0]
    if failed:
        raise RuntimeError(f"the kernels could not be compiled: {failed}")
    if warm is not None:
        warm.touch()
