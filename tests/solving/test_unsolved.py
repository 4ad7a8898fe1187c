"""Runs that were stopped early: nothing that they print or return looks like a solution."""

import re
import signal
from functools import partial

import numpy as np
import pytest

import dual2 as d2
from dual2 import mpc
from dual2 import power as dispatch
from dual2.errors import ProblemError
from dual2.learn import VerticalLasso, training

STOPPED = [{"max_rounds": 1}, {"max_rounds": 2, "tol": 1e-14}, {"time_limit": 1e-9}]
NOTICE = re.compile(r"^NOT SOLVED \((max rounds|time limit|stalled|interrupted)\)\. ")


def day():
    units = [
        dispatch.Generator("coal", cost=(0.05, 20.0), p_max=80.0, ramp=20.0),
        dispatch.Generator("gas", cost=(0.10, 30.0), p_max=100.0),
        dispatch.Generator("wind", cost=(0.0, 5.0), p_max=10.0),
    ]
    graph = [("coal", "gas"), ("gas", "wind")]
    return dispatch.Dispatch(units, [120.0, 100.0, 110.0], graph=graph, reserve=0.0)


@pytest.mark.parametrize("options", STOPPED)
def test_a_schedule_says_first_what_it_violates(options):
    with pytest.warns(UserWarning, match=r"NOT SOLVED \(.*accept=\"unsolved\"") as caught:
        answer = day().solve(**options)
    assert len(caught) == 1
    first = str(answer).splitlines()[0]
    assert NOTICE.match(first) and not answer.solved
    assert "Balance is off by 120 MW in period 0 (2 more violated)" in first
    assert "the cost below is of an infeasible schedule" in first
    assert "CONVERGED" not in str(answer) and "NOT SOLVED" in repr(answer)
    worst = answer.violations[0]
    assert (worst.what, worst.amount, worst.unit, worst.period) == ("Balance", 120.0, "MW", 0)


def test_who_accepts_an_unsolved_schedule_is_not_warned():
    answer = day().solve(max_rounds=1, accept="unsolved")
    assert NOTICE.match(str(answer))
    with pytest.raises(ProblemError, match=r"accept = 'yes'; expected None or \"unsolved\""):
        day().solve(accept="yes")


def test_tables_of_an_unsolved_schedule_say_so_in_their_first_column():
    answer = day().solve(max_rounds=1, accept="unsolved")
    for table in (answer.rows, answer.buses):
        assert [next(iter(row.items())) for row in table] == [("NOT SOLVED", "max rounds")] * len(
            table
        )
    second = str(answer).splitlines()[1]
    assert second == (
        "violated: Balance is off by 120 MW in period 0; Balance is off by 110 MW in period 2; "
        "Balance is off by 100 MW in period 1"
    )
    assert "NOT SOLVED" not in day().solve().rows[0]


def test_figures_of_unsolved_answers_say_so(tmp_path):
    pytest.importorskip("matplotlib")
    figure = day().solve(max_rounds=1, accept="unsolved").plot()
    assert NOTICE.match(figure.get_suptitle())
    assert day().solve().plot().get_suptitle() == ""
    log = rooms().simulate(START, steps=2)
    assert log.plot().get_suptitle() == ""
    with pytest.warns(UserWarning, match="did not converge"):
        log = rooms().simulate(START, steps=2, accept="unsolved", max_rounds=1)
    assert log.plot().get_suptitle().startswith("NOT SOLVED (")


def ctrl_c(info):
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_ends_a_closed_loop_even_if_unsolved_plans_are_accepted():
    with pytest.warns(UserWarning, match=r"NOT SOLVED \(interrupted\)"):
        log = rooms().simulate(START, steps=3, accept="unsolved", callback=ctrl_c)
    assert log.steps == 0 and str(log).startswith("ENDED EARLY: NOT SOLVED (interrupted)")


def test_ctrl_c_ends_a_dispatch_of_several_solves():
    with pytest.warns(UserWarning, match=r"NOT SOLVED \(interrupted\)"):
        answer = day().solve(callback=ctrl_c)
    assert NOTICE.match(str(answer)) and not answer.solved


def test_ctrl_c_leaves_no_model(monkeypatch):
    model = VerticalLasso(0.1, parties=2)
    monkeypatch.setattr(training, "solve_for_all", partial(training.solve_for_all, callback=ctrl_c))
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.eye(6)[:, :4] + 0.1, np.arange(6.0))
    assert not hasattr(model, "coef_")


def test_the_objective_of_an_unsolved_run_is_not_called_the_objective():
    agents = [d2.Agent([[1.0]], d2.SquaredNorm(weight)) for weight in (1.0, 2.0)]
    problem, network = d2.Problem(agents, d2.IndicatorPoint([3.0])), d2.Network([(0, 1)])
    assert "Objective (of no solution) " in d2.solve(problem, network, max_rounds=1).summary
    assert "Objective 3," in d2.solve(problem, network).summary


def test_a_solved_schedule_violates_nothing():
    answer = day().solve()
    assert answer.solved and answer.violations == [] and answer.notice == ""
    assert str(answer).startswith("CONVERGED: cost")


def rooms(**more):
    pair = [
        mpc.Subsystem(name, A=[[0.9]], B=[[0.5]], Q=1.0, R=0.1, u_min=0.0, u_max=2.0,
                      resource=[[1.0]], x_ref=3.0)
        for name in ("kitchen", "study")
    ]  # fmt: skip
    return mpc.Controller(pair, horizon=5, limit=2.5, graph=[("kitchen", "study")], **more)


START = [[0.0], [1.0]]


@pytest.mark.parametrize("options", STOPPED)
def test_a_plan_says_what_it_violates(options):
    with pytest.warns(UserWarning, match=r"NOT SOLVED \(.*accept=\"unsolved\"") as caught:
        plan = rooms().plan(START, **options)
    assert len(caught) == 1 and not plan.solved and "NOT SOLVED" in repr(plan)
    accepted = rooms().plan(START, accept="unsolved", **options)
    excess = accepted.usage - 2.5
    shared = [one for one in accepted.violations if one.what == "resource[0]"]
    assert sum(one.amount for one in shared) == pytest.approx(excess[excess > 1e-6].sum())


@pytest.mark.parametrize("options", STOPPED)
def test_inputs_of_an_unsolved_plan_are_not_applied(options):
    with pytest.warns(UserWarning, match="NOT SOLVED .* Its inputs were not applied in step 0"):
        log = rooms().simulate(START, steps=3, **options)
    assert log.steps == 0 and str(log).startswith("ENDED EARLY: NOT SOLVED (")
    assert "CONVERGED" not in str(log)
    with pytest.warns(UserWarning, match="3 of 3 plans did not converge"):
        log = rooms().simulate(START, steps=3, accept="unsolved", **options)
    assert log.steps == 3 and str(log).startswith("NOT SOLVED (")


def test_a_solved_plan_violates_nothing():
    plan = rooms().plan(START)
    assert plan.solved and plan.violations == () and "CONVERGED" in repr(plan)
