"""The compiled iDAPG loop against a transcription of its formulas into NumPy."""

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.methods.gossip.id2a import Settings, plan_id2a
from zoo import AGENTS, P, network, problem

RNG = np.random.default_rng(3)
TARGET = np.linspace(-1, 1, P)
LABELS = np.where(np.arange(P) % 2 == 0, 1.0, -1.0)


def user_square(z):
    return 0.25 * (z - TARGET) @ (z - TARGET)


COUPLINGS = {
    "point": (d2.IndicatorPoint(TARGET), "prox"),
    "at most": (d2.IndicatorAtMost(TARGET), "prox"),
    "squared": (d2.SquaredLoss(TARGET, 0.5), "prox"),
    "squared by gradient": (d2.SquaredLoss(TARGET, 0.5), "smooth"),
    "nonnegative by gradient": (d2.NonnegativeSquaredLoss(TARGET, 0.5), "smooth"),
    "huber": (d2.HuberLoss(TARGET, 0.3), "prox"),
    "logistic": (d2.LogisticLoss(LABELS, 0.7), "prox"),
    "absolute": (d2.AbsoluteLoss(TARGET), "prox"),
    "ball": (d2.IndicatorBall(0.5, TARGET), "prox"),
    "stacked": (d2.Stacked([d2.L2Norm(1.0), d2.PoissonLoss(np.ones(P - 5))], [5, P - 5]), "prox"),
    "user prox": (
        d2.Proximable(lambda v, t: (v + 0.5 * t * TARGET) / (1 + 0.5 * t), user_square),
        "prox",
    ),
    "user gradient": (
        d2.ConjugateSmooth(lambda w: 2 * w + TARGET, 2.0, 2.0, user_square),
        "smooth",
    ),
}


def make(h, mapping, names=None, fast=False, **wishes):
    """A subsolver at a random start, and a random z with rows that sum to zero."""
    here = problem(h, names)
    where = network(here.n).chebyshev(3) if fast else network(here.n)
    extra = {"mapping": mapping, "slack": 1e-13, "restart": wishes.pop("restart", False)}
    plan = plan_id2a(here, where, Settings(parameters=extra, **wishes))
    sub = plan.algorithm.subsolver
    rows = RNG.standard_normal((3, here.n, P))
    sub.start(RNG.standard_normal(sum(here.dims)), 0.1 * rows[0])
    sub.state.moved[:] = 0.0  # exact local solves from the first iteration on
    return here, where, sub, rows[1] - rows[1].mean(axis=0)


def minimiser(agent, c, x):
    """argmin f + g + <c, ·> by proximal gradient steps."""
    L = agent.f.L
    for _ in range(20_000):
        new = agent.g.prox(x - (agent.f.grad(x) + c) / L, 1 / L)
        if np.abs(new - x).max() <= 1e-15 * (1 + np.abs(new).max()):
            break
        x = new
    return new


def transcript(here, sub, z, steps, mix, rho):
    """The formulas of idapg_kernel, all rows at once; ``mix`` is None without exchange."""
    n, h, t = here.n, here.h, sub.dual_step[:, None]
    lam = before = sub.lam.copy()
    x = [np.array(part) for part in here.split(sub.state.x)]
    since = np.zeros(n)
    for _ in range(steps):
        beta = np.where((since == 0) | (sub.beta < 0), since / (since + 3.0), sub.beta)[:, None]
        since += 1
        v = lam + beta * (lam - before)
        x = [minimiser(a, a.adjoint(v[i]), x[i]) for i, a in enumerate(here.agents)]
        ax = np.array([a.apply(x[i]) for i, a in enumerate(here.agents)])
        inner = z - ax + (rho * mix(v) if mix else 0.0)
        if sub.constants.mapping == "smooth":
            new = v - t * (h.conjugate.grad(v) / n + inner)
        else:
            w = v - t * inner
            new = np.array([h.conjugate.prox(w[i], float(t[i, 0]) / n) for i in range(n)])
        lam, before = new, lam
        if mix is None:
            uphill = np.einsum("ij,ij->i", v - lam, lam - before) > 0
            since[uphill & (sub.beta < 0)] = 0
    return lam, np.concatenate(x), v


def agree(found, expected, tolerance=1e-10):
    scale = tolerance * (1 + np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=scale)


@pytest.mark.parametrize("name", COUPLINGS)
@pytest.mark.parametrize("restart", [False, True])
def test_twenty_iterations_for_every_way_h_enters(name, restart):
    h, mapping = COUPLINGS[name]
    here, where, sub, z = make(h, mapping, ["separable", "box", "dense", "sparse"], restart=restart)
    lam, x, v = transcript(here, sub, z, 20, where.mix, sub.constants.rho)
    sub.advance(z, 20)
    agree(sub.lam, lam)
    agree(sub.state.x, x)
    agree(sub.state.v, v)
    agree(sub.mixed, where.mix(lam))
    agree(sub.state.mixed_v, where.mix(v))
    assert sub.oracle_calls()["iterations"] == 20


@pytest.mark.parametrize("fast", [False, True])
def test_twenty_iterations_with_every_kind_of_agent(fast):
    here, where, sub, z = make(d2.SquaredLoss(TARGET, 0.5), "prox", fast=fast)
    lam, x, _ = transcript(here, sub, z, 20, where.mix, sub.constants.rho)
    sub.advance(z, 20)
    agree(sub.lam, lam)
    agree(sub.state.x, x)


@pytest.mark.parametrize("name", ["squared", "squared by gradient", "logistic"])
@pytest.mark.parametrize("restart", [False, True])
def test_twenty_iterations_without_exchange(name, restart):
    h, mapping = COUPLINGS[name]
    here, _, sub, z = make(h, mapping, list(AGENTS), rho=0, restart=restart)
    lam, x, v = transcript(here, sub, z, 20, None, 0.0)
    assert sub.constants.alone
    assert not sub.advance_local(z, np.zeros(here.n), steps=20)
    agree(sub.lam, lam)
    agree(sub.state.x, x)
    agree(sub.state.v, v)


def test_steps_in_pieces_are_the_same_bits():
    h = d2.HuberLoss(TARGET, 0.3)
    runs = []
    for pieces in ([37], [1, 2, 3, 31], [1] * 37):
        RNG.bit_generator.state = np.random.default_rng(5).bit_generator.state
        _, _, sub, z = make(h, "prox")
        for steps in pieces:
            sub.advance(z, steps)
        runs.append(sub)
    for other in runs[1:]:
        for name in ("lam", "mixed"):
            np.testing.assert_array_equal(getattr(runs[0], name), getattr(other, name))
        for name in ("x", "v", "mixed_v", "moved", "since", "calls"):
            found, expected = getattr(other.state, name), getattr(runs[0].state, name)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["squared", "squared by gradient", "point"])
@pytest.mark.parametrize("rho", ["auto", 3.0])
def test_residuals_are_the_gradients_of_the_saddle_function(name, rho):
    """|∇f_i + A_iᵀλ_i| (g = 0) and |∇h*(λ_i)/n + ρ(𝐂λ)_i + z_i - A_i x_i|, agent by agent."""
    h, mapping = COUPLINGS[name]
    agents = [d2.Agent(a.A, a.f) for a in problem().agents[:5]]
    here, where = d2.Problem(agents, h), network(5)
    settings = Settings(rho=rho, parameters={"mapping": mapping, "slack": 1e-13})
    sub = plan_id2a(here, where, settings).algorithm.subsolver
    z = RNG.standard_normal((5, P))
    sub.start(np.zeros(sum(here.dims)), RNG.standard_normal((5, P)))
    sub.state.moved[:] = 0.0
    sub.advance(z, 5)
    primal, dual = sub.residuals(z)
    slope = h.conjugate.grad(sub.lam) / 5 + sub.constants.rho * where.mix(sub.lam) + z
    agree(dual, np.linalg.norm(slope - sub.runtime.products(sub.x), axis=1), 1e-9)
    x = here.split(sub.x)
    pulls = [a.f.grad(x[i]) + a.adjoint(sub.lam[i]) for i, a in enumerate(here.agents)]
    agree(primal, [np.linalg.norm(pull) for pull in pulls], 1e-9)


@pytest.mark.parametrize("rho", ["auto", 0])
def test_it_reaches_the_saddle_point(rho):
    """After many steps the residuals vanish: (x, λ) solves the subproblem for its z."""
    here, where, sub, z = make(d2.SquaredLoss(TARGET, 0.5), "prox", ["dense", "separable"], rho=rho)
    if rho == 0:
        sub.begin()
        assert sub.advance_local(z, np.full(2, 1e-11))
    else:
        sub.advance(z, 5000)
        assert max(part.max() for part in sub.residuals(z)) <= 1e-9
    x = here.split(sub.state.x)
    for i, agent in enumerate(here.agents):
        agree(x[i], minimiser(agent, agent.adjoint(sub.lam[i]), x[i]), 1e-8)
    ax = sub.runtime.products(sub.state.x)
    slope = here.h.conjugate.grad(sub.lam) / here.n + sub.constants.rho * where.mix(sub.lam) + z
    agree(ax, slope, 1e-8)


@pytest.mark.parametrize(
    "g, h, local, dual",
    [
        (d2.L1Norm(0.1), d2.IndicatorPoint(np.zeros(2)), False, False),
        (d2.L2Norm(0.1), d2.IndicatorPoint(np.zeros(2)), True, False),
        (d2.L1Norm(0.1), d2.LogisticLoss(np.ones(2)), False, True),
    ],
)
def test_the_loop_asks_only_for_the_kernels_that_a_problem_needs(g, h, local, dual):
    here = d2.Problem([d2.Agent(np.eye(2), d2.SquaredNorm(1.0), g)] * 3, h)
    plan = plan_id2a(here, d2.Network(nx.path_graph(3)), Settings())
    rule = plan.algorithm.subsolver._rule
    assert (rule.local != 0, rule.dual != 0) == (local, dual)
    assert rule.exchange != 0
