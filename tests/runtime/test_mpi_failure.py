"""A process that fails ends all of them soon, says who and why; what was saved stays."""

import re
import sys

import pytest

from dual2.errors import Dual2Error, ProblemError
from dual2.processes.failure import ending_together
from dual2.processes.launch import find_mpiexec
from mpi_runs import run, run_script

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
    assert done.returncode == 1
    assert "dual2: rank 0 (agents 0, 1): rank 1 did not answer for 0.5 s (rows" in done.stderr


class Alone:
    """A process without others."""

    rank, size = 0, 1

    def last_words(self, own, seconds):
        return own[None]


@pytest.mark.parametrize(
    "error, code, said",
    [
        (ProblemError("A is not a matrix"), 2, "A is not a matrix"),
        (IndexError("out of range"), 1, r"IndexError: out of range \(.*, line \d+\)"),
        (KeyboardInterrupt(), 130, "KeyboardInterrupt"),
    ],
)
def test_exit_codes_and_causes(capsys, error, code, said):
    with pytest.raises(SystemExit) as end:
        with ending_together(Alone()) as owned:
            owned[:] = [4]
            raise error
    assert end.value.code == code
    assert re.match(rf"dual2: rank 0 \(agent 4\): {said}", capsys.readouterr().err)


def test_no_mpiexec(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(Dual2Error, match=r"no mpiexec.*pip install 'dual2\[mpi\]'"):
        find_mpiexec()


def test_mpiexec_and_mpi4py_of_different_libraries():
    """Every process then believes to be alone: none may start."""
    done = run([sys.executable, "-m", "dual2.cli", "solve", "x"], OMPI_COMM_WORLD_SIZE="3")
    assert done.returncode == 2
    assert "mpiexec started 3 processes, but mpi4py finds 1" in done.stderr
