"""iD2A and MiD2A with every solver of the subproblem."""

from functools import cache

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
import zoo
from dual2 import saddle
from dual2.methods.gossip.id2a import Settings, plan_id2a
from dual2.methods.subsolvers import admissible_subsolvers
from dual2.reference import solve_reference
from dual2.theory import analyse, gather_facts
from rounding import EPS

N, P = 5, 3
NETWORK = d2.Network(nx.path_graph(N))
KINDS = {
    "1 l1": (2, d2.L1Norm(0.3), lambda s: d2.SquaredLoss(s + 1, 0.5)),
    "1 zero": (2, d2.Zero(), lambda s: d2.SquaredLoss(s + 1, 2.0)),
    "2 point": (5, d2.Zero(), lambda s: d2.IndicatorPoint(s)),
    "2 smooth": (5, d2.Zero(), lambda s: d2.NonnegativeSquaredLoss(s + 0.5)),
    "3 point": (2, d2.Zero(), lambda s: d2.IndicatorPoint(s)),
    "3 smooth": (2, d2.Zero(), lambda s: d2.NonnegativeSquaredLoss(s + 0.5)),
    "general box": (2, d2.IndicatorBox(-0.4, 0.4), lambda s: d2.IndicatorAtMost(s - 0.1)),
    "general l1": (2, d2.L1Norm(0.3), lambda s: d2.HuberLoss(s + 1, 0.4)),
}
"""Case and name: d_i, g_i and h around a reachable s."""


@cache
def problem(kind):
    d, g, make = KINDS[kind]
    rng, agents, s = np.random.default_rng([0, 30]), [], np.zeros(P)
    for i in range(N):
        A, M = rng.standard_normal((P, d)), rng.standard_normal((d, d))
        curvature = M @ M.T + np.eye(d) if i % 2 else np.geomspace(1, 6, d)
        agents.append(d2.Agent(A, d2.Quadratic(curvature, rng.standard_normal(d)), g))
        s += A @ rng.uniform(-0.3, 0.3, d)
    return d2.Problem(agents, make(s))


@cache
def reference(kind):
    found = solve_reference(problem(kind))
    assert found.kkt <= 1e-12
    return np.concatenate(found.x)


def runs():
    """(kind, ρ, subsolver) for everything that the theory admits."""
    for kind in KINDS:
        facts = gather_facts(problem(kind))
        for rho in ("auto", 0):
            if rho == 0 and not (facts.mu_h > 0 or facts.row_rank > 0):
                continue
            number = 1.0 if rho == "auto" else 0.0
            for name, verdict in admissible_subsolvers(facts, number).items():
                if verdict.accepted:
                    yield kind, rho, name


RUNS = list(runs())
SHORT = [run for run in RUNS if run[:2] in (("1 l1", "auto"), ("2 point", "auto"), ("2 point", 0))]


def test_the_set_covers_every_case_and_solver():
    cases = {analyse(problem(kind), NETWORK, rho).case.name for kind, rho, _ in RUNS}
    assert cases == {"1", "2", "2.1", "3", "general"}
    assert {name for _, _, name in RUNS} == {"iDAPG", "PDPG", "LPD", "APDG", "Salim", "ABPD-PGS"}
    assert len(RUNS) == 59


@pytest.mark.parametrize("method", ["iD2A", "MiD2A"])
@pytest.mark.parametrize("kind, rho, subsolver", RUNS)
def test_solves(kind, rho, subsolver, method):
    x, tol = reference(kind), 1e-9 if rho == "auto" else 1e-7
    result = d2.solve(
        problem(kind), NETWORK, method=method, subsolver=subsolver, rho=rho, tol=tol, record=False
    )
    assert result.status == "CONVERGED"
    assert result.parameters["subsolver"][0] == subsolver
    error = np.linalg.norm(np.concatenate(result.x) - x)
    assert error <= 20 * tol * (1 + np.linalg.norm(x))
    counts, per_mix = result.counts, result.parameters["rounds_per_mix"][0]
    assert counts.rounds == per_mix * (counts.iterations if rho == "auto" else counts.outer)
    assert counts.iterations >= counts.outer
    if result.certificate.x_error is not None:
        assert error <= result.certificate.x_error + 1e-12


# -- one subproblem is the saddle problem it claims to be ----------------------------------------
def stacked_problem(where, network, rho, z):
    """f₁, f₂, B, g₁, g₂ of the subproblem in all variables at once, h* by its gradient."""
    blocks = [agent.A for agent in where.agents]
    dims = np.cumsum([0, *where.dims])
    B = np.zeros((N * P, dims[-1]))
    for i, A in enumerate(blocks):
        B[i * P : (i + 1) * P, dims[i] : dims[i + 1]] = A
    C = np.array([network.mix(np.eye(N)[:, [k]])[:, 0] for k in range(N)])
    share = where.h.conjugate.grad(np.eye(P)) - where.h.conjugate.grad(np.zeros(P))
    slope = where.h.conjugate.grad(np.zeros(P))
    Q = rho * np.kron(C, np.eye(P)) + np.kron(np.eye(N), share) / N
    f1 = d2.Stacked([agent.f for agent in where.agents], where.dims)
    f2 = d2.Stacked([agent.g for agent in where.agents], where.dims)
    g1 = d2.Quadratic((Q + Q.T) / 2, np.tile(slope / N, N) + z.ravel())
    plain = all(isinstance(agent.g, d2.Zero) for agent in where.agents)
    return f1, None if plain else f2, B, g1, None


@pytest.mark.parametrize("chebyshev", [False, True], ids=["C", "P_3(C)"])
@pytest.mark.parametrize(
    "kind, subsolver",
    [
        (kind, name)
        for kind in ("1 l1", "1 zero")
        for name in ("PDPG", "LPD", "ABPD-PGS", "APDG")
        if (kind, name) != ("1 l1", "APDG")
    ],
)
def test_subproblem_with_augmentation(kind, subsolver, chebyshev):
    """40 iterations of the agents together = 40 of the solver on the stacked problem."""
    network = NETWORK.chebyshev(3) if chebyshev else NETWORK
    where, rho = problem(kind), 0.8
    settings = Settings(subsolver=subsolver, rho=rho, parameters={"mapping": "smooth"})
    solver = plan_id2a(where, network, settings).algorithm.subsolver
    rng = np.random.default_rng(1)
    z = network.mix(rng.standard_normal((N, P)))
    x, lam = rng.standard_normal(sum(where.dims)), rng.standard_normal((N, P))
    parts = stacked_problem(where, network, rho, z)
    alone = saddle.solve(
        *parts, method=subsolver, start=(x, lam.ravel()), tol=0.0, max_iterations=40
    )
    solver.start(x, lam)
    solver.advance(z, 40)
    np.testing.assert_allclose(solver.x, alone.x, rtol=0, atol=1e-10)
    np.testing.assert_allclose(solver.lam.ravel(), alone.y, rtol=0, atol=1e-10)
    np.testing.assert_allclose(solver.mixed, network.mix(solver.lam), rtol=0, atol=1e-10)


@pytest.mark.parametrize("subsolver", ["PDPG", "LPD", "ABPD-PGS", "APDG", "Salim"])
def test_subproblem_without_augmentation(subsolver):
    """ρ = 0: every agent runs the solver on its own data."""
    where = problem("2 point")
    settings = Settings(subsolver=subsolver, rho=0, parameters={"mapping": "smooth"})
    solver = plan_id2a(where, NETWORK, settings).algorithm.subsolver
    rng = np.random.default_rng(1)
    z, lam = NETWORK.mix(rng.standard_normal((N, P))), rng.standard_normal((N, P))
    x = rng.standard_normal(sum(where.dims))
    solver.start(x, lam)
    assert not solver.advance_local(z, np.zeros(N), steps=10)
    for i, agent in enumerate(where.agents):
        own = slice(5 * i, 5 * i + 5)
        g1 = d2.IndicatorPoint(where.h.b / N + z[i]).conjugate
        alone = saddle.solve(
            agent.f, None, agent.A, g1, None, method=subsolver, start=(x[own], lam[i]),
            tol=0.0, max_iterations=10, restart=False,
        )  # fmt: skip
        np.testing.assert_allclose(solver.x[own], alone.x, rtol=0, atol=1e-11)
        np.testing.assert_allclose(solver.lam[i], alone.y, rtol=0, atol=1e-11)


@pytest.mark.parametrize("mapping", ["prox", "smooth"])
@pytest.mark.parametrize("subsolver", ["PDPG", "LPD", "ABPD-PGS"])
def test_residuals_are_proximal_gradient_mappings(subsolver, mapping):
    where, rho = problem("1 l1"), 0.8
    settings = Settings(subsolver=subsolver, rho=rho, parameters={"mapping": mapping})
    solver = plan_id2a(where, NETWORK, settings).algorithm.subsolver
    rng = np.random.default_rng(2)
    z, lam = NETWORK.mix(rng.standard_normal((N, P))), rng.standard_normal((N, P))
    solver.start(rng.standard_normal(10), lam)
    solver.advance(z, 7)
    primal, dual = solver.residuals(z)
    conjugate, cy = where.h.conjugate, NETWORK.mix(solver.lam)
    for i, agent in enumerate(where.agents):
        x, y, t = solver.x[2 * i : 2 * i + 2], solver.lam[i], solver.dual_step[i]
        slope = (agent.f.grad(x) + agent.A.T @ y) / agent.f.L
        move = agent.f.L * (x - agent.g.prox(x - slope, 1 / agent.f.L))
        assert primal[i] == pytest.approx(np.linalg.norm(move), rel=1e-10)
        down = rho * cy[i] + z[i] - agent.A @ x
        if mapping == "smooth":
            r = down + conjugate.grad(y) / N
        else:
            r = (y - conjugate.prox(y - t * down, t / N)) / t
        assert dual[i] == pytest.approx(np.linalg.norm(r), rel=1e-9)
    weighted = dual + np.sqrt(gather_facts(where).sigma2.max()) / gather_facts(where).mu_f * primal
    np.testing.assert_allclose(dual + solver.weight * primal, weighted)


# -- iDAPG: a step per agent, a start ahead ------------------------------------------------------
@pytest.mark.parametrize("method", ["iD2A", "MiD2A"])
def test_idapg_has_a_step_for_each_agent(method):
    """1/step_i is a bound of H's curvature in the diagonal metric; the paper's is the largest."""
    where = problem("1 l1")
    plan = plan_id2a(where, NETWORK, Settings(method, subsolver="iDAPG"))
    solver, c = plan.algorithm.subsolver, plan.algorithm.subsolver.constants
    steep = 1 / solver.dual_step
    facts, network = gather_facts(where), plan.runtime.network
    np.testing.assert_allclose(steep, facts.sigma2 / facts.mu + c.rho * network.majorant)
    root = np.sqrt(steep.max() / c.mu_phi + 1)
    assert plan.parameters["inner_momentum"][0] == pytest.approx((root - 1) / (root + 1))
    printed = plan_id2a(where, NETWORK, Settings(method, subsolver="iDAPG", constants="paper"))
    L = printed.algorithm.subsolver.constants.L_phi
    np.testing.assert_allclose(printed.algorithm.subsolver.dual_step, 1 / L)


def test_idapg_begins_ahead_by_the_share_asked_for():
    solver = plan_id2a(problem("1 l1"), NETWORK, Settings(subsolver="iDAPG")).algorithm.subsolver
    rng = np.random.default_rng(4)
    z, first = NETWORK.mix(rng.standard_normal((N, P))), rng.standard_normal((N, P))
    solver.start(np.zeros(10), first)
    solver.advance(z, 7)
    second = solver.lam.copy()
    solver.begin(0.5)
    few = 4 * N * EPS * np.abs(solver.lam).max()
    np.testing.assert_allclose(solver.lam, 1.5 * second - 0.5 * first, rtol=0, atol=few)
    np.testing.assert_allclose(solver.mixed, NETWORK.mix(solver.lam), rtol=0, atol=few)
    solver.begin()
    np.testing.assert_allclose(solver.lam, 1.5 * second - 0.5 * first, rtol=0, atol=few)


# -- runs can be cut, threaded, and go on for long ------------------------------------------------
@pytest.mark.parametrize("kind, rho, subsolver", SHORT)
def test_stop_and_resume(kind, rho, subsolver):
    wishes = {"subsolver": subsolver, "rho": rho, "tol": 0.0, "atol": 1e-300, "record": False}
    whole = part = d2.solve(problem(kind), NETWORK, max_rounds=150, **wishes)
    for cut in (1, 14, 61, 150):
        start = part if cut > 1 else None
        part = d2.solve(problem(kind), NETWORK, max_rounds=cut, start=start, **wishes)
    assert part.counts == whole.counts
    for name in whole.state.keys() - {"driver_seconds"}:
        np.testing.assert_array_equal(part.state[name], whole.state[name], err_msg=name)


@pytest.mark.parametrize("method", ["iD2A", "MiD2A"])
@pytest.mark.parametrize("kind, rho, subsolver", SHORT)
def test_threads_give_the_same_bits(kind, rho, subsolver, method, monkeypatch):
    found = []
    for threads in "123":
        monkeypatch.setenv("DUAL2_THREADS", threads)
        wishes = {"method": method, "subsolver": subsolver, "rho": rho, "record": False}
        found.append(d2.solve(problem(kind), NETWORK, tol=1e-15, max_rounds=90, **wishes))
    for other in found[1:]:
        assert other.counts == found[0].counts
        np.testing.assert_array_equal(other.duals, found[0].duals)
        np.testing.assert_array_equal(np.concatenate(other.x), np.concatenate(found[0].x))


@pytest.mark.parametrize("kind, rho, subsolver", SHORT)
def test_conservation(kind, rho, subsolver):
    """Long after convergence Σz is still zero and x still the solution."""
    plan = plan_id2a(problem(kind), NETWORK, Settings(subsolver=subsolver, rho=rho))
    x = reference(kind)
    plan.algorithm.start(np.zeros(x.size), np.zeros((N, P)))
    plan.algorithm.advance(20_000 if rho == "auto" else 1500, 60.0)
    z = plan.algorithm.state()["outer_z"]
    assert np.abs(z.sum(axis=0)).max() <= 5e-9 * np.abs(z).max()
    assert np.linalg.norm(plan.algorithm.x - x) <= 1e-10 * (1 + np.linalg.norm(x))


@pytest.mark.parametrize("subsolver", ["PDPG", "LPD", "ABPD-PGS"])
def test_agents_of_every_kind(subsolver):
    """Sparse matrices, operators and Python functions take part."""
    where = zoo.problem()
    network = zoo.network(where.n)
    best = d2.solve(where, network, tol=1e-10)
    found = d2.solve(where, network, subsolver=subsolver, tol=1e-9, record=False)
    assert best.status == found.status == "CONVERGED"
    error = np.concatenate(found.x) - np.concatenate(best.x)
    assert np.linalg.norm(error) <= 1e-7 * (1 + np.linalg.norm(np.concatenate(best.x)))


@pytest.mark.parametrize("rho", ["auto", 0])
def test_errors_of_user_functions_surface(rho):
    def broken(x):
        raise RuntimeError("no gradient today")

    f = d2.Smooth(broken, 1.0, 2.0)
    where = d2.Problem([d2.Agent(np.eye(2), f) for _ in range(3)], d2.SquaredLoss(np.ones(2)))
    for subsolver in ("PDPG", "LPD", "ABPD-PGS", "APDG"):
        with pytest.raises(RuntimeError, match="no gradient today"):
            d2.solve(where, d2.Network(nx.path_graph(3)), subsolver=subsolver, rho=rho)


# -- one agent --------------------------------------------------------------------------------
@pytest.mark.parametrize("subsolver", ["iDAPG", "PDPG", "LPD", "ABPD-PGS", "APDG", "Salim"])
@pytest.mark.parametrize("rank", [4, 2])
def test_one_agent_with_equations(subsolver, rank):
    """min f(x) subject to Ax = b, also where A is rank deficient."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, rank)) @ rng.standard_normal((rank, 6))
    p, b = np.geomspace(1, 10, 6), A @ rng.standard_normal(6)
    where = d2.Problem([d2.Agent(A, d2.Quadratic(p))], d2.IndicatorPoint(b))
    result = d2.solve(where, d2.Network(nx.empty_graph(1)), subsolver=subsolver)
    x = A.T @ np.linalg.lstsq(A @ (A.T / p[:, None]), b, rcond=1e-12)[0] / p
    assert result.status == "CONVERGED"
    np.testing.assert_allclose(result.x[0], x, atol=1e-6)


def test_a_matrix_that_is_zero_or_unknown_is_refused():
    from scipy.sparse.linalg import aslinearoperator

    for A in (np.zeros((2, 3)), aslinearoperator(np.eye(2, 3))):
        where = d2.Problem([d2.Agent(A, d2.SquaredNorm(1.0))], d2.IndicatorPoint(np.zeros(2)))
        for subsolver in ("APDG", "Salim"):
            with pytest.raises(d2.CapabilityError, match="smallest nonzero singular value"):
                d2.solve(where, d2.Network(nx.empty_graph(1)), subsolver=subsolver)


def test_alike_agents_need_an_accurate_subproblem():
    """Their λ_i agree exactly, so no outer step says how accurate a subproblem must be."""
    agents = [d2.Agent(np.eye(3), d2.Quadratic(np.geomspace(1, 50, 3))) for _ in range(8)]
    problem = d2.Problem(agents, d2.IndicatorPoint(np.ones(3)))
    network = d2.Network(nx.path_graph(8))
    result = d2.solve(problem, network, method="iD2A", subsolver="APDG", tol=1e-7, max_rounds=3000)
    assert result.status == d2.Status.CONVERGED
    np.testing.assert_allclose(np.concatenate(result.x), 0.125, rtol=1e-6)
