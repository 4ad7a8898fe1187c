"""Saddle solvers by themselves: known solutions, counts, rates, and every formula by hand."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
import saddles
from dual2 import saddle
from dual2.errors import CapabilityError, ProblemError
from plain_saddle import (
    ITERATIONS,
    clip,
    plain_abpd,
    plain_apdg,
    plain_lpd,
    plain_pdpg,
    plain_salim,
    setting,
    soft,
)
from saddles import FAMILIES, Saddle

SMOOTH = ("LPD", "ABPD-PGS", "APDG", "PDPG", "iDAPG")
PROX = ("LPD", "ABPD-PGS", "PDPG", "iDAPG")
RUNS = [(family, method) for family, (_, counts) in FAMILIES.items() for method in counts]


# -- the solution is found, in as many iterations as elsewhere --------------------------------
@pytest.mark.parametrize("family, method", RUNS)
def test_families(family, method):
    make, counts = FAMILIES[family]
    instance = make(100.0)
    assert instance.violation() <= instance.rounding()
    answer = instance.solve(method)
    assert answer.converged
    assert instance.error(answer) <= 1e-10
    assert 0.4 * counts[method][0] <= answer.iterations <= 2.0 * counts[method][0]


def test_nonsmooth_parts_are_partly_active():
    for instance in (saddles.nonsmooth(100.0, "l1 box", 1), saddles.nonsmooth(100.0, "box l1", 1)):
        assert 0.15 <= np.mean(instance.x == 0) + np.mean(np.abs(instance.x) == 1) <= 0.6
        assert 0.15 <= np.mean(instance.y == 0) + np.mean(np.abs(instance.y) == 1) <= 0.6
    assert 0.15 <= np.mean(np.abs(saddles.full_rank(100.0, 4, 1, True).y) == 1) <= 0.6


@pytest.mark.parametrize("seed", range(60))
def test_robustness(seed):
    """Small instances of every shape and scale; the ratios are 1.5 times the worst known ones."""
    instance, roots = saddles.robust(seed)
    worst = {"LPD": 56, "ABPD-PGS": 62, "APDG": 110, "iDAPG": 40}
    for method, ratio in worst.items():
        answer = instance.solve(method, every=5)
        assert answer.converged
        assert instance.error(answer) <= 1e-10
        assert answer.iterations <= ratio * roots


def test_scale_covariance():
    """Other units of f and y (scalings by powers of two) change nothing, to rounding."""
    base = saddles.strongly(50.0, 20.0, 30.0, 3, 8, 6)
    a, b = 2.0**6, 2.0**-4
    g1 = d2.Quadratic(a / b * base.g1.P, a * base.g1.q)
    scaled = Saddle((a * b) * base.f1, None, a * base.B, g1, None, base.x, b * base.y, {})
    assert scaled.violation() <= scaled.rounding()
    for method in SMOOTH:
        one, two = (s.solve(method, tol=0.0, max_iterations=60) for s in (base, scaled))
        np.testing.assert_allclose(two.x, one.x, rtol=1e-9)
        np.testing.assert_allclose(two.y, b * one.y, rtol=1e-9)


@pytest.mark.parametrize("method", SMOOTH)
def test_equal_curvatures(method):
    """κ_x = 1: f₁ - (μ/2)|·|² vanishes, averages are replaced."""
    counts = {"LPD": 285, "ABPD-PGS": 338, "APDG": 453, "PDPG": 714, "iDAPG": 134}
    rng = np.random.default_rng(4)
    Q, B = saddles.positive(rng, 30, 1.0, 100.0), saddles.coupling(rng, 30, 40, 0.3, 3.0)
    r = rng.standard_normal(30)
    instance = saddles.from_kkt(np.eye(40), B, Q, rng.standard_normal(40), r)
    answer = instance.solve(method)
    assert answer.converged and instance.error(answer) <= 1e-10
    assert answer.iterations <= 2 * counts[method]


@pytest.mark.parametrize("kappa, count", [(4, 182), (16, 347), (64, 713)])
def test_apdg_square(kappa, count):
    """Singular curvatures (a trace of it in f₁, which must have some), B square nonsingular."""
    rng = np.random.default_rng([1, 8])
    P = saddles.positive(rng, 30, 0.1, 1.0, rank=20) + 1e-9 * np.eye(30)
    Q = saddles.positive(rng, 30, 0.1, 1.0, rank=20)
    B = saddles.coupling(rng, 30, 30, 1 / math.sqrt(kappa), 1.0)
    instance = saddles.from_kkt(P, B, Q, *rng.standard_normal((2, 30)))
    answer = instance.solve("APDG", square=True)
    assert answer.converged and instance.error(answer) <= 1e-10
    assert answer.iterations <= 2.5 * count
    assert answer.iterations <= math.log(1e20) / -math.log(1 - 1 / (2 + 8 * kappa))
    assert answer.counts["A"] == 2 * answer.counts["grad_f"]


# -- strongly convex, merely concave: 1/k² ----------------------------------------------------
def concave_instance(norm):
    """F: f₁ quadratic, f₂ = l1, g₁ = 0, g₂ = box: max_y gives |Bx - c|₁, minimised exactly.

    B = norm·identity makes F(x) = Σ_j ½p_j x_j² - q_j x_j + |x_j| + |norm·x_j - c_j| separable.
    """
    rng = np.random.default_rng(9)
    p, q, c = np.geomspace(1.0, 20.0, 40), 3 * rng.standard_normal(40), rng.standard_normal(40)
    f1, g1 = d2.Quadratic(p, -q), d2.IndicatorPoint(c).conjugate
    parts = (f1, d2.L1Norm(1.0), norm * np.eye(40), g1, d2.IndicatorBox(-1.0, 1.0))

    def value(x):
        return 0.5 * p * x**2 - q * x + np.abs(x) + np.abs(norm * x - c)

    candidates = [np.zeros(40), c / norm]
    for a in (-1, 1):
        candidates += [(q + a + s * norm) / p for s in (-1, 1)]
    best = np.min([value(x) for x in candidates], axis=0).sum()
    return parts, lambda x: float(value(x).sum() - best)


@pytest.mark.parametrize("norm", [1.0, 40.0])
@pytest.mark.parametrize("method", ["LPD", "ABPD-PGS"])
def test_concave_rate(method, norm):
    """F(x_k) - F* falls like 1/k²: by about 16 when k grows by 4."""
    parts, gap = concave_instance(norm)
    gaps = [
        gap(saddle.solve(*parts, method=method, tol=0.0, max_iterations=k, restart=False).x)
        for k in (100, 400, 1600)
    ]
    assert gaps[0] > gaps[1] > gaps[2] > -1e-9
    assert gaps[2] <= gaps[0] / 100
    constant = {"LPD": 1.15e2, "ABPD-PGS": 6.3e1}[method]
    assert gaps[1] <= 3 * constant / 16 * max(norm / 40, 1.0 / 40)


# -- worst cases: commuting quadratics --------------------------------------------------------
def asymptotic(instance, method, **options):
    """Iterations that gain a factor 1e10, from the rate between 1e-4 and 1e-11."""
    early, late = (
        instance.solve(method, tol=tol, every=3, max_iterations=10**6, **options)
        for tol in (1e-4, 1e-11)
    )
    assert late.converged
    return (late.iterations - early.iterations) * 10 / 7


def root_bounds(kx, ky, kxy):
    """ln(1e20)/(-ln θ) for the stated factors θ of |(x,y)-(x*,y*)|²."""
    ax, ay, c = math.sqrt(kx - 1), math.sqrt(ky - 1), 2 * math.sqrt(kxy)
    a = min(math.sqrt(1 / (2 * kx)), math.sqrt(1 / (2 * ky)), 1 / (2 * math.sqrt(kxy)))
    steep = 4 + 4 * max(math.sqrt(2 * kx), math.sqrt(2 * ky), 4 * math.sqrt(kxy))
    factors = {
        "LPD": 1 / (1 + 1 / (ax + c + ay)),
        "ABPD-PGS": 1 / (1 + a),
        "APDG": 1 - 1 / steep,
        "PDPG": (1 - 1 / (ky + kxy)) ** 2,
    }
    return {name: math.log(1e20) / -math.log(factor) for name, factor in factors.items()}


@pytest.mark.parametrize("method, growth", [("LPD", 2), ("ABPD-PGS", 2), ("APDG", 2), ("PDPG", 4)])
def test_rates_of_commuting_quadratics(method, growth):
    kappas = (100, 400) if method == "PDPG" else (100, 400, 1600)
    found = [asymptotic(saddles.commuting(k, k, k), method) for k in kappas]
    for k, count in zip(kappas, found, strict=True):
        assert count <= 1.05 * root_bounds(k, k, k)[method]
    for one, two in itertools.pairwise(found):
        assert two / one == pytest.approx(growth, rel=0.15)


def test_rate_of_idapg():
    """Outer iterations of iDAPG: |y-y*|² falls at least like 1 - 1/√κ_φ, κ_φ = κ_y + κ_xy."""
    kappas = (100, 400, 1600)
    found = [asymptotic(saddles.commuting(k, k, k), "iDAPG") for k in kappas]
    for k, count in zip(kappas, found, strict=True):
        assert count <= math.log(1e20) / -math.log(1 - 1 / math.sqrt(2 * k))
    for one, two in itertools.pairwise(found):
        assert two / one == pytest.approx(2, rel=0.15)


def test_rates_of_linear_constraints():
    """Salim: √κ_x, independent of κ_B; APDG within its stated bound."""
    shapes = ((100, 4), (400, 4), (100, 64))
    made = [saddles.commuting(kx, 1, 1.0, 1 / math.sqrt(kB), linear=True) for kx, kB in shapes]
    salim = [asymptotic(instance, "Salim") for instance in made]
    assert salim[1] / salim[0] == pytest.approx(2, rel=0.15)
    assert salim[2] / salim[0] == pytest.approx(1, rel=0.15)
    for (kx, kB), instance in zip(shapes, made, strict=True):
        bound = 4 + 8 * max(math.sqrt(kx * kB), kB)
        count = asymptotic(instance, "APDG")
        assert count <= math.log(1e20) / -math.log(1 - 1 / bound)


# -- formulas, transcribed --------------------------------------------------------------------
def compare(functions, start, method, expected, **options):
    answer = saddle.solve(
        *functions,
        method=method,
        start=start,
        tol=0.0,
        max_iterations=ITERATIONS,
        restart=False,
        **options,
    )
    assert answer.iterations == ITERATIONS and not answer.converged
    for found, wanted in zip((answer.x, answer.y), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    moved = np.linalg.norm(answer.x - start[0]) + np.linalg.norm(answer.y - start[1])
    assert moved > 0.1, "the run must have gone somewhere"
    return answer


@pytest.mark.parametrize("strong", [True, False], ids=["strongly concave", "concave"])
@pytest.mark.parametrize(
    "method, plain", [("PDPG", plain_pdpg), ("LPD", plain_lpd), ("ABPD-PGS", plain_abpd)]
)
@pytest.mark.parametrize("prox", [True, False], ids=["l1 box", "smooth"])
def test_formulas(method, plain, strong, prox):
    functions, f, g, B, start, n, proxes = setting(strong, prox)
    answer = compare(functions, start, method, plain(f, g, B, *start, n, proxes))
    assert answer.counts["grad_f"] == answer.counts["prox_g"] == ITERATIONS
    assert answer.counts["A"] == answer.counts["AT"] == answer.counts["prox_h"] == ITERATIONS


def test_strong_convexity_of_g2_counts():
    """(μ/2)|y|² in g₂ or in g₁ is the same method for LPD and ABPD-PGS."""
    functions, _, _, B, start, _, _ = setting(strong=False)
    f1, f2, B, g1, g2 = functions
    inside = (f1, f2, B, g1.plus_quadratic(0.7), g2)
    beside = (f1, f2, B, g1, g2.plus_quadratic(0.7))
    for method in ("LPD", "ABPD-PGS"):
        one, two = (
            saddle.solve(*parts, method=method, start=start, tol=0.0, max_iterations=30)
            for parts in (inside, beside)
        )
        np.testing.assert_allclose(one.x, two.x, rtol=0, atol=1e-12)
        np.testing.assert_allclose(one.y, two.y, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["strong", "rank", "square", "affine"])
def test_apdg_formulas(kind):
    functions, f, g, B, start, n, _ = setting(strong=kind == "strong", prox=False)
    if kind == "square":
        B = B[:, :4] + 2 * np.eye(4)
        P = saddles.positive(np.random.default_rng(3), 4, 1.0, 30.0)
        f, start = (lambda x: P @ x), (start[0][:4], start[1])
        functions = (d2.Quadratic(P), None, B, functions[3], None)
        n |= {"S": np.linalg.norm(B, 2), "s": np.linalg.svd(B)[1][-1]}
    if kind == "affine":
        b = B @ np.ones(6)
        functions, g, n = (
            (*functions[:3], d2.IndicatorPoint(b).conjugate, None),
            None,
            n | {"Ly": 0},
        )
        g = lambda y: b  # noqa: E731
    expected = plain_apdg(f, g, B, *start, n, kind)
    answer = compare(functions, start, "APDG", expected, square=kind == "square")
    times = 2 if kind == "square" else 1
    assert answer.counts["A"] == answer.counts["AT"] == times * ITERATIONS


@pytest.mark.parametrize("rank", [4, 3])
def test_salim_formulas(rank):
    functions, f, _, B, start, n, _ = setting(prox=False)
    B = saddles.coupling(np.random.default_rng(1), 4, 6, 0.4, 2.0, rank)
    b = B @ np.ones(6)
    n |= {"S": 2.0, "s": 0.4}
    start = (start[0], B @ start[0])
    parts = (functions[0], None, B, d2.IndicatorPoint(b).conjugate, None)
    answer = compare(parts, start, "Salim", plain_salim(f, B, b, *start, n))
    tests = ITERATIONS // 10
    assert answer.counts["grad_f"] == ITERATIONS + tests
    assert answer.counts["A"] == answer.counts["AT"] + 0 == 5 * ITERATIONS + tests + 1


def test_idapg_formulas():
    """κ_x = 1 with separable f₁ + f₂: the inner problem is exact."""
    functions, _, g, B, start, n, _ = setting()
    q = 3 * np.arange(6.0) - 7
    parts = (d2.Quadratic(2 * np.ones(6), q), *functions[1:])
    L, mu, (_, y) = n["Ly"] + n["S"] ** 2 / 2, n["my"], start
    beta = (np.sqrt(L / mu) - 1) / (np.sqrt(L / mu) + 1)
    v = y
    for _ in range(ITERATIONS):
        x = soft(-(q + B.T @ v), 1.0) / 2
        new = clip(v - (g(v) - B @ x) / L, 1.0)
        v, y = new + beta * (new - y), new
    compare(parts, start, "iDAPG", (x, y))


# -- the function itself ----------------------------------------------------------------------
def test_residual_stops_the_run_and_bounds_the_error():
    """Without a reference the residual falls by ``tol``; it is that of the proximal mappings."""
    for method in PROX:
        instance = saddles.nonsmooth(100.0, "l1 box", 1)
        parts = (instance.f1, instance.f2, instance.B, instance.g1, instance.g2)
        zero = saddle.solve(*parts, method=method, max_iterations=0)
        answer = saddle.solve(*parts, method=method, tol=1e-9)
        assert zero.iterations == 0 and not zero.converged and not zero.x.any()
        assert answer.converged and answer.iterations % 10 == 0
        assert answer.residual <= 1e-9 * zero.residual
        off = np.linalg.norm(answer.y - instance.y)
        assert off <= 1.01 * answer.residual, "|y-y*| ≤ residual/μ_φ with μ_φ ≥ μ_y = 1"


@pytest.mark.parametrize("every", [1, 3, 10])
def test_salim_stops_by_its_residual(every):
    instance = saddles.linear(100.0, 4, 1)
    parts = (instance.f1, None, instance.B, instance.g1, None)
    answer = saddle.solve(*parts, method="salim", tol=1e-9, every=every)
    assert answer.converged and answer.iterations > 100
    assert instance.error(answer) <= 1e-7


def test_idapg_restarts_where_nothing_is_known():
    instance = saddles.augmented(100.0, 1)
    told, alone = instance.solve("iDAPG"), instance.solve("iDAPG", mu_phi=None)
    assert alone.converged and instance.error(alone) <= 1e-10
    assert alone.iterations <= 6 * told.iterations


@pytest.mark.parametrize("method", ["LPD", "ABPD-PGS"])
def test_restarts_make_concave_problems_linear(method):
    """Full rank B, g₁ merely convex: O(1/k²) as published, linear with restarts."""
    instance = saddles.full_rank(20.0, 4, 2)
    plain = instance.solve(method, restart=False, max_iterations=20_000)
    answer = instance.solve(method, every=10)
    assert not plain.converged
    assert answer.converged and instance.error(answer) <= 1e-10
    assert answer.iterations <= 4000


def test_start_at_the_solution_stays_there():
    instance = saddles.nonsmooth(100.0, "box l1", 1)
    for method in PROX:
        answer = instance.solve(method, start=(instance.x, instance.y), tol=-1.0, max_iterations=50)
        assert instance.error(answer) <= 1e-12


def test_matrices_of_every_kind():
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import aslinearoperator

    instance = saddles.strongly(10.0, 10.0, 10.0, 2, 8, 6)
    for B in (csr_array(instance.B), aslinearoperator(instance.B)):
        for method in SMOOTH:
            answer = saddle.solve(instance.f1, None, B, instance.g1, None, method=method, tol=1e-11)
            assert answer.converged and instance.error(answer) <= 1e-8


def test_python_functions_take_part():
    """A user's prox for f₂ and gradient for f₁ give the iterates of the built-in ones."""
    functions, f, _, _, start, _, _ = setting()
    own = (d2.Smooth(f, 1.0, 30.0), d2.Proximable(soft), *functions[2:])
    for method in PROX:
        one, two = (
            saddle.solve(*parts, method=method, start=start, tol=0.0, max_iterations=25)
            for parts in (functions, own)
        )
        np.testing.assert_allclose(one.x, two.x, rtol=0, atol=1e-11)


def test_what_cannot_be_solved_is_refused():
    functions, *_ = setting()
    smooth = (functions[0], None, functions[2], functions[3], None)
    with pytest.raises(CapabilityError, match=r"APDG needs f₂ = g₂ = 0. Use iDAPG, PDPG, LPD"):
        saddle.solve(*functions, method="APDG")
    with pytest.raises(CapabilityError, match="Salim needs f₂ = g₂ = 0"):
        saddle.solve(*functions, method="Salim")
    with pytest.raises(CapabilityError, match=r"Salim needs a linear g₁. Use iDAPG, APDG"):
        saddle.solve(*smooth, method="Salim")
    with pytest.raises(CapabilityError, match="strongly convex"):
        saddle.solve(d2.Quadratic(np.zeros(6)), *smooth[1:])
    thin = (d2.SquaredNorm(1.0), None, np.ones((3, 2)), d2.Quadratic([0.0, 1.0, 1.0]), None)
    with pytest.raises(CapabilityError, match="APDG needs a strongly convex or linear g₁"):
        saddle.solve(*thin, method="APDG")
    with pytest.raises(CapabilityError, match="ABPD-PGS"):
        saddle.solve(*smooth, method="abpd")
    with pytest.raises(ProblemError, match="start has shapes"):
        saddle.solve(*smooth, start=(np.zeros(2), np.zeros(4)))


def test_one_agent_is_a_saddle_problem():
    """iD2A with one agent and saddle.solve run the same iterations."""
    rng = np.random.default_rng(5)
    A, y = rng.standard_normal((4, 6)), rng.standard_normal(4)
    f, h = d2.Quadratic(np.geomspace(1, 20, 6)), d2.SquaredLoss(y, 0.5)
    network = d2.Network(nx.empty_graph(1))
    for method in ("LPD", "ABPD-PGS", "PDPG"):
        plan_run = d2.solve(
            d2.Problem([d2.Agent(A, f, d2.L1Norm(0.1))], h),
            network,
            subsolver=method,
            mapping="smooth",
            tol=0.0,
            atol=1e-300,
            max_rounds=40,
        )
        own = saddle.solve(
            f, d2.L1Norm(0.1), A, h.conjugate, None, method=method, tol=0.0, max_iterations=40
        )
        np.testing.assert_allclose(plan_run.duals[0], own.y, rtol=0, atol=1e-12)
