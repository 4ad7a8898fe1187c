"""Problems whose solution is known because they were built around it.

A point x*, a price λ* and subgradients ξ_i ∈ ∂g_i(x*_i) are drawn; then f_i gets the slope that
makes ∇f_i(x*_i) + A_iᵀλ* + ξ_i = 0, and the set or target of h is placed so that
λ* ∈ ∂h(Σ A_i x*_i). All f_i are strongly convex, so x* is the only solution. Units are factors of
the rows, of each agent's variables, of each agent's costs and of the objective; the solution moves
with them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import networkx as nx
import numpy as np

import dual2 as d2
from dual2.problem.matrices import as_dense
from problems import random_graph

Rng = np.random.Generator
Array = np.ndarray


@dataclass(frozen=True)
class Units:
    """Factors of one problem: ``rows`` (p), ``variables`` (n), ``costs`` (n), ``objective``."""

    rows: Array
    variables: Array
    costs: Array
    objective: float = 1.0


@dataclass(frozen=True)
class Planted:
    """A problem with its solution (or None where it has none) and the class it belongs to."""

    problem: d2.Problem
    network: d2.Network
    x: list[Array] | None
    price: Array | None
    slater: bool = True
    notes: dict[str, object] = field(default_factory=dict)


# -- g: (point, subgradient, function), in friendly units; u scales the variable, c the cost ---
def _zero(rng: Rng, d: int, u: float, c: float):
    return rng.standard_normal(d), np.zeros(d), d2.Zero()


def _l1(rng: Rng, d: int, u: float, c: float):
    x = np.where(rng.random(d) < 0.5, 0.0, rng.standard_normal(d))
    xi = np.where(x == 0, rng.uniform(-0.8, 0.8, d), np.sign(x))
    return x, xi, d2.L1Norm(c / u)


def _elastic(rng: Rng, d: int, u: float, c: float):
    x, xi, _ = _l1(rng, d, u, c)
    return x, xi + 0.5 * x, d2.ElasticNet(c / u, 0.5 * c / u**2)


def _box(rng: Rng, d: int, u: float, c: float):
    side = rng.integers(-1, 2, d)
    x = np.where(side == 0, rng.uniform(-0.8, 0.8, d), side.astype(float))
    fixed = rng.random(d) < 0.1
    lower, upper = np.where(fixed, x, -1.0), np.where(fixed, x, 1.0)
    lower[(side == 1) & ~fixed & (rng.random(d) < 0.3)] = -np.inf
    xi = np.where(fixed, rng.standard_normal(d), side * rng.uniform(0.1, 1.0, d))
    return x, xi, d2.IndicatorBox(u * lower, u * upper)


def _nonnegative(rng: Rng, d: int, u: float, c: float):
    x = np.where(rng.random(d) < 0.4, 0.0, rng.uniform(0.1, 2.0, d))
    return x, np.where(x == 0, -rng.uniform(0.1, 1.0, d), 0.0), d2.IndicatorNonnegative()


def _simplex(rng: Rng, d: int, u: float, c: float):
    x = np.where(rng.random(d) < 0.4, 0.0, rng.uniform(0.1, 1.0, d))
    x[int(rng.integers(d))] = 1.0
    xi = rng.standard_normal() - np.where(x == 0, rng.uniform(0.1, 1.0, d), 0.0)
    return x, xi, d2.IndicatorSimplex(u * float(x.sum()))


def _ball(rng: Rng, d: int, u: float, c: float):
    away = rng.standard_normal(d)
    center, on = rng.standard_normal(d), rng.random() < 0.6
    length = float(np.linalg.norm(away))
    xi = away * rng.uniform(0.1, 1.0) if on else np.zeros(d)
    return center + away, xi, d2.IndicatorBall(u * length * (1.0 if on else 1.5), u * center)


def _halfspace(rng: Rng, d: int, u: float, c: float):
    x, a, on = rng.standard_normal(d), rng.standard_normal(d), rng.random() < 0.6
    xi = a * rng.uniform(0.1, 1.0) if on else np.zeros(d)
    return x, xi, d2.IndicatorHalfspace(a, u * float(a @ x) + (0.0 if on else u))


def _l2(rng: Rng, d: int, u: float, c: float):
    x = rng.standard_normal(d)
    return x, 0.7 * x / np.linalg.norm(x), d2.L2Norm(0.7 * c / u)


G: dict[str, Callable] = {
    "zero": _zero, "l1": _l1, "elastic net": _elastic, "box": _box, "nonnegative": _nonnegative,
    "simplex": _simplex, "ball": _ball, "halfspace": _halfspace, "l2": _l2,
}  # fmt: skip


# -- h: (price, function), given s in its final units; r scales the rows, o the price ------------
def _point(rng: Rng, s: Array, r: Array, o: Array):
    return o * rng.standard_normal(len(s)), d2.IndicatorPoint(s)


def _at_most(rng: Rng, s: Array, r: Array, o: Array):
    on = rng.random(len(s)) < 0.6
    lam = np.where(on, rng.uniform(0.1, 1.5, len(s)), 0.0)
    return o * lam, d2.IndicatorAtMost(np.where(on, s, s + r * rng.uniform(0.1, 1.0, len(s))))


def _interval(rng: Rng, s: Array, r: Array, o: Array):
    side, gap = rng.integers(-1, 2, len(s)), r * rng.uniform(0.2, 1.0, len(s))
    lower, upper = np.where(side < 0, s, s - gap), np.where(side > 0, s, s + gap)
    return o * side * rng.uniform(0.1, 1.5, len(s)), d2.IndicatorBox(lower, upper)


def _loss(make: Callable[[Rng, Array, Array, float, float], d2.Function]):
    """Smooth h: the price follows from s. One factor for all rows."""

    def build(rng: Rng, s: Array, r: Array, o: Array):
        h = make(rng, s, rng.standard_normal(len(s)), float(r[0]), float(o[0]))
        return h.grad(s), h

    return build


def _absolute(rng: Rng, s: Array, r: Array, o: Array):
    side, scale = rng.integers(-1, 2, len(s)), float(o[0])
    lam = np.where(side == 0, rng.uniform(-0.8, 0.8, len(s)), side.astype(float))
    return scale * lam, d2.AbsoluteLoss(s - side * r * rng.uniform(0.1, 1.0, len(s)), scale)


H: dict[str, Callable] = {
    "point": _point,
    "at most": _at_most,
    "box": _interval,
    "squared": _loss(lambda rng, s, e, r, o: d2.SquaredLoss(s + r * e, o / r)),
    "huber": _loss(lambda rng, s, e, r, o: d2.HuberLoss(s + r * e, 0.7 * r, o / r)),
    "absolute": _absolute,
}
BY_ROW = ("point", "at most", "box")
"""Those whose rows may have units of their own."""


def plant(
    rng: Rng, *, n: int, p: int, g: str = "zero", h: str = "point", units: Units | None = None,
    kappa: float = 10.0, dims: Array | None = None, matrix: Callable | None = None,
    graph: nx.Graph | None = None, smooth: str = "mixed",
) -> Planted:  # fmt: skip
    """A problem around a random solution, in the units given."""
    units = Units(np.ones(p), np.ones(n), np.ones(n)) if units is None else units
    dims = rng.integers(1, 6, n) if dims is None else dims
    matrix = (lambda rng, p, d, i: rng.standard_normal((p, d))) if matrix is None else matrix
    blocks, points, pulls, functions = [], [], [], []
    for i, d in enumerate(dims):
        u, c = float(units.variables[i]), float(units.objective * units.costs[i])
        blocks.append(units.rows[:, None] * matrix(rng, p, int(d), i) / u)
        x, xi, function = G[g](rng, int(d), u, c)
        points.append(u * x)
        pulls.append(c / u * xi)
        functions.append(function)
    s = sum((A @ x for A, x in zip(blocks, points, strict=True)), np.zeros(p))
    price, target = H[h](rng, s, units.rows, units.objective / units.rows)
    agents = []
    for i, (A, x, xi) in enumerate(zip(blocks, points, pulls, strict=True)):
        u, c = float(units.variables[i]), float(units.objective * units.costs[i])
        f = _smooth(rng, x, -xi - A.T @ price, c / u**2, kappa, smooth)
        agents.append(d2.Agent(A, f, functions[i]))
    graph = random_graph(rng, n) if graph is None else graph
    notes = {"g": g, "h": h, "n": n, "p": p, "kappa": kappa}
    return Planted(d2.Problem(agents, target), d2.Network(graph), points, price, True, notes)


def _smooth(rng: Rng, x: Array, slope: Array, unit: float, kappa: float, kind: str) -> d2.Function:
    """Strongly convex, with the gradient ``slope`` at x and curvatures unit … unit·kappa.

    ``flat`` ones have no curvature in some coordinates, or in none.
    """
    d, curvatures = len(x), unit * kappa ** rng.random(len(x))
    if kind == "flat":
        curvatures = curvatures * (rng.random(d) < rng.choice([0.0, 0.5]))
        return d2.Quadratic(curvatures, slope - curvatures * x)
    kind = str(rng.choice(["norm", "diagonal", "dense"])) if kind == "mixed" else kind
    if kind == "norm":
        return d2.SquaredNorm(float(curvatures[0]), x - slope / curvatures[0])
    if kind == "diagonal" or d == 1:
        return d2.Quadratic(curvatures, slope - curvatures * x)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    P = basis @ np.diag(curvatures) @ basis.T
    P = (P + P.T) / 2
    return d2.Quadratic(P, slope - P @ x)


# -- how far an answer is off ---------------------------------------------------------------------
@dataclass(frozen=True)
class Errors:
    """Of an answer x: largest relative violation of a row, objective and energy, all relative.

    ``rows``: max_j dist(s_j, dom h_j)/(Σ|A_i||x_i|)_j. ``objective``: |F(x) - F(x*)| with h at the
    nearest point of its domain, over the sum of the magnitudes of all terms. ``energy``:
    Σ (μ_i/2)|x_i - x*_i|² over the same. ``worst``: max_i |x_i - x*_i|/max(|x*_i|, …), for reading.
    """

    rows: float
    objective: float
    energy: float
    worst: float

    @property
    def false(self) -> bool:
        """Whether no one would call the answer right to 1e-8."""
        return not (self.rows <= 1e-6 and self.objective <= 1e-6 and self.energy <= 1e-6)


def errors(planted: Planted, x: list[Array]) -> Errors:
    """Compare an answer with the planted solution."""
    problem, best = planted.problem, planted.x
    assert best is not None
    parts = zip(problem.agents, x, strict=True)
    load = sum(np.abs(as_dense(agent.A)) @ np.abs(v) for agent, v in parts)
    s, y = problem.coupling(x), _nearest(problem, x)
    rows = float(np.max(np.abs(s - y) / np.maximum(np.maximum(load, np.abs(y)), 1e-300)))
    value, size = _value(problem, x, y)
    right, other = _value(problem, best, _nearest(problem, best))
    size = max(size, other, 1e-300)
    pairs = list(zip(problem.agents, x, best, strict=True))
    energy = sum(0.5 * a.f.mu * float(np.sum((v - w) ** 2)) for a, v, w in pairs)
    worst = max(float(np.linalg.norm(v - w) / max(np.linalg.norm(w), 1e-300)) for _, v, w in pairs)
    return Errors(rows, abs(value - right) / size, energy / size, worst)


def _nearest(problem: d2.Problem, x: list[Array]) -> Array:
    """Σ A_i x_i, or the nearest point of h where that is a set."""
    s = problem.coupling(x)
    return problem.h.prox(s, 1.0) if _is_set(problem.h) else s


def _is_set(h: d2.Function) -> bool:
    return isinstance(h, d2.IndicatorPoint | d2.IndicatorAtMost | d2.IndicatorBox)


def _value(problem: d2.Problem, x: list[Array], y: Array) -> tuple[float, float]:
    """Objective with g and h taken on their domains, and the sum of the magnitudes of its terms."""
    value, size = 0.0, 0.0
    for agent, v in zip(problem.agents, x, strict=True):
        f, g = float(agent.f.value(v)), float(agent.g.value(v))
        g = g if np.isfinite(g) else 0.0
        value, size = value + f + g, size + abs(f) + abs(g) + abs(float(agent.f.grad(v) @ v))
    h = 0.0 if _is_set(problem.h) else float(problem.h.value(y))
    return value + h, size + abs(h)


def without(planted: Planted, **changes) -> Planted:
    """The same with other fields."""
    return replace(planted, **changes)
