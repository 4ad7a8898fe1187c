"""Helpers in ``support`` are importable everywhere; kernels are compiled before workers start."""

import gc
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "support"))

import dispositions
from chromium import browser, show  # noqa: F401

dispositions.restore()


def share_out_the_machine() -> None:
    """Workers and the processes of their tests: one BLAS thread, bytecode kept.

    Several hundred processes import the package: half a second less each where bytecode is kept.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """What is collected stays: the garbage collector need not look at it, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_xdist_auto_num_workers(config) -> int:
    """Two more workers than processors, which tests that wait for something leave idle."""
    return (os.cpu_count() or 1) + 2


def pytest_sessionstart(session) -> None:
    """Where several workers will run: kernels are compiled once, processes start from a server."""
    if hasattr(session.config, "workerinput"):
        start_from_server()
        return
    if not session.config.getoption("numprocesses", None):
        return
    share_out_the_machine()
    folder = tempfile.mkdtemp(prefix="dual2-tests-")
    session.config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    compile_kernels(folder)
    serve_processes(session.config, folder)


def compile_kernels(folder: str) -> None:
    """Fill the cache of compiled kernels, each once, by two processes side by side."""
    import warm_up
    from dual2.kernel_cache import cache_directory

    if cache_directory() is None:  # every process of every test would compile for itself
        os.environ["DUAL2_CACHE_DIR"] = folder
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


def serve_processes(config, folder: str) -> None:
    """Start the server of ready processes; it ends when its standard input does."""
    import mpi_runs
    import ready
    import ready_server

    if not hasattr(os, "fork"):
        return
    line = [sys.executable, ready_server.__file__, os.path.join(folder, "ready")]
    server = subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=mpi_runs.variables()
    )
    if server.stdout.readline() == "ready\n":
        os.environ[ready.ADDRESS] = line[-1]
    config.add_cleanup(server.communicate)


def start_from_server() -> None:
    """What starts processes in a worker starts them as tests do: with the variables of the server.

    ``dual2 solve --mpi`` also asks the server for them.
    """
    from dual2.processes import launch
    from mpi_runs import variables
    from ready import PYTHON

    os.environ.update(variables())
    launch.PROGRAM = (*PYTHON, *launch.PROGRAM[1:])
