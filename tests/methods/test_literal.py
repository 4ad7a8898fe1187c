"""``accuracy="literal"`` is the printed text: the same iterates as a NumPy program written from it.

The program below knows nothing of dual2 but the data of the paper's experiments. What the paper
leaves open is chosen as documented: L_φ = max_i σ̄²(A_i)/μ_i + ρλ̄ and κ_φ = (L_φ + μ_H)/μ_H, since
h* enters by its prox; ε₁ of Theorem 1 is the first residual; e₁ follows Remark 13 with the square
of the sum. In Experiment II μ_H is rounding noise, so that only the outer momentum knows a rate.
"""

import numpy as np
import pytest

import dual2 as d2
from dual2.methods.gossip.id2a import plan_id2a
from dual2.methods.parameters import Settings
from dual2.paper.problems.constrained_regression import experiment2
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.paper.problems.resource_allocation import experiment3


# -- what the paper prints ---------------------------------------------------------------------
def accelerated_gossip(C, x):
    """Scaman et al., Algorithm 2, with k = 1 … K-1; K = ⌊√κ_C⌋."""
    values = np.linalg.eigvalsh(C)
    top, bottom = values[-1], values[1]
    kappa = top / bottom
    K = int(np.sqrt(kappa))
    c2, c3 = (kappa + 1) / (kappa - 1), 2 / (top + bottom)
    a, before = 1.0, x
    a_next, now = c2, c2 * (x - c3 * C @ x)
    for _ in range(1, K):
        a, a_next = a_next, 2 * c2 * a_next - a
        before, now = now, 2 * c2 * (now - c3 * C @ now) - before
    return x - now / a_next


class Printed:
    """iD2A with iDAPG (ρ = ρ*), Algorithms 1 and "Subproblem Solving Procedure"."""

    def __init__(self, case, C, step):
        self.case, self.C, self.step = case, C, step
        n = self.n = len(case.A)
        values = np.linalg.eigvalsh((C + C.T) / 2)
        self.top, bottom = values[-1], values[1]
        sigma2 = np.array([np.linalg.norm(A, 2) ** 2 for A in case.A])
        self.sigma, self.mu_f = np.sqrt(sigma2.max()), min(case.mu)
        steepest = np.max(sigma2 / case.mu)
        smooth = case.L_h / n if np.isfinite(case.L_h) else 0.0
        self.rho = (steepest + smooth) / self.top
        self.L_F, self.mu_H = 1 / self.rho, case.mu_h / n
        L_H = steepest + case.L_h / n + self.rho * self.top
        self.mu_F = bottom / L_H
        self.L_phi = steepest + self.rho * self.top
        self.linear = self.mu_H > 0
        root = np.sqrt(self.L_F / self.mu_F) if self.mu_F > 0 else np.inf
        self.beta = (root - 1) / (root + 1) if self.mu_F > 0 else None
        if self.linear:
            inner = np.sqrt((self.L_phi + self.mu_H) / self.mu_H)
            self.inner_beta = (inner - 1) / (inner + 1)

    def schedule(self, c):
        """θ and e_{λ,1} of Theorem 3, by Remark 13 at x = λ = 0."""
        root = np.sqrt(self.L_F / self.mu_F)
        theta = 1 - 1 / (c * root)
        slope = np.sqrt(self.n) * np.linalg.norm(self.case.h_grad0 / self.n)
        gap = (np.sqrt(self.top) / self.mu_H * slope) ** 2 / (2 * self.mu_F)
        gain = (np.sqrt(theta) - np.sqrt(1 - 1 / root)) ** 2
        return theta, self.mu_F / self.top * gain * gap

    def accurate(self, k, dual, primal, c, delta):
        """Lemma 13 against the schedule of Theorem 3, or Theorem 1's ε_k."""
        if not self.linear:
            self.first = dual if self.first is None else self.first
            return dual <= self.first / (k + 1) ** (2 + delta)
        theta, e1 = self.schedule(c)
        allowed = np.sqrt(e1) * theta ** (k / 2)
        ratio = self.sigma / self.mu_f
        of_dual = dual / self.mu_H + ratio / self.mu_H * primal
        of_x = ratio / self.mu_H * dual + (1 / self.mu_f + ratio**2 / self.mu_H) * primal
        return of_dual <= allowed and of_x <= ratio * allowed

    def run(self, rounds, c=1.5, delta=4.0):
        """x, λ and the outer iterations after so many exchanges, tests at every inner iteration."""
        case, C, p = self.case, self.C, len(self.case.A[0])
        lam, z, w = (np.zeros((self.n, p)) for _ in range(3))
        x, made, k, self.first = None, 0, 0, None
        while True:
            v, j = lam.copy(), 0
            while True:
                if made + self.step > rounds:
                    return x, lam, k
                x = [case.argmin(i, A.T @ v[i]) for i, A in enumerate(case.A)]
                Ax = np.array([A @ xi for A, xi in zip(case.A, x, strict=True)])
                slope = self.rho * C @ v + z - Ax
                new = case.prox(v - slope / self.L_phi, 1 / (self.n * self.L_phi))
                made += self.step
                rest = (v - new) * self.L_phi - self.rho * C @ (v - new)
                pulls = [A.T @ (new[i] - v[i]) for i, A in enumerate(case.A)]
                primal = np.linalg.norm(np.concatenate(pulls))
                beta = self.inner_beta if self.linear else j / (j + 3)
                v, lam, j = new + beta * (new - lam), new, j + 1
                if self.accurate(k, np.linalg.norm(rest), primal, c, delta):
                    break
            made += self.step
            w_new = z + C @ lam / self.L_F
            beta = k / (k + 3) if self.beta is None else self.beta
            z, w, k = w_new + beta * (w_new - w), w_new, k + 1


# -- the data of the experiments ---------------------------------------------------------------
class ElasticNet:
    """Experiment I: f = (w/2)|x|², g = l·|x|₁, h = |z - y|²/(2p)."""

    def __init__(self, problem):
        self.A = [a.A for a in problem.agents]
        y = problem.h.y
        p = len(y)
        self.mu = np.full(len(self.A), 90.0)
        self.mu_h = self.L_h = float(p)
        self.h_grad0 = y
        self.argmin = lambda i, pull: -np.sign(pull) * np.maximum(np.abs(pull) - 10.0, 0) / 90.0
        self.prox = lambda u, t: (u - t * y) / (1 + t * p)


class NonnegativeFit:
    """Experiment II: f = (α/2)|x|², h = |z - y|²/(2p) on z ≥ 0."""

    mu_h = 0.0

    def __init__(self, problem):
        self.A = [a.A for a in problem.agents]
        y = problem.h.y
        p = self.L_h = len(y)
        self.mu = np.full(len(self.A), 100.0)
        self.argmin = lambda i, pull: -pull / 100.0
        self.prox = lambda u, t: np.where(u >= -y / p, (u - t * y) / (1 + t * p), u)


class Allocation:
    """Experiment III: f = ½xᵀPx + qᵀx on [0, u] in the plane, h = indicator of z ≤ b."""

    mu_h, L_h = 0.0, np.inf

    def __init__(self, problem):
        self.A, self.f = [a.A for a in problem.agents], [a.f for a in problem.agents]
        self.upper = [np.asarray(a.g.upper) for a in problem.agents]
        self.mu = np.array([np.linalg.eigvalsh(f.P)[0] for f in self.f])
        b = problem.h.b
        self.prox = lambda u, t: np.maximum(u - t * b, 0.0)

    def argmin(self, i, pull):
        """The best of the nine faces of the box."""
        P, c, u = self.f[i].P, self.f[i].q + pull, self.upper[i]
        best, least = None, np.inf
        for fixed in np.ndindex(3, 3):
            x = np.array([(0.0, upper, np.nan)[k] for k, upper in zip(fixed, u, strict=True)])
            free = np.isnan(x)
            if free.any():
                known = np.where(free, 0.0, x)
                x[free] = np.linalg.solve(P[np.ix_(free, free)], -(c + P @ known)[free])
            x = np.clip(x, 0.0, u)
            value = 0.5 * x @ P @ x + c @ x
            if value < least:
                best, least = x, value
        return best


CASES = {
    "I": (experiment1, ElasticNet, {"c": 1.5}),
    "II": (experiment2, NonnegativeFit, {"delta": 4.0}),
    "III": (lambda: experiment3(active=True), Allocation, {"delta": 4.0, "slack": 1e-12}),
}


@pytest.mark.numerics
@pytest.mark.parametrize("method", ["iD2A", "MiD2A"])
@pytest.mark.parametrize("name", CASES)
def test_literal_runs_follow_the_printed_text(name, method):
    make, case, options = CASES[name]
    experiment = make()
    problem, network = experiment.problem, experiment.network
    C, step = network.mix(np.eye(network.n)), 1
    if method == "MiD2A":
        step = int(np.sqrt(network.kappa))
        C = accelerated_gossip(C, np.eye(network.n))
    rounds = (600 if name == "III" else 3000) * step
    settings = Settings(method, "iDAPG", "auto", "paper", "literal", options)
    algorithm = plan_id2a(problem, network, settings).algorithm
    algorithm.start(np.zeros(sum(problem.dims)), np.zeros((problem.n, problem.p)))
    if name == "III":  # local minimisers are exact from the first iteration on, as below
        algorithm.subsolver.state.moved.fill(1.0)
    while algorithm.rounds < rounds:
        algorithm.advance(rounds, 10.0)
    x, lam, outer = Printed(case(problem), C, step).run(
        rounds, options.get("c", 1.5), options.get("delta", 4.0)
    )
    assert algorithm.oracle_calls()["outer"] == outer
    scale = np.abs(lam).max()
    np.testing.assert_allclose(algorithm.duals, lam, rtol=0, atol=1e-10 * scale)
    flat = np.concatenate(x)
    np.testing.assert_allclose(algorithm.x, flat, rtol=0, atol=1e-9 * np.abs(flat).max())


def test_literal_counts_the_exchange_after_each_subproblem():
    experiment = experiment1()
    common = {"method": "iD2A", "subsolver": "iDAPG", "constants": "paper", "tol": 1e-6}
    literal = d2.solve(experiment.problem, experiment.network, accuracy="literal", c=1.5, **common)
    sparing = d2.solve(experiment.problem, experiment.network, accuracy="paper", c=1.5, **common)
    assert literal.status == sparing.status == d2.Status.CONVERGED
    assert literal.counts.rounds == literal.counts.iterations + literal.counts.outer
    assert sparing.counts.rounds == sparing.counts.iterations
