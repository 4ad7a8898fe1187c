"""Local problems solved exactly: to machine precision, from anywhere, and inside iD2A."""

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

import dual2 as d2
from dual2.errors import CapabilityError
from dual2.methods.gossip.id2a import Settings, plan_id2a
from dual2.methods.subsolvers import Exact
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.reference import solve_reference
from dual2.runtime import Runtime
from dual2.theory import analyse, gather_facts
from rounding import kkt_rounding

pytestmark = pytest.mark.numerics

N = 4
NETWORK = d2.Network(nx.path_graph(N))
H = {
    "squared": lambda rng, p: d2.SquaredLoss(2 * rng.standard_normal(p), 0.7),
    "huber": lambda rng, p: d2.HuberLoss(2 * rng.standard_normal(p), 0.4, 1.3),
    "logistic": lambda rng, p: d2.LogisticLoss(rng.choice([-1.0, 1.0], p), 2.0),
    "poisson": lambda rng, p: d2.PoissonLoss(rng.poisson(2.0, p).astype(float), 0.5),
}
G = {
    "zero": d2.Zero(),
    "l1": d2.L1Norm(0.4),
    "box": d2.IndicatorBox(-0.3, 0.5),
    "elastic net": d2.ElasticNet(0.3, 0.2),
    "moved l1": d2.L1Norm(0.5).shift(0.2).tilt(0.1),
    "fixed": d2.IndicatorBox(0.25, 0.25),
    "half line": d2.IndicatorBox(-np.inf, 0.1),
}


def make(h, g, dense, seed, wide=False, size=1.0):
    rng = np.random.default_rng([seed, 40])
    p, agents = int(rng.integers(2, 4 if wide else 8)), []
    for _ in range(N):
        d = int(rng.integers(p + 1 if wide else 1, 9))
        M = rng.standard_normal((d, d))
        curvature = M @ M.T + 0.3 * np.eye(d) if dense else rng.uniform(0.3, 5, d)
        A = size * rng.standard_normal((p, d))
        agents.append(d2.Agent(A, d2.Quadratic(curvature, rng.standard_normal(d)), G[g]))
    return d2.Problem(agents, H[h](rng, p))


def solver_of(where):
    """The solver by itself, whatever the theory says of ρ = 0."""
    solver = Exact(Runtime(where, NETWORK), gather_facts(where), analyse(where, NETWORK))
    solver.start(np.zeros(sum(where.dims)), np.zeros((N, where.p)))
    solver.state.calls[:] = 0
    return solver


def violation(where, solver, z):
    """Largest violation of x = prox(x - ∇) and λ = ∇h(n(Ax - z)), relative to the terms.

    A rounding error of x moves λ by ψ'' times that of Ax: ``curved`` is part of the terms.
    """
    worst, at = 0.0, 0
    for i, agent in enumerate(where.agents):
        x, y, L = solver.x[at : at + agent.dim], solver.lam[i], agent.f.L
        at += agent.dim
        down, pull = agent.f.grad(x), agent.A.T @ y
        move = L * np.abs(x - agent.g.prox(x - (down + pull) / L, 1 / L)).max()
        price = where.h.grad(N * (agent.A @ x - z[i]))
        curved = (1.3 + np.abs(price)) * N * (np.abs(agent.A) @ np.abs(x) + np.abs(z[i]))
        terms = np.abs(agent.A.T) @ (np.abs(y) + curved)
        size = np.abs(down).max() + terms.max() + L * np.abs(x).max()
        worst = max(worst, move / size, (np.abs(y - price) / (curved + np.abs(price))).max())
    return worst


@pytest.mark.parametrize("dense", [False, True], ids=["diagonal", "dense"])
@pytest.mark.parametrize("g", G)
@pytest.mark.parametrize("h", H)
def test_local_solutions(h, g, dense):
    for seed in range(3):
        where = make(h, g, dense, seed)
        solver, rng = solver_of(where), np.random.default_rng(seed)
        for size in (0.1, 3.0, 30.0):
            z = NETWORK.mix(size * rng.standard_normal((N, where.p)))
            assert solver.advance_local(z, np.zeros(N))
            assert violation(where, solver, z) <= 1e-12
        assert solver.state.calls[1].sum() == 0, "every solve was settled"
        assert solver.state.calls[0].sum() <= 40 * 3 * N


@pytest.mark.parametrize("h", H)
def test_local_solutions_from_far_away(h):
    """Starts 10⁴ off and columns 300 times as long."""
    for seed in range(4):
        where = make(h, "l1", seed % 2 == 0, seed, size=1.0 if h == "poisson" else 300.0)
        solver, rng = solver_of(where), np.random.default_rng(seed)
        solver.state.x[:] = (50.0 if h == "poisson" else 1e4) * rng.standard_normal(sum(where.dims))
        z = NETWORK.mix(rng.standard_normal((N, where.p)))
        solver.advance_local(z, np.zeros(N))
        assert solver.state.calls[1].sum() == 0
        assert violation(where, solver, z) <= 1e-12


def test_one_solve_of_a_quadratic_takes_two_gradients():
    where = make("squared", "l1", True, 0)
    solver = solver_of(where)
    z = NETWORK.mix(np.random.default_rng(1).standard_normal((N, where.p)))
    solver.advance_local(z, np.zeros(N))
    assert solver.oracle_calls()["grad_f"] == 2
    solver.advance_local(z, np.zeros(N))
    assert solver.oracle_calls()["grad_f"] == 3, "the second time there is nothing to do"


@pytest.mark.parametrize("dense", [False, True], ids=["diagonal", "dense"])
@pytest.mark.parametrize(
    "h, g",
    [
        (h, g)
        for h in H
        for g in ("zero", "l1", "box", "elastic net")
        if h != "poisson" or g == "zero"
    ],
)
def test_same_optimum_as_idapg(h, g, dense):
    """Where ρ = 0 is possible: strongly convex h*, or (Poisson) g = 0 and full row rank."""
    where = make(h, g, dense, 1, wide=h == "poisson")
    reference = solve_reference(where)
    assert reference.kkt <= 1e-11
    x = np.concatenate(reference.x)
    exact = d2.solve(where, NETWORK, subsolver="exact", tol=1e-9, record=False)
    other = d2.solve(where, NETWORK, subsolver="iDAPG", rho=0, tol=1e-7, record=False)
    assert exact.status == other.status == "CONVERGED"
    assert exact.parameters["rho"][0] == 0.0
    assert exact.counts.rounds == exact.counts.outer
    size = 1 + np.linalg.norm(x)
    assert np.linalg.norm(np.concatenate(exact.x) - x) <= 1e-7 * size
    assert np.linalg.norm(np.concatenate(other.x) - x) <= 1e-5 * size


def test_mid2a():
    where = make("squared", "l1", True, 1)
    x = np.concatenate(solve_reference(where).x)
    result = d2.solve(where, NETWORK, method="MiD2A", subsolver="exact", tol=1e-9)
    assert result.status == "CONVERGED"
    assert result.counts.rounds == result.counts.outer * result.parameters["rounds_per_mix"][0]
    assert np.linalg.norm(np.concatenate(result.x) - x) <= 1e-7 * (1 + np.linalg.norm(x))


@pytest.mark.parametrize("method, rounds", [("iD2A", 15_000), ("MiD2A", 17_000)])
def test_experiment_1(method, rounds):
    where, network, reference = experiment1()
    result = d2.solve(where, network, method=method, subsolver="exact", reference=reference)
    assert result.status == "CONVERGED"
    assert result.counts.rounds <= rounds
    assert result.trace["gap"][-1] <= 1e-8
    assert result.counts.grad_f <= 3 * result.counts.outer + 200, "about two per solve"


@pytest.mark.parametrize("h", ["squared", "huber"])
def test_stop_and_resume(h):
    """With constant momentum and with restarts."""
    where = make(h, "l1", True, 2)
    wishes = {"subsolver": "exact", "tol": 0.0, "atol": 1e-300}
    whole = part = d2.solve(where, NETWORK, max_rounds=1500, **wishes)
    assert (whole.parameters["outer_momentum"][0] == "variable") == (h == "huber")
    for cut in (1, 14, 611, 1500):
        part = d2.solve(where, NETWORK, max_rounds=cut, start=part if cut > 1 else None, **wishes)
    assert part.counts == whole.counts
    for name in whole.state.keys() - {"driver_seconds"}:
        np.testing.assert_array_equal(part.state[name], whole.state[name], err_msg=name)


def test_threads_give_the_same_bits(monkeypatch):
    where, found = make("logistic", "l1", True, 2), []
    for threads in "123":
        monkeypatch.setenv("DUAL2_THREADS", threads)
        found.append(d2.solve(where, NETWORK, subsolver="exact", tol=1e-15, max_rounds=300))
    for other in found[1:]:
        assert other.counts == found[0].counts
        np.testing.assert_array_equal(other.duals, found[0].duals)
        np.testing.assert_array_equal(np.concatenate(other.x), np.concatenate(found[0].x))


def test_conservation():
    """After 10⁵ outer iterations Σz is still zero and x still the solution."""
    where = make("squared", "l1", True, 1)
    x = np.concatenate(solve_reference(where).x)
    plan = plan_id2a(where, NETWORK, Settings(subsolver="exact"))
    plan.algorithm.start(np.zeros(x.size), np.zeros((N, where.p)))
    plan.algorithm.advance(100_000, 60.0)
    z = plan.algorithm.state()["outer_z"]
    assert plan.algorithm.at.k == 100_000
    assert np.abs(z.sum(axis=0)).max() <= 5e-9 * np.abs(z).max()
    assert np.linalg.norm(plan.algorithm.x - x) <= 1e-10 * (1 + np.linalg.norm(x))


def test_one_agent():
    rng = np.random.default_rng(3)
    A, y = rng.standard_normal((6, 4)), rng.standard_normal(6)
    where = d2.Problem([d2.Agent(A, d2.SquaredNorm(0.5), d2.L1Norm(0.1))], d2.SquaredLoss(y))
    result = d2.solve(where, d2.Network(nx.empty_graph(1)), subsolver="exact")
    few = kkt_rounding(where, result.x, result.dual)
    assert result.status == "CONVERGED" and result.certificate.kkt <= 8 * few


# -- what it refuses -----------------------------------------------------------------------------
def agents(**wishes):
    parts = {"A": np.ones((2, 2)), "f": d2.SquaredNorm(1.0), "g": d2.L1Norm(0.1)} | wishes
    return [d2.Agent(**parts) for _ in range(3)]


@pytest.mark.parametrize(
    "where, message",
    [
        (d2.Problem(agents(), d2.NonnegativeSquaredLoss([1.0, 1.0])), "rho = 0 needs"),
        (d2.Problem(agents(g=d2.L2Norm(0.1)), d2.SquaredLoss([1.0, 1.0])), "separable g_i; agent"),
        (
            d2.Problem(
                agents(f=d2.LogisticRegression(np.eye(2), [1.0, -1.0], 0.1)), d2.SquaredLoss([1, 1])
            ),
            "quadratic f_i",
        ),
        (d2.Problem(agents(A=csr_array(np.eye(20, 2))), d2.SquaredLoss(np.ones(20))), "dense A_i"),
        (
            d2.Problem(agents(), d2.Stacked([d2.SquaredLoss(1.0), d2.LogisticLoss(1.0)], [1, 1])),
            "smooth entry by entry",
        ),
    ],
)
def test_refusals(where, message):
    with pytest.raises(CapabilityError, match=message) as caught:
        d2.solve(where, d2.Network(nx.path_graph(3)), subsolver="exact")
    assert "Use" in str(caught.value)


def test_augmentation_is_refused():
    where = d2.Problem(agents(), d2.SquaredLoss([1.0, 1.0]))
    with pytest.raises(CapabilityError, match="needs rho = 0; found rho = 2"):
        d2.solve(where, d2.Network(nx.path_graph(3)), subsolver="exact", rho=2.0)
