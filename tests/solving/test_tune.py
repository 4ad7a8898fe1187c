"""The search for penalties: it finds good ones, spends what it says, and records everything."""

import sys

import numpy as np
import pytest

import dual2 as d2
from path_family import path_network, path_problem


@pytest.fixture(scope="module")
def tuned():
    return d2.tune(path_problem(), path_network(), "Tracking-ADMM", budget=3000, tol=1e-6)


def test_the_search_spans_three_decades_with_one_budget(tuned):
    tried = np.array([trial.parameters["c"] for trial in tuned.trials])
    assert tried.max() / tried.min() >= 1e3
    assert all(trial.rounds <= 3000 for trial in tuned.trials)
    assert tuned.best in tuned.trials
    assert tuned.best.score == min(trial.score for trial in tuned.trials)


def test_the_best_is_no_worse_than_the_rule(tuned):
    rule = tuned.trials[0]
    assert tuned.best.status == "CONVERGED"
    assert tuned.best.score <= rule.score
    assert any(trial.status != "CONVERGED" for trial in tuned.trials)


def test_no_trial_goes_on_when_it_cannot_win(tuned):
    most = 3000
    for trial in tuned.trials:
        assert trial.rounds <= most
        most = min(most, trial.rounds) if trial.status == "CONVERGED" else most
    assert most == tuned.best.rounds < 3000


def test_a_run_with_the_best_says_that_it_was_tuned(tuned):
    problem, network = path_problem(), path_network()
    result = d2.solve(problem, network, method="Tracking-ADMM", tol=1e-6, **tuned)
    value, source = result.parameters["c"]
    assert result.counts.rounds == tuned.best.rounds
    assert value == tuned.best.parameters["c"] and type(value) is float
    assert source.startswith("tuned: best of") and "3000 rounds" in source
    assert "tuned: best of" in result.explain()
    other = d2.solve(problem, network, method="Tracking-ADMM", max_rounds=10, c=value)
    assert other.parameters["c"][1] == "given"


def test_rho_of_necpd_is_searched_too():
    problem, network = path_problem("box"), path_network()
    found = d2.tune(problem, network, "NECPD", budget=400, tol=1e-6)
    result = d2.solve(problem, network, method="NECPD", tol=1e-6, **found)
    assert result.parameters["rho"][1].startswith("tuned")


def test_given_values_and_several_parameters():
    found = d2.tune(
        path_problem(),
        path_network(),
        "DPMM",
        budget=300,
        tol=1e-6,
        parameters={"gamma": [0.1, 0.4], "theta": [1.0, 1.5]},
    )
    assert set(found) == {"gamma", "theta"}
    tried = {(t.parameters["gamma"], t.parameters["theta"]) for t in found.trials[1:]}
    gammas = (0.1, 0.4, found.trials[0].parameters["gamma"])
    assert tried <= {(gamma, theta) for gamma in gammas for theta in (1.0, 1.5)}
    assert len(found.trials) <= 8


def test_an_interrupt_ends_the_search(monkeypatch):
    runs = []

    def interrupted(*args, **kwargs):
        runs.append(d2.solve(*args, **kwargs | {"callback": lambda info: True}))
        return runs[-1]

    monkeypatch.setattr(sys.modules["dual2.solving.tuning"], "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        d2.tune(path_problem(), path_network(), "DC-ADMM", budget=150)
    assert [run.status for run in runs] == ["INTERRUPTED"]


def test_the_same_search_gives_the_same_answer():
    runs = [
        d2.tune(path_problem(), path_network(), "DC-ADMM", budget=150, tol=1e-6) for _ in range(2)
    ]
    assert runs[0].trials == runs[1].trials


@pytest.mark.parametrize(
    "wish, message",
    [
        ({"method": "iD2A"}, "nothing to tune by default"),
        ({"method": "DC-ADMM", "budget": 0}, "budget = 0"),
        ({"method": "DC-ADMM", "budget": "many"}, "budget = 'many'"),
        ({"method": "DC-ADMM", "budget": np.inf}, "budget = inf"),
        ({"method": "DC-ADMM", "max_rounds": 9}, "max_rounds found"),
        ({"method": "DC-ADMM", "parameters": 5}, "parameters = 5"),
        ({"method": "DC-ADMM", "parameters": {"c": []}}, r"c: \[\] found"),
        ({"method": "DC-ADMM", "parameters": {"c": 0.5}}, "c: 0.5 found"),
        ({"method": "DC-ADMM", "parameters": {"c": [1.0, "x"]}}, "c = 'x' found"),
        ({"method": "DC-ADMM", "parameters": ["gamma"]}, "no positive number 'gamma'"),
        ({"method": "DC-ADMM", "parameters": []}, "expected names or a mapping"),
    ],
)
def test_bad_searches_are_refused(wish, message):
    with pytest.raises(d2.CapabilityError, match=message):
        d2.tune(path_problem(), path_network(), **wish)


def test_a_search_that_sees_nothing_is_repeated_with_a_larger_budget():
    found = d2.tune(path_problem(), path_network(), "DC-ADMM", budget=1, tol=1e-6)
    assert found.budget == 10 and found.trials[0].rounds <= 1
    assert any(trial.rounds > 1 for trial in found.trials)
