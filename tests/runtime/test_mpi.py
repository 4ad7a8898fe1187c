"""The MPI runtime: the same iterates, counts and answers as in process, whatever the ranks."""

import json
from pathlib import Path

import numpy as np
import pytest

import dual2 as d2
import mpi_methods
from dual2.processes.launch import command, find_mpiexec
from mpi_runs import run, run_script
from ready import PYTHON


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_iterates_and_counts_are_those_of_one_process(ranks, tmp_path):
    stacked = {}
    for name in mpi_methods.cases_of(ranks):
        stacked |= mpi_methods.arrays(name, "stacked")
    program = [*PYTHON, mpi_methods.__file__, str(tmp_path)]
    done = run(command(find_mpiexec(), ranks, program))
    assert done.returncode == 0, done.stderr
    files = sorted(Path(tmp_path).glob("*.npz"))
    assert len(files) == ranks
    seen = set()
    for file in files:
        for name, value in np.load(file).items():
            seen.add(name)
            if name.endswith("counts"):
                assert np.array_equal(value, stacked[name]), name
                continue
            expected = stacked[name]
            size = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
            np.testing.assert_allclose(value, expected, 1e-10, 1e-10 * size, err_msg=name)
    assert seen == stacked.keys()


SMALL = """
    import json, sys
    sys.path.insert(0, sys.argv[1])
    import dual2 as d2
    import mpi_methods as m
    from dual2.runtime import LocalProblem
    from dual2.runtime.mpi import Mpi

    mpi, whole = Mpi(), m.LASSO
    own = {int(i): whole.agents[i] for i in mpi.owned(m.NETWORK)}
    flat = d2.Agent([[1.0]] * 3, d2.Quadratic([[0.0]]))
    lacking = d2.Problem([*whole.agents[:5], flat, whole.agents[6]], whole.h)
    second = mpi.rank == 1
    wishes = {
        "share": {"problem": LocalProblem(own, whole.h, whole.n)},
        "mpi": {"runtime": Mpi(reduce="mpi")},
        "own": {"runtime": Mpi(partition=[1, 0, 0, 1, 1, 0, 1])},
        "time": {"atol": 1e-300, "tol": 0.0, "time_limit": 0.1 if second else None},
        "callback": {"tol": 1e-14, "callback": lambda info: second and info["rounds"] > 50},
        "lack": {"problem": lacking},
        "flat": {"problem": lacking, "method": "auto"},
        "flow": {"problem": m.EQUATION, "method": "IDEA"},
        "auto": {"method": "auto"},
    }
    found = {}
    for name, wish in wishes.items():
        options = {"problem": whole, "network": m.NETWORK, "runtime": mpi, "tol": 1e-9}
        options |= {"method": "iD2A"} | wish
        try:
            result = d2.solve(**options)
            found[name] = [result.status, result.counts.rounds, float(result.objective)]
        except d2.CapabilityError as error:
            found[name] = str(error)
    print("ANSWER", json.dumps([mpi.rank, found]), flush=True)
"""


@pytest.fixture(scope="module")
def answers():
    """What two processes say to each of the wishes."""
    done = run_script(2, SMALL, Path(mpi_methods.__file__).parent)
    assert done.returncode == 0, done.stderr
    said = [line.partition("ANSWER ")[2] for line in done.stdout.splitlines()]
    parts = [json.loads(line) for line in said if line]
    (_, first), (_, second) = sorted(parts)
    return {wish: (first[wish], second[wish]) for wish in first}


@pytest.mark.parametrize("wish", ["share", "mpi", "own"])
def test_shares_own_partitions_and_mpis_own_reductions(wish, answers):
    here = d2.solve(mpi_methods.LASSO, mpi_methods.NETWORK, method="iD2A", tol=1e-9)
    one, two = answers[wish]
    assert one == two == ["CONVERGED", here.counts.rounds, pytest.approx(here.objective, rel=1e-12)]


def test_all_processes_choose_the_same_method(answers):
    here = d2.solve(mpi_methods.LASSO, mpi_methods.NETWORK, tol=1e-9)
    assert here.parameters["method"] == ("Newton", "auto")
    one, two = answers["auto"]
    assert one == two == ["CONVERGED", here.counts.rounds, pytest.approx(here.objective, rel=1e-12)]
    assert answers["flat"][0] == answers["flat"][1] and answers["flat"][0][0] == "CONVERGED"


@pytest.mark.parametrize("wish, status", [("time", "TIME_LIMIT"), ("callback", "INTERRUPTED")])
def test_processes_stop_together(wish, status, answers):
    one, two = answers[wish]
    assert one == two and one[0] == status


def test_what_one_agent_lacks_is_an_error_everywhere(answers):
    one, two = answers["lack"]
    assert "cannot solve this problem: agent 5: wanted are f: strongly convex, smooth" in one
    assert "cannot solve this problem: agent 5: f must be strongly convex" in two


def test_continuous_time_is_refused(answers):
    one, two = answers["flow"]
    assert one == two and "continuous time" in one
