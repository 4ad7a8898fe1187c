"""Problems of any size, and how time and memory of one sum grow with n, p and d."""

import math
import time
import tracemalloc
from collections.abc import Callable
from typing import NamedTuple

import networkx as nx
import numpy as np
import scipy.sparse as sp

import dual2 as d2
from common.loops import OneSum

PERIODS = 24


def dispatch(n: int, seed: int) -> d2.Problem:
    """n units with quadratic costs and hourly limits of their own, a demand for each period."""
    rng = np.random.default_rng(seed)
    upper, unit = rng.uniform(1, 5, (n, PERIODS)), sp.csc_array(sp.eye_array(PERIODS))
    curves, slopes = rng.uniform(0.5, 2, n).tolist(), rng.uniform(1, 9, n).tolist()
    agents = [
        d2.Agent(unit, d2.PiecewiseQuadratic(curvature=a, slope=b), d2.IndicatorBox(0.0, most))
        for a, b, most in zip(curves, slopes, upper, strict=True)
    ]
    share = 0.45 + 0.25 * np.sin(2 * np.pi * np.arange(PERIODS) / PERIODS)
    return d2.Problem(agents, d2.IndicatorPoint(share * upper.sum(axis=0)))


def grid(n: int) -> d2.Network:
    """n agents row by row on a square grid."""
    side, places = math.isqrt(n - 1) + 1, np.arange(n)
    right, below = places[(places % side < side - 1) & (places + 1 < n)], places[places + side < n]
    ends = np.concatenate([right, below]), np.concatenate([right + 1, below + side])
    return d2.Network(np.column_stack(ends))


class Fit(NamedTuple):
    """One of n, p and d grows, over some sizes, and with it time and memory by these exponents.

    ``make(size)`` is the problem, its network, and how many trials and Jacobians a sum carries.
    """

    name: str
    sizes: tuple[int, ...]
    make: Callable[[int], tuple[d2.Problem, d2.Network, int, int]]
    time: float
    memory: float


def dense(n: int, p: int, d: int) -> tuple[d2.Problem, d2.Network]:
    """f = |x|²/2, g = |x|₁/10, random A, h = |z - y|²/2, on a star."""
    rng = np.random.default_rng(0)
    f, g = d2.SquaredNorm(1.0), d2.L1Norm(0.1)
    agents = [d2.Agent(rng.standard_normal((p, d)), f, g) for _ in range(n)]
    return d2.Problem(agents, d2.SquaredLoss(rng.standard_normal(p))), d2.Network(
        nx.star_graph(n - 1)
    )


FITS = (
    Fit("n: dispatch, p = d = 24", (8000, 24_000, 72_000), lambda n: (*many(n), 20, 20), 1, 1),
    Fit("n: p = 100, d = 96", (64, 128, 256, 512), lambda n: (*dense(n, 100, 96), 1, 1), 1, 1),
    Fit("p: n = 96, d = 128", (144, 216, 324, 486), lambda p: (*dense(96, p, 128), 1, 1), 2, 1),
    Fit("d: n = 60, p = 100", (96, 192, 384, 768), lambda d: (*dense(60, 100, d), 1, 1), 1, 1),
    Fit("p: n = 40, d = 25", (1250, 2500, 5000, 10_000), lambda p: (*dense(40, p, 25), 8, 0), 1, 1),
)
"""The last without Jacobians: a sum of L-BFGS."""


def many(n: int) -> tuple[d2.Problem, d2.Network]:
    """The dispatch on its grid."""
    return dispatch(n, 0), grid(n)


def measure(fit: Fit, size: int, repeats: int) -> tuple[float, float]:
    """Smallest processor seconds of one sum, and MB from the data on."""
    tracemalloc.start()
    try:
        one = OneSum(*fit.make(size))
        one.run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    best = np.inf
    for _ in range(repeats):
        begun = time.process_time()
        one.run()
        best = min(best, time.process_time() - begun)
    return best, peak / 1e6


# -- a model ---------------------------------------------------------------------------------------

BANDWIDTH = 12.5e6
"""Bytes per second of the link of a process: 100 Mbit/s."""
DELAYS = {"LAN 0.1 ms": 1e-4, "metro 5 ms": 5e-3, "WAN 40 ms": 4e-2}
FAN = 16
"""Children of an inner process of an overlay tree."""
TRIALS = 20


def message(p: int, jacobians: int) -> int:
    """Numbers in one sum of Newton's dual mode: twenty trials, some of them with a Jacobian."""
    return TRIALS * (2 * p + 7) + jacobians * p * (p + 1) // 2


def trees(processes: int) -> dict[str, tuple[int, int]]:
    """Height and children: of a square grid from its centre, and of an overlay tree."""
    side = math.isqrt(processes - 1) + 1
    return {"grid": (2 * (side // 2), 3), f"{FAN}-ary": (math.ceil(math.log(processes, FAN)), FAN)}


def seconds_of_a_sum(height: int, children: int, numbers: int, delay: float) -> float:
    """2h(α + c·8w/β): on each level a process hears its c children one after the other."""
    return 2 * height * (delay + children * 8 * numbers / BANDWIDTH)
