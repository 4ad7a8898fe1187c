"""A process that fails ends all of them soon, says who and why; what was saved stays."""

import re
import signal
from types import SimpleNamespace

import pytest

from dual2.errors import CapabilityError, Dual2Error, ProblemError
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.processes.failure import ending_together
from dual2.processes.launch import _end, _passing_on, find_mpiexec, solve_in_processes
from dual2.processes.options import ProcessOptions
from dual2.runtime import Transport
from dual2.runtime.mpi import Mpi
from dual2.runtime.waiting import wait_all
from dual2.solving.storage import save_problem
from mpi_runs import run, run_script
from ready import PYTHON

FAILING = """
    import sys, time
    import numpy as np
    from mpi4py import MPI
    from dual2.errors import ProblemError
    from dual2.processes.failure import ending_together
    from dual2.runtime.mpi import Mpi
    from dual2.runtime.waiting import wait_all

    mode, place = sys.argv[1], Mpi()
    with ending_together(place) as owned:
        owned[:] = [2 * place.rank, 2 * place.rank + 1]
        if mode == "input" and place.rank == 1:
            raise ProblemError("A is not a matrix")
        if mode == "silent" and place.rank == 0:
            request = MPI.COMM_WORLD.Irecv(np.zeros(1), 1)
            wait_all(MPI.Request, [request], [1], 0.5, "rows")
        time.sleep(100)
"""


def test_one_process_has_bad_input():
    done = run_script(2, FAILING, "input")
    assert done.returncode == 2
    assert "dual2: rank 1 (agents 2, 3): A is not a matrix" in done.stderr


def test_a_neighbour_that_does_not_answer():
    done = run_script(2, FAILING, "silent")
    assert done.returncode == 4
    assert "dual2: rank 0 (agents 0, 1): rank 1 did not answer for 0.5 s (rows" in done.stderr


@pytest.mark.parametrize(
    "error, code, said",
    [
        (ProblemError("A is not a matrix"), 2, "A is not a matrix"),
        (IndexError("out of range"), 1, r"IndexError: out of range \(.*, line \d+\)"),
        (KeyboardInterrupt(), 130, "interrupted before there was an answer"),
    ],
)
def test_exit_codes_and_causes(capsys, error, code, said):
    with pytest.raises(SystemExit) as end:
        with ending_together(Transport()) as owned:
            owned[:] = [4]
            raise error
    assert end.value.code == code
    assert re.match(rf"dual2: rank 0 \(agent 4\): {said}", capsys.readouterr().err)


RULE = "-" * 40
KILLED = "prterun noticed that process rank 1 with PID 5 on node a exited on signal"


@pytest.mark.parametrize(
    "program, code, said",
    [
        (f"echo {RULE} >&2; echo no slots >&2; echo {RULE} >&2; exit 213", 213, "no slots\n"),
        (f"echo MAX_ROUNDS; echo {RULE} >&2; echo exit 3 >&2; echo {RULE} >&2; exit 3", 3, ""),
        (f"echo why >&2; echo {RULE} >&2; echo exit 1 >&2; echo {RULE} >&2; exit 1", 1, "why\n"),
        ("echo '[a:5] PMIX ERROR: PMIX_ERR_UNREACH in file' >&2; echo why >&2; exit 1", 1, "why\n"),
        (
            f"echo {RULE} >&2; echo {KILLED} 9 >&2; echo {RULE} >&2; exit 137",
            137,
            "dual2: rank 1 (agents 4, 5, 6, 7) was killed by signal 9 (SIGKILL).\n",
        ),
        ("kill -9 $$", 137, "dual2: mpiexec was killed by signal 9 (SIGKILL).\n"),
    ],
)
def test_what_the_launcher_says_about_the_end(tmp_path, monkeypatch, capfd, program, code, said):
    """By an mpiexec that ends in the ways of the real one."""
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit\n{program}\n')
    mpiexec.chmod(0o755)
    monkeypatch.setattr("dual2.processes.launch.find_mpiexec", lambda: str(mpiexec))
    problem, network, _ = experiment1()
    folder = save_problem(tmp_path / "problem", problem, network)
    assert solve_in_processes(ProcessOptions(folder), 2) == code
    assert capfd.readouterr().err == said


@pytest.mark.parametrize(
    "came, notices, code",
    [
        ([signal.SIGINT], f"{KILLED} 10", 130),
        ([signal.SIGINT, signal.SIGINT], "", 130),
        ([signal.SIGTERM], f"{KILLED} 10", 143),
        ([signal.SIGINT, signal.SIGTERM], "", 143),
    ],
)
def test_the_operators_wish_is_no_failure(came, notices, code):
    """Neither of a process that did not listen yet, nor of mpiexec ended at once."""
    end = _end(1, came, notices.encode())
    assert end.interrupted and end.code == code


def test_signals_are_passed_on():
    """The first as a request, whatever follows ends; then signals are as before."""
    before = signal.getsignal(signal.SIGTERM)
    for first in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        sent = []
        with _passing_on(SimpleNamespace(send_signal=sent.append)) as came:
            signal.raise_signal(first)
            signal.raise_signal(signal.SIGTERM)
        assert sent == [signal.SIGUSR1, signal.SIGTERM]
        assert came == [first, signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is before


class Request:
    """Complete at the look after the last."""

    @classmethod
    def Testall(cls, requests):
        return False

    def Test(self):
        return True


def test_an_answer_at_the_last_moment_counts():
    wait_all(Request, [Request()], [1], 0.01, "rows")


@pytest.mark.parametrize("timeout", [0, -1.0, "60", float("nan")])
def test_a_timeout_is_a_time(timeout):
    with pytest.raises(CapabilityError, match=r"timeout=.* found; expected seconds > 0"):
        Mpi(timeout=timeout)


def test_no_mpiexec(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(Dual2Error, match=r"no mpiexec.*pip install 'dual2\[mpi\]'"):
        find_mpiexec()


def test_mpiexec_and_mpi4py_of_different_libraries():
    """Every process then believes to be alone: none may start."""
    done = run([*PYTHON, "-m", "dual2.cli", "solve", "x"], OMPI_COMM_WORLD_SIZE="3")
    assert done.returncode == 2
    assert "mpiexec started 3 processes, but mpi4py finds 1" in done.stderr
