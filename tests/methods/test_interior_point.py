"""The interior-point method against independent solvers."""

import importlib
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import dual2 as d2
from dual2.conic.cones import ConeScaling
from dual2.conic.sparse_system import NoFactors
from dual2.conic.standard_form import standard_form
from dual2.methods.interior_point.algorithm import InteriorPoint
from dual2.methods.interior_point.messages import LEVELS, mark_levels, shortest
from dual2.methods.interior_point.state import Phase
from dual2.runtime import Runtime

NETWORK = d2.Network(nx.path_graph(4))
EXACT = {"method": "interior-point", "record": False}


def linear_program(seed, n=5, p=6, bounded=True, sparse=False):
    """Four agents with linear costs and boxes; inequalities that some point meets."""
    rng = np.random.default_rng(seed)
    A = [rng.standard_normal((p, n)) for _ in range(4)]
    c = [rng.standard_normal(n) for _ in range(4)]
    b = sum(a @ rng.uniform(-0.5, 0.5, n) for a in A)
    box = d2.IndicatorBox(-1.0, 2.0) if bounded else d2.IndicatorNonnegative()
    agents = [
        d2.Agent(sp.csr_array(a) if sparse else a, d2.Zero().tilt(q), box)
        for a, q in zip(A, c, strict=True)
    ]
    return agents, np.hstack(A), np.concatenate(c), b


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_linear_programs_agree_with_highs(seed, sparse):
    agents, A, c, b = linear_program(seed, sparse=sparse)
    result = d2.solve(d2.Problem(agents, d2.IndicatorAtMost(b)), NETWORK, **EXACT)
    known = linprog(c, A_ub=A, b_ub=b, bounds=(-1, 2))
    assert result.status == "CONVERGED" and result.counts.sums < 60
    assert result.objective == pytest.approx(known.fun, rel=1e-8)
    assert -result.dual == pytest.approx(known.ineqlin.marginals, abs=1e-7)


def test_equations_and_ranges_agree_with_highs():
    agents, A, c, b = linear_program(9)
    lower = np.where(np.arange(6) < 2, b, b - 1.0)
    result = d2.solve(d2.Problem(agents, d2.IndicatorBox(lower, b)), NETWORK, **EXACT)
    known = linprog(c, np.vstack([A[2:], -A[2:]]), np.r_[b[2:], 1 - b[2:]], A[:2], b[:2], (-1, 2))
    assert result.status == "CONVERGED"
    assert result.objective == pytest.approx(known.fun, rel=1e-8)


def test_rows_that_h_leaves_free_have_no_price():
    agents, _, _, b = linear_program(3)
    upper = np.where(np.arange(6) == 4, np.inf, b)
    result = d2.solve(d2.Problem(agents, d2.IndicatorBox(-np.inf, upper)), NETWORK, **EXACT)
    assert result.status == "CONVERGED" and result.dual[4] == 0.0


def test_an_infeasible_program_is_proved_so():
    agents, A, _, b = linear_program(1)
    far = b - 100.0
    result = d2.solve(d2.Problem(agents, d2.IndicatorAtMost(far)), NETWORK, **EXACT)
    u = np.array(result.certificate.separator)
    w = A.T @ u
    least = np.where(w > 0, -w, 2 * w).sum()
    assert result.status == "INFEASIBLE" and (u >= -1e-9).all()
    assert least - u @ far > 0


@pytest.mark.parametrize("kind", ["dense", "diagonal"])
def test_quadratic_programs_agree_with_clarabel(kind):
    import cvxpy as cp

    rng = np.random.default_rng(5)
    agents, A, c, b = linear_program(5)
    roots = [
        rng.standard_normal((2, 5)) if kind == "dense" else np.diag([1.0, 0, 2, 0, 0])
        for _ in range(4)
    ]
    agents = [
        d2.Agent(agent.A, d2.Quadratic(R.T @ R, c[5 * i : 5 * i + 5]), agent.g)
        for i, (agent, R) in enumerate(zip(agents, roots, strict=True))
    ]
    result = d2.solve(d2.Problem(agents, d2.IndicatorAtMost(b)), NETWORK, **EXACT)
    x = cp.Variable(20)
    cost = c @ x + sum(0.5 * cp.sum_squares(R @ x[5 * i : 5 * i + 5]) for i, R in enumerate(roots))
    known = cp.Problem(cp.Minimize(cost), [A @ x <= b, x >= -1, x <= 2])
    known.solve(solver="CLARABEL")
    assert result.status == "CONVERGED"
    assert result.objective == pytest.approx(known.value, rel=1e-7)


@pytest.mark.parametrize(
    "g, h",
    [
        (d2.L1Norm(0.3), d2.AbsoluteLoss(np.arange(6.0))),
        (d2.IndicatorBox(-1, 1), d2.QuantileLoss(np.arange(6.0), 0.3)),
        (d2.L1Norm([0.0, 0.1, 0.2, 0.3, 0.4]), d2.SquaredLoss(np.arange(6.0))),
        (d2.ElasticNet(0.1, 0.2), d2.HingeLoss([1.0, -1, 1, 1, -1, -1])),
        (d2.L2Norm(0.5), d2.SquaredLoss(np.arange(6.0))),
        (d2.IndicatorBall(0.7), d2.HuberLoss(np.arange(6.0), 0.5)),
        (d2.IndicatorSimplex(1.0), d2.LogisticLoss([1.0, -1, 1, 1, -1, -1])),
        (d2.L1Norm(0.2), d2.PoissonLoss([0.0, 1, 2, 0, 1, 3])),
        (d2.NegativeLog(0.5), d2.LInfNorm(1.0)),
        (d2.Max(0.5), d2.IndicatorL1Ball(1.0)),
    ],
    ids=lambda f: type(f).__name__,
)
def test_losses_and_penalties_agree_with_newton(g, h):
    agents = [d2.Agent(agent.A, d2.SquaredNorm(0.1), g) for agent in linear_program(2)[0]]
    problem = d2.Problem(agents, h)
    result, known = (d2.solve(problem, NETWORK, method=m) for m in ("interior-point", "Newton"))
    assert result.status == known.status == "CONVERGED"
    assert result.objective == pytest.approx(known.objective, rel=1e-7)
    assert np.concatenate(result.x) == pytest.approx(np.concatenate(known.x), abs=1e-6)


def test_exact_sums_and_the_order_of_the_tree_agree():
    agents, _, _, b = linear_program(4)
    problem = d2.Problem(agents, d2.IndicatorAtMost(b))
    tree, exact = (d2.solve(problem, NETWORK, sums=sums, **EXACT) for sums in ("tree", "exact"))
    assert exact.status == tree.status == "CONVERGED"
    assert exact.objective == pytest.approx(tree.objective, rel=1e-10)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_the_unit_of_the_objective_changes_nothing(unit):
    """Agents of nine variables are padded to ten; the padding must not set the cost's scale."""
    agents, _, _, b = linear_program(2, n=9)
    agents = [d2.Agent(agent.A, unit * agent.f, agent.g) for agent in agents]
    result = d2.solve(d2.Problem(agents, d2.IndicatorAtMost(b)), NETWORK, **EXACT)
    agents, _, _, b = linear_program(2, n=9)
    known = d2.solve(d2.Problem(agents, d2.IndicatorAtMost(b)), NETWORK, **EXACT)
    assert result.status == "CONVERGED" and result.counts.sums == known.counts.sums
    assert result.objective / unit == pytest.approx(known.objective, rel=1e-9)


def test_many_agents_are_computed_together():
    rng = np.random.default_rng(0)
    costs = rng.uniform(1, 2, 2000)
    agents = [d2.Agent([[1.0]], d2.Zero().tilt([q]), d2.IndicatorBox(0, 1)) for q in costs]
    problem = d2.Problem(agents, d2.IndicatorPoint([500.0]))
    result = d2.solve(problem, d2.Network(nx.star_graph(1999)), **EXACT)
    assert result.status == "CONVERGED"
    assert result.objective == pytest.approx(np.sort(costs)[:500].sum(), rel=1e-9)


def test_a_variable_close_to_its_bound_is_not_moved_to_it():
    """x_2 must be 1e-8 while its owner's x_1 is 500; at its bound the second row is violated."""
    agents = [
        d2.Agent(np.eye(2), d2.Zero().tilt([-1.0, 1.0]), d2.IndicatorBox(0.0, 500.0)),
        d2.Agent([[1.0], [1.0]], d2.Zero().tilt([3.0]), d2.IndicatorNonnegative()),
    ]
    problem = d2.Problem(agents, d2.IndicatorPoint([500.0, 1e-8]))
    result = d2.solve(problem, d2.Network([(0, 1)]), **EXACT)
    assert result.status == "CONVERGED"
    assert result.x[0] == pytest.approx([500.0, 1e-8], rel=0.1, abs=0)


def test_the_best_point_is_kept_from_iteration_to_iteration():
    agents, _, _, b = linear_program(6)
    runtime = Runtime(d2.Problem(agents, d2.IndicatorAtMost(b)), NETWORK)
    method, bests = InteriorPoint(runtime, 200), []
    method.tol = 1e-8
    while not method.current.status:
        method.advance(method.rounds + 1, 1.0)
        bests.append(method.current.best)
    assert method.current.status == "CONVERGED"
    useful = [best for best in bests if best < 1.0]  # a residual of 1 is that of any point
    assert (np.diff(useful) <= 0).all() and min(bests) < 1e-9


def test_a_wrong_face_sends_the_iterations_on():
    agents, _, _, b = linear_program(8)
    runtime = Runtime(d2.Problem(agents, d2.IndicatorAtMost(b)), NETWORK)
    method, faces = InteriorPoint(runtime, 200), []
    method.tol = 1e-8
    while not method.current.status:
        method.advance(method.rounds + 1, 1.0)
        if method.current.phase == Phase.POLISH and not faces:
            faces.append(method.current.iterations)
            method.current = replace(method.current, dual=np.full(6, np.nan))
    assert method.current.status == "CONVERGED" and method.current.kkt <= 1e-8
    assert method.current.iterations > faces[0]


def test_the_shortest_step_is_found_by_counting():
    lengths = np.array([0.913, 3.0, 0.4031])
    agreed = shortest(mark_levels(lengths).sum(axis=0))
    assert agreed <= 0.4031 and agreed > 0.38
    assert shortest(mark_levels(np.array([0.0]))[0]) == 0.0
    assert (np.diff(LEVELS) < 0).all()


def test_pieces_join_a_diagonal_quadratic_where_they_begin():
    """½·3x² + |x − 1|: pieces fill from x = 1 to both sides."""
    parts = [d2.SquaredNorm(3.0).blocks(1), d2.L1Norm(1.0).shift([1.0]).blocks(1)]
    form = standard_form(parts)
    assert form.offset.tolist() == [1.0]
    assert form.H.tolist() == [3.0, 3.0] and form.q.tolist() == [2.0, 4.0]
    assert form.lower.tolist() == [-np.inf, 0.0] and form.upper.tolist() == [0.0, np.inf]


def test_an_unbounded_program_is_proved_so():
    agents = [d2.Agent([[1.0, -1.0]], d2.Zero().tilt([-1.0, 0.5]), d2.IndicatorNonnegative())] * 4
    result = d2.solve(d2.Problem(agents, d2.IndicatorAtMost([1.0])), NETWORK, **EXACT)
    ray = np.concatenate(result.certificate.ray)
    assert result.status == "UNBOUNDED" and (ray >= 0).all()
    assert (-1.0 * ray[::2] + 0.5 * ray[1::2]).sum() < 0 and (ray[::2] - ray[1::2]).sum() <= 1e-9


def test_a_limit_leaves_the_newest_useful_iterate_as_the_answer():
    """Not the point where the run began: its cost is off by 4 here."""
    agents, A, c, b = linear_program(3)
    problem = d2.Problem(agents, d2.IndicatorAtMost(b))
    whole = d2.solve(problem, NETWORK, **EXACT)
    short = d2.solve(problem, NETWORK, max_rounds=whole.counts.rounds - 18, **EXACT)
    assert whole.status == "CONVERGED" and short.status == "MAX_ROUNDS"
    x = np.concatenate(short.x)
    assert c @ x == pytest.approx(whole.objective, rel=1e-2)
    assert (A @ x <= b + 1e-2).all() and np.any(short.dual)
    resumed = d2.solve(problem, NETWORK, start=short, **EXACT)
    assert resumed.objective == whole.objective and resumed.counts == whole.counts


def test_an_accepted_answer_is_judged_once(monkeypatch):
    """The KKT residual that the method has evaluated is the proof."""
    from dual2.methods.interior_point import run
    from dual2.solving import stopping

    agents, _, _, b = linear_program(3)
    own, others = [], []
    monkeypatch.setattr(run, "evaluate_kkt", counted(run.evaluate_kkt, own))
    monkeypatch.setattr(stopping, "evaluate_kkt", counted(stopping.evaluate_kkt, others))
    result = d2.solve(d2.Problem(agents, d2.IndicatorAtMost(b)), NETWORK, **EXACT)
    assert result.status == "CONVERGED" and own and not others
    assert result.certificate.kkt == own[-1].kkt


def counted(function, found):
    """The function, which puts its results into a list."""

    def call(*arguments):
        found.append(function(*arguments))
        return found[-1]

    return call


@pytest.mark.parametrize(("where", "calls"), [("linearisation", 16), ("face", 0)])
def test_a_system_without_factors_ends_with_the_best_answer(where, calls, monkeypatch):
    """While it iterates, and while it polishes."""
    module = importlib.import_module(f"dual2.conic.{where}")
    made, right = [], module.factorise

    def factorise(*arguments):
        made.append(1)
        if len(made) > calls:
            raise NoFactors
        return right(*arguments)

    monkeypatch.setattr(module, "factorise", factorise)
    draw, box = np.random.default_rng(0), d2.IndicatorBox(0.0, 2.0)
    agents = [
        d2.Agent(draw.standard_normal((3, 4)), d2.Zero().tilt(draw.uniform(0.1, 1, k)), box)
        for k in (4, 4, 4, 4)
    ]
    b = sum(agent.A @ np.full(4, 0.9) for agent in agents)
    result = d2.solve(d2.Problem(agents, d2.IndicatorPoint(b)), NETWORK, **EXACT)
    assert len(made) > calls, "the factors were missed"
    assert result.status in ("STALLED", "CONVERGED") and np.any(result.x[0])


def test_a_cone_at_its_boundary_has_a_finite_scaling():
    s = np.array([1.0, 0.6, 0.8])  # the determinant rounds to 0 or below
    scaling = ConeScaling(s, np.array([1.0, -0.6, -0.8]))
    assert np.isfinite(scaling.w).all() and np.isfinite(scaling.point).all()
    assert np.abs(scaling.w).max() < 1e17


def test_a_row_of_tiny_entries_is_met():
    """The slack of h has the entry 1 there, which is not the size of the row."""
    agents = [
        d2.Agent([[1e-9], [sign]], d2.Zero().tilt([cost]), d2.IndicatorNonnegative())
        for sign, cost in ((1.0, 1.0), (-1.0, 2.0))
    ]
    h = d2.IndicatorBox(np.array([1e-9, -0.5]), np.full(2, np.inf))
    result = d2.solve(d2.Problem(agents, h), d2.Network([(0, 1)]), **EXACT)
    assert result.status == "CONVERGED"
    assert np.concatenate(result.x) == pytest.approx([1.0, 0.0], abs=1e-9)
    assert result.dual[0] == pytest.approx(-1e9)


@pytest.mark.parametrize("seed", [0, 1, 2, 4])
def test_costs_of_1e_11_count_beside_those_of_1(seed):
    """The minimum costs 1e-11 as well: scaled by the largest cost it would be rounding."""
    draw = np.random.default_rng(seed)
    A, x = draw.standard_normal((4, 12)), draw.uniform(0, 1, 12) * (draw.random(12) < 0.6)
    q = draw.uniform(0.1, 2, 12) * np.where(draw.random(12) < 0.5, 1e-11, 1.0)
    agents = [
        d2.Agent(A[:, k : k + 3], d2.Zero().tilt(q[k : k + 3]), d2.IndicatorBox(0.0, 5.0))
        for k in range(0, 12, 3)
    ]
    problem = d2.Problem(agents, d2.IndicatorBox(A @ x, np.full(4, np.inf)))
    result = d2.solve(problem, NETWORK, **EXACT)
    best = linprog(q * 1e11, A_ub=-A, b_ub=-(A @ x), bounds=(0.0, 5.0))  # HiGHS' unit is 1e-7
    assert result.status == "CONVERGED"
    assert result.objective * 1e11 == pytest.approx(best.fun, rel=1e-6)
