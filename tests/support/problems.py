"""Random problems that are strictly feasible by construction, over every pair of g and h.

Each starts from a point x0 in the relative interior of every dom g_i; the set or target of h is
then placed around s0 = Σ A_i x0_i so that s0 lies in the relative interior of dom h. Seeds 0…149
go once through all pairs, 150…299 once more with other data.
"""

from collections.abc import Callable

import networkx as nx
import numpy as np

import dual2 as d2

Rng = np.random.Generator


def random_problem(
    seed: int, g: str | None = None, h: str | None = None
) -> tuple[d2.Problem, d2.Network]:
    """Problem and network of a seed: n in 2…30, d_i ≤ 8, p ≤ 15, condition of f up to 1000."""
    g, h = pair(seed, g, h)
    rng = np.random.default_rng([seed, 20240])
    n = int(rng.integers(2, 31))
    dims = rng.integers(1, 9, size=n)
    parts = [G[g](rng, int(d)) for d in dims]
    freedom = sum(free for _, _, free in parts)
    p = int(rng.integers(2 if h == "stacked" else 1, 16))
    if h in ("point", "stacked"):
        p = max(min(p, freedom // 2), 2 if h == "stacked" else 1)
    blocks = [random_matrix(rng, p, int(d)) / np.sqrt(dims.sum()) for d in dims]
    s0 = sum((A @ x0 for A, (_, x0, _) in zip(blocks, parts, strict=True)), np.zeros(p))
    if h == "nonnegative squared":
        signs = np.where(s0 < 0, -1.0, 1.0)
        blocks, s0 = [signs[:, None] * A for A in blocks], signs * s0
    kappa = 10.0 ** rng.uniform(0, 3)
    agents = [
        d2.Agent(A, random_smooth(rng, x0, kappa), function)
        for A, (function, x0, _) in zip(blocks, parts, strict=True)
    ]
    return d2.Problem(agents, H[h](rng, s0)), d2.Network(random_graph(rng, n))


def pair(seed: int, g: str | None = None, h: str | None = None) -> tuple[str, str]:
    """Names of the g and h of a seed, unless given."""
    return g or list(G)[seed % len(G)], h or list(H)[seed // len(G) % len(H)]


def random_graph(rng: Rng, n: int) -> nx.Graph:
    """A path, a cycle, a star, or a random tree with some more edges."""
    kind = rng.integers(6)
    if kind < 3:
        return (nx.path_graph, nx.cycle_graph, lambda k: nx.star_graph(k - 1))[kind](n)
    graph = nx.Graph([(k, int(rng.integers(k))) for k in range(1, n)])
    extra = rng.integers(n, size=(int(rng.integers(0, 2 * n)), 2))
    graph.add_edges_from((int(a), int(b)) for a, b in extra if a != b)
    return graph


def random_matrix(rng: Rng, p: int, d: int) -> np.ndarray:
    """Normal entries, in one case of four with half of them zero."""
    A = rng.standard_normal((p, d)) * 10.0 ** rng.uniform(-0.5, 0.5)
    return A * (rng.random((p, d)) < 0.5) if rng.random() < 0.25 else A


# -- f --------------------------------------------------------------------------------------


def random_smooth(rng: Rng, x0: np.ndarray, kappa: float) -> d2.Function:
    """Strongly convex f with curvatures between 1 and kappa, minimised at a distance from x0."""
    d = len(x0)
    target = x0 + rng.standard_normal(d)
    curvatures = kappa ** rng.random(d)
    kind = rng.integers(5)
    if kind == 0:
        return d2.SquaredNorm(float(curvatures[0]), target)
    if kind == 1:
        return d2.Quadratic(curvatures, -curvatures * target)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    if kind == 2:
        P = basis @ np.diag(curvatures) @ basis.T
        P = (P + P.T) / 2
        return d2.Quadratic(P, -P @ target)
    if kind == 3:
        M = np.sqrt(curvatures)[:, None] * basis
        return d2.LeastSquares(M, M @ target, ridge=1.0)
    rows = int(rng.integers(d, 3 * d + 1))
    M = rng.standard_normal((rows, d))
    M *= 2 * np.sqrt(kappa) / np.linalg.norm(M, 2)
    return d2.LogisticRegression(M, rng.choice([-1.0, 1.0], rows), ridge=1.0)


# -- g: (function, point in the relative interior of its domain, dimension of the domain) ----

Part = tuple[d2.Function, np.ndarray, int]


def _norm(make: Callable[[Rng, int], d2.Function]) -> Callable[[Rng, int], Part]:
    return lambda rng, d: (make(rng, d), rng.standard_normal(d), d)


def _box(rng: Rng, d: int) -> Part:
    x0 = rng.standard_normal(d)
    lower, upper = x0 - rng.uniform(0.1, 1, d), x0 + rng.uniform(0.1, 1, d)
    lower[rng.random(d) < 0.2], upper[rng.random(d) < 0.2] = -np.inf, np.inf
    fixed = (rng.random(d) < 0.1) & (np.arange(d) > 0)
    lower[fixed] = upper[fixed] = x0[fixed]
    return d2.IndicatorBox(lower, upper), x0, d - int(fixed.sum())


def _nonnegative(rng: Rng, d: int) -> Part:
    return d2.IndicatorNonnegative(), np.abs(rng.standard_normal(d)) + 0.1, d


def _simplex(rng: Rng, d: int) -> Part:
    total = float(rng.uniform(0.5, 3))
    return d2.IndicatorSimplex(total), total * rng.dirichlet(np.full(d, 3.0)), d - 1


def _ball(rng: Rng, d: int) -> Part:
    center, radius = rng.standard_normal(d), float(rng.uniform(0.3, 1.5))
    direction = rng.standard_normal(d)
    x0 = center + 0.7 * radius * rng.random() * direction / np.linalg.norm(direction)
    return d2.IndicatorBall(radius, center), x0, d


def _halfspace(rng: Rng, d: int) -> Part:
    x0, a = rng.standard_normal(d), rng.standard_normal(d)
    return d2.IndicatorHalfspace(a, float(a @ x0 + rng.uniform(0.1, 1))), x0, d


def _affine(rng: Rng, d: int) -> Part:
    x0, m = rng.standard_normal(d), int(rng.integers(1, max(2, d // 2 + 1)))
    M = rng.standard_normal((m, d))
    if rng.random() < 0.2:
        M = np.vstack([M, M[:1]])
    return d2.IndicatorAffine(M, M @ x0), x0, d - m


G: dict[str, Callable[[Rng, int], Part]] = {
    "zero": _norm(lambda rng, d: d2.Zero()),
    "l1": _norm(lambda rng, d: d2.L1Norm(float(rng.uniform(0.1, 1)))),
    "l2": _norm(lambda rng, d: d2.L2Norm(float(rng.uniform(0.1, 2)))),
    "elastic net": _norm(lambda rng, d: d2.ElasticNet(*rng.uniform(0.1, 1, 2).tolist())),
    "box": _box,
    "nonnegative": _nonnegative,
    "simplex": _simplex,
    "ball": _ball,
    "halfspace": _halfspace,
    "affine": _affine,
}


# -- h --------------------------------------------------------------------------------------


def _target(rng: Rng, s0: np.ndarray) -> np.ndarray:
    return s0 + rng.standard_normal(len(s0))


def _scale(rng: Rng) -> float:
    return float(10.0 ** rng.uniform(-1, 1))


def _labels(rng: Rng, s0: np.ndarray) -> np.ndarray:
    return rng.choice([-1.0, 1.0], len(s0))


def _interval(rng: Rng, s0: np.ndarray) -> d2.Function:
    p = len(s0)
    lower, upper = s0 - rng.uniform(0.02, 0.5, p), s0 + rng.uniform(0.02, 0.5, p)
    lower[rng.random(p) < 0.2], upper[rng.random(p) < 0.2] = -np.inf, np.inf
    return d2.IndicatorBox(lower, upper)


def _sphere(rng: Rng, s0: np.ndarray) -> d2.Function:
    radius, direction = float(rng.uniform(0.1, 1)), rng.standard_normal(len(s0))
    center = s0 + 0.8 * radius * rng.random() * direction / np.linalg.norm(direction)
    return d2.IndicatorBall(radius, center)


def _stacked(rng: Rng, s0: np.ndarray) -> d2.Function:
    first = int(rng.integers(1, len(s0)))
    names = rng.choice(["point", "at most", "box", "squared", "absolute", "logistic", "l2"], 2)
    pieces = [s0[:first], s0[first:]]
    functions = [H[str(name)](rng, piece) for name, piece in zip(names, pieces, strict=True)]
    return d2.Stacked(functions, [len(piece) for piece in pieces])


H: dict[str, Callable[[Rng, np.ndarray], d2.Function]] = {
    "point": lambda rng, s0: d2.IndicatorPoint(s0),
    "at most": lambda rng, s0: d2.IndicatorAtMost(s0 + rng.uniform(0.02, 0.5, len(s0))),
    "box": _interval,
    "squared": lambda rng, s0: d2.SquaredLoss(_target(rng, s0), _scale(rng)),
    "nonnegative squared": lambda rng, s0: d2.NonnegativeSquaredLoss(_target(rng, s0), _scale(rng)),
    "huber": lambda rng, s0: d2.HuberLoss(
        _target(rng, s0), float(rng.uniform(0.2, 1.5)), _scale(rng)
    ),
    "huber of the norm": lambda rng, s0: d2.HuberNormLoss(
        _target(rng, s0), float(rng.uniform(0.2, 1.5)), _scale(rng)
    ),
    "absolute": lambda rng, s0: d2.AbsoluteLoss(_target(rng, s0), _scale(rng)),
    "quantile": lambda rng, s0: d2.QuantileLoss(
        _target(rng, s0), float(rng.uniform(0.1, 0.9)), _scale(rng)
    ),
    "logistic": lambda rng, s0: d2.LogisticLoss(_labels(rng, s0), _scale(rng)),
    "hinge": lambda rng, s0: d2.HingeLoss(_labels(rng, s0), _scale(rng)),
    "poisson": lambda rng, s0: d2.PoissonLoss(rng.poisson(2.0, len(s0)).astype(float), _scale(rng)),
    "stacked": _stacked,
    "l1": lambda rng, s0: d2.L1Norm(_scale(rng)),
    "l2": lambda rng, s0: d2.L2Norm(_scale(rng)),
    "ball": _sphere,
}
