"""The engine that the guide prints, run in processes of its own."""

import subprocess
import sys

import numpy as np

import dual2 as d2
from clusters.problems import NETWORK, elastic_net
from howto import printed
from mpi_runs import LIMIT, variables
from ready import PYTHON

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import dual2 as d2
import numpy as np
from clusters.problems import NETWORK, elastic_net

{engine}

def work(mailbox):
    return d2.solve(elastic_net(), NETWORK, runtime=mailbox)

if __name__ == "__main__":
    x, statuses = solve_in_processes(2, work)
    assert statuses == ["CONVERGED"] * 2, statuses
    np.save(sys.argv[2], np.concatenate([x[i] for i in range(6)]))
"""


def test_the_printed_engine_gives_the_bits_of_one_process(tmp_path):
    engine, _ = printed("clusters.md")
    assert len([line for line in engine.splitlines() if line]) <= 46
    script, answer = tmp_path / "engine.py", tmp_path / "x.npy"
    script.write_text(PROGRAM.format(engine=engine))
    tests = __file__.rpartition("/clusters/")[0]
    line = [sys.executable, str(script), tests, str(answer)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT, env=variables())
    assert done.returncode == 0, done.stderr
    here = d2.solve(elastic_net(), NETWORK)
    assert np.array_equal(np.load(answer), np.concatenate(here.x))


def test_a_folder_is_solved_by_the_command(tmp_path):
    d2.save_problem(tmp_path / "problem", elastic_net(), NETWORK, {"tol": 1e-8})
    command = [*PYTHON, "-m", "dual2.cli", "solve", str(tmp_path / "problem")]

    def run(*more):
        line = [*command, *map(str, more)]
        return subprocess.run(line, capture_output=True, text=True, timeout=LIMIT, env=variables())

    done = run("--cluster", "threads:2", "--out", tmp_path / "a.json")
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (tmp_path / "a.json.d").iterdir()) == [
        f"{i}.json" for i in range(6)
    ]
    again = run("--cluster", "threads:2", "--out", tmp_path / "a.json")
    assert again.returncode == 2 and "--force" in again.stderr
    done = run("--cluster", "threads:2", "--gather", "--out", tmp_path / "b.json")
    assert done.returncode == 0 and (tmp_path / "b.json").exists()
    wrong = run("--cluster", "spark:2")
    assert wrong.returncode == 2 and "expected ENGINE:WORKERS" in wrong.stderr
    wrong = run("--cluster", "threads:2", "--timeout", "3")
    assert wrong.returncode == 2 and "--timeout" in wrong.stderr
