"""Compiled kernels against the plain NumPy definitions."""

import numpy as np
import pytest

import dual2 as d2
from dual2.compiled import compiled
from dual2.engine.local import adjoint, apply, grad_f, minimise_local, prox_g
from dual2.engine.pack import pack
from dual2.engine.packed_args import borrowed
from dual2.engine.residual_kernel import Bounds, row_steps, worst_row
from dual2.functions.kernels import CALLBACK
from dual2.problem.ingredients import EPS, ROUNDING, coupling_response
from dual2.problem.screening import RowSums, judge_agents, judge_rows
from dual2.runtime import Runtime
from dual2.solving.stopping import StoppingTest
from dual2.testing import known_problem
from zoo import AGENTS, P, network, problem

pytestmark = pytest.mark.numerics

PROBLEM = problem()
N = PROBLEM.n
RNG = np.random.default_rng(0)
X = [RNG.standard_normal(d) for d in PROBLEM.dims]
FLAT = np.concatenate(X)
ROWS = RNG.standard_normal((N, P))


@compiled
def proxed(block, i, step, v, out, work):
    """``prox_g`` in a kernel of its own, which is cached."""
    return prox_g(borrowed(block), i, step, v, out, work)


@compiled
def minimised(block, i, c, x, error, scratch, work):
    """``minimise_local`` in a kernel of its own."""
    return minimise_local(borrowed(block), i, c, x, error, scratch, work)


@pytest.fixture(scope="module")
def packed():
    return pack(PROBLEM)


@pytest.fixture(scope="module")
def block(packed):
    return packed.block


def close(found, expected, scale=1.0):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * scale)


def test_every_kind_of_agent_is_there(block):
    assert set(block.akind) == {0, 1, 2}
    assert set(block.fkind) == {0, 1, 2, 4}
    assert set(block.easy) == {0, 1}
    assert CALLBACK in block.gtab[:, 0] and len(set(block.gtab[:, 0])) >= 6


@pytest.mark.parametrize("i", range(N), ids=list(AGENTS))
def test_products_with_a_matrix(i, block):
    agent = PROBLEM.agents[i]
    out, back = np.full(P, 9.0), np.full(agent.dim, 9.0)
    assert apply(block, i, X[i], out) == 0
    assert adjoint(block, i, ROWS[i], back) == 0
    close(out, agent.apply(X[i]))
    close(back, agent.adjoint(ROWS[i]))


@pytest.mark.parametrize("i", range(N), ids=list(AGENTS))
@pytest.mark.parametrize("size", [1.0, 40.0])
def test_gradient_of_f(i, size, block):
    agent = PROBLEM.agents[i]
    out, x = np.full(agent.dim, 9.0), size * X[i]
    assert grad_f(block, i, x, out) == 0
    close(out, agent.f.grad(x), 100 * size)


@pytest.mark.parametrize("i", range(N), ids=list(AGENTS))
@pytest.mark.parametrize("step", [1e-3, 0.7, 50.0])
def test_prox_of_g(i, step, block):
    agent = PROBLEM.agents[i]
    out, work = np.full(agent.dim, 9.0), np.empty(100)
    assert proxed(block, i, step, X[i], out, work) == 0
    close(out, agent.g.prox(X[i], step))


@pytest.mark.parametrize("i", range(N), ids=list(AGENTS))
def test_local_minimiser(i, block):
    """x* is where one proximal gradient step stays, and the error asked for is kept."""
    agent = PROBLEM.agents[i]
    c, L = agent.adjoint(ROWS[i]), agent.f.L

    def minimise(error):
        x = X[i].copy()
        room = np.empty((3, 20)), np.empty(100)
        return x, minimised(block, i, c, x, error, *room)

    best, many = minimise(0.0)
    still = agent.g.prox(best - (agent.f.grad(best) + c) / L, 1 / L)
    np.testing.assert_allclose(best, still, rtol=0, atol=1e-12)
    for error in (1e-1, 1e-4, 1e-8):
        x, steps = minimise(error)
        assert np.linalg.norm(x - best) <= error * (1 + 1e-6) + 1e-12
        assert 1 <= steps <= many


@pytest.fixture(scope="module")
def runtime():
    return Runtime(PROBLEM, network(N))


def test_all_products_at_once(runtime):
    expected = [a.apply(x) for a, x in zip(PROBLEM.agents, X, strict=True)]
    close(runtime.products(FLAT), expected)
    close(
        runtime.loads(FLAT)[1],
        [a.sizes(x, a.apply(x)) for a, x in zip(PROBLEM.agents, X, strict=True)],
    )
    pulls = [a.adjoint(row) for a, row in zip(PROBLEM.agents, ROWS, strict=True)]
    close(runtime.adjoints(ROWS), np.concatenate(pulls))


@pytest.mark.parametrize("shared", [False, True])
def test_stationarity(shared, runtime):
    rows = np.tile(ROWS[0], (N, 1)) if shared else ROWS
    found = runtime.stationarity(FLAT, ROWS[0] if shared else ROWS)
    for i, (agent, x) in enumerate(zip(PROBLEM.agents, X, strict=True)):
        gradient, pull, L = agent.f.grad(x), agent.adjoint(rows[i]), agent.f.L
        moved = x - agent.g.prox(x - (gradient + pull) / L, 1 / L)
        sizes = [np.linalg.norm(v) for v in (moved, gradient, pull, x)]
        close(np.array(found)[:, i], [L * sizes[0], *sizes[1:], L], 1e2)


@pytest.mark.parametrize("rounding", [0.0, EPS * ROUNDING, 0.3])
def test_ratios_of_agents(rounding, runtime):
    """As in plain NumPy; with a large rounding level some residuals count as none."""
    norms, atol = runtime.problem.sizes.rows, np.linspace(0.0, 0.1, N)
    found = runtime.judge(FLAT, ROWS, Bounds(norms, atol, rounding))
    pulls = (norms * np.abs(ROWS)).sum(axis=1)
    known = runtime.stationarity(FLAT, ROWS)
    expected = judge_agents(known, runtime.block.mu, pulls, atol, rounding / EPS)
    close(found, np.column_stack(expected), 1e2)
    assert (rounding > 0.1) == np.any(found[:, 0] == 0)
    broken = FLAT.copy()
    broken[0] = np.nan
    assert runtime.judge(broken, ROWS, Bounds(norms, atol, rounding))[0, 0] == np.inf


@pytest.mark.parametrize("felt", [0.0, 3.0])
@pytest.mark.parametrize("rounding", [0.0, 0.02])
def test_ratios_of_rows(rounding, felt):
    """Against the plain definition, with rows that nobody feels, without a load and forgiven."""
    h, lam = d2.L1Norm(0.4), np.array([0.3, -0.4, 0.0, 0.4, 0.1])
    sums = np.array([[0.5, -0.7, 0.2, 1e-3, 0.0], [0.6, 2.0, 0.2, 4.0, 0.0], np.full(5, felt)])
    weight, atol, steps = np.array([1.0, 0.0, 2.0, 1.0, 1.0]), np.full(5, 1e-3), np.empty(5)
    expected, _, y = judge_rows(h, lam, RowSums(*sums, weight), atol, rounding / EPS)
    assert row_steps(lam, sums, weight, steps)
    close(coupling_response(h, sums[0], lam, steps), y)
    close(worst_row(lam, sums, steps, y, atol, rounding), expected)
    assert expected > 0
    for k in range(3):
        broken = sums.copy()
        broken[k, 1] = np.nan
        assert not row_steps(lam, broken, weight, steps)


@pytest.mark.parametrize("h", [d2.SquaredLoss(np.ones(P)), d2.IndicatorAtMost(np.ones(P))])
def test_the_stopping_test_agrees_with_the_definition(h):
    """Where the screen passes, Problem.kkt at the price that all have decides."""
    here = problem(h)
    runtime = Runtime(here, network(N))
    stopping = StoppingTest(runtime, 1e-8, 0.0)
    mean = ROWS.mean(axis=0)
    close(stopping.observe(FLAT, ROWS).dual, mean)
    rows, expected = np.tile(mean, (N, 1)), here.kkt(X, mean)
    screened = [stopping.test(FLAT, rows, full=True), stopping.observe(FLAT, rows)]
    assert not any(found.met for found in screened)
    screen = max(expected.kkt, *(found.kkt for found in screened))
    kind = StoppingTest(runtime, screen * 1.001, 0.0).test(FLAT, ROWS, full=True)
    assert kind.met and kind.kkt == pytest.approx(here.kkt(X, kind.dual).kkt, rel=1e-12)
    stern = stopping.confirm(screened[1], FLAT)
    assert not stern.met and stern.kkt <= expected.kkt * (1 + 1e-12)


@pytest.mark.parametrize("broken", ["coupling", "stationarity"])
def test_the_stopping_test_looks_at_both_parts(broken):
    """At a known solution one condition is spoilt at a time."""
    here, x, price = known_problem(d2.L1Norm(0.3), d2.SquaredLoss(0.0))
    if broken == "coupling":
        here = d2.Problem(here.agents, here.h.shift(0.1))
    else:
        extra = d2.Agent(np.zeros((3, 1)), d2.SquaredNorm(1.0, 0.1))
        here, x = d2.Problem([*here.agents, extra], here.h), [*x, np.zeros(1)]
    expected = here.kkt(x, price)
    assert getattr(expected, broken) == expected.kkt > 1e-3
    runtime = Runtime(here, network(here.n))
    flat, rows = np.concatenate(x), np.tile(price, (here.n, 1))
    stopping = StoppingTest(runtime, 1e-8, 1e-12)
    for found in (stopping.test(flat, rows, full=True), stopping.observe(flat, rows)):
        assert found.kkt > 1e-3 and not found.met
    assert not stopping.test(flat, rows).met


def test_agreement_counts_what_it_sends(runtime):
    before = runtime.comm.agree_rounds, runtime.comm.agree_floats
    close(runtime.allreduce_sum(ROWS), ROWS.sum(axis=0))
    np.testing.assert_array_equal(runtime.allreduce_max(ROWS), ROWS.max(axis=0))
    height = runtime.network.tree.height
    assert runtime.comm.agree_rounds - before[0] == 2 * 2 * height
    assert runtime.comm.agree_floats - before[1] == 2 * 2 * (N - 1) * P
