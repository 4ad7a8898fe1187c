"""Distributed MPC: what cannot be controlled is said before any work."""

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2 import mpc

GOOD = {"A": [[0.9, 0.1], [0.0, 0.8]], "B": [[0.0], [1.0]], "Q": 1.0, "R": 1.0, "resource": [[1.0]]}


def system(name="s", **changes):
    return mpc.Subsystem(name, **(GOOD | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": np.ones((2, 3))}, r"A has shape \(2, 3\)"),
        ({"B": np.ones((3, 1))}, r"B has shape \(3, 1\)"),
        ({"R": 0.0}, "R is not positive definite"),
        ({"Q": [[1.0, 0.0], [0.0, -1.0]]}, "Q is not positive semidefinite"),
        ({"Q": [[1.0, 2.0], [0.0, 1.0]]}, "Q is not symmetric"),
        ({"Q": [1.0, 1.0, 1.0]}, r"Q has shape \(3, 3\); expected \(2, 2\), a diagonal of 2"),
        ({"terminal": -1.0}, "terminal is not positive semidefinite"),
        ({"x_min": 2.0, "x_max": 1.0}, r"x_min\[0\] = 2 exceeds x_max\[0\] = 1"),
        ({"u_max": [1.0, 1.0]}, "u_max has 2 entries; expected 1"),
        ({"resource": [[1.0, 1.0]]}, "expected 1 columns"),
        ({"soft": (0.0, 0.0)}, "makes an excess free"),
        ({"soft": (1.0,)}, "expected the two weights"),
        ({"A": [[1.2, 0.0], [0.0, 0.8]]}, "cannot be stabilised: the mode with eigenvalue 1.2"),
        ({"A": [[np.nan, 0.0], [0.0, 0.8]]}, "nan"),
    ],
)
def test_subsystems(changes, message):
    with pytest.raises(d2.ProblemError, match=message):
        system(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 0}, "horizon = 0"),
        ({"formulation": "both"}, "formulation = 'both'"),
        ({"limit": [1.0, 2.0]}, r"1 rows; limit has 2 entries, .* \(steps × resources\)"),
        ({"limit": np.inf}, "limit = inf; expected a finite number"),
        ({"limit": "low"}, "limit = 'low' is not made of numbers"),
        ({"price_cap": -1.0}, "price_cap"),
        ({"subsystems": []}, "There are no subsystems"),
        (
            {"subsystems": [system("a", resource=None)], "limit": [1.0, 2.0]},
            r"limit is of 2 resources, but no subsystem .* \(2 × inputs\)",
        ),
        ({"subsystems": [system("a"), system("a")]}, "'a' is used twice"),
    ],
)
def test_controllers(changes, message):
    given = {"subsystems": [system("a"), system("b")], "horizon": 3, "limit": 1.0}
    given |= {"graph": [("a", "b")]} | changes
    with pytest.raises(d2.ProblemError, match=message):
        mpc.Controller(**given)


def test_networks():
    pair = [system("a"), system("b")]
    with pytest.raises(d2.NetworkError, match=r"not the 2 subsystems; .* a, b"):
        mpc.Controller(pair, 3, 1.0, nx.path_graph(3))
    with pytest.raises(d2.NetworkError, match="not connected"):
        mpc.Controller(pair, 3, 1.0, nx.empty_graph(2))


def test_predictions_that_grow_too_large():
    wild = system(A=[[30.0, 1.0], [0.0, 20.0]])
    with pytest.raises(d2.ProblemError, match=r"spectral radius 30.* Shorten the horizon"):
        mpc.Controller([wild], 20, 1.0, nx.empty_graph(1))


def test_the_paper_needs_a_cost_of_every_state():
    with pytest.raises(d2.CapabilityError, match="Q is singular"):
        mpc.Controller([system(Q=[1.0, 0.0])], 3, 1.0, nx.empty_graph(1), formulation="paper")
    with pytest.raises(d2.CapabilityError, match="soft limits"):
        mpc.Controller([system(soft=(1.0, 1.0))], 3, 1.0, nx.empty_graph(1), formulation="paper")


def test_states_and_disturbances():
    controller = mpc.Controller([system("a"), system("b")], 3, 1.0, [("a", "b")])
    with pytest.raises(d2.ProblemError, match="1 states were given for 2"):
        controller.plan([[0.0, 0.0]])
    with pytest.raises(d2.ProblemError, match="'b': its state has 3 entries; A has 2 rows"):
        controller.plan([[0.0, 0.0], [0.0, 0.0, 0.0]])
    with pytest.raises(d2.ProblemError, match=r"'a': its disturbance has shape \(4, 2\)"):
        controller.plan(np.zeros((2, 2)), [np.zeros((4, 2)), np.zeros(2)])
    with pytest.raises(d2.ProblemError, match="disturbances of 1 subsystems"):
        controller.plan(np.zeros((2, 2)), [np.zeros(2)])
    with pytest.raises(d2.ProblemError, match="disturbances of 0 subsystems"):
        controller.plan(np.zeros((2, 2)), 0.1)
    with pytest.raises(d2.ProblemError, match="'a': its disturbance = 'low' is not made of"):
        controller.plan(np.zeros((2, 2)), ["low", "high"])
    with pytest.raises(
        d2.ProblemError, match=r"states = 0.0; expected one vector for each of the 2"
    ):
        controller.plan(0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 1.5}, "steps = 1.5; expected an integer"),
        ({"steps": -1}, "steps = -1"),
        ({"forecast": [[0.0, 0.0]]}, "forecast is list; expected a function"),
        ({"disturbance": lambda t: [[0.0, 0.0]]}, "disturbances of 1 subsystems"),
        ({"disturbance": lambda t: [[0.0, 0.0], [0.0]]}, r"'b': its disturbance has shape"),
    ],
)
def test_simulations(options, message):
    controller = mpc.Controller([system("a"), system("b")], np.int64(3), 1.0, [("a", "b")])
    with pytest.raises(d2.ProblemError, match=message):
        controller.simulate(np.zeros((2, 2)), **({"steps": 1} | options))


def test_the_paper_names_the_subsystem_without_a_plan():
    narrow = system("narrow", x_max=1.0, u_min=-1.0, u_max=1.0)
    controller = mpc.Controller(
        [system("a"), narrow], 3, 1.0, [("a", "narrow")], formulation="paper"
    )
    with pytest.raises(mpc.Infeasible, match=r"'narrow' has no plan.* x_max\[0\] at step 1"):
        controller.plan([[0.0, 0.0], [9.0, 9.0]])


def test_a_start_of_another_controller():
    longer, shorter = (mpc.Controller([system()], k, 1.0, nx.empty_graph(1)) for k in (4, 3))
    with pytest.raises(d2.ProblemError, match=r"has 1 subsystems and 4 steps; .* 3 steps"):
        shorter.plan([[0.0, 0.0]], start=longer.plan([[0.0, 0.0]]))


def test_plans_that_did_not_converge():
    controller = mpc.Controller([system("a"), system("b")], 3, 0.1, [("a", "b")])
    start = [[-9.0, -9.0], [-9.0, 0.0]]
    with pytest.warns(UserWarning, match=r"2 of 2 plans .* in step 0: MAX_ROUNDS.* throw=True"):
        log = controller.simulate(start, 2, max_rounds=2, tol=1e-12, accept="unsolved")
    assert log.unsolved == [0, 1] and str(log).startswith(
        "NOT SOLVED (MAX_ROUNDS in 2 of 2 steps), cost"
    )
    with pytest.raises(d2.NotSolved, match="MAX_ROUNDS") as found:
        controller.simulate(start, steps=2, max_rounds=2, tol=1e-12, throw=True)
    assert found.value.__notes__ == ["in step 0 of the simulation"]
    tight = mpc.Controller(
        [system("a", u_min=-1.0), system("b", u_min=-1.0)], 3, -9.0, [("a", "b")]
    )
    with pytest.raises(mpc.Infeasible, match=r"resource\[0\] at step 0"):
        tight.plan(start, throw=True)
