"""``constants="paper"`` is what the paper prints: Lemmas 9 to 11 and Remark 10 by hand."""

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.theory import analyse, condition_numbers


def unequal_agents(seed, case):
    """Agents whose σ̄(A_i), μ_i and L_i all differ; the h that makes the asked case."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(3, 7)), int(rng.integers(1, 4))
    blocks, spectra, agents = [], [], []
    for _ in range(n):
        d = p + 1 if case == 2 else int(rng.integers(1, 3))
        A = 10.0 ** rng.uniform(-0.5, 0.5) * rng.standard_normal((p, d))
        spectrum = np.sort(10.0 ** rng.uniform(-1, 1, d))
        turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
        P = turn @ np.diag(spectrum) @ turn.T
        blocks.append(A)
        spectra.append(spectrum)
        agents.append(d2.Agent(A, d2.Quadratic((P + P.T) / 2)))
    h = d2.SquaredLoss(np.ones(p), scale=2.0) if case == 1 else d2.IndicatorPoint(np.ones(p))
    network = d2.Network(nx.path_graph(n))
    return d2.Problem(agents, h), network, blocks, spectra


def printed(blocks, spectra, network, rho, mu_h, L_h, case):
    """ρ*, L_H, μ_H, L_F, μ_F as printed, from the agents' matrices and spectra."""
    n, p = len(blocks), len(blocks[0])
    C = network.mix(np.eye(n))
    eigenvalues = np.linalg.eigvalsh((C + C.T) / 2)
    top, bottom = eigenvalues[-1], eigenvalues[1]
    steepest = max(np.linalg.norm(A, 2) ** 2 / s[0] for A, s in zip(blocks, spectra, strict=True))
    rho_star = (steepest + L_h / n) / top
    rho = rho_star if rho is None else rho
    L_H = steepest + rho * top + L_h / n
    L_f = max(s[-1] for s in spectra)
    full = np.zeros((n * p, n * p))
    for i, A in enumerate(blocks):
        full[i * p : (i + 1) * p, i * p : (i + 1) * p] = A @ A.T
    augmented = np.linalg.eigvalsh(full + rho * L_f * np.kron(C, np.eye(p)))[0] / L_f
    flattest = min(
        np.linalg.eigvalsh(A @ A.T)[0] / s[-1] for A, s in zip(blocks, spectra, strict=True)
    )
    mu_H = {1: mu_h / n, 2: max(flattest, augmented), 3: augmented}[case]
    return rho_star, L_H, mu_H, 1.0 / max(rho, mu_H / top), bottom / L_H


@pytest.mark.parametrize("case", [1, 2, 3])
@pytest.mark.parametrize("seed", range(10))
def test_constants_are_the_printed_ones(case, seed):
    problem, network, blocks, spectra = unequal_agents(seed, case)
    mu_h = L_h = 0.5 if case == 1 else 0.0
    for rho in (None, 0.7):
        found = analyse(problem, network, "auto" if rho is None else rho, constants="paper")
        expected = printed(blocks, spectra, network, rho, mu_h, L_h, case)
        numbers = found.rho_star, found.L_H, found.mu_H, found.L_F, found.mu_F
        np.testing.assert_allclose(numbers, expected, rtol=1e-9)


def test_one_gently_curved_agent_does_not_inflate_rho():
    """Each σ̄²(A_i) goes with its own μ_i: an agent with small μ_i and small A_i costs nothing."""
    mus = [0.1, 1.0, 10.0, 1.0, 1.0, 1.0]
    agents = [d2.Agent([[mu]], d2.SquaredNorm(mu)) for mu in mus]
    problem = d2.Problem(agents, d2.SquaredLoss(np.ones(1)))
    network = d2.Network(nx.path_graph(6))
    found = analyse(problem, network, constants="paper")
    assert found.rho_star == pytest.approx((10.0 + 1.0 / 6) / network.lambda_max)
    assert found.kappa_F == pytest.approx(2 * network.kappa)


def test_case_3_reaches_the_linear_schedule():
    """Agents that span the rows together only: a linear rate, with the printed μ_H."""
    agents = [d2.Agent(np.eye(2)[:, [k % 2]], d2.SquaredNorm(1.0)) for k in range(4)]
    problem = d2.Problem(agents, d2.IndicatorPoint([1.0, 2.0]))
    network = d2.Network(nx.complete_graph(4))
    found = analyse(problem, network, constants="paper")
    assert found.mu_H > 0 and found.outer_momentum is not None
    result = d2.solve(
        problem, network, method="iD2A", constants="paper", accuracy="paper", tol=1e-8
    )
    assert result.status == d2.Status.CONVERGED
    np.testing.assert_allclose(np.concatenate(result.x), [0.5, 1.0, 0.5, 1.0], rtol=1e-6)
    assert "linearly" in result.explain()


def chebyshev_polynomial(C):
    """P_K(C) = I - T_K(c₂(I - c₃C))/T_K(c₂), K = ⌊√κ_C⌋, by the recursion of T_K."""
    eigenvalues = np.linalg.eigvalsh((C + C.T) / 2)
    top, kappa = eigenvalues[-1], eigenvalues[-1] / eigenvalues[1]
    c2, c3 = (kappa + 1) / (kappa - 1), 2 / ((1 + 1 / kappa) * top)
    identity = np.eye(len(C))
    last, now = identity, c2 * (identity - c3 * C)
    scalar_last, scalar = 1.0, c2
    for _ in range(int(np.floor(np.sqrt(kappa))) - 1):
        last, now = now, 2 * c2 * (identity - c3 * C) @ now - last
        scalar_last, scalar = scalar, 2 * c2 * scalar - scalar_last
    return identity - now / scalar


@pytest.mark.parametrize("case", [1, 2, 3])
@pytest.mark.parametrize("seed", range(10))
def test_condition_numbers_are_the_printed_ones(case, seed):
    """The notes of the complexity table, and κ_F by Lemma 11, with the network's C and P_K(C)."""
    problem, network, blocks, spectra = unequal_agents(seed, case)
    n, p = len(blocks), len(blocks[0])
    mu_h = L_h = 0.5 if case == 1 else 0.0
    C = network.mix(np.eye(n))
    C, fast = (C + C.T) / 2, chebyshev_polynomial((C + C.T) / 2)
    mu_f, L_f = min(s[0] for s in spectra), max(s[-1] for s in spectra)
    sigma2 = max(np.linalg.norm(A, 2) ** 2 for A in blocks)
    steepest = max(np.linalg.norm(A, 2) ** 2 / s[0] for A, s in zip(blocks, spectra, strict=True))
    full = np.zeros((n * p, n * p))
    for i, A in enumerate(blocks):
        full[i * p : (i + 1) * p, i * p : (i + 1) * p] = A @ A.T

    found = condition_numbers(problem, network)
    assert found.kappa_f == pytest.approx(L_f / mu_f)
    for matrix, where, ours in (
        (C, network, found.kappa_A_rho),
        (fast, network.chebyshev(), found.kappa_A_rho_prime),
    ):
        values = np.linalg.eigvalsh(matrix)
        rho = (steepest + L_h / n) / values[-1]
        smallest = np.linalg.eigvalsh(full + rho * L_f * np.kron(matrix, np.eye(p)))[0]
        assert ours == pytest.approx(sigma2 / smallest, rel=1e-6)
        flattest = min(
            np.linalg.eigvalsh(A @ A.T)[0] / s[-1] for A, s in zip(blocks, spectra, strict=True)
        )
        below = {1: [mu_h / n], 2: [flattest, smallest / L_f], 3: [smallest / L_f]}[case]
        top = rho * values[-1]
        kappa_F = (steepest + L_h / n + top) / max(top, *below) * values[-1] / values[1]
        assert analyse(problem, where, constants="paper").kappa_F == pytest.approx(kappa_F)
    values = np.linalg.eigvalsh(C)
    assert found.kappa_C == pytest.approx(values[-1] / values[1])
    if case == 1:
        assert found.kappa_pd == pytest.approx(sigma2 / (mu_f * mu_h / n))
    if case == 2:
        smallest2 = min(np.linalg.svd(A)[1][-1] ** 2 for A in blocks)
        assert found.kappa_A == pytest.approx(sigma2 / smallest2)
