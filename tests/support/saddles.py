"""Saddle problems min_x max_y f₁ + f₂ + yᵀBx - g₁ - g₂ with known solutions, by family.

Spectra are log-uniform with both end points attained. Smooth quadratic instances are solved by
their KKT system; the others are built around a solution: points, multipliers and subgradients are
drawn first, then the linear terms that make them optimal.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dual2 as d2
from dual2 import saddle
from rounding import EPS

Array = np.ndarray
Rng = np.random.Generator


@dataclass(frozen=True)
class Saddle:
    """One instance, its solution, and what a solver may be told beside it."""

    f1: d2.Function
    f2: d2.Function | None
    B: Array
    g1: d2.Function | None
    g2: d2.Function | None
    x: Array
    y: Array
    known: dict[str, Any]

    def solve(self, method: str, **options: Any) -> saddle.SaddleResult:
        """Run a solver until |(x,y)-(x*,y*)| ≤ 1e-10 times its value at zero."""
        wishes = {"reference": (self.x, self.y), "every": 1, "max_iterations": 400_000}
        functions = (self.f1, self.f2, self.B, self.g1, self.g2)
        return saddle.solve(*functions, method=method, **(wishes | self.known | options))

    def error(self, answer: saddle.SaddleResult) -> float:
        """|(x,y)-(x*,y*)|/|(x*,y*)|."""
        off = np.concatenate([answer.x - self.x, answer.y - self.y])
        return float(np.linalg.norm(off) / np.linalg.norm(np.concatenate([self.x, self.y])))

    def violation(self) -> float:
        """Relative prox-gradient residual of the stated solution, from values and proxes alone."""
        x, y, zero = self.x, self.y, d2.Zero()
        f2, g1, g2 = self.f2 or zero, self.g1 or zero, self.g2 or zero
        t, s = 1 / self.f1.L, 1 / max(g1.L, 1.0)
        down = self.f1.grad(x) + self.B.T @ y
        up = g1.grad(y) - self.B @ x
        r = np.concatenate([(x - f2.prox(x - t * down, t)) / t, (y - g2.prox(y - s * up, s)) / s])
        size = max(np.abs(self.f1.grad(x)).max(), np.abs(self.B @ x).max(), self.f1.L)
        return float(np.abs(r).max() / size)

    def rounding(self) -> float:
        """The violation that rounding of its sums may leave at an exact solution."""
        x, y, g1 = self.x, self.y, self.g1 or d2.Zero()
        B, L = np.abs(self.B), max(g1.L, 1.0)
        down = np.abs(self.f1.grad(x)) + self.f1.L * np.abs(x).max() + B.T @ np.abs(y)
        up = np.abs(g1.grad(y)) + L * np.abs(y).max() + B @ np.abs(x)
        size = max(np.abs(self.f1.grad(x)).max(), np.abs(self.B @ x).max(), self.f1.L)
        return float((x.size + y.size + 4) * EPS * max(down.max(), up.max()) / size)


# -- pieces -----------------------------------------------------------------------------------
def orthogonal(rng: Rng, n: int) -> Array:
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def spectrum(rng: Rng, n: int, low: float, high: float) -> Array:
    """Log-uniform in [low, high], both ends attained."""
    values = np.exp(rng.uniform(np.log(low), np.log(high), n))
    values[0], values[-1] = low, high
    return values


def positive(rng: Rng, n: int, low: float, high: float, rank: int | None = None) -> Array:
    """Symmetric positive (semi)definite with ``rank`` eigenvalues in [low, high]."""
    rank = n if rank is None else rank
    Q = orthogonal(rng, n)[:, :rank]
    P = (Q * spectrum(rng, rank, low, high)) @ Q.T
    return (P + P.T) / 2


def coupling(rng: Rng, dy: int, dx: int, low: float, high: float, rank: int | None = None) -> Array:
    """Matrix of given rank with nonzero singular values in [low, high]."""
    rank = min(dx, dy) if rank is None else rank
    values = spectrum(rng, rank, low, high)
    return (orthogonal(rng, dy)[:, :rank] * values) @ orthogonal(rng, dx)[:, :rank].T


def from_kkt(P: Array, B: Array, Q: Array, q: Array, r: Array, **known: Any) -> Saddle:
    """½xᵀPx + qᵀx + yᵀBx - ½yᵀQy - rᵀy, solved directly (least norm in y if singular)."""
    K = np.block([[P, B.T], [-B, Q]])
    right = -np.concatenate([q, r])
    full = np.linalg.matrix_rank(K) == len(K)
    z = np.linalg.solve(K, right) if full else np.linalg.lstsq(K, right, rcond=1e-13)[0]
    z += np.linalg.lstsq(K, right - K @ z, rcond=1e-13)[0]
    g1 = d2.Quadratic(Q, r) if np.any(Q) else d2.IndicatorPoint(r).conjugate
    return Saddle(d2.Quadratic(P, q), None, B, g1, None, z[: len(P)], z[len(P) :], known)


def around(f1: d2.Function, B: Array, g1: d2.Function, x: Array, y: Array, **known: Any) -> Saddle:
    """Smooth functions, tilted so that (x, y) solves the problem."""
    f1 = f1.tilt(-f1.grad(x) - B.T @ y)
    g1 = g1.tilt(B @ x - g1.grad(y))
    return Saddle(f1, None, B, g1, None, x, y, known)


def l1_part(rng: Rng, n: int, weight: float, zeros: float) -> tuple[d2.Function, Array, Array]:
    """l1 norm, a point of which a share is zero, and a subgradient there."""
    x = rng.standard_normal(n)
    x += 0.2 * np.sign(x)
    off = rng.random(n) < zeros
    x[off] = 0.0
    slope = np.where(off, rng.uniform(-0.9, 0.9, n), np.sign(x))
    return d2.L1Norm(weight), x, weight * slope


def box_part(rng: Rng, n: int, weight: float, active: float) -> tuple[d2.Function, Array, Array]:
    """The box [-1, 1], a point of which a share is at a bound, and a normal there."""
    y = rng.uniform(-0.9, 0.9, n)
    on = rng.random(n) < active
    y[on] = np.sign(y[on])
    return d2.IndicatorBox(-1.0, 1.0), y, weight * np.where(on, y * rng.uniform(0.1, 1.0, n), 0.0)


def with_parts(base: Saddle, f2: Any, g2: Any) -> Saddle:
    """The base's matrices with nonsmooth parts (function, point, subgradient), None for zero."""
    rng = np.random.default_rng(5)
    none = lambda n: (None, rng.standard_normal(n), np.zeros(n))  # noqa: E731
    f2, x, u = f2 or none(base.B.shape[1])
    g2, y, v = g2 or none(base.B.shape[0])
    g1 = base.g1 or d2.Zero()
    f1 = base.f1.tilt(-base.f1.grad(x) - base.B.T @ y - u)
    g1 = g1.tilt(base.B @ x - g1.grad(y) - v)
    return replace(base, f1=f1, f2=f2, g1=g1, g2=g2, x=x, y=y)


# -- families of the comparison ---------------------------------------------------------------
def strongly(kx: float, ky: float, kxy: float, seed: int, dx: int = 40, dy: int = 30) -> Saddle:
    """A, B: strongly convex-strongly concave quadratics with the three condition numbers."""
    rng = np.random.default_rng([seed, 1])
    S = np.sqrt(kxy)
    P, Q = positive(rng, dx, 1.0, kx), positive(rng, dy, 1.0, ky)
    B = coupling(rng, dy, dx, S / 10, S)
    return from_kkt(P, B, Q, rng.standard_normal(dx), rng.standard_normal(dy))


def nonsmooth(k: float, order: str, seed: int) -> Saddle:
    """N1: A with l1 and box (``"l1 box"`` or ``"box l1"``), partly active."""
    rng, base = np.random.default_rng([seed, 2]), strongly(k, k, k, seed)
    parts = {"l1": l1_part, "box": box_part}
    one, two = (parts[name] for name in order.split())
    return with_parts(base, one(rng, 40, np.sqrt(k), 0.4), two(rng, 30, np.sqrt(k), 0.3))


def full_rank(kx: float, kB: float, seed: int, box: bool = False) -> Saddle:
    """C, N2: g₁ convex only, B of full row rank with σ_min = 1/√κ_B, L_xL_y = σ²_min."""
    rng = np.random.default_rng([seed, 3])
    P, B = positive(rng, 40, 1.0, kx), coupling(rng, 30, 40, 1 / np.sqrt(kB), 1.0)
    Ly = 1 / (kB * kx)
    Q = positive(rng, 30, Ly / 100, Ly, rank=20)
    base = from_kkt(P, B, Q, rng.standard_normal(40), rng.standard_normal(30))
    return with_parts(base, None, box_part(rng, 30, 1.0, 0.4)) if box else base


def linear(kx: float, kB: float, seed: int, rank: int = 30) -> Saddle:
    """D: g₁(y) = <b, y> with b in the range of B, of full row rank or less."""
    rng = np.random.default_rng([seed, 4])
    P, B = positive(rng, 40, 1.0, kx), coupling(rng, 30, 40, 1 / np.sqrt(kB), 1.0, rank)
    b = B @ rng.standard_normal(40)
    known = {} if rank == 30 else {"sigma_min": 1 / np.sqrt(kB)}
    return from_kkt(P, B, np.zeros((30, 30)), rng.standard_normal(40), b, **known)


def augmented(k: float, seed: int) -> Saddle:
    """E: B of rank 15 and P of rank 20 of 30 rows, BBᵀ + L_xP positive definite."""
    rng = np.random.default_rng([seed, 5])
    U, V = orthogonal(rng, 30), orthogonal(rng, 40)
    P = positive(rng, 40, 1.0, k)
    B = (U[:, :15] * spectrum(rng, 15, 0.7, 1.0)) @ V[:, :15].T
    Q = (U[:, 10:] * spectrum(rng, 20, 0.5 / k, 1.0 / k)) @ U[:, 10:].T
    Q = (Q + Q.T) / 2
    known = {"mu_phi": float(np.linalg.eigvalsh(B @ B.T + k * Q)[0] / k)}
    return from_kkt(P, B, Q, rng.standard_normal(40), rng.standard_normal(30), **known)


def softplus(rng: Rng, n: int, low: float, high: float) -> d2.LogisticRegression:
    """Σ log(1+exp(-Mx)) + (low/2)|x|² with smoothness ``high``: non-quadratic, compiled."""
    M = coupling(rng, n, n, 2 * np.sqrt((high - low) / 50), 2 * np.sqrt(high - low))
    return d2.LogisticRegression(M, rng.choice([-1.0, 1.0], n), ridge=low)


def pseudo_huber(rng: Rng, n: int, low: float, high: float) -> d2.Function:
    """Σ (high-low)(√(1+(Uy)²) - 1) + (low/2)|y|², a Python function."""
    U, w = orthogonal(rng, n), high - low

    def grad(y: Array) -> Array:
        u = U @ y
        return w * (U.T @ (u / np.sqrt(1 + u * u))) + low * y

    return d2.Smooth(grad, low, high)


def nonquadratic(kind: str, k: float, seed: int) -> Saddle:
    """G: softplus f₁; g₁ strongly convex, convex with full rank B, or linear."""
    rng = np.random.default_rng([seed, 6])
    dx, dy = 30, 20
    f1 = softplus(rng, dx, 1.0, k)
    x, y = np.linalg.solve(f1.M, rng.standard_normal(dx)), rng.standard_normal(dy)
    if kind == "strong":
        B = coupling(rng, dy, dx, np.sqrt(k) / 10, np.sqrt(k))
        return around(f1, B, pseudo_huber(rng, dy, 1.0, k), x, y)
    B = coupling(rng, dy, dx, 0.5, 1.0)
    if kind == "full rank":
        return around(f1, B, pseudo_huber(rng, dy, 0.0, 0.25 / k), x, y)
    return around(f1, B, d2.Zero(), x, y)


def robust(seed: int) -> tuple[Saddle, float]:
    """H: a small strongly convex-strongly concave instance of random size, shape and scale.

    Returns it and √κ_x + √κ_y + √κ_xy.
    """
    rng = np.random.default_rng([seed, 7])
    dx, dy = rng.integers(4, 16, 2)
    kx, ky, kxy = np.exp(rng.uniform(np.log(1.05), np.log(3e3), 3))
    mx, my = np.exp(rng.uniform(-3, 3, 2))
    S = np.sqrt(kxy * mx * my)
    P, Q = positive(rng, dx, mx, kx * mx), positive(rng, dy, my, ky * my)
    B = coupling(rng, dy, dx, S / 20, S)
    made = from_kkt(P, B, Q, rng.standard_normal(dx), rng.standard_normal(dy))
    return made, float(np.sqrt([kx, ky, kxy]).sum())


def commuting(
    kx: float, ky: float, kxy: float, smallest: float = 0.0, levels: int = 4, linear: bool = False
) -> Saddle:
    """Diagonal f₁, g₁ and B over a grid of all combinations of curvatures: the worst cases.

    Curvatures of f₁ in [1, κ_x], of g₁ in [1, κ_y] (κ_y = 0: linear or zero), singular values in
    [smallest, √κ_xy].
    """
    grid = lambda low, high: np.geomspace(low, high, levels) if high > low else [high]  # noqa: E731
    S = np.sqrt(kxy)
    singular = [0.0, *grid(S / 30, S)] if smallest == 0 else grid(smallest, S)
    cells = np.array([(a, b, s) for a in grid(1.0, kx) for b in grid(1.0, ky) for s in singular])
    p, q, s = cells.T
    q = np.zeros_like(q) if linear else q
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, len(p)))
    B = np.diag(s)
    return around(d2.Quadratic(p), B, d2.Quadratic(q) if q.any() else d2.Zero(), x, y)


# -- what independent runs took -----------------------------------------------------------------
Counts = dict[str, tuple[int, ...]]
FAMILIES: dict[str, tuple[Callable[[float], Saddle], Counts]] = {
    "A": (
        lambda k: strongly(k, k, k, 1),
        {"LPD": (429, 712, 1366), "ABPD-PGS": (488, 948, 1879), "APDG": (560, 974, 1924),
         "PDPG": (1930, 5852, 17383), "iDAPG": (281, 560, 1131)},
    ),
    "B, κ_x": (
        lambda k: strongly(k, 2, 2, 1),
        {"LPD": (230, 436, 809), "ABPD-PGS": (371, 731, 1451), "APDG": (577, 1111, 2176),
         "PDPG": (1866, 7511, 30092), "iDAPG": (28, 28, 28)},
    ),
    "B, κ_y": (
        lambda k: strongly(2, k, 2, 1),
        {"LPD": (250, 455, 867), "ABPD-PGS": (378, 743, 1473), "APDG": (637, 1216, 2373),
         "PDPG": (2044, 8170, 32696), "iDAPG": (222, 456, 925)},
    ),
    "B, κ_xy": (
        lambda k: strongly(2, 2, k, 1),
        {"LPD": (346, 682, 1360), "ABPD-PGS": (475, 936, 1863), "APDG": (635, 1306, 2660),
         "PDPG": (1023, 2163, 3016), "iDAPG": (151, 232, 289)},
    ),
    "N1, l1 box": (
        lambda k: nonsmooth(k, "l1 box", 1),
        {"LPD": (331, 654, 1216), "ABPD-PGS": (481, 946, 1892), "PDPG": (2468, 7372, 30104),
         "iDAPG": (297, 594, 1182)},
    ),
    "N1, box l1": (
        lambda k: nonsmooth(k, "box l1", 1),
        {"LPD": (319, 652, 1307), "ABPD-PGS": (476, 944, 1873), "PDPG": (1712, 4563, 17684),
         "iDAPG": (291, 586, 1198)},
    ),
    "C, κ_B = 4": (
        lambda k: full_rank(k, 4, 1),
        {"APDG": (812, 1377, 2729), "PDPG": (2907, 9339, 29328), "iDAPG": (367, 752, 1530)},
    ),
    "C, κ_B = 16": (
        lambda k: full_rank(k, 16, 1),
        {"APDG": (1459,), "PDPG": (8895,), "iDAPG": (711,)},
    ),
    "N2, box": (
        lambda k: full_rank(k, 4, 1, True),
        {"PDPG": (1800, 5343, 28025), "iDAPG": (308, 600, 949)},
    ),
    "D, κ_B = 4": (
        lambda k: linear(k, 4, 1),
        {"Salim": (393, 787, 1564), "APDG": (920, 1497, 2782), "PDPG": (3180, 10304, 30273),
         "iDAPG": (414, 835, 1684)},
    ),
    "D, κ_B = 16": (
        lambda k: linear(k, 16, 1),
        {"Salim": (400,), "APDG": (1495,), "PDPG": (9773,), "iDAPG": (828,)},
    ),
    "D, rank 20": (
        lambda k: linear(k, 4, 1, 20),
        {"Salim": (424, 785, 1621), "APDG": (727, 1302, 2520), "PDPG": (1741, 4966, 13327),
         "iDAPG": (363, 763, 1523)},
    ),
    "E": (
        lambda k: augmented(k, 1),
        {"PDPG": (3866, 14715, 56090), "iDAPG": (300, 583, 1121)},
    ),
    "G, strong": (
        lambda k: nonquadratic("strong", k, 1),
        {"LPD": (376, 678, 1297), "ABPD-PGS": (470, 919, 1890), "APDG": (505, 931, 1814),
         "PDPG": (1567, 5231, 12246), "iDAPG": (279, 575, 1124)},
    ),
    "G, full rank": (
        lambda k: nonquadratic("full rank", k, 1),
        {"APDG": (618, 1159, 2292), "PDPG": (2425, 9809, 39290), "iDAPG": (386, 830, 1716)},
    ),
    "G, linear": (
        lambda k: nonquadratic("linear", k, 1),
        {"Salim": (398, 808, 1627), "APDG": (634, 1284, 2568), "iDAPG": (396, 826, 1736)},
    ),
}  # fmt: skip
"""Instances by κ, and the iterations that independent programs took to 1e-10 on instances of the
same kind at κ = 100, 400, 1600."""
