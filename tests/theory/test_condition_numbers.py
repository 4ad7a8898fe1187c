"""Condition numbers against their definitions, and what happens to rounding noise."""

import math

import networkx as nx
import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from dual2.errors import CapabilityError
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.theory import condition_numbers

pytestmark = pytest.mark.numerics

RNG = np.random.default_rng(5)
N, P = 4, 3
BLOCKS = [RNG.standard_normal((P, 5)) for _ in range(N)]
DIAGONALS = [RNG.uniform(1.0, 9.0, 5) for _ in range(N)]
NETWORK = d2.Network(nx.cycle_graph(N))


def problem(blocks=BLOCKS, h=None, f=None):
    f = f or [d2.Quadratic(c) for c in DIAGONALS]
    h = h or d2.SquaredLoss(np.zeros(P), 0.25)
    return d2.Problem([d2.Agent(A, fi) for A, fi in zip(blocks, f, strict=True)], h)


def test_definitions():
    found = condition_numbers(problem(), NETWORK)
    mu, L = min(c.min() for c in DIAGONALS), max(c.max() for c in DIAGONALS)
    values = [np.linalg.svd(A, compute_uv=False) for A in BLOCKS]
    largest, smallest = max(v[0] for v in values) ** 2, min(v[-1] for v in values) ** 2
    spectrum = np.linalg.eigvalsh(NETWORK.matrix.toarray())
    local = [v[0] ** 2 / c.min() for v, c in zip(values, DIAGONALS, strict=True)]
    rank = [v[-1] ** 2 / c.max() for v, c in zip(values, DIAGONALS, strict=True)]
    wanted = {
        "kappa_f": L / mu,
        "kappa_C": spectrum[-1] / spectrum[1],
        "kappa_pd": largest * N / (mu * 4.0),
        "kappa_h": 1.0,
        "kappa_A": largest / smallest,
        "kappa_pd_prime": L * 4.0 / N / smallest,
        "c_1": max(local) * mu / largest,
        "c_2": min(rank) * L / smallest,
        "rho": (max(local) + 4.0 / N) / spectrum[-1],
    }
    for name, value in wanted.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-9), name
    assert found.c_1 <= 1 <= found.c_2
    assert not found.notes


@pytest.mark.parametrize("rho", [0.7, "auto"])
def test_augmented_eigenvalue(rho):
    found = condition_numbers(problem(), NETWORK, rho)
    L = max(c.max() for c in DIAGONALS)
    A = block_diag(*BLOCKS)
    C = NETWORK.matrix.toarray()
    fast = NETWORK.chebyshev()
    used = (found.rho, found.rho_prime)
    assert used == (0.7, 0.7) or rho == "auto"
    for value, gossip, kappa, load in (
        (used[0], C, found.kappa_A_rho, found.kappa_pd2),
        (used[1], fast.mix(np.eye(N)), found.kappa_A_rho_prime, found.kappa_pd3),
    ):
        matrix = A @ A.T + value * L * np.kron(gossip, np.eye(P))
        least = np.linalg.eigvalsh(matrix)[0]
        assert kappa == pytest.approx(max(np.linalg.svd(A)[1]) ** 2 / least, rel=1e-9)
        assert load == pytest.approx(L * 4.0 / N / least, rel=1e-9)


def test_chebyshev_network_means_its_base():
    plain, fast = (condition_numbers(problem(), net) for net in (NETWORK, NETWORK.chebyshev()))
    assert plain == fast


def test_experiment_one():
    data = experiment1()
    found = condition_numbers(data.problem, data.network)
    assert found.kappa_f == 1.0
    assert found.kappa_pd == pytest.approx(98602.8, abs=0.05)
    assert found.kappa_C == pytest.approx(25.27414236908820)
    assert (found.rho, found.rho_prime) == pytest.approx((768788.85, 195373.94), abs=0.01)


def test_noise_is_not_a_number():
    """Nearly dependent columns: the exact κ_Aρ is finite, the computed one is rounding noise."""
    A = np.vander(np.linspace(0, 1, 12), 12)
    blocks = [A[:, 3 * k : 3 * k + 3] for k in range(N)]
    bad = problem(blocks, d2.IndicatorPoint(np.zeros(12)), [d2.SquaredNorm(1.0)] * N)
    found = condition_numbers(bad, NETWORK)
    assert found.kappa_A_rho == found.kappa_A_rho_prime == math.inf
    assert "not meaningful in double precision" in found.notes["kappa_A_rho"]
    nearly = [np.diag([1.0, 1.0, 1e-7])] * N
    found = condition_numbers(problem(nearly, f=[d2.SquaredNorm(1.0)] * N), NETWORK)
    assert found.kappa_A == math.inf
    assert "not meaningful" in found.notes["kappa_A"]
    assert condition_numbers(
        problem([np.diag([1.0, 1.0, 1e-5])] * N, f=[d2.SquaredNorm(1.0)] * N), NETWORK
    ).kappa_A == pytest.approx(1e10)


def test_what_is_unknown_is_nan_with_a_note():
    found = condition_numbers(problem([aslinearoperator(A) for A in BLOCKS]), NETWORK)
    for name in ("kappa_A", "kappa_A_rho", "kappa_pd3"):
        assert math.isnan(getattr(found, name))
        assert found.notes[name]
    assert math.isfinite(found.kappa_pd)


def test_what_does_not_exist_is_infinite():
    tall = condition_numbers(
        problem([A[:, :2] for A in BLOCKS], f=[d2.SquaredNorm(1.0)] * N), NETWORK
    )
    assert tall.kappa_A == math.inf
    assert tall.notes["kappa_A"] == "some A_i lacks full row rank"
    assert condition_numbers(problem(h=d2.L1Norm(1.0)), NETWORK).kappa_pd == math.inf
    flat = condition_numbers(problem(f=[d2.LeastSquares(np.ones((1, 5)), [0.0])] * N), NETWORK)
    assert flat.kappa_f == math.inf


def test_single_agent():
    alone = d2.Problem([d2.Agent(BLOCKS[0], d2.SquaredNorm(2.0))], d2.IndicatorPoint(np.ones(P)))
    found = condition_numbers(alone, d2.Network(nx.empty_graph(1)))
    assert (found.kappa_C, found.rho) == (1.0, 0.0)
    assert found.kappa_A_rho == pytest.approx(found.kappa_A)


def test_bad_rho():
    with pytest.raises(CapabilityError, match="rho = -1"):
        condition_numbers(problem(), NETWORK, -1)
    with pytest.raises(CapabilityError, match="rho = 'much'"):
        condition_numbers(problem(), NETWORK, "much")
