"""Dispatch, control and learning with agents as processes, from the objects of one process."""

import json

import numpy as np
import pytest

from dual2 import mpc
from dual2 import power as dispatch
from dual2.errors import ProblemError
from mpi_runs import run_cli, run_script

OBJECTS = """
import networkx as nx
import numpy as np
from dual2 import power as dispatch, mpc
from dual2.learn import VerticalLasso

subsystems, states, weather = mpc.heated_buildings(3)
controller = mpc.Controller(subsystems, horizon=4, limit=25.0, graph=nx.path_graph(3))
units = [dispatch.Generator(n, cost=(c, 20.0), p_max=60.0) for n, c in (("a", .05), ("b", .1))]
units.append(dispatch.Storage("c", cost=(0.2, 0.0), p_max=10.0, p_min=-10.0, final=2.0))
case = dispatch.Dispatch(units, [70.0, 100.0], graph=[("a", "b"), ("b", "c")])
X = np.random.default_rng(0).standard_normal((30, 5))
y = X @ [1.0, 0.0, 2.0, 0.0, -1.0]

def answers(runtime):
    log = controller.simulate(states, 2, forecast=lambda t: weather, runtime=runtime)
    lasso = VerticalLasso(alpha=0.1, parties=3, runtime=runtime).fit(X, y)
    answer = case.solve(runtime=runtime)
    counts = [log.rounds.sum(), answer.communication["floats"], lasso.communication_["floats"]]
    return np.concatenate([
        *(part.ravel() for part in log.inputs), log.price.ravel(), answer.power.ravel(),
        answer.price, lasso.coef_, counts,
    ])
"""


def test_every_process_has_the_answers_of_one_process(tmp_path):
    script = OBJECTS + "\nimport sys\nfrom mpi4py import MPI\n"
    script += "np.save(f'{sys.argv[1]}/{MPI.COMM_WORLD.rank}.npy', answers('mpi'))\n"
    done = run_script(2, script, tmp_path)
    assert done.returncode == 0, done.stderr
    space: dict = {}
    exec(OBJECTS, space)
    expected = space["answers"]("stacked")
    for rank in range(2):
        np.testing.assert_array_equal(np.load(tmp_path / f"{rank}.npy"), expected)


def test_documents_of_the_command_line_are_read(tmp_path):
    space: dict = {}
    exec(OBJECTS, space)
    controller, states, weather = (space[k] for k in ("controller", "states", "weather"))
    folder = controller.save(tmp_path / "now", states, weather)
    out = tmp_path / "now.json"
    done = run_cli("solve", folder, "--mpi", 2, "--gather", "--out", out)
    assert done.returncode == 0, done.stderr
    plan, here = (
        controller.answer(json.loads(out.read_text()), states, weather),
        controller.plan(states, weather),
    )
    np.testing.assert_array_equal(plan.price, here.price)
    for ours, theirs in zip(plan.inputs, here.inputs, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    own = json.loads((tmp_path / "now.json.d" / "1.json").read_text())
    with pytest.raises(ProblemError, match=r"answer of agent 1 alone.*--gather"):
        controller.answer(own, states, weather)


def test_documents_that_are_no_answers_are_refused():
    units = [dispatch.Generator(name, cost=(0.1, 1.0), p_max=9.0) for name in "ab"]
    case = dispatch.Dispatch(units, 5.0, graph=[("a", "b")])
    with pytest.raises(ProblemError, match="not a result of dual2 solve"):
        case.answer({"x": []})
    subsystems, states, weather = mpc.heated_buildings(3)
    controller = mpc.Controller(subsystems, 3, 30.0, [(0, 1), (1, 2)])
    with pytest.raises(ProblemError, match="answers of 2 agents; expected 3"):
        controller.answer(case.solve().result, states, weather)
