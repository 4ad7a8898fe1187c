"""Helpers beside the tests are importable everywhere; kernels are compiled before workers start."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def pytest_sessionstart(session) -> None:
    """Where several workers will run, fill the cache of compiled kernels first, each once."""
    if hasattr(session.config, "workerinput") or not session.config.getoption("numprocesses", None):
        return
    import warm_up

    script = [sys.executable, warm_up.__file__]
    running = [subprocess.Popen([*script, part]) for part in warm_up.PARTS]
    failed = [part.args for part in running if part.wait() != 0]
    if failed:
        raise RuntimeError(f"the kernels could not be compiled: {failed}")
