"""``solve``: bad input before any work, infeasible couplings, legal edge cases, methods of h."""

import inspect
import re

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from dual2.methods.parameters import SOLVE_ARGUMENTS
from dual2.testing import PAIRS, known_problem
from problems import random_problem

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 2))
SQUARE = d2.SquaredNorm(1.0)
BOX = d2.IndicatorBox(0.0, 1.0)
EYE = np.eye(2)


def make(blocks, h, f=SQUARE, g=None):
    g = d2.Zero() if g is None else g
    return d2.Problem([d2.Agent(block, f, g) for block in blocks], h)


def path(n):
    return d2.Network(nx.path_graph(n))


PROBLEM = make([A, 2 * A, A], d2.SquaredLoss([1.0, 2.0, 3.0]), g=d2.L1Norm(0.1))
POINT = make([A, 2 * A, A], d2.IndicatorPoint(A @ [1.0, 2.0]), g=d2.L1Norm(0.1))


# -- bad input ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "wish, error, message",
    [
        ({"network": path(4)}, d2.NetworkError, "3 agents.*4 nodes"),
        ({"network": nx.path_graph(3)}, d2.NetworkError, r"Network\(graph\)"),
        ({"problem": "problem"}, d2.ProblemError, "found str"),
        ({"rho": -1.0}, d2.CapabilityError, "rho = -1"),
        ({"rho": np.nan}, d2.CapabilityError, "rho = nan"),
        ({"rho": "large"}, d2.CapabilityError, "rho = 'large'"),
        ({"rho": None}, d2.CapabilityError, "rho = None"),
        ({"rho": 0, "problem": POINT}, d2.CapabilityError, "rho = 0 needs.*not strongly convex"),
        ({"method": "iD2B"}, d2.CapabilityError, "'iD2B'.*Did you mean 'iD2A'.*MiD2A"),
        ({"method": "Midda"}, d2.CapabilityError, "Did you mean 'MiD2A'"),
        ({"method": "zzz"}, d2.CapabilityError, "Known: iD2A, MiD2A"),
        ({"subsolver": "iDAPX"}, d2.CapabilityError, "Did you mean 'iDAPG'"),
        ({"etta": 0.1}, d2.CapabilityError, "'etta'.*Did you mean 'eta'"),
        ({"degree": 3}, d2.CapabilityError, "MiD2A"),
        ({"method": "MiD2A", "degree": 0}, d2.NetworkError, "degree is 0"),
        ({"method": "MiD2A", "spectrum": "wrong"}, d2.NetworkError, "'wrong'"),
        ({"eta": 1.0}, d2.CapabilityError, "eta = 1"),
        ({"slack": 0.0}, d2.CapabilityError, "slack = 0"),
        ({"check": 0}, d2.CapabilityError, "check = 0"),
        ({"mapping": "both"}, d2.CapabilityError, "'both'"),
        ({"accuracy": "exact"}, d2.CapabilityError, "accuracy='exact'"),
        ({"accuracy": "paper", "c": 1.0}, d2.CapabilityError, "c = 1"),
        ({"constants": "loose"}, d2.CapabilityError, "constants='loose'"),
        ({"runtime": "moon"}, d2.CapabilityError, "runtime='moon'"),
        ({"tol": -1e-8}, d2.CapabilityError, "tol = -1e-08"),
        ({"atol": -1.0}, d2.CapabilityError, "atol = -1"),
        ({"tol": np.nan}, d2.CapabilityError, "tol = nan"),
        ({"tol": 0.0, "atol": 0.0}, d2.CapabilityError, "both 0"),
        ({"max_rounds": -1}, d2.CapabilityError, "max_rounds = -1"),
        ({"max_rounds": 2.5}, d2.CapabilityError, "max_rounds = 2.5 found; expected a whole"),
        ({"callback": 3}, d2.CapabilityError, "callback = 3"),
        ({"seed": 1.5}, d2.CapabilityError, "seed = 1.5"),
        ({"seed": -1}, d2.CapabilityError, "seed = -1"),
        ({"rng": -1}, d2.CapabilityError, "rng = -1"),
        ({"rng": "dice"}, d2.CapabilityError, "rng = 'dice' found; expected a whole number"),
        ({"rng": 1, "seed": 2}, d2.CapabilityError, "Both seed and rng"),
        ({"record": "no"}, d2.CapabilityError, "record = 'no'"),
        ({"reduce": "no"}, d2.CapabilityError, "reduce = 'no'.*True or False"),
        ({"throw": None}, d2.CapabilityError, "throw = None"),
        (
            {"tolerance": 1e-3},
            d2.CapabilityError,
            "'tolerance'.*Did you mean 'tol'.*; to solve: method",
        ),
        ({"max_round": 3}, d2.CapabilityError, "'max_round'.*Did you mean 'max_rounds'"),
        ({"method": "NPGA-ED", "toll": 3}, d2.CapabilityError, "'toll'.*Did you mean 'tol'"),
        ({"costs": 3}, d2.CapabilityError, "'costs'.*Did you mean 'cost'"),
        ({"time_limit": -1.0}, d2.CapabilityError, "time_limit = -1"),
        ({"start": ([[0.0], [0.0]], np.zeros(3))}, d2.ProblemError, r"start.*\[2, 2, 2\]"),
        ({"start": (np.zeros((3, 2)), np.zeros(4))}, d2.ProblemError, r"\(4,\).*\(3,\)"),
        ({"start": (np.zeros((3, 2)), np.zeros((2, 3)))}, d2.ProblemError, r"\(2, 3\)"),
        ({"start": (np.full((3, 2), np.nan), np.zeros(3))}, d2.ProblemError, "NaN"),
        ({"start": (np.full(6, np.nan), np.zeros(3))}, d2.ProblemError, "NaN"),
        ({"start": (np.full(6, np.inf), np.zeros(3))}, d2.ProblemError, "infinite"),
        ({"start": (np.zeros(6), [0.0, np.nan, 0.0])}, d2.ProblemError, "dual start.*NaN"),
        ({"reference": np.zeros(5)}, d2.ProblemError, "reference"),
        ({"reference": np.full(6, np.nan)}, d2.ProblemError, "reference.*NaN"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_bad_input_is_refused(wish, error, message):
    wish = dict(wish)
    problem, network = wish.pop("problem", PROBLEM), wish.pop("network", path(3))
    with pytest.raises(error, match="(?s)" + message) as caught:
        d2.solve(problem, network, **wish)
    assert isinstance(caught.value, ValueError)


def test_f_without_strong_convexity_is_named():
    agents = [d2.Agent(A, SQUARE), d2.Agent(A, d2.Quadratic([1.0, 0.0])), d2.Agent(A, SQUARE)]
    problem = d2.Problem(agents, d2.SquaredLoss(np.ones(3)))
    for method in ("iD2A", "MiD2A"):
        with pytest.raises(
            d2.CapabilityError, match=rf"{method} cannot.*agent 1: f must be strong"
        ):
            d2.solve(problem, path(3), method=method)
    agents[1] = d2.Agent(A, d2.Quadratic([1.0, 0.0]).plus_quadratic(1e-2))
    assert d2.solve(d2.Problem(agents, problem.h), path(3)).status == "CONVERGED"


def test_f_without_a_lipschitz_gradient_is_named():
    agents = [d2.Agent(A, SQUARE), d2.Agent(A, d2.Smooth(lambda x: x, 1.0, np.inf))]
    with pytest.raises(d2.CapabilityError, match=r"agent 1: the gradient of f.*L = inf"):
        d2.solve(d2.Problem(agents, d2.SquaredLoss(np.ones(3))), path(2))


@pytest.mark.parametrize("rho", [-1.0, "large"])
def test_rho_is_checked_for_a_single_agent_too(rho):
    with pytest.raises(d2.CapabilityError, match="rho"):
        d2.solve(make([A], d2.SquaredLoss(np.ones(3))), path(1), rho=rho)


@pytest.mark.parametrize("role", ["f", "g", "h"])
def test_a_value_that_fails_is_found_before_the_first_round(role):
    f, g, h = SQUARE, d2.Zero(), d2.SquaredLoss(np.ones(3))
    wrong = d2.Proximable(d2.Zero().prox, value=lambda x: None)
    f = d2.Smooth(np.copy, 1.0, 1.0, value=lambda x: None) if role == "f" else f
    problem = d2.Problem(
        [d2.Agent(A, f, wrong if role == "g" else g)] * 3, wrong if role == "h" else h
    )
    with pytest.raises(d2.ProblemError, match="value returned NoneType"):
        d2.solve(problem, path(3), callback=lambda state: pytest.fail("too late"))


def test_keywords_of_solve_are_known_to_its_messages():
    keywords = list(inspect.signature(d2.solve).parameters)[2:-1]
    assert tuple(keywords) == SOLVE_ARGUMENTS


def test_nothing_runs_before_the_checks():
    """A bad limit is found before the user's functions are ever called."""
    f = d2.Smooth(lambda x: pytest.fail("called"), 1.0, 1.0)
    with pytest.raises(d2.CapabilityError):
        d2.solve(make([A, A], d2.SquaredLoss(np.ones(3)), f), path(2), tol=-1.0)


# -- infeasible couplings -----------------------------------------------------------------------
TWICE = np.vstack([A, A[:1] + A[1:2]])
INFEASIBLE = {
    "boxes cannot reach a point": make([EYE] * 4, d2.IndicatorPoint([9.0, 1.0]), g=BOX),
    "boxes just miss a point": make([EYE] * 4, d2.IndicatorPoint([4.01, 1.0]), g=BOX),
    "boxes cannot reach a box": make([EYE] * 3, d2.IndicatorBox(4.0, 5.0), g=BOX),
    "rank-deficient A": make([TWICE, 2 * TWICE, TWICE], d2.IndicatorPoint([1.0, 0.0, 0.0, 5.0])),
    "nonnegative data above a bound": make(
        [np.abs(A)] * 3, d2.IndicatorAtMost([-1.0, 2.0, 2.0]), g=d2.IndicatorNonnegative()
    ),
    "simplexes": make(
        [EYE] * 3, d2.IndicatorPoint([1.0, 4.0]), d2.Quadratic([1.0, 30.0]), d2.IndicatorSimplex()
    ),
    "balls": make([EYE] * 3, d2.IndicatorPoint([3.0, 3.0]), g=d2.IndicatorBall(1.0)),
    "no data at all": make([0 * EYE] * 3, d2.IndicatorPoint([1.0, 0.0]), g=BOX),
    "large units": make([1e4 * EYE] * 3, d2.IndicatorBox(4e4, 5e4), d2.SquaredNorm(1e-3), BOX),
    "one agent": make([EYE], d2.IndicatorPoint([3.0, 0.5]), g=BOX),
}


@pytest.mark.parametrize("name", INFEASIBLE)
@pytest.mark.parametrize("method", ["iD2A", "MiD2A"])
def test_infeasible_couplings_end_as_a_status(name, method):
    problem = INFEASIBLE[name]
    result = d2.solve(problem, path(problem.n), method=method, max_rounds=200_000)
    assert result.status == "INFEASIBLE"
    assert result.counts.iterations <= 20_000
    assert problem.separates(np.array(result.certificate.separator)) < 0
    assert np.all(np.isfinite(np.concatenate(result.x)))
    assert "separator" in result.advice


def test_barely_feasible_couplings_are_not_called_infeasible():
    for h in (d2.IndicatorPoint([3.999, 1.0]), d2.IndicatorPoint([4.0, 1.0])):
        result = d2.solve(make([EYE] * 4, h, g=BOX), path(4), max_rounds=100_000)
        assert result.status == "CONVERGED"
        np.testing.assert_allclose(result.y, h.b, atol=1e-6)


def test_wrong_constants_of_a_user_end_as_divergence():
    """L ten times too small: a status with advice, finite numbers, no warning."""
    steep = d2.Smooth(lambda x: 30 * x + 1, 1.0, 1.0, value=lambda x: 15 * x @ x + x.sum())
    result = d2.solve(make([A, A], d2.SquaredLoss(np.ones(3)), steep), path(2), max_rounds=10_000)
    assert result.status == "DIVERGED"
    assert "mu and L" in result.advice
    assert np.all(np.isfinite(np.concatenate(result.x)))
    assert np.all(np.isfinite(result.duals))


# -- legal edge cases ---------------------------------------------------------------------------
def expect(problem, x, **wishes):
    for method in ("iD2A", "MiD2A"):
        result = d2.solve(problem, path(problem.n), method=method, tol=1e-10, **wishes)
        assert result.status == "CONVERGED"
        for found, part in zip(result.x, x, strict=True):
            np.testing.assert_allclose(found, part, rtol=0, atol=1e-7)
    return result


ONE = np.ones((1, 1))


@pytest.mark.parametrize("rho", ["auto", 0, 0.3])
def test_two_agents_one_row(rho):
    """Cost |x-1|² each and x₁ + x₂ = 5: both 2.5."""
    problem = make([ONE, ONE], d2.IndicatorPoint([5.0]), d2.SquaredNorm(2.0, 1.0))
    result = expect(problem, [[2.5], [2.5]], rho=rho)
    assert result.dual[0] == pytest.approx(-3.0)


def test_a_single_agent():
    problem = make([ONE], d2.IndicatorPoint([5.0]), d2.SquaredNorm(2.0, 1.0), d2.L1Norm(1.0))
    result = expect(problem, [[5.0]])
    assert result.parameters["rho"][0] == 0.0


def test_a_single_agent_is_accelerated():
    """κ = 10⁴: some thousand iterations, not the ten thousands of a method without momentum."""
    problem = make([np.diag(np.logspace(0, 2, 6))], d2.SquaredLoss(np.ones(6)))
    result = d2.solve(problem, path(1))
    assert result.status == "CONVERGED"
    assert result.counts.iterations <= 5000


def test_agents_without_a_part_in_the_coupling():
    f = d2.Quadratic(np.diag([1.0, 50.0, 1000.0]) + 0.1, [1.0, 2.0, 3.0])
    alone = np.linalg.solve(f.P, -f.q)
    apart, here = d2.Agent(np.zeros((2, 3)), f), d2.Agent(EYE, SQUARE)
    expect(d2.Problem([apart, here], d2.IndicatorPoint([1.0, 2.0])), [alone, [1.0, 2.0]])
    expect(d2.Problem([apart, apart], d2.SquaredLoss([1.0, 2.0])), [alone, alone])


def test_boxes_that_are_points():
    box = d2.IndicatorBox([0.5, 0.0], [0.5, 1.0])
    expect(make([EYE] * 3, d2.IndicatorPoint([1.5, 0.6]), g=box), [[0.5, 0.2]] * 3)
    fixed = d2.IndicatorBox([0.5, 0.2], [0.5, 0.2])
    expect(make([EYE] * 3, d2.SquaredLoss([1.0, 1.0]), g=fixed), [[0.5, 0.2]] * 3)


@pytest.mark.parametrize("rho", ["auto", 0])
def test_no_coupling_function(rho):
    problem = make([EYE] * 3, d2.Zero(), d2.SquaredNorm(2.0, 1.0), d2.L1Norm(0.4))
    expect(problem, [[0.8, 0.8]] * 3, rho=rho)


def test_everything_zero():
    expect(make([EYE] * 3, d2.SquaredLoss([0.0, 0.0])), [[0.0, 0.0]] * 3)


def test_agents_of_different_kinds_and_sizes():
    rng = np.random.default_rng(4)
    dense, thin, wide = (rng.standard_normal((4, d)) for d in (1, 3, 6))
    f = [d2.SquaredNorm(1.0), d2.SquaredNorm(2.0), d2.SquaredNorm(3.0)]
    plain = d2.Problem(
        [d2.Agent(M, q) for M, q in zip((dense, thin, wide), f, strict=True)],
        d2.IndicatorPoint(np.ones(4)),
    )
    mixed = d2.Problem(
        [
            d2.Agent(dense, f[0]),
            d2.Agent(sp.coo_array(thin), f[1]),
            d2.Agent(aslinearoperator(wide), f[2]),
        ],
        plain.h,
    )
    gram = dense @ dense.T + thin @ thin.T / 2 + wide @ wide.T / 3
    price = -np.linalg.solve(gram, np.ones(4))
    x = [-M.T @ price / q.weight for M, q in zip((dense, thin, wide), f, strict=True)]
    expect(plain, x)
    expect(mixed, x)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: type(pair[1]).__name__)
@pytest.mark.parametrize(
    "wishes",
    [{"accuracy": "paper"}, {"constants": "paper"}, {"restart": True}, {"rho": 0.5}, {"eta": 0.9}],
    ids=str,
)
def test_options_do_not_change_the_answer(pair, wishes):
    problem, x, _ = known_problem(*pair)
    result = d2.solve(problem, path(5), tol=1e-9, record=False, **wishes)
    assert result.status == "CONVERGED"
    np.testing.assert_allclose(np.concatenate(result.x), np.concatenate(x), atol=1e-6)


@pytest.mark.parametrize("rho", ["auto", 0])
def test_both_mappings_of_a_smooth_conjugate(rho):
    problem, x, _ = known_problem(d2.L1Norm(0.3), d2.SquaredLoss(0.0, 0.5))
    for mapping in ("prox", "smooth"):
        for accuracy in ("relative", "paper"):
            wishes = {"mapping": mapping, "accuracy": accuracy, "rho": rho}
            result = d2.solve(problem, path(5), tol=1e-9, **wishes)
            assert result.status == "CONVERGED"
            assert result.parameters["mapping"][0] == mapping
            np.testing.assert_allclose(np.concatenate(result.x), np.concatenate(x), atol=1e-6)


@pytest.mark.parametrize("rho", ["auto", 0])
def test_full_row_rank_without_g(rho):
    """Case 2: every A_i has orthonormal rows, h a point; x_i = A_iᵀb/(w_i Σ_j 1/w_j)."""
    rng, b, weights = np.random.default_rng(6), np.array([1.0, -2.0, 3.0]), [1.0, 2.0, 5.0]
    blocks = [np.linalg.qr(rng.standard_normal((4, 3)))[0].T for _ in weights]
    agents = [d2.Agent(M, d2.SquaredNorm(w)) for M, w in zip(blocks, weights, strict=True)]
    problem = d2.Problem(agents, d2.IndicatorPoint(b))
    expect(problem, [M.T @ b / (w * 1.7) for M, w in zip(blocks, weights, strict=True)], rho=rho)
    result = d2.solve(problem, path(3), method="iD2A", rho=rho)
    assert re.search(r"Case 2\.1:" if rho == 0 else r"Case 2:", result.explain())


def test_objective_of_a_converged_answer_is_finite():
    """Σx meets 300 up to tol only; h is then taken at 300."""
    agents = [d2.Agent([[1.0]], d2.SquaredNorm(w), d2.IndicatorBox(0, 100)) for w in (1, 2, 3, 5)]
    problem = d2.Problem(agents, d2.IndicatorPoint([300.0]))
    result = d2.solve(problem, d2.Network(nx.path_graph(4)), method="iD2A", tol=1e-4)
    assert result.status == d2.Status.CONVERGED and abs(result.y[0] - 300) > 1e-6
    assert problem.objective(result.x) == np.inf
    assert result.objective == pytest.approx(24354.838709677, rel=1e-3)


def test_a_state_that_was_saved_does_not_change():
    """Although the best point of a run is kept in one place."""

    kept = []

    class Keeper:
        due, held = True, False

        def save(self, rounds, state):
            kept.append((state["best_x"], state["best_x"].copy()))

    problem, network = random_problem(4)
    d2.solve(problem, network, method="Newton", checkpoints=Keeper())
    assert len({copy.tobytes() for _, copy in kept}) >= 3
    assert all((state == copy).all() for state, copy in kept)
