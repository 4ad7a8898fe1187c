"""The KKT residual of linear and quadratic programs once more, from its definition alone.

One dense matrix, extended precision, and no line of the library: what is compared with it must
have been computed otherwise. min Σ ½xᵀP_i x + q_iᵀx over l ≤ x ≤ u with low ≤ Σ A_i x_i ≤ high.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import dual2 as d2

LONG = np.longdouble
FLOOR, CANCELLATION, TINY = LONG(1e-12), LONG(1e3), LONG(1e-100)


@dataclass(frozen=True)
class Program:
    """Data of the agents side by side; ``parts`` are their numbers of variables."""

    A: np.ndarray
    P: np.ndarray
    q: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    low: np.ndarray
    high: np.ndarray
    parts: tuple[int, ...]

    @property
    def cuts(self):
        return [int(end) for end in np.cumsum(self.parts)[:-1]]

    def problem(self):
        """The same for the library."""
        agents, first = [], 0
        for d in self.parts:
            own = slice(first, first + d)
            first += d
            P = self.P[own, own]
            diagonal = np.array_equal(P, np.diag(np.diag(P)))
            f = d2.Quadratic(np.diag(P).copy() if diagonal else P, self.q[own])
            g = d2.IndicatorBox(self.lower[own], self.upper[own])
            agents.append(d2.Agent(self.A[:, own], f, g))
        return d2.Problem(agents, d2.IndicatorBox(self.low, self.high))


def value(program, x):
    """The objective without constraints."""
    x = x.astype(LONG)
    return 0.5 * x @ (program.P @ x) + program.q @ x


def plain_kkt(program, x, lam):
    """(stationarity, coupling, objective) by the definition in ``dual2.problem.KKT``."""
    A, P, q = (np.asarray(v, LONG) for v in (program.A, program.P, program.q))
    x, lam = np.asarray(x, LONG), np.asarray(lam, LONG)
    gradient, pull, curvature = P @ x + q, A.T @ lam, np.diag(P)
    force = np.max([abs(gradient), abs(pull), curvature * abs(x)], axis=0)
    s, load, d = A @ x, abs(A) @ abs(x), np.sqrt((A**2).sum(axis=1))
    d = np.where(d > 0, d, 1)
    e = (abs(A) / d[:, None]).max(axis=0)
    price = max((force[e > 0] / e[e > 0]).max(initial=0), 0)
    pinned = abs(np.clip(2 * x, program.lower, program.upper)) <= 1.5 * abs(x)
    known = np.max([abs(gradient), abs(pull), abs(q)], axis=0)
    explained = np.where(curvature > 0, known / np.where(curvature > 0, curvature, 1), 0)
    sizes = np.where(pinned, abs(x), np.minimum(abs(x), CANCELLATION * explained))
    length = (e * sizes).max(initial=0)
    # rows
    least = FLOOR * (price if price > 0 else 1) / d
    filled = np.where(load > 0, load, d * ((load / d).max() or 1))
    phi = np.maximum(force, np.minimum(abs(A).T @ abs(lam), CANCELLATION * e * price))
    with np.errstate(divide="ignore", invalid="ignore"):
        felt = np.where(A != 0, phi / abs(A), np.inf).min(axis=1)
    t = filled / np.max([abs(lam), least, np.where(felt < np.inf, felt, 0)], axis=0)
    y = np.clip(s + t * np.where(abs(lam) > least, lam, 0), program.low, program.high)
    size = np.maximum(abs(s), abs(y))
    rows = max(CANCELLATION * (size / d).max(), length)
    size = np.maximum(size, np.minimum(load, d * rows))
    floor = FLOOR * d * max(rows / CANCELLATION, length)
    floor = np.maximum(floor, np.where(load > 0, 0, FLOOR * t * abs(lam)))
    coupling = quotient(np.where(abs(s - y) > floor, abs(s - y), 0), size)
    # coordinates
    F = gradient + pull
    least = FLOOR * d * max((size / d).max(), length)
    rows_at_least = np.maximum(size, least)[:, None]
    blocked = (abs(A) / np.where(rows_at_least > 0, rows_at_least, 1)).max(axis=0)
    reach = np.maximum(abs(x), np.where(blocked > 0, 1 / np.where(blocked > 0, blocked, 1), 0))
    own = np.maximum(abs(x), np.where(reach > 0, FLOOR * reach, TINY))
    tau = np.where(phi > 0, own / np.where(phi > 0, phi, 1), own / TINY)
    residual = abs(x - np.clip(x - tau * F, program.lower, program.upper)) / tau
    dust = FLOOR * np.minimum(abs(A).T @ abs(lam), e * price)
    stationarity = quotient(np.where(residual > dust, residual, 0), phi)
    # objective
    gain, first = LONG(0), 0
    for d_i in program.parts:
        k = slice(first, first + d_i)
        first += d_i
        L = np.linalg.eigvalsh(program.P[k, k]).max(initial=0)
        step = np.where(abs(F[k]) > 0, reach[k] / np.where(abs(F[k]) > 0, abs(F[k]), 1), 1)
        step = np.minimum(step, 1 / L) if L > 0 else step
        v = np.clip(x[k] - step * F[k], program.lower[k], program.upper[k])
        change = v - x[k]
        gain += max(-(F[k] @ change + 0.5 * change @ (P[k, k] @ change)), 0)
    parts = [0.5 * x[k] @ P[k, k] @ x[k] + q[k] @ x[k] for k in blocks(program.parts)]
    terms = sum(map(abs, parts)) + force @ abs(x)
    product = abs(lam @ (s - y))
    if terms > 0:
        objective = max(product / (10 * terms), (product + gain) / (100 * terms))
    else:
        objective = LONG(np.inf) if gain > 0 else LONG(0)
    return tuple(float(v) for v in (stationarity, coupling, objective))


def blocks(parts):
    ends = np.cumsum([0, *parts])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def quotient(residual, scale):
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(residual > 0, residual / scale, 0).max(initial=0)
