"""Rates of inputs, outputs, references, exact penalties: against cvxpy."""

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2 import mpc

K = 7
EXACT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
RNG = np.random.default_rng(8)
START = [np.array([-1.5, 0.0]), np.array([-1.0, 0.2]), np.array([0.5, -0.1])]
WEATHER = [0.03 * RNG.standard_normal((K, 2)) for _ in range(3)]
RAMP = np.column_stack([np.linspace(-1.0, 1.0, K + 1), np.zeros(K + 1)])
WANTED = [RAMP, 0.5 * RAMP, 0.0 * RAMP]
BEFORE = [np.array([0.1]), np.array([0.4]), np.array([0.0])]


def carts(**options):
    given = {"x_min": [-2.0, -1.0], "x_max": [2.0, 1.0], "u_min": -1.0, "u_max": 1.0}
    return [
        mpc.Subsystem(name, [[1.0, 0.3], [0.0, 0.9]], [[0.0], [0.4]], Q=[1.0, 0.1], R=0.05,
                      resource=[[1.0]], **given | options)
        for name in ("a", "b", "c")
    ]  # fmt: skip


def tiled(ends):
    """For each step; a million stands for no limit."""
    return np.tile(np.clip(ends, -1e6, 1e6), (K, 1))


def central(systems, limit, previous=None, references=None):
    """Inputs, prices and cost of all systems planned at once."""
    cost, limits, used, inputs = 0, [], 0, []
    for i, s in enumerate(systems):
        x, u = cp.Variable((K + 1, 2)), cp.Variable((K, 1))
        e, o = cp.Variable((K, 2), nonneg=True), cp.Variable((K, 1), nonneg=True)
        limits += [x[0] == START[i], x[1:] == x[:-1] @ s.A.T + u @ s.B.T + WEATHER[i]]
        limits += [cp.abs(u) <= 1, x[1:] - e <= tiled(s.x_max), x[1:] + e >= tiled(s.x_min)]
        if np.isfinite(s.u_rate).all():
            limits += [cp.abs(u[1:] - u[:-1]) <= float(s.u_rate[0])]
            limits += [] if previous is None else [cp.abs(u[0] - previous[i]) <= s.u_rate]
        if s.n_y:
            limits += [x[1:] @ s.C.T - o <= tiled(s.y_max), x[1:] @ s.C.T + o >= tiled(s.y_min)]
        if s.soft is None:
            limits += [e == 0, o == 0]
        else:
            for part in (e, o) if s.n_y else (e,):
                cost += s.soft[0] * cp.sum_squares(part) + s.soft[1] * cp.sum(part)
        ref = np.tile(s.x_ref, (K + 1, 1)) if references is None else references[i]
        for k in range(K + 1):
            cost += cp.quad_form(x[k] - ref[k], cp.psd_wrap(s.terminal if k == K else s.Q))
        cost += 0.05 * cp.sum_squares(u)
        used, inputs = used + u, [*inputs, u]
    shared = used <= limit
    problem = cp.Problem(cp.Minimize(cost), [*limits, shared])
    problem.solve(solver="CLARABEL", **EXACT)
    return [u.value for u in inputs], shared.dual_value, problem.value


def check(systems, limit=0.8, **given):
    controller = mpc.Controller(systems, K, limit, nx.path_graph(3))
    plan = controller.plan(START, WEATHER, tol=1e-9, **given)
    inputs, prices, cost = central(systems, limit, **given)
    assert plan.result.status == "CONVERGED"
    assert plan.result.objective == pytest.approx(cost, rel=1e-7)
    for found, right in zip(plan.inputs, inputs, strict=True):
        np.testing.assert_allclose(found, right, atol=1e-4)
    np.testing.assert_allclose(plan.price, prices, atol=1e-4 * max(1.0, prices.max()))
    return plan


def test_rates_of_inputs():
    plan = check(carts(u_rate=0.25), previous=BEFORE)
    steps = np.diff(np.vstack([BEFORE[0], plan.inputs[0]]), axis=0)
    assert np.abs(steps).max() == pytest.approx(0.25, abs=1e-5)
    check(carts(u_rate=0.25))  # the first change is free


def test_outputs_and_their_limits():
    plan = check(carts(C=[[1.0, 1.0]], y_min=-2.0, y_max=0.05))
    assert (plan.states[2][1:] @ [1.0, 1.0]).max() == pytest.approx(0.05, abs=1e-5)


def test_references_over_the_horizon():
    check(carts(), references=WANTED)
    paper = mpc.Controller(carts(), K, 0.8, nx.path_graph(3), formulation="paper")
    plan = paper.plan(START, WEATHER, tol=1e-8, references=WANTED)
    inputs, _, _ = central(paper.subsystems, 0.8, references=WANTED)
    for found, right in zip(plan.inputs, inputs, strict=True):
        np.testing.assert_allclose(found, right, atol=1e-4)


def test_exact_penalties():
    """A steep linear penalty changes no plan that can meet the limits, and helps where none can."""
    tight = {"x_max": [2.0, 0.3]}
    hard = check(carts(**tight))
    soft = check(carts(**tight, soft=(0.0, 100.0)))
    for a, b in zip(hard.inputs, soft.inputs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    check(carts(**tight, soft=(0.0, 0.2), C=[[1.0, 1.0]], y_max=0.1))
    impossible = {"x_max": [-1.6, 1.0]}
    with pytest.raises(mpc.Infeasible):
        mpc.Controller(carts(**impossible), K, 0.8, nx.path_graph(3)).plan(START, WEATHER)
    check(carts(**impossible, soft=(0.0, 5.0)))


def test_the_loop_tracks_and_respects_rates():
    controller = mpc.Controller(carts(u_rate=0.2), K, 0.8, nx.path_graph(3))
    reference = lambda t: [np.array([0.5 * np.sin(0.3 * t), 0.0])] * 3  # noqa: E731
    log = controller.simulate(START, 6, reference=reference, previous=BEFORE)
    assert log.failure is None and not log.unsolved
    for before, u in zip(BEFORE, log.inputs, strict=True):
        assert np.abs(np.diff(np.vstack([before, u]), axis=0)).max() <= 0.2 + 1e-6
    parts = zip(controller.subsystems, log.states, log.inputs, strict=True)
    cost = sum(s.stage_cost(x[t], u[t], reference(t)[0]) for s, x, u in parts for t in range(6))
    assert log.cost == pytest.approx(cost)


def test_errors():
    with pytest.raises(d2.ProblemError, match=r"'a': u_rate\[0\] = -1; expected a number at least"):
        carts(u_rate=-1.0)
    with pytest.raises(d2.ProblemError, match=r"'a': C has shape \(1, 3\); expected 2 columns"):
        carts(C=[[1.0, 1.0, 1.0]])
    with pytest.raises(d2.ProblemError, match="y_min or y_max is given and C is not"):
        carts(y_max=3.0)
    with pytest.raises(d2.ProblemError, match=r"soft = \(0, 0\) makes an excess free"):
        carts(soft=(0.0, 0.0))
    controller = mpc.Controller(carts(u_rate=0.1, u_min=0.5), K, 9.0, nx.path_graph(3))
    with pytest.raises(mpc.Infeasible, match=r"u_rate\[0\] at step 0") as caught:
        controller.plan(START, WEATHER, previous=BEFORE)
    assert caught.value.subsystem == "a"
    with pytest.raises(d2.ProblemError, match="references of 2 subsystems were given; there are 3"):
        controller.plan(START, references=WANTED[:2])
    with pytest.raises(d2.ProblemError, match=r"its reference has shape \(3,\); expected \(2,\)"):
        controller.plan(START, references=[np.zeros(3)] * 3)
    for more in ({"u_rate": 1.0}, {"C": [[1.0, 0.0]], "y_max": 1.0}):
        with pytest.raises(d2.CapabilityError, match="need formulation='local'"):
            mpc.Controller(carts(**more), K, 1.0, nx.path_graph(3), formulation="paper")
