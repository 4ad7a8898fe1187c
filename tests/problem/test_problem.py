"""Agents, problems, and what certificates promise."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import dual2 as d2
from dual2.errors import ProblemError
from dual2.problem.error_bounds import dual_strong_convexity
from dual2.problem.matrices import squared_singular_values
from dual2.reference import solve_reference
from problems import random_problem


def agent(p=2, d=3, **changes):
    data = {"A": np.arange(1.0, p * d + 1).reshape(p, d), "f": d2.SquaredNorm(2.0), "g": d2.Zero()}
    return d2.Agent(**(data | changes))


def small_problem():
    """Two agents, d = 2 and 1, p = 2, every part different."""
    first = d2.Agent([[1.0, 2.0], [0.0, 1.0]], d2.SquaredNorm(4.0, [1.0, -1.0]), d2.L1Norm(0.5))
    second = d2.Agent([[3.0], [-1.0]], d2.Quadratic([2.0], [1.0]), d2.IndicatorBox(0.0, 5.0))
    return d2.Problem([first, second], d2.SquaredLoss([1.0, 2.0], scale=3.0))


# -- agents -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.coo_array, aslinearoperator])
def test_matrix_forms_agree(form):
    A = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    found = d2.Agent(form(A), d2.SquaredNorm(1.0))
    assert (found.p, found.dim) == (2, 3)
    np.testing.assert_allclose(found.apply([1, 2, 3]), A @ [1, 2, 3])
    np.testing.assert_allclose(found.adjoint([1, 2]), A.T @ [1, 2])
    assert found.sigma_max2 == pytest.approx(9.0)
    assert found.sigma_min2 == (None if form is aslinearoperator else pytest.approx(5.0))


def test_matrix_is_canonical_and_ours():
    given = np.asfortranarray(np.ones((3, 2), dtype=np.float32))
    found = d2.Agent(given, d2.SquaredNorm(1.0))
    given[0, 0] = np.nan
    assert found.A.dtype == np.float64 and found.A.flags.c_contiguous and found.A[0, 0] == 1.0
    assert d2.Agent([[1, 2]], d2.SquaredNorm(1.0)).A.tolist() == [[1.0, 2.0]]


def test_singular_values_of_every_shape():
    rng = np.random.default_rng(0)
    matrices = [rng.standard_normal(shape) for shape in [(3, 5), (5, 3), (3, 5), (1, 1), (4, 4)]]
    matrices += [np.zeros((2, 2)), np.ones((2, 3)), sp.csc_array(matrices[0])]
    sigma = squared_singular_values(matrices)
    for A, largest, smallest in zip(matrices, *sigma, strict=True):
        A = A.toarray() if sp.issparse(A) else A
        values = np.linalg.eigvalsh(A @ A.T)
        assert largest == pytest.approx(values[-1], rel=1e-12)
        assert smallest == pytest.approx(values[0], rel=1e-9, abs=1e-12)
    assert sigma.min2[[1, 5, 6]].tolist() == [0.0, 0.0, 0.0]


def test_wide_sparse_matrices_are_measured_by_their_gram_matrix_unless_that_cancels(monkeypatch):
    rng = np.random.default_rng(2)
    even = sp.random_array((20, 400), density=0.2, rng=rng, format="csr")
    uneven = sp.csr_array(sp.diags_array(np.logspace(0, -5, 20)) @ even)
    exact = [np.linalg.svd(A.toarray(), compute_uv=False) ** 2 for A in (even, uneven)]
    calls, svd = [], np.linalg.svd
    monkeypatch.setattr(np.linalg, "svd", lambda a, **k: calls.append(a.shape) or svd(a, **k))
    sigma = squared_singular_values([even, uneven])
    assert calls == [(1, 20, 400)]
    assert sigma.max2 == pytest.approx([values[0] for values in exact], rel=1e-12)
    assert sigma.min2 == pytest.approx([values[-1] for values in exact], rel=1e-9)


def test_singular_values_of_a_large_operator_are_bounded_from_above():
    A = sp.random_array((3000, 2500), density=2e-3, rng=np.random.default_rng(1), format="csc")
    exact = sp.linalg.svds(A, k=1, return_singular_vectors=False, tol=1e-12)[0] ** 2
    for form in (A, aslinearoperator(A), A.T):
        sigma = squared_singular_values([form])
        assert exact <= sigma.max2[0] <= exact * (1 + 1e-7) and np.isnan(sigma.min2[0])


def test_singular_values_of_many_agents_are_batched(monkeypatch):
    calls = []
    svd = np.linalg.svd
    monkeypatch.setattr(np.linalg, "svd", lambda a, **k: calls.append(a.shape) or svd(a, **k))
    blocks = np.random.default_rng(0).standard_normal((2000, 50, 2))
    sigma = squared_singular_values(list(blocks))
    assert calls == [(2000, 50, 2)]
    assert sigma.max2[7] == pytest.approx(np.linalg.norm(blocks[7], 2) ** 2)


# -- problems ---------------------------------------------------------------------------------


def test_problem_reports_its_sizes():
    problem = small_problem()
    assert (problem.n, problem.p, problem.dims) == (2, 2, (2, 1))
    assert problem.offsets.tolist() == [0, 2, 3]
    assert [part.tolist() for part in problem.split([1.0, 2.0, 3.0])] == [[1.0, 2.0], [3.0]]


def test_objective_and_coupling_by_hand():
    problem = small_problem()
    x = [np.array([2.0, -1.0]), np.array([1.0])]
    np.testing.assert_array_equal(problem.coupling(x), [3.0, -2.0])
    # f: 4/2·1 + (1 + 1), g: 0.5·3 + 0, h: 3/2·(4 + 16)
    assert problem.objective(x) == pytest.approx(2 + 2 + 1.5 + 30)
    assert problem.objective([x[0], np.array([6.0])]) == np.inf


def test_kkt_residual_by_hand():
    problem = small_problem()
    x, lam = [np.array([2.0, -1.0]), np.array([1.0])], np.array([0.5, -1.0])
    s = np.array([3.0, -2.0])
    gradient, pull = np.array([4.0, 0.0, 3.0]), np.array([0.5, 0.0, 2.5])
    A, flat = np.hstack([a.A for a in problem.agents]), np.concatenate(x)
    force = np.maximum(np.maximum(gradient, pull), [4 * 2.0, 4 * 1.0, 2 * 1.0])
    pulls = np.abs(A).T @ np.abs(lam)
    phi = np.maximum(force, pulls)  # all prices are justified
    tau = np.abs(flat) / phi
    u = flat - tau * (gradient + pull)
    y = np.sign(u) * np.maximum(np.abs(u) - 0.5 * tau, 0)
    y[2] = np.clip(u[2], 0, 5)
    ratios = np.abs(flat - y) / tau / phi
    found = problem.kkt(x, lam)
    assert found.stationarity == pytest.approx(ratios.max())
    worst = int(np.argmax(ratios))
    assert (found.agent, found.coordinate) == (worst // 2, worst % 2)
    load = np.abs(A) @ np.abs(flat)
    felt = [min(phi[k] / abs(A[j, k]) for k in range(3) if A[j, k]) for j in range(2)]
    t = load / np.maximum(np.abs(lam), felt)
    response = (s + t * lam + 3 * t * np.array([1.0, 2.0])) / (1 + 3 * t)
    rows = np.abs(s - response) / np.max([np.abs(s), np.abs(response), load], axis=0)
    assert found.coupling == pytest.approx(rows.max()) and found.row == int(np.argmax(rows))
    size = problem.h.value(response) + force @ np.abs(flat)
    size += sum(a.f.value(p) + a.g.value(p) for a, p in zip(problem.agents, x, strict=True))
    assert found.objective >= abs(lam @ (s - response)) / (10 * size) * (1 - 1e-12)
    assert found.kkt == max(found.stationarity, found.coupling, found.objective)
    assert problem.kkt(x, lam, atol=100.0).kkt == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_points_that_are_not_finite_are_never_good(bad):
    problem = small_problem()
    good = [np.zeros(2), np.zeros(1)]
    for x, lam in (([np.array([0.0, bad]), good[1]], np.zeros(2)), (good, np.array([0.0, bad]))):
        assert problem.kkt(x, lam).kkt == problem.kkt(x, lam, atol=1.0).kkt == np.inf
        assert problem.gap(x, lam) == np.inf
        assert problem.x_error_bound(x, lam).value is None


@pytest.mark.parametrize("seed", [13, 14, 15])
def test_kkt_units_do_not_matter(seed):
    """Scaling the objective by c scales the price by c and leaves the ratios alone."""
    problem, _ = random_problem(seed)
    rng = np.random.default_rng(1)
    x = [rng.standard_normal(d) for d in problem.dims]
    lam = rng.standard_normal(problem.p)
    scaled = d2.Problem(
        [d2.Agent(a.A, 1e6 * a.f, 1e6 * a.g) for a in problem.agents], 1e6 * problem.h
    )
    assert scaled.kkt(x, 1e6 * lam).kkt == pytest.approx(problem.kkt(x, lam).kkt, rel=1e-9)


def test_linear_f_uses_a_substitute_constant():
    problem = d2.Problem(
        [d2.Agent([[1.0]], d2.Quadratic([0.0], [-2.0]), d2.IndicatorBox(0.0, 1.0))],
        d2.IndicatorAtMost([3.0]),
    )
    assert problem.kkt([[1.0]], [0.0]).kkt == 0.0
    assert problem.kkt([[0.5]], [0.0]).stationarity == pytest.approx(1.0)
    assert problem.kkt([[0.0]], [0.0], atol=2.0).stationarity == 0.0
    assert problem.gap([[1.0]], [0.0]) == 0.0
    assert problem.gap([[0.5]], [1.0]) == np.inf
    assert "agent 0 is not strongly convex" in problem.x_error_bound([[1.0]], [0.0]).reason


def test_h_known_by_its_conjugate_gradient_only():
    """h(z) = |z − 1|² as user functions: the coupling compares s with ∇h*(λ)."""
    full = d2.SquaredLoss(1.0, scale=2.0)
    known = {"value": full.value, "conjugate_value": full.conjugate_value}
    h = d2.functions.ConjugateSmooth(full.conjugate_grad, mu=0.5, L=0.5, **known)
    problem, same = d2.Problem([agent()], h), d2.Problem([agent()], full)
    x, lam = [np.array([0.1, -0.2, 0.3])], np.array([0.4, -0.5])
    s, y = problem.coupling(x), lam / 2 + 1
    found = problem.kkt(x, lam)
    load, norm = np.abs(problem.agents[0].A) @ np.abs(x[0]), np.linalg.norm
    assert found.coupling == pytest.approx(norm(s - y) / max(norm(load), norm(y)))
    best = solve_reference(same)
    assert problem.kkt(best.x, best.dual).kkt <= 1e-11
    assert problem.gap(best.x, best.dual) <= 1e-11
    error = np.linalg.norm(x[0] - best.x[0])
    value = problem.x_error_bound(x, lam).value
    assert value is not None and error <= value
    blind = d2.functions.ConjugateSmooth(full.conjugate_grad, mu=0.5, L=0.5)
    assert d2.Problem([agent()], blind).gap(x, lam) == np.inf


def test_h_without_prox_and_conjugate_gradient_is_refused():
    with pytest.raises(ProblemError, match="neither a proximal mapping"):
        d2.Problem([agent()], d2.Smooth(lambda z: 2.0 * z, mu=2.0, L=2.0))


def operator(*products):
    A = LinearOperator((3, 3), *products, dtype=float)
    return lambda: d2.Problem([agent(A=A)], d2.Zero())


BAD = {
    "none": (lambda: d2.Problem([], d2.Zero()), "no agents"),
    "type": (lambda: d2.Problem([agent(), 3], d2.Zero()), "Agent 1 is of type int"),
    "one": (lambda: d2.Problem(agent(), d2.Zero()), "given as Agent; expected a list"),
    "vector": (lambda: agent(A=np.ones(3)), r"\(3,\).*reshape"),
    "empty": (lambda: agent(A=np.ones((0, 3))), r"\(0, 3\).*at least one row"),
    "text": (lambda: agent(A=[["a"]]), "not a matrix of numbers"),
    "complex": (lambda: agent(A=np.ones((1, 1)) * 1j), "complex"),
    "nan": (
        lambda: d2.Problem([agent(), agent(A=[[1.0, 2, 3], [4, np.nan, 6]])], d2.Zero()),
        r"Agent 1: A\[1, 1\] is nan",
    ),
    "sparse inf": (
        lambda: d2.Problem([agent(A=sp.csc_array([[0.0, 0, np.inf]]))], d2.Zero()),
        r"Agent 0: A\[0, 2\] is inf",
    ),
    "no adjoint": (operator(lambda x: x), "Agent 0: the operator A cannot be applied.*rmatvec"),
    "shape": (operator(lambda x: x[:1], lambda v: v), "Agent 0: the operator A cannot be applied"),
    "operator nan": (operator(lambda x: np.nan * x, lambda v: v), "Agent 0.* not finite"),
    "wrong adjoint": (operator(lambda x: x, lambda v: 2 * v), "rmatvec .* is not the product"),
    "f": (lambda: d2.Problem([agent(f=d2.L1Norm(1.0))], d2.Zero()), "Agent 0: f = L1Norm"),
    "g": (
        lambda: d2.Problem([agent(g=d2.Smooth(lambda x: x, 1.0, 1.0))], d2.Zero()),
        "Agent 0: g = .*no proximal mapping",
    ),
    "f dim": (
        lambda: d2.Problem([agent(), agent(f=d2.SquaredNorm(1.0, np.zeros(4)))], d2.Zero()),
        "Agent 1: A has 3 columns, but f = .* length 4",
    ),
    "g dim": (
        lambda: d2.Problem([agent(g=d2.IndicatorBox(np.zeros(2), 1.0))], d2.Zero()),
        "Agent 0: A has 3 columns, but g = .* length 2",
    ),
    "p": (lambda: d2.Problem([agent(), agent(p=4)], d2.Zero()), "Agent 1: A has 4 rows.*agent 0"),
    "h": (lambda: d2.Problem([agent()], d2.IndicatorPoint([1.0])), "Agent 0: A has 2 rows.*h ="),
    "point": (lambda: small_problem().objective([[1.0, 2.0]]), "1 parts.*2 agents"),
    "part": (lambda: small_problem().objective([[1.0], [2.0]]), r"Agent 0: x has shape \(1,\)"),
    "price": (lambda: small_problem().kkt([[1.0, 2.0], [2.0]], [1.0]), r"\(1,\), expected \(2,\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_explained(case):
    build, pattern = BAD[case]
    with pytest.raises(ProblemError, match=pattern):
        build()


def test_f_that_is_not_strongly_convex_is_legal():
    assert d2.Problem([agent(f=d2.Quadratic([1.0, 0.0, 0.0]))], d2.Zero()).n == 1


# -- the KKT residual -------------------------------------------------------------------------


@pytest.mark.parametrize("f", [d2.Zero(), d2.SquaredHingeLoss([1.0])])
@pytest.mark.parametrize("x", [1e4, 4e7, 1e12])
def test_a_cost_that_falls_ever_more_gently_has_no_minimum_however_far_one_goes(f, x):
    """−log x has the slope −1/x, which the rounding of x must not hide; no price acts on it."""
    agents = [d2.Agent([[0.0]], f, d2.NegativeLog(1.0)), d2.Agent([[1.0]], d2.SquaredNorm(1.0))]
    problem = d2.Problem(agents, d2.IndicatorPoint([0.0]))
    assert problem.kkt([np.array([x]), np.zeros(1)], np.zeros(1)).stationarity == np.inf


def test_what_has_no_minimum_does_not_converge():
    agents = [d2.Agent([[sign]], d2.Zero(), d2.NegativeLog(1.0)) for sign in (1.0, -1.0)]
    problem = d2.Problem(agents, d2.IndicatorPoint([0.0]))
    assert d2.solve(problem, d2.Network([(0, 1)]), record=False).status != "CONVERGED"


# -- certificates -----------------------------------------------------------------------------

SEEDS = [*range(0, 150, 7)]


@pytest.fixture(scope="module", params=SEEDS)
def solved(request):
    problem, _ = random_problem(request.param)
    reference = solve_reference(problem)
    assert reference.kkt <= 1e-11
    return problem, reference


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e-3, 1e-1])
def test_bounds_hold_at_perturbed_points(solved, size):
    problem, reference = solved
    rng = np.random.default_rng(0)
    optimum = problem.objective(reference.x)
    for _ in range(3):
        x = [part + size * rng.standard_normal(part.shape) for part in reference.x]
        lam = reference.dual + size * rng.standard_normal(problem.p)
        error = np.sqrt(sum(np.sum((a - b) ** 2) for a, b in zip(x, reference.x, strict=True)))
        bound = problem.x_error_bound(x, lam)
        if bound.value is None:
            assert "domain" in bound.reason
        else:
            assert error <= bound.value * (1 + 1e-9)
        images = [
            a.g.prox(part - (a.f.grad(part) + a.adjoint(lam)) / a.f.L, 1 / a.f.L)
            for a, part in zip(problem.agents, x, strict=True)
        ]
        slack = 1e-11 * max(1.0, abs(optimum))
        if np.isfinite(problem.objective(images)):
            assert problem.objective(images) - optimum <= problem.gap(x, lam) + slack


def test_a_matrix_known_to_be_singular_is_not_decomposed(monkeypatch):
    calls, eigvalsh = [], np.linalg.eigvalsh
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda a: calls.append(a.shape) or eigvalsh(a))
    rng = np.random.default_rng(0)
    for columns, expected in ((2, []), (3, [(5, 5)])):
        agents = [d2.Agent(rng.standard_normal((5, columns)), d2.SquaredNorm(1.0)) for _ in "ab"]
        found = dual_strong_convexity(d2.Problem(agents, d2.SquaredLoss(np.ones(5))))
        gram = sum(agent.A @ agent.A.T for agent in agents)
        assert found == pytest.approx(1.0 + eigvalsh(gram)[0])
        assert calls == expected


def test_certificates_are_tight_at_the_solution(solved):
    problem, reference = solved
    scale = 1.0 + abs(problem.objective(reference.x))
    gap = problem.gap(reference.x, reference.dual)
    bound = problem.x_error_bound(reference.x, reference.dual)
    assert gap <= 1e-8 * scale
    assert bound.value is not None and bound.value <= 1e-3 and bound.reason.endswith(".")


def test_gap_is_exact_for_a_best_response():
    """If x already is the best response to λ, the bound is the gap P(x) − D(λ) itself."""
    problem = d2.Problem([d2.Agent([[1.0]], d2.SquaredNorm(2.0))], d2.SquaredLoss([3.0]))
    lam = np.array([-1.0])
    x = [np.array([0.5])]
    primal = 0.25 + 0.5 * 2.5**2
    dual = (0.25 - 0.5) - (0.5 - 3.0)
    assert problem.gap(x, lam) <= primal - dual + 1e-12


def test_separation_proves_infeasibility():
    def demand(target):
        box = d2.IndicatorBox(0.0, 1.0)
        agents = [d2.Agent([[1.0], [0.0]], d2.SquaredNorm(1.0), box) for _ in range(3)]
        return d2.Problem(agents, d2.IndicatorPoint(target))

    assert demand([5.0, 0.0]).separates([-2.0, 0.0]) == pytest.approx(-2.0)
    assert demand([2.0, 0.0]).separates([-2.0, 0.0]) == pytest.approx(1.0)
    assert demand([2.0, 1.0]).separates([0.0, -1.0]) == pytest.approx(-1.0)
    assert demand([5.0, 0.0]).separates([0.0, 0.0]) == np.inf
    free = d2.Problem([agent()], d2.IndicatorPoint([0.0, 0.0]))
    assert free.separates([1.0, 0.0]) == np.inf


def test_no_direction_separates_a_feasible_problem():
    rng = np.random.default_rng(2)
    for seed in range(0, 150, 11):
        problem, _ = random_problem(seed)
        for _ in range(5):
            assert problem.separates(rng.standard_normal(problem.p)) >= -1e-12
