"""The bounds of Theorems 1 to 3 hold in runs, and are those of the proofs."""

import math

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.errors import CapabilityError
from dual2.network import ChebyshevNetwork
from dual2.theory import (
    LinearSchedule,
    analyse,
    chebyshev_bound,
    complexity_factor,
    convex_bound,
    gather_facts,
    linear_bound,
    linear_schedule,
    outer_iterations,
    primal_bound,
)

N, P, D = 5, 3, 2


class Quadratics:
    """f_i = ½x'P_ix + q_i'x, g = 0, h = ½|·-b|²: F_ρ in closed form, by plain NumPy."""

    def __init__(self, seed, rho_factor=1.0):
        rng = np.random.default_rng(seed)
        self.A = [rng.standard_normal((P, D)) for _ in range(N)]
        self.P = [np.diag(rng.uniform(1, 5, D)) for _ in range(N)]
        self.q = [rng.standard_normal(D) for _ in range(N)]
        self.b = rng.standard_normal(P)
        agents = [
            d2.Agent(A, d2.Quadratic(S, q)) for A, S, q in zip(self.A, self.P, self.q, strict=True)
        ]
        self.problem = d2.Problem(agents, d2.SquaredLoss(self.b))
        self.network = d2.Network(nx.cycle_graph(N))
        C = nx.laplacian_matrix(nx.cycle_graph(N)).toarray().astype(float)
        self.facts = gather_facts(self.problem)
        best = analyse(self.problem, self.network, constants="paper").rho
        self.constants = analyse(
            self.problem, self.network, rho=rho_factor * best, constants="paper"
        )
        values, vectors = np.linalg.eigh(np.kron(C, np.eye(P)))
        values[values < 1e-9] = 0.0
        self.root = (vectors * np.sqrt(values)) @ vectors.T
        self.top = values[-1]
        M = self.constants.rho * np.kron(C, np.eye(P)) + np.eye(N * P) / N
        self.m = np.tile(self.b / N, N)
        for i, (A, S, q) in enumerate(zip(self.A, self.P, self.q, strict=True)):
            own = slice(i * P, (i + 1) * P)
            M[own, own] += A @ np.linalg.solve(S, A.T)
            self.m[own] += A @ np.linalg.solve(S, q)
        self.M = M  # H(λ) = ½λ'Mλ + m'λ up to a constant

    def dual(self, y):
        """λ*(y) = argmin H(λ) + y'√𝐂 λ."""
        return -np.linalg.solve(self.M, self.m + self.root @ y)

    def value(self, y):
        """F_ρ(y) = H*(-√𝐂y)."""
        slope = self.m + self.root @ y
        return 0.5 * slope @ np.linalg.solve(self.M, slope)

    def primal(self, lam):
        parts = lam.reshape(N, P)
        triples = zip(self.A, self.P, self.q, parts, strict=True)
        return np.concatenate([np.linalg.solve(S, -q - A.T @ w) for A, S, q, w in triples])

    def solution(self):
        kernel = np.linalg.pinv(self.root @ np.linalg.solve(self.M, self.root), rcond=1e-9)
        return -kernel @ (self.root @ np.linalg.solve(self.M, self.m))

    def outer_loop(self, dual_errors, primal_errors, momentum, rng):
        """Inexact iD2A: errors of exactly the admitted length, half of them against the step."""
        v = y = np.zeros(N * P)
        values, points = [self.value(y)], []
        for k, (e_dual, e_primal) in enumerate(zip(dual_errors, primal_errors, strict=True)):
            exact = self.dual(v)
            away = rng.standard_normal(N * P) if k % 2 else -exact
            lam = exact + e_dual * away / np.linalg.norm(away)
            x = self.primal(exact)
            shift = rng.standard_normal(x.size)
            points.append(x + e_primal * shift / np.linalg.norm(shift))
            new = v + self.root @ lam / self.constants.L_F
            v, y = new + momentum(k) * (new - y), new
            values.append(self.value(y))
        return np.array(values), np.array(points)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
def test_theorem_1_holds_with_its_constants(seed, factor):
    run, rng = Quadratics(seed, factor), np.random.default_rng(seed)
    errors = 0.5 / np.arange(1, 121) ** 2.5
    length = errors / math.sqrt(run.top)
    values, _ = run.outer_loop(length, 0 * length, lambda k: k / (k + 3), rng)
    best = run.solution()
    bound = convex_bound(run.constants.L_F, np.linalg.norm(best), errors)
    assert np.all(values[1:] - run.value(best) <= bound * (1 + 1e-9))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("c", [1.2, 2.0])
def test_theorems_2_and_3_hold_with_their_constants(seed, factor, c):
    run, rng = Quadratics(seed, factor), np.random.default_rng(seed)
    root, best = math.sqrt(run.constants.kappa_F), run.solution()
    gap = run.value(np.zeros(N * P)) - run.value(best)
    schedule = linear_schedule(run.constants, run.facts, run.top, gap, c)
    steps = np.arange(150)
    dual = np.array([schedule.dual_error(k) for k in steps])
    primal = np.array([schedule.primal_error(k) for k in steps])
    beta = (root - 1) / (root + 1)
    values, points = run.outer_loop(dual, primal, lambda k: beta, rng)
    errors = math.sqrt(run.top) * dual
    bounds = np.concatenate([[gap], linear_bound(run.constants, gap, errors)])
    floor = 1e-12 * max(abs(values[0]), 1.0)
    assert np.all(values - run.value(best) <= bounds + floor)

    away = np.sum((points - run.primal(run.dual(best))) ** 2, axis=1)
    bound = primal_bound(run.constants, run.facts, run.top, bounds[:-1], primal[1:] ** 2)
    assert np.all(away[1:] <= bound + 1e-12)
    factor_3 = complexity_factor(run.constants, run.top, schedule)
    theorem_3 = factor_3 * schedule.ratio * schedule.first * schedule.theta**steps
    assert np.all(away[1:] <= theorem_3[1:] + 1e-12)
    needed = outer_iterations(run.constants, run.top, schedule, float(theorem_3[100]))
    assert needed in (100, 101, 102)


def test_errors_and_starts_enter_the_bounds_as_in_the_proofs():
    run = Quadratics(0)
    constants, errors = run.constants, np.array([0.3, 0.2, 0.1])
    r = 1 - 1 / math.sqrt(constants.kappa_F)
    total = sum(r ** (-i / 2) * e for i, e in enumerate(errors, 1))
    by_hand = r**3 * (math.sqrt(2 * 7.0) + math.sqrt(2 / constants.mu_F) * total) ** 2
    assert linear_bound(constants, 7.0, errors)[-1] == pytest.approx(by_hand, rel=1e-12)
    L = 2.5
    by_hand = 2 * L / 16 * (3 + 2 * (0.3 + 2 * 0.2 + 3 * 0.1) / L) ** 2
    assert convex_bound(L, 3.0, errors)[-1] == pytest.approx(by_hand, rel=1e-12)
    assert np.all(np.isfinite(linear_bound(constants, 7.0, np.zeros(100_000))))


@pytest.mark.parametrize("seed", range(5))
def test_kappa_F_is_twice_kappa_C_and_at_most_eight_for_MiD2A(seed):
    """The text's claim about ρ*, with the printed constants."""
    run = Quadratics(seed)
    assert run.constants.kappa_F == pytest.approx(2 * run.network.kappa, rel=1e-9)
    for graph in (nx.path_graph(N), nx.star_graph(N - 1), nx.cycle_graph(N)):
        cheap = ChebyshevNetwork(d2.Network(graph))
        found = analyse(run.problem, cheap, constants="paper").kappa_F
        assert found == pytest.approx(2 * cheap.kappa, rel=1e-9) and found <= 8


def test_the_polynomial_network_has_a_condition_number_of_at_most_four():
    grid = [*np.geomspace(1, 1e6, 2000), *np.nextafter([4.0, 9.0, 16.0, 1e4], 0)]
    assert max(map(chebyshev_bound, grid)) <= 4 + 1e-9
    for graph in (nx.path_graph(20), nx.cycle_graph(9), nx.star_graph(6), nx.grid_2d_graph(3, 4)):
        network = d2.Network(nx.convert_node_labels_to_integers(graph))
        degree = math.floor(math.sqrt(network.kappa))
        assert ChebyshevNetwork(network, degree).kappa <= chebyshev_bound(network.kappa) + 1e-9


def test_what_the_theorems_need():
    run = Quadratics(0)
    flat = analyse(d2.Problem(run.problem.agents, d2.L1Norm(1.0)), run.network, constants="paper")
    with pytest.raises(CapabilityError, match="need μ_F > 0"):
        linear_bound(flat, 1.0, [0.0])
    with pytest.raises(CapabilityError, match=r"L_F = 0\.0 found"):
        convex_bound(0.0, 1.0, [0.0])
    with pytest.raises(CapabilityError, match=r"kappa_C = 0\.5 found"):
        chebyshev_bound(0.5)
    schedule = LinearSchedule(0.9, 1.0, 1.0)
    with pytest.raises(CapabilityError, match="target = 0 found"):
        outer_iterations(run.constants, run.top, schedule, 0)
