"""Helpers beside the tests are importable everywhere; kernels are compiled before workers start."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def pytest_sessionstart(session) -> None:
    """Where several workers will run, fill the cache of compiled kernels first, each once."""
    if hasattr(session.config, "workerinput") or not session.config.getoption("numprocesses", None):
        return
    import warm_up
    from dual2.compiled import cache_directory

    if cache_directory() is None:  # every process of every test would compile for itself
        os.environ["DUAL2_CACHE_DIR"] = tempfile.mkdtemp(prefix="dual2-tests-")
    script = [sys.executable, warm_up.__file__]
    running = [subprocess.Popen([*script, part]) for part in warm_up.PARTS]
    failed = [part.args for part in running if part.wait() != 0]
    if failed:
        raise RuntimeError(f"the kernels could not be compiled: {failed}")
