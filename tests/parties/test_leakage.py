"""What can be learned from what travels: each claim of docs/privacy.md is carried out here."""

import numpy as np
import pytest

import dual2 as d2
from rounding import EPS

DRAW = np.random.default_rng(7)


def test_a_parent_recovers_a_gram_matrix_from_clear_pairs():
    """With f quadratic and g = 0, A_i x_i(λ) = -A_i A_iᵀ λ/μ: d_i pairs tell the Gram matrix."""
    p, d, mu = 30, 6, 2.0
    A = DRAW.standard_normal((p, d))
    prices = DRAW.standard_normal((p, d))
    answers = np.column_stack([-A @ (A.T @ price) / mu for price in prices.T])
    # the map is symmetric, of rank d, and its range is that of the answers
    basis = np.linalg.qr(answers)[0]
    core = np.linalg.lstsq((basis.T @ prices).T, (basis.T @ answers).T, rcond=None)[0]
    gram = -mu * basis @ core.T @ basis.T
    bound = 1e4 * EPS * np.linalg.cond(basis.T @ prices) * np.linalg.norm(A @ A.T)
    assert np.linalg.norm(gram - A @ A.T) <= bound
    few = prices[:, : d - 1], answers[:, : d - 1]
    poor = np.linalg.qr(few[1])[0]
    assert np.linalg.norm(poor @ poor.T @ A - A) > 0.01 * np.linalg.norm(A)  # one pair too few


def test_the_change_of_two_curvature_sums_shows_a_column():
    """One more active feature changes Σ A_i J_i A_iᵀ by a aᵀ/μ: a raw column, up to its sign."""
    p, mu = 30, 2.0
    parts = [DRAW.standard_normal((p, 4)) for _ in range(3)]
    active = [np.array([1.0, 0.0, 1.0, 0.0])] * 3
    before = sum(A * on @ A.T for A, on in zip(parts, active, strict=True)) / mu
    after = before + np.outer(parts[1][:, 3], parts[1][:, 3]) / mu
    values, vectors = np.linalg.eigh(mu * (after - before))
    column = vectors[:, -1] * np.sqrt(values[-1])
    column *= np.sign(column @ parts[1][:, 3])
    bound = 1e3 * EPS * np.linalg.norm(before) * mu / np.linalg.norm(column)
    assert np.linalg.norm(column - parts[1][:, 3]) <= bound


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_the_price_tells_the_labels(loss):
    """The sign of λ is the label of a logistic loss; with a squared loss λ is the residual."""
    p, n = 24, 3
    labels = np.where(DRAW.random(p) < 0.5, -1.0, 1.0)
    target = DRAW.standard_normal(p)
    agents = [
        d2.Agent(DRAW.standard_normal((p, 2)), d2.SquaredNorm(1.0), d2.Zero()) for _ in range(n)
    ]
    h = d2.LogisticLoss(labels) if loss == "logistic" else d2.SquaredLoss(target, scale=0.5)
    network = d2.Network([(0, 1), (1, 2)])
    result = d2.solve(d2.Problem(agents, h), network, method="Newton", record=False)
    if loss == "logistic":
        assert (-np.sign(result.dual) == labels).all()
    else:
        assert np.allclose(result.y - result.dual / 0.5, target, rtol=0, atol=1e-6)


def test_n_minus_one_parties_know_the_part_of_the_last():
    """Masks hide who contributed what, not the total: it less one's own is the others'."""
    parts = DRAW.standard_normal((3, 5))
    total = parts.sum(axis=0)
    assert np.allclose(total - parts[:2].sum(axis=0), parts[2], rtol=0, atol=16 * EPS)
