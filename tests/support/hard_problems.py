"""Classes of problems that have fooled solvers: units, degeneracy, feasibility, shapes."""

from collections.abc import Callable

import networkx as nx
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from planted import BY_ROW, G, H, Planted, Rng, Units, plant, without


def _sizes(rng: Rng) -> dict[str, int]:
    return {"n": int(rng.integers(2, 9)), "p": int(rng.integers(1, 6))}


def _pair(rng: Rng, rows: bool = False) -> dict[str, str]:
    return {"g": str(rng.choice(list(G))), "h": str(rng.choice(BY_ROW if rows else list(H)))}


def _decades(rng: Rng, size: int, decades: float) -> np.ndarray:
    """Powers of two over so many decades, both ends present."""
    spread = rng.uniform(0, decades, size)
    spread[: min(2, size)] = [0.0, decades][: min(2, size)]
    return 2.0 ** np.round(np.log2(10.0 ** (rng.permutation(spread) - decades / 2)))


def _in_units(rng: Rng, rows=0.0, variables=0.0, costs=0.0, objective=0.0, by_row=True) -> Planted:
    sizes = _sizes(rng) | ({"p": int(rng.integers(2, 6))} if rows else {})
    p, n = sizes["p"], sizes["n"]
    units = Units(
        _decades(rng, p, rows),
        _decades(rng, n, variables),
        _decades(rng, n, costs),
        float(_decades(rng, 1, 0.0)[0] * 10.0 ** rng.uniform(-objective, objective)),
    )
    return plant(rng, **sizes, **_pair(rng, by_row), units=units)


def benign(rng: Rng) -> Planted:
    return plant(rng, **_sizes(rng), **_pair(rng))


def all_units(rng: Rng) -> Planted:
    """One factor for all rows, one for all variables, one for the objective, over 12 decades."""
    sizes = _sizes(rng)
    row, variable, objective = 10.0 ** rng.uniform(-6, 6, 3)
    units = Units(
        np.full(sizes["p"], row),
        np.full(sizes["n"], variable),
        np.ones(sizes["n"]),
        float(objective),
    )
    return plant(rng, **sizes, **_pair(rng), units=units)


def rows_6(rng: Rng) -> Planted:
    return _in_units(rng, rows=6.0)


def rows_12(rng: Rng) -> Planted:
    return _in_units(rng, rows=12.0)


def agents_6(rng: Rng) -> Planted:
    return _in_units(rng, variables=6.0, by_row=False)


def costs_6(rng: Rng) -> Planted:
    return _in_units(rng, costs=6.0, by_row=False)


def conditioned(rng: Rng) -> Planted:
    return plant(rng, **_sizes(rng), **_pair(rng), kappa=10.0 ** rng.uniform(3, 6))


def deficient(rng: Rng) -> Planted:
    """A_i of rank one, a row that is twice another, a row of zeros, or A_i = 0 for some agents."""
    kind = int(rng.integers(4))

    def matrix(rng: Rng, p: int, d: int, i: int) -> np.ndarray:
        A = rng.standard_normal((p, d))
        if kind == 0:
            return np.outer(rng.standard_normal(p), rng.standard_normal(d))
        if kind == 1 and p > 1:
            A[-1] = 2.0 * A[0]
        if kind == 2 and p > 1:
            A[-1] = 0.0
        return np.zeros((p, d)) if kind == 3 and i % 2 else A

    return plant(rng, **_sizes(rng), **_pair(rng), matrix=matrix)


def degenerate(rng: Rng) -> Planted:
    """Active with price zero, idle, or the zero solution."""
    kind, sizes = int(rng.integers(3)), _sizes(rng)
    base = plant(rng, **sizes, g=str(rng.choice(["zero", "l1", "box"])), h="at most")
    assert base.x is not None
    agents = [
        d2.Agent(a.A, _flat_at(a.f, x, a.g), a.g)
        for a, x in zip(base.problem.agents, base.x, strict=True)
    ]
    s = base.problem.coupling(base.x)
    if kind == 2:
        x = [np.zeros(a.dim) for a in agents]
        agents = [d2.Agent(a.A, d2.SquaredNorm(1.0), d2.L1Norm(0.5)) for a in agents]
        return without(base, problem=d2.Problem(agents, d2.IndicatorPoint(0 * s)), x=x, price=0 * s)
    h = d2.IndicatorAtMost(s if kind == 0 else s + 1e3)
    return without(base, problem=d2.Problem(agents, h), price=np.zeros(len(s)))


def _flat_at(f: d2.Function, x: np.ndarray, g: d2.Function) -> d2.Function:
    """The same curvature with its minimum (with g) at x: no price is needed there."""
    slope = g.weight * np.sign(x) if isinstance(g, d2.L1Norm) else 0.0 * x
    return f.tilt(-f.grad(x) - slope)


def equal_bounds(rng: Rng) -> Planted:
    """l = u in the coupling or for all variables of one agent."""
    base = plant(rng, **_sizes(rng), g="box", h="point")
    b = base.problem.h.b
    return without(base, problem=d2.Problem(base.problem.agents, d2.IndicatorBox(b, b)))


def demand(rng: Rng) -> Planted:
    """Dispatch with a demand of 1e-9 … 1e9 beside costs of order one."""
    n, size = int(rng.integers(2, 9)), float(10.0 ** rng.uniform(-9, 9))
    units = Units(np.array([size]), np.full(n, size), np.ones(n), size)
    ones = lambda rng, p, d, i: np.ones((p, d))  # noqa: E731
    return plant(rng, n=n, p=1, g=str(rng.choice(["zero", "box", "nonnegative"])),
                 h=str(rng.choice(["point", "at most"])), units=units, matrix=ones)  # fmt: skip


def weightless(rng: Rng) -> Planted:
    """An l1 norm with some weights zero."""
    base = plant(rng, **_sizes(rng), g="zero", h=str(rng.choice(list(H))))
    agents = [d2.Agent(a.A, a.f, d2.L1Norm(np.zeros(a.dim))) for a in base.problem.agents]
    return without(base, problem=d2.Problem(agents, base.problem.h))


def shapes(rng: Rng) -> Planted:
    """One agent, one row, one variable each, many rows, long agents."""
    kind = int(rng.integers(5))
    n = 1 if kind == 0 else int(rng.integers(2, 30 if kind == 2 else 6))
    p = 1 if kind == 1 else 20 if kind == 3 else int(rng.integers(1, 6))
    dims = np.ones(n, int) if kind == 2 else np.full(n, 30) if kind == 4 else None
    graph = nx.empty_graph(1) if n == 1 else None
    g = "zero" if kind == 3 else str(rng.choice(list(G)))
    h = "squared" if kind == 3 else str(rng.choice(list(H)))
    return plant(rng, n=n, p=p, g=g, h=h, dims=dims, graph=graph)


def graphs(rng: Rng) -> Planted:
    n = int(rng.integers(3, 13))
    kinds = (nx.path_graph, nx.cycle_graph, nx.complete_graph, lambda k: nx.star_graph(k - 1))
    return plant(rng, n=n, p=3, **_pair(rng), graph=kinds[int(rng.integers(4))](n))


def storage(rng: Rng) -> Planted:
    """Sparse matrices and linear operators."""
    base = plant(rng, **_sizes(rng), **_pair(rng))
    wrap = sp.csr_array if rng.random() < 0.5 else aslinearoperator
    agents = [d2.Agent(wrap(np.asarray(a.A)), a.f, a.g) for a in base.problem.agents]
    return without(base, problem=d2.Problem(agents, base.problem.h))


def infeasible(rng: Rng) -> Planted:
    """Boxes that cannot reach a demand, by 10 … 1e-6 relative to what they can."""
    n, p = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    agents = [
        d2.Agent(
            np.abs(rng.standard_normal((p, 2))),
            d2.SquaredNorm(float(rng.uniform(1, 5))),
            d2.IndicatorBox(0.0, rng.uniform(0.5, 2.0, 2)),
        )
        for _ in range(n)
    ]
    reach = sum(a.A @ a.g.upper for a in agents)
    excess = float(10.0 ** rng.uniform(-6, 1))
    b = reach * np.where(np.arange(p) == int(rng.integers(p)), 1.0 + excess, 0.5)
    problem = d2.Problem(agents, d2.IndicatorBox(b, np.full(p, np.inf)))
    return Planted(problem, d2.Network(nx.path_graph(n)), None, None, False, {"excess": excess})


def capacity(rng: Rng) -> Planted:
    """Demand equal to capacity exactly: one feasible point, no Slater point."""
    n = int(rng.integers(2, 7))
    upper = [2.0 ** rng.integers(-3, 4, 2) for _ in range(n)]
    agents = [
        d2.Agent(np.ones((1, 2)), d2.SquaredNorm(float(rng.uniform(1, 5))), d2.IndicatorBox(0.0, u))
        for u in upper
    ]
    total = float(sum(u.sum() for u in upper))
    problem = d2.Problem(agents, d2.IndicatorPoint([total]))
    return Planted(problem, d2.Network(nx.path_graph(n)), upper, None, False)


def flat(rng: Rng) -> Planted:
    """Linear costs, or curvature in some coordinates only; there may be many solutions."""
    return plant(rng, **_sizes(rng), **_pair(rng), smooth="flat")


def unbounded(rng: Rng) -> Planted:
    """Nonnegative pairs of variables that cancel in the rows, whose cost falls as both grow."""
    n, p = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    agents, ray = [], []
    for i in range(n):
        column, cost = rng.standard_normal((p, 1)), rng.uniform(0.5, 2.0)
        falls = 10.0 ** rng.uniform(-2, 0) if i == 0 or rng.random() < 0.3 else -0.1
        f = d2.Quadratic(np.zeros(2), [cost, -cost - falls])
        agents.append(d2.Agent(np.hstack([column, -column]), f, d2.IndicatorNonnegative()))
        ray.append(np.full(2, float(falls > 0)))
    b = sum(agent.A @ rng.uniform(0.5, 1.0, 2) for agent in agents)
    h = d2.IndicatorPoint(b) if rng.random() < 0.5 else d2.IndicatorAtMost(b)
    network = d2.Network(nx.path_graph(n))
    return Planted(d2.Problem(agents, h), network, None, None, True, {"ray": ray})


CLASSES: dict[str, Callable[[Rng], Planted]] = {
    "benign": benign,
    "units": all_units,
    "rows over 6 decades": rows_6,
    "rows over 12 decades": rows_12,
    "agents' units over 6 decades": agents_6,
    "agents' costs over 6 decades": costs_6,
    "condition 1e3-1e6": conditioned,
    "rank-deficient and zero A": deficient,
    "degenerate": degenerate,
    "l = u": equal_bounds,
    "demand 1e-9-1e9": demand,
    "weights 0": weightless,
    "shapes": shapes,
    "graphs": graphs,
    "sparse and operators": storage,
    "flat": flat,
    "infeasible by 10-1e-6": infeasible,
    "unbounded": unbounded,
    "no Slater point": capacity,
}
