"""A process that fails ends all of them soon, says who and why; what was saved stays."""

import sys

from dual2.processes.launch import launch
from mpi_runs import run_script

FAILING = """
    import os, sys, time
    import numpy as np
    from mpi4py import MPI
    from dual2.errors import ProblemError
    from dual2.processes.failure import ending_together
    from dual2.runtime.waiting import wait_all

    mode, comm = sys.argv[1], MPI.COMM_WORLD.Dup()
    with ending_together(comm, [2 * comm.rank, 2 * comm.rank + 1]):
        if mode == "same":
            raise ProblemError("no such folder")
        if comm.rank == 1:
            if mode == "input":
                raise ProblemError("A is not a matrix")
            if mode == "bug":
                [][comm.size]
            if mode == "killed":
                os.kill(os.getpid(), 9)
        if mode == "silent" and comm.rank == 0:
            request = MPI.COMM_WORLD.Irecv(np.zeros(1), 1)
            wait_all(MPI.Request, [request], [1], 0.5, "rows")
        time.sleep(100)
"""


def test_one_process_has_bad_input():
    done = run_script(3, FAILING, "input")
    assert done.returncode == 2
    assert "dual2: rank 1 (agents 2, 3): A is not a matrix" in done.stderr


def test_a_bug_in_one_process():
    done = run_script(2, FAILING, "bug")
    assert done.returncode == 1
    assert "dual2: rank 1 (agents 2, 3): IndexError: list index out of range" in done.stderr


def test_the_same_cause_is_said_once():
    done = run_script(3, FAILING, "same")
    assert done.returncode == 2
    assert done.stderr.count("dual2: no such folder") == 1
    assert "dual2: rank" not in done.stderr


def test_a_neighbour_that_does_not_answer():
    done = run_script(2, FAILING, "silent")
    assert done.returncode == 2
    assert "dual2: rank 0 (agents 0, 1): rank 1 did not answer for 0.5 s (rows" in done.stderr


def test_a_killed_process_is_named(tmp_path, capfd):
    program = tmp_path / "failing.py"
    program.write_text("if True:\n" + FAILING)
    end = launch(2, [sys.executable, str(program), "killed"])
    assert end.code not in (0, 2, 3)
    assert (end.killed, end.signal) == (1, "9 (SIGKILL)")
    assert capfd.readouterr().err == ""
