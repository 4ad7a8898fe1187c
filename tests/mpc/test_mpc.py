"""Distributed MPC: against centralised controllers in cvxpy."""

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2 import mpc
from dual2.solving.storage import load_problem


class Central:
    """All subsystems planned at once, with states as variables."""

    def __init__(self, controller: mpc.Controller, time: int = 0) -> None:
        K, self.parts = controller.horizon, []
        cost, limits, used = 0, [], 0
        for s in controller.subsystems:
            x, u, e = cp.Variable((K + 1, s.n_x)), cp.Variable((K, s.n_u)), cp.Variable((K, s.n_x))
            start, w = cp.Parameter(s.n_x), cp.Parameter((K, s.n_x))
            limits += [x[0] == start, x[1:] == x[:-1] @ s.A.T + u @ s.B.T + w, e >= 0]
            limits += [u >= np.tile(s.u_min, (K, 1)), u <= np.tile(s.u_max, (K, 1))]
            for j in range(s.n_x):
                limits += [x[1:, j] <= s.x_max[j] + e[:, j]] if s.x_max[j] < np.inf else []
                limits += [x[1:, j] >= s.x_min[j] - e[:, j]] if s.x_min[j] > -np.inf else []
            if s.soft is None:
                limits.append(e == 0)
            else:
                cost += s.soft[0] * cp.sum_squares(e) + s.soft[1] * cp.sum(e)
            for k in range(K + 1):
                Q = s.terminal if k == K else s.Q
                cost += cp.quad_form(x[k] - s.x_ref, cp.psd_wrap(Q))
            cost += sum(cp.quad_form(u[k] - s.u_ref, cp.psd_wrap(s.R)) for k in range(K))
            used = used + u @ s.resource.T
            self.parts.append((x, u, start, w))
        self.shared = used <= controller.available(time)
        if controller.price_cap is None:
            limits.append(self.shared)
        else:
            cost += controller.price_cap * cp.sum(cp.pos(used - controller.available(time)))
        self.problem = cp.Problem(cp.Minimize(cost), limits)

    def plan(self, states, disturbances):
        for (_, _, start, w), x, d in zip(self.parts, states, disturbances, strict=True):
            start.value, w.value = x, np.broadcast_to(d, w.shape)
        self.problem.solve(solver="CLARABEL", tol_gap_rel=1e-10, tol_feas=1e-10, tol_gap_abs=1e-10)
        return [u.value for _, u, _, _ in self.parts]


def closed_loop(controller, states, weather, steps):
    """Cost of the centralised controller along its own path."""
    central, cost = Central(controller), 0.0
    for _ in range(steps):
        inputs = [u[0] for u in central.plan(states, weather)]
        parts = list(zip(controller.subsystems, states, inputs, weather, strict=True))
        cost += sum(s.stage_cost(x, u) for s, x, u, _ in parts)
        states = [s.step(x, u, w) for s, x, u, w in parts]
    return cost


def heating(count=4, horizon=6, limit=40.0, **options):
    made = mpc.heated_buildings(count)
    graph = nx.cycle_graph(count)
    return mpc.Controller(made.subsystems, horizon, limit, graph, **options), made


@pytest.mark.slow
def test_ten_buildings_for_twelve_steps():
    made = mpc.heated_buildings(10)
    graph = nx.random_regular_graph(4, 10, seed=1)
    controller = mpc.Controller(made.subsystems, 12, 110.0, graph)
    warm, cold = (
        controller.simulate(made.states, 12, warm=warm, forecast=lambda t: made.weather)
        for warm in (True, False)
    )
    assert str(warm).startswith("CONVERGED: 12 steps") and cold.failure is None
    assert (warm.price > 1e-3).sum() >= 5
    best = closed_loop(controller, made.states, made.weather, 12)
    assert warm.cost == pytest.approx(best, rel=1e-4)
    assert cold.cost == pytest.approx(best, rel=1e-4)
    assert warm.rounds.sum() < cold.rounds.sum() and 3 * warm.floats.sum() < cold.floats.sum()


def disturbed(controller, made, plan):
    """Where the buildings are after the first step of a plan, and of what nobody foresaw."""
    noise = 0.01 * np.random.default_rng(5).standard_normal((len(made.states), 6))
    moves = zip(controller.subsystems, made.states, plan.inputs, made.weather, noise, strict=True)
    return [s.step(x, u[0], w + e) for s, x, u, w, e in moves]


@pytest.mark.parametrize("method, gain", [("auto", 4.0), ("iD2A", 4.0)])
def test_a_warm_plan_of_disturbed_buildings(method, gain):
    controller, made = heating(8, 24, 80.0)
    options = {"method": method, "tol": 1e-4}
    first = controller.plan(made.states, made.weather, **options)
    assert first.price[0, 0] > 0
    now = disturbed(controller, made, first)
    warm, cold = (controller.plan(now, made.weather, start=s, **options) for s in (first, None))
    assert warm.result.status == cold.result.status == "CONVERGED"
    assert warm.usage[0] == pytest.approx(cold.usage[0], rel=1e-3)
    assert gain * warm.result.counts.floats < cold.result.counts.floats


def test_a_start_answers_prices_that_go_on_as_they_did():
    controller, made = heating(limit=30.0)
    first = controller.plan(made.states, made.weather)
    before, last = first.price.ravel()[-2:]
    assert 0 < last < before
    now = disturbed(controller, made, first)
    known = [np.tile(w, (6, 1)) for w in made.weather]
    x, duals = controller.shifted(first, now, known)
    np.testing.assert_allclose(duals[:, :-1], np.tile(first.price.ravel()[1:], (4, 1)))
    np.testing.assert_allclose(duals[:, -1], max(2.0 * last - before, 0.0))
    problem = controller.problem(now, made.weather)
    for agent, own, price in zip(
        problem.agents, controller._answers(problem, x, duals), duals, strict=True
    ):
        least = agent.f.value(own) + price @ agent.apply(own)
        for other in (agent.g.prox(own + move, 1.0) for move in 0.1 * np.eye(agent.dim)):
            assert least <= agent.f.value(other) + price @ agent.apply(other) + 1e-9


@pytest.mark.parametrize("formulation", ["local", "paper"])
def test_a_plan_is_the_centralised_one(formulation):
    controller, made = heating(formulation=formulation)
    plan = controller.plan(made.states, made.weather, tol=1e-8)
    central = Central(controller)
    expected = central.plan(made.states, made.weather)
    for found, right in zip(plan.inputs, expected, strict=True):
        np.testing.assert_allclose(found, right, atol=2e-5)
    np.testing.assert_allclose(plan.price, central.shared.dual_value, rtol=1e-4, atol=1e-4)
    assert plan.price.max() > 1
    assert plan.usage.max() <= 40.0 + 1e-5
    if formulation == "local":
        assert plan.result.objective == pytest.approx(central.problem.value, rel=1e-6)


def test_only_resources_travel_in_the_local_formulation():
    local, made = heating()
    paper, _ = heating(formulation="paper")
    assert local.problem(made.states, made.weather).p == 6
    assert paper.problem(made.states, made.weather).p == 6 + 4 * 6 * 6


def test_unstable_systems_with_several_resources_and_steps_of_the_limit():
    rng = np.random.default_rng(5)
    systems = []
    for i in range(5):
        A = rng.standard_normal((3, 3))
        A *= 1.1 / np.abs(np.linalg.eigvals(A)).max()
        systems.append(
            mpc.Subsystem(
                f"s{i}",
                A,
                rng.standard_normal((3, 2)),
                Q=np.diag([1.0, 0.0, 2.0]),
                R=[0.1, 0.2],
                x_min=-3.0,
                x_max=3.0,
                u_min=-1.0,
                u_max=1.0,
                resource=rng.standard_normal((2, 2)) if i else None,
            )
        )
    limit = np.array([[0.3, 0.2], [-0.5, 0.1], [0.0, -0.2]])
    controller = mpc.Controller(systems, 7, limit, nx.path_graph(5))
    states = [rng.uniform(-1, 1, 3) for _ in range(5)]
    known = [0.05 * rng.standard_normal((7, 3)) for _ in range(5)]
    plan = controller.plan(states, known, time=1, tol=1e-8)
    central = Central(controller, time=1)
    for found, right in zip(plan.inputs, central.plan(states, known), strict=True):
        np.testing.assert_allclose(found, right, atol=1e-5)
    assert (plan.price > 1e-4).sum() >= 2


def test_soft_states_where_hard_ones_have_no_plan():
    made = mpc.heated_buildings(4)
    cold = [np.full(6, 7.0) for _ in range(4)]
    graph = nx.cycle_graph(4)
    with pytest.raises(mpc.Infeasible) as caught:
        mpc.Controller(made.subsystems, 6, 40.0, graph).plan(cold, made.weather)
    assert caught.value.subsystem == "building 0"
    assert ("x_min[0]", 1) in caught.value.limits
    soft = mpc.heated_buildings(4, soft=(10.0, 5.0)).subsystems
    controller = mpc.Controller(soft, 6, 40.0, graph)
    plan = controller.plan(cold, made.weather, tol=1e-8)
    central = Central(controller)
    for found, right in zip(plan.inputs, central.plan(cold, made.weather), strict=True):
        np.testing.assert_allclose(found, right, atol=5e-4)  # as accurate as the reference
    assert plan.result.objective == pytest.approx(central.problem.value, rel=1e-8)
    log = controller.simulate(cold, 4, forecast=lambda t: made.weather)
    assert log.steps == 4 and log.failure is None


def test_a_price_cap_makes_the_shared_limit_soft():
    capped, made = heating(price_cap=2.0)
    plan = capped.plan(made.states, made.weather, tol=1e-8)
    assert plan.price.max() == pytest.approx(2.0, abs=1e-6)
    assert plan.usage.max() > 45.0
    for found, right in zip(
        plan.inputs, Central(capped).plan(made.states, made.weather), strict=True
    ):
        np.testing.assert_allclose(found, right, atol=1e-5)


def test_shared_limits_that_cannot_hold_are_named():
    made = mpc.heated_buildings(3)
    needy = [
        mpc.Subsystem(
            s.name,
            s.A,
            s.B,
            1.0,
            1.0,
            x_min=s.x_ref - 8.0,
            u_min=0.4,
            u_max=1.0,
            resource=s.resource,
        )
        for s in made.subsystems
    ]
    limit = np.full((5, 1), 60.0)
    limit[2] = 10.0
    controller = mpc.Controller(needy, 5, limit, nx.path_graph(3))
    with pytest.raises(mpc.Infeasible, match=r"resource\[0\] at step 2 cannot hold") as caught:
        controller.plan(made.states, made.weather)
    assert caught.value.limits == [("resource[0]", 2)] and caught.value.subsystem is None
    log = controller.simulate(made.states, 5, forecast=lambda t: made.weather)
    assert log.steps == 0 and isinstance(log.failure, mpc.Infeasible)
    assert "in step 0" in log.failure.__notes__[0] and str(log).startswith("ENDED EARLY")


def test_the_loop_measures_what_really_happens():
    controller, made = heating(limit=60.0)
    noise = np.random.default_rng(0).standard_normal((4, 4, 6))
    log = controller.simulate(
        made.states,
        4,
        forecast=lambda t: made.weather,
        disturbance=lambda t: np.array(made.weather) + 0.1 * noise[t],
    )
    s = controller.subsystems[1]
    for t in range(4):
        expected = s.step(log.states[1][t], log.inputs[1][t], made.weather[1] + 0.1 * noise[t][1])
        np.testing.assert_allclose(log.states[1][t + 1], expected)
    assert log.usage.shape == log.price.shape == log.limit.shape == (4, 1)
    parts = zip(controller.subsystems, log.states, log.inputs, strict=True)
    cost = sum(s.stage_cost(x[t], u[t]) for s, x, u in parts for t in range(4))
    assert log.cost == pytest.approx(cost)


def test_a_closed_loop_that_diverges_is_stopped():
    wild = mpc.Subsystem(
        "wild", [[3.0]], [[1.0]], 1.0, 1.0, u_min=-0.1, u_max=0.1, resource=[[1.0]]
    )
    controller = mpc.Controller([wild], 3, 1.0, nx.empty_graph(1))
    log = controller.simulate([[1.0]], 50)
    assert log.steps < 20
    assert "unstable: Subsystem 'wild' has reached" in str(log.failure)


def test_the_folder_gives_the_same_plan(tmp_path):
    controller, made = heating()
    found = load_problem(controller.save(tmp_path / "now", made.states, made.weather))
    result = d2.solve(found.problem, found.network, **found.options)
    plan = controller.plan(made.states, made.weather)
    np.testing.assert_allclose(result.dual, plan.price.ravel(), rtol=1e-4)


def test_figure(tmp_path):
    controller, made = heating()
    log = controller.simulate(made.states, 3, forecast=lambda t: made.weather)
    figure = log.plot(tmp_path / "loop.png")
    labels = [axis.get_ylabel() for axis in figure.axes]
    assert labels == ["states", "inputs", "shared resource", "price"]
    assert (tmp_path / "loop.png").stat().st_size > 10_000
