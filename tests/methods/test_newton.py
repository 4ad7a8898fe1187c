"""Newton's method on the dual over exact sums: answers, counts, proofs of infeasibility."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from dual2.methods.dual_newton import dual_loop, newton_loop
from dual2.methods.dual_newton.envelope import choose_trial
from dual2.methods.local.semismooth_numpy import LinearTerm, SemismoothArgmin
from dual2.reference import solve_reference
from hard_problems import CLASSES
from planted import errors
from problems import random_problem
from rounding import EPS

PATH = d2.Network(nx.path_graph(5))


def newton(problem, network=PATH, **options):
    options = {"method": "Newton", "record": False, "progress": False} | options
    return d2.solve(problem, network, **options)


def test_agents_without_strong_convexity_are_refused_by_name():
    """The error names the agent, and a method that can."""
    agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0)) for _ in range(5)]
    agents[3] = d2.Agent([[1.0]], d2.SquaredNorm(0.0), d2.IndicatorBox(0.0, 1.0))
    problem = d2.Problem(agents, d2.IndicatorPoint([1.0]))
    with pytest.raises(d2.CapabilityError, match=r"agent 3: f \+ g .* interior-point"):
        newton(problem)
    assert newton(problem, method="auto").parameters["method"][0] == "interior-point"


def test_curvature_of_g_is_enough():
    """f is linear, and g brings the strong convexity."""
    net = d2.ElasticNet(0.1, 2.0)
    agents = [d2.Agent([[1.0]], d2.Quadratic([0.0], [q]), net) for q in (1.0, -1.0, 0.5, 0.2, 0.0)]
    problem = d2.Problem(agents, d2.IndicatorPoint([1.0]))
    result, other = newton(problem, method="auto"), newton(problem, method="interior-point")
    assert result.parameters["method"][0] == "Newton" and result.status == "CONVERGED"
    np.testing.assert_allclose(np.concatenate(result.x), np.concatenate(other.x), atol=1e-7)


def units_over_periods(n=5, p=12):
    """Limited units of very different costs meet a demand in every period; its data."""
    rng = np.random.default_rng(8)
    curve, slope, most = (
        10.0 ** rng.uniform(-2, 1, n),
        rng.uniform(5, 40, n),
        rng.uniform(50, 99, n),
    )
    demand = most.sum() * rng.uniform(0.05, 0.95, p)
    agents = [
        d2.Agent(np.eye(p), d2.Quadratic(np.full(p, c), np.full(p, q)), d2.IndicatorBox(0.0, u))
        for c, q, u in zip(curve, slope, most, strict=True)
    ]
    return d2.Problem(agents, d2.IndicatorPoint(demand)), demand, (curve, slope, most)


def test_rows_that_stand_apart_are_answered_row_by_row(monkeypatch):
    problem, demand, (curve, slope, most) = units_over_periods()
    result = newton(problem)
    assert result.status == "CONVERGED" and result.certificate.kkt <= 1e-8
    for t, price in enumerate(-result.dual):
        made = np.clip((price - slope) / curve, 0, most)
        np.testing.assert_allclose([x[t] for x in result.x], made, atol=1e-7 * demand[t])
    monkeypatch.setattr(newton_loop, "coordinate_candidates", lambda *args: None)
    together = newton(problem)
    assert together.status == "CONVERGED" and result.counts.sums < together.counts.sums


def test_such_a_run_that_was_cut_continues_bit_for_bit():
    problem, *_ = units_over_periods()
    whole, part = newton(problem), None
    for cut in range(8, 8 * whole.counts.sums + 8, 8):
        part = newton(problem, start=part, max_rounds=cut)
    assert part.status == "CONVERGED" and part.counts == whole.counts
    assert all((a == b).all() for a, b in zip(part.x, whole.x, strict=True))


def test_an_agent_beside_a_face_that_it_must_reach():
    """Its own Newton step is 300 times longer than the way to the face, compiled and in NumPy."""
    name = "condition 1e3-1e6"
    planted = CLASSES[name](np.random.default_rng([7022, 7919, *name.encode()]))
    result = newton(planted.problem, planted.network)
    assert result.status == "CONVERGED" and not errors(planted, result.x).false
    agent, best = planted.problem.agents[4], planted.x[4]
    near = agent.g.prox(best + np.array([2e-4, 0.0, 0.0, 0.0, 0.0]), 1.0)
    force = LinearTerm(agent.A.T @ planted.price, 0.0, np.zeros(5))
    look, tried = SemismoothArgmin(agent).solve(force, near)
    np.testing.assert_allclose(look.z, best, atol=1e-10)
    assert tried <= 50


# -- storage, shapes, functions without kernels --------------------------------------------------


@pytest.mark.parametrize("wrap", [sp.csr_array, aslinearoperator], ids=["sparse", "operator"])
@pytest.mark.parametrize("g", [d2.L1Norm(0.1), d2.IndicatorBall(0.4), d2.Zero()], ids=repr)
def test_storage_makes_no_difference(wrap, g):
    rng = np.random.default_rng(3)
    A = rng.standard_normal((5, 3, 4)) * (rng.random((5, 3, 4)) < 0.1)
    A[:, 0] = rng.standard_normal((5, 4))
    M = rng.standard_normal((4, 4))
    fs = [d2.Quadratic([1.0, 2.0, 3.0, 4.0], 1.0), d2.LeastSquares(M, 1.0, ridge=0.5)]
    for f in fs:
        problem = d2.Problem([d2.Agent(a, f, g) for a in A], d2.HuberLoss([1.0, -1.0, 0.3], 0.5))
        other = d2.Problem([d2.Agent(wrap(a), f, g) for a in A], problem.h)
        one, two = newton(problem), newton(other)
        assert one.status == two.status == "CONVERGED"
        np.testing.assert_allclose(np.concatenate(one.x), np.concatenate(two.x), atol=1e-9)


def test_compiled_and_numpy_answers_agree():
    """An agent's kernel against the same agent as NumPy solves it."""
    from dual2.methods.dual_newton.dual_agents import DualAgents
    from dual2.methods.local.solver_kind import SolverKind
    from dual2.runtime import Runtime

    for seed in (2, 6, 7, 9, 33, 68):
        problem, network = random_problem(seed)
        own = DualAgents(Runtime(problem, network))
        other = DualAgents(Runtime(problem, network))
        other.solver_kind[list(other.locals)] = SolverKind.NUMPY
        _compare(own, other, np.random.default_rng(seed).standard_normal((3, problem.p)))


def _compare(own, other, trials):
    from dual2.methods.dual_newton.dual_agents import ProximalTerms, Query
    from dual2.methods.message import Layout

    n, size = own.runtime.n, own.runtime.packed.size
    layout = Layout(own.p, 3, 3, bound=True)
    query = Query(layout, trials, np.zeros((0, own.p)), np.zeros(own.p))
    prox = ProximalTerms(np.full(n, 0.1), np.zeros(size))
    one, two = (agents.reduce(query, prox, np.zeros(size), 1e-8) for agents in (own, other))
    for a, b in zip(layout.read_trials(one)[:2], layout.read_trials(two)[:2], strict=True):
        np.testing.assert_allclose(a, b, atol=1e5 * EPS * (1 + np.abs(b).max()))
    for t in range(3):
        a, b = layout.read_jacobian(one, t), layout.read_jacobian(two, t)
        np.testing.assert_allclose(a, b, atol=1e-7 * (1e-3 + np.abs(b).max()))


def sparse_agents(n=5, p=8):
    """Every matrix has a diagonal, and one entry beside it."""
    rng = np.random.default_rng(8)
    A = sp.csc_array(sp.eye_array(p) + sp.coo_array(([0.5], ([6], [1])), shape=(p, p)))
    box = d2.IndicatorBox(0.0, 1.0)
    return [d2.Agent(A, d2.Quadratic(np.ones(p), c), box) for c in rng.uniform(-2, 0, (n, p))]


def test_entries_that_no_agent_fills_are_not_added(monkeypatch):
    """Of the matrices in a sum. The totals have the same bits, and as much is counted."""
    from dual2.methods.dual_newton.dual_agents import DualAgents
    from dual2.runtime import Runtime

    problem = d2.Problem(sparse_agents(), d2.IndicatorPoint(np.full(8, 2.0)))
    few, short = DualAgents(Runtime(problem, PATH)), newton(problem)
    assert len(few._entries) == 9
    monkeypatch.setattr(
        "dual2.methods.dual_newton.dual_agents.mark_triangle_entries",
        lambda block, kind, marks: marks.fill(1),
    )
    assert len(DualAgents(Runtime(problem, PATH))._entries) == 36
    full = newton(problem)
    assert full.status == "CONVERGED" and full.counts == short.counts
    assert full.state["G"].tobytes() == short.state["G"].tobytes()
    assert full.state["M"].tobytes() == short.state["M"].tobytes()
    assert np.count_nonzero(full.state["M"]) == 10
    assert all((a == b).all() for a, b in zip(full.x, short.x, strict=True))


def test_a_dense_matrix_fills_all_entries():
    from dual2.methods.dual_newton.dual_agents import DualAgents
    from dual2.runtime import Runtime

    agents = [*sparse_agents(4), d2.Agent(np.ones((8, 1)), d2.SquaredNorm(1.0))]
    problem = d2.Problem(agents, d2.IndicatorPoint(np.full(8, 2.0)))
    assert len(DualAgents(Runtime(problem, PATH))._entries) == 36
    assert newton(problem).status == "CONVERGED"


def test_an_agent_without_kernels():
    """A polyhedron is projected on in Python."""
    rng = np.random.default_rng(4)
    ramp = d2.IndicatorPolyhedron([[1, 0], [0, 1], [-1, 1]], [0, 0, -0.2], [1, 1, 0.2])
    agents = [
        d2.Agent(rng.standard_normal((2, 2)), d2.SquaredNorm(w, 2.0), ramp) for w in range(1, 6)
    ]
    s = sum(a.A @ np.array([0.5, 0.6]) for a in agents)
    problem = d2.Problem(agents, d2.IndicatorPoint(s))
    one, two = newton(problem), d2.solve(problem, PATH, record=False, tol=1e-10, method="iD2A")
    assert one.status == "CONVERGED"
    np.testing.assert_allclose(np.concatenate(one.x), np.concatenate(two.x), atol=1e-6)


def test_one_agent_and_one_row():
    one = d2.Network(nx.empty_graph(1))
    problem = d2.Problem([d2.Agent([[2.0]], d2.SquaredNorm(1.0))], d2.IndicatorPoint([3.0]))
    result = newton(problem, one)
    assert result.status == "CONVERGED" and result.x[0] == pytest.approx([1.5])
    assert result.counts.rounds == 0 and result.counts.sums >= 1


def test_users_functions_are_refused_by_name():
    agents = [d2.Agent([[1.0]], d2.Smooth(lambda x: x, mu=1.0, L=1.0))] * 5
    with pytest.raises(d2.CapabilityError, match="agent 0: f must have a second derivative"):
        newton(d2.Problem(agents, d2.IndicatorPoint([1.0])))


# -- counting, cutting, limits -------------------------------------------------------------------


def test_counts_and_latency():
    problem, network = random_problem(4)
    result = newton(problem, network)
    c, height = result.counts, network.tree.height
    assert c.rounds == 2 * height * c.sums and c.latency == c.rounds + c.agree_rounds
    assert c.iterations == c.sums and c.sums <= 12
    assert result.parameters["rounds_per_iteration"][0] == 2 * height


def test_a_jacobian_that_does_not_travel_costs_a_sum(monkeypatch):
    problem, network = random_problem(14)
    whole = newton(problem, network)
    monkeypatch.setattr("dual2.methods.dual_newton.newton_loop._MAX_JACOBIAN_NUMBERS", 0)
    few = newton(problem, network)
    assert few.status == "CONVERGED" and few.counts.sums >= whole.counts.sums
    assert few.counts.floats < whole.counts.floats
    np.testing.assert_allclose(np.concatenate(few.x), np.concatenate(whole.x), atol=1e-7)


def test_a_warm_start_needs_one_sum():
    problem, network = random_problem(4)
    first = newton(problem, network)
    again = newton(problem, network, start=(first.x, first.dual))
    assert again.status == "CONVERGED" and again.counts.sums <= 2


def quadratic():
    """Quadratic costs in boxes, with three demands."""
    rng, box = np.random.default_rng(8), d2.IndicatorBox(-1.0, 1.0)
    costs = [d2.Quadratic(np.ones(6), rng.standard_normal(6)) for _ in range(5)]
    agents = [d2.Agent(rng.standard_normal((3, 6)), f, box) for f in costs]
    return d2.Problem(agents, d2.IndicatorPoint([4.0, -6.0, 5.0]))


def test_near_a_price_one_step_is_tried_alone(monkeypatch):
    """A message with one price is short, and full Newton steps are right there."""
    problem = quadratic()
    found = newton(problem)
    assert found.dual.all() and found.counts.sums > 2
    start = (found.x, 0.999 * found.dual)
    lone = newton(problem, start=start)
    monkeypatch.setattr(dual_loop, "_WARM_RESIDUAL", 0.0)
    many = newton(problem, start=start)
    assert lone.status == many.status == "CONVERGED"
    assert lone.counts.sums == many.counts.sums == 2
    assert lone.counts.floats < 0.5 * many.counts.floats


def test_a_lone_step_that_does_not_help_is_followed_by_many(monkeypatch):
    problem, tried = quadratic(), []
    found = newton(problem)

    def refuse(old, new, *more):
        tried.append(len(new.lam))
        return -1 if len(new.lam) == 1 else choose_trial(old, new, *more)

    monkeypatch.setattr(dual_loop, "choose_trial", refuse)
    result = newton(problem, start=(found.x, 0.999 * found.dual))
    assert result.status == "CONVERGED" and tried[0] == 1 and min(tried[1:]) > 1


def test_a_callback_ends_a_run():
    problem, network = random_problem(4)
    seen = []

    def callback(info):
        seen.append(info["rounds"])
        return len(seen) == 2

    result = newton(problem, network, callback=callback, tol=1e-14)
    assert result.status == "INTERRUPTED" and seen == [2 * network.tree.height * k for k in (1, 2)]


# -- no solution ---------------------------------------------------------------------------------


@pytest.mark.parametrize("excess", [10.0, 1e-2, 1e-5])
@pytest.mark.parametrize("flat", [False, True])
def test_infeasible_with_a_proof(excess, flat):
    rng = np.random.default_rng(8)
    f = d2.SquaredNorm(0.0) if flat else d2.SquaredNorm(2.0)
    agents = [
        d2.Agent(
            np.abs(rng.standard_normal((3, 2))),
            f.tilt(rng.standard_normal(2)),
            d2.IndicatorBox(0.0, rng.uniform(0.5, 2.0, 2)),
        )
        for _ in range(5)
    ]
    reach = sum(a.A @ a.g.upper for a in agents)
    demand = reach * np.array([0.5, 1.0 + excess, 0.5])
    problem = d2.Problem(agents, d2.IndicatorBox(demand, np.inf))
    result = newton(problem, method="interior-point" if flat else "Newton")
    assert result.status == "INFEASIBLE"
    u = np.array(result.certificate.separator)
    supply = sum(a.g.domain_support(-a.A.T @ u) for a in agents)
    assert supply + problem.h.domain_support(u) < 0


@pytest.mark.parametrize("multiple", [1.0, 2.0, 1.0 / 3.0])
def test_rows_that_depend_on_one_another_and_bounds_that_coincide(multiple):
    """One row may not be below what the other may not be above: prices may be of any length."""
    rng, low, f = np.random.default_rng(0), -3.5, d2.Quadratic([1.0, 2.0, 4.0], np.ones(3))
    rows = rng.standard_normal((5, 1, 3))
    agents = [d2.Agent(np.vstack([a, multiple * a]), f, d2.L2Norm(0.7)) for a in rows]
    box = d2.IndicatorBox([low, multiple * low - 1.0], [low + 0.2, multiple * low])
    result = newton(d2.Problem(agents, box))
    one = [d2.Agent(a, f, d2.L2Norm(0.7)) for a in rows]
    best = newton(d2.Problem(one, d2.IndicatorPoint([low])))
    assert result.status == best.status == "CONVERGED"
    np.testing.assert_allclose(np.concatenate(result.x), np.concatenate(best.x), atol=1e-7)
    assert np.abs(result.dual).max() < 1e3 * np.abs(best.dual).max()


def test_no_multiplier_is_no_convergence():
    """A ball that touches a line: the only feasible point has no price."""
    agents = [d2.Agent(np.eye(2)[:1], d2.SquaredNorm(1.0, [0.0, 1.0]), d2.IndicatorBall(1.0))] * 5
    result = newton(d2.Problem(agents, d2.IndicatorPoint([5.0])), max_sums=60)
    assert result.status != "CONVERGED" or abs(result.y[0] - 5.0) <= 1e-7


# -- polyhedra ---------------------------------------------------------------------------------
def polyhedral(kind, seed, flat=False):
    """Agents with ramps, or with a budget over ramps, beside one with a box."""
    rng, T = np.random.default_rng(seed), 5
    differences = np.eye(T)[1:] - np.eye(T)[:-1]
    rows = [np.eye(T), differences] + ([np.ones((1, T))] if kind == "budget" else [])
    M = np.vstack(rows)
    upper = np.concatenate([np.full(T, 2.0), np.full(T - 1, 0.4), [6.0] * (len(M) - 2 * T + 1)])
    lower = np.concatenate([np.zeros(T), np.full(T - 1, -0.3), [0.0] * (len(M) - 2 * T + 1)])
    agents = []
    for i in range(4):
        g = d2.IndicatorPolyhedron(M, lower, upper) if i < 3 else d2.IndicatorBox(0.0, 2.0)
        bend = np.zeros(T) if flat else rng.uniform(0.5, 3.0, T)
        agents.append(d2.Agent(np.eye(T), d2.Quadratic(bend, rng.standard_normal(T)), g))
    return d2.Problem(agents, d2.IndicatorPoint(rng.uniform(2.5, 3.5, T)))


@pytest.mark.parametrize("kind", ["ramps", "budget"])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_polyhedra_are_answered_by_one_projection(kind, flat, seed):
    problem, network = polyhedral(kind, seed, flat), d2.Network(nx.path_graph(4))
    method = "interior-point" if flat else "Newton"
    result = d2.solve(problem, network, method=method)
    assert result.status == "CONVERGED" and (flat or result.counts.sums <= 40)
    best = problem.objective(solve_reference(problem).x, problem.h.b)
    assert result.objective == pytest.approx(best, rel=1e-7)
    assert (problem.agents[0].g.chain is None) == (kind == "budget")


@pytest.mark.parametrize("kind", ["ramps", "budget"])
def test_demands_that_polyhedra_cannot_meet_are_proved_so(kind):
    problem = polyhedral(kind, 0)
    steep = problem.with_agents(problem.agents, d2.IndicatorPoint([7.0, 0.5, 7.0, 0.5, 7.0]))
    result = d2.solve(steep, d2.Network(nx.path_graph(4)), method="Newton")
    assert result.status == "INFEASIBLE"
    assert steep.separates(np.array(result.certificate.separator)) < 0
