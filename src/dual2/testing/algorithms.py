"""Checks of an algorithm on problems with known solutions."""

from functools import partial
from typing import Any

import numpy as np

from dual2 import functions as fn
from dual2.functions.arguments import Array
from dual2.functions.base import Function
from dual2.methods.method import Method
from dual2.methods.parameters import Settings
from dual2.methods.registry import find_method
from dual2.network import Network
from dual2.problem import Agent, Problem
from dual2.solving.solve import solve
from dual2.testing.functions import close, expect

Pair = tuple[Function, Function]
PAIRS: tuple[Pair, ...] = (
    (fn.Zero(), fn.SquaredLoss(0.0, 0.5)),
    (fn.L1Norm(0.3), fn.SquaredLoss(0.0, 2.0)),
    (fn.Zero(), fn.IndicatorPoint(0.0)),
    (fn.IndicatorBox(-0.5, 0.5), fn.IndicatorPoint(0.0)),
    (fn.L2Norm(0.5), fn.IndicatorAtMost(0.0)),
    (fn.IndicatorSimplex(1.0), fn.HuberLoss(0.0, 0.4)),
    (fn.ElasticNet(0.2, 0.1), fn.LogisticLoss(1.0)),
)
"""g and h of the problems that ``check_algorithm`` poses."""


def check_algorithm(
    method: str | Method,
    pairs: tuple[Pair, ...] = PAIRS,
    long: int = 5000,
    *,
    identity: bool = False,
    fixed: bool = True,
) -> None:
    """Check that a method does what it claims on problems with known solutions, one per (g, h).

    It must reach the solution, stay there if started there, give permuted iterates for permuted
    agents, continue a run that was cut as if it had not been, count the rounds that its iterations
    need, and end at the solution after ``long`` ones, what it calls ``conserved`` still summing to
    zero over the agents. With ``identity`` the problems have A_i = I; without ``fixed`` a start
    from the solution may leave it at first, as (x, λ) is not all of the state.

    Examples
    --------
    >>> check_algorithm("iD2A", pairs=((fn.Zero(), fn.SquaredLoss(0.0)),))
    """
    edges, order = np.array([(0, 1), (1, 2), (2, 3), (3, 4), (0, 2)]), np.array([3, 0, 4, 1, 2])
    network, moved = Network(edges), Network(np.argsort(order)[edges])
    method = find_method(method)
    name = method.name
    for g, h in pairs:
        problem, best, price = known_problem(g, h, identity)
        x, lam, label = np.concatenate(best), np.tile(price, (5, 1)), f"{name}, g={g!r}, h={h!r}"
        run = partial(solve, problem, network, method=method, tol=0.0, atol=1e-300, record=False)
        expect(label, (found := run(tol=1e-10)).status == "CONVERGED", "it does not converge")
        close(label, np.concatenate(found.x), x, 1e-6, "its answer", "the solution")
        kept = _iterate(method, problem, network, x, lam, 300).x
        if fixed:
            close(label, kept, x, 1e-9, "a run from the solution", "the solution")
        once = _iterate(method, problem, network, 0 * x, 0 * lam, 300).duals
        permuted = Problem([problem.agents[i] for i in order], problem.h)
        other = _iterate(method, permuted, moved, 0 * x, 0 * lam, 300).duals
        close(label, other, once[order], 1e-9 * np.abs(other).max(), "permuted", "plain λ")
        whole = part = run(max_rounds=300)
        for cut in (1, 14, 101, 300):
            part = run(start=part if cut > 1 else None, max_rounds=cut)
        names = whole.state.keys() - {"driver_seconds"}
        same = names == part.state.keys() - {"driver_seconds"} and all(
            np.array_equal(part.state[k], whole.state[k]) for k in names
        )
        expect(label, same, "a run that was cut and continued differs from one that was not")
        declared = whole.counts.iterations * _iterate(method, problem, network, x, lam, 0).stride
        expect(label, whole.counts.rounds == declared, f"{whole.counts.rounds} rounds counted")
        late = _iterate(method, problem, network, 0 * x, 0 * lam, long)
        close(label, late.x, x, 1e-9, f"x after {long} iterations", "the solution")
        if conserved := getattr(late, "conserved", "outer_z"):
            rows = late.state()[conserved]
            leak = np.abs(rows.sum(axis=0)).max() / np.abs(rows).max()
            expect(label, leak <= 5e-9, f"Σ {conserved} has grown to {leak:.1e} of its size")


def _iterate(
    method: Method, problem: Problem, network: Network, x: Array, lam: Array, k: int
) -> Any:
    plan = method.plan(problem, network, Settings(method.name, parameters=dict(method.parameters)))
    plan.algorithm.start(x, lam)
    plan.algorithm.advance(k * plan.algorithm.stride, 3600.0)
    return plan.algorithm  # at its last iterate, which a Result need not hold


def known_problem(
    g: Function, h: Function, identity: bool = False
) -> tuple[Problem, list[Array], Array]:
    """A problem with g_i = g and h up to a shift, its solution x* and a price λ*, by proxes.

    Five agents, three coupling rows, random 3 × 4 blocks A_i, or four rows and A_i = I.
    """
    rng, agents, p = np.random.default_rng(0), [], 4 if identity else 3
    w, blocks, points = (rng.standard_normal(k) for k in (p, (5, p, 4), (5, 4)))
    blocks, s = np.stack([np.eye(4)] * 5) if identity else blocks, np.zeros(p)
    y, x = h.prox(w, 1.0), [g.prox(v, 1.0) for v in points]
    for A, v, part in zip(blocks, points, x, strict=True):
        M = rng.standard_normal((4, 4))
        f = fn.Quadratic(M @ M.T + np.eye(4))
        agents.append(Agent(A, f.tilt(part - v - f.grad(part) - A.T @ (w - y)), g))
        s += A @ part
    return Problem(agents, h.shift(s - y)), x, w - y
