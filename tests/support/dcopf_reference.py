"""DC optimal power flow as a textbook writes it, with an angle for each bus.

Linear and piecewise linear costs by HiGHS, quadratic ones by Clarabel.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from dual2.power.case_file import read_case

LIMITS = {"matpower": 2 * np.pi, "powermodels": np.pi / 2}
ISOLATED = 4
PIECEWISE = 1


class AngleSolution(NamedTuple):
    """Cost, prices by bus, powers and flows in MW, and congestion rent of the reference."""

    cost: float
    prices: dict[int, float]
    power: np.ndarray
    flows: np.ndarray
    rent: float
    binding: int


class InfeasibleCase(Exception):
    """No dispatch meets the demand and all limits."""


def angle_solution(path: Any, model: str, shed: float | None = None) -> AngleSolution:
    """The whole solution, powers and flows in per unit inside; ``shed`` prices unserved energy."""
    case = path if isinstance(path, Mapping) else read_case(path)
    base = float(case["baseMVA"])
    bus = np.asarray(case["bus"], float)
    bus = bus[bus[:, 1] != ISOLATED]
    on = np.asarray(case["gen"], float)[:, 7] > 0
    gen, cost = (np.asarray(case[name], float)[on] for name in ("gen", "gencost"))
    branch = np.asarray(case["branch"], float)
    branch = branch[branch[:, 10] > 0]
    place = {int(b): k for k, b in enumerate(bus[:, 0])}
    L, G, N = len(branch), len(gen), len(bus)
    ends = np.array([[place[int(b)] for b in row[:2]] for row in branch])
    C = sp.csr_array(
        (np.repeat([1.0, -1.0], L), (np.tile(np.arange(L), 2), ends.T.ravel())), shape=(L, N)
    )
    r, x, tap = branch[:, 2], branch[:, 3], np.where(branch[:, 8] == 0, 1.0, branch[:, 8])
    b = 1 / (x * tap) if model == "matpower" else x / (r**2 + x**2)
    shift = np.radians(branch[:, 9]) if model == "matpower" else np.zeros(L)
    flow = sp.diags_array(b) @ C
    at = sp.csr_array((np.ones(G), ([place[int(g)] for g in gen[:, 0]], range(G))), shape=(N, G))
    demand = (bus[:, 2] + bus[:, 4]) / base
    taken = demand - C.T @ (b * shift)
    rating = np.where(branch[:, 5] == 0, np.inf, branch[:, 5]) / base
    angles = _angle_limits(branch, model)
    rows = sp.vstack([flow, -flow, C, -C])
    limit = np.concatenate([rating + b * shift, rating - b * shift, angles[:, 1], -angles[:, 0]])
    finite = np.isfinite(limit)
    # Columns: power of units, angles, costs of units (above their pieces), unserved energy.
    balance = sp.hstack([at, -(C.T @ flow), sp.csr_array((N, G)), sp.eye_array(N)], format="csr")
    upper = [
        sp.hstack([sp.csr_array((4 * L, G)), rows, sp.csr_array((4 * L, G + N))]).tocsr()[finite]
    ]
    sides = [limit[finite]]
    slope, curvature = np.zeros(2 * G + 2 * N), np.zeros(2 * G + 2 * N)
    constant, pieces = 0.0, np.zeros(G, dtype=bool)
    for k, row in enumerate(cost):
        if row[0] == PIECEWISE:
            pieces[k] = True
            slope[G + N + k] = 1.0
            points = row[4 : 4 + 2 * int(row[3])].reshape(-1, 2)
            for (p0, c0), (p1, c1) in pairwise(points):
                steep = (c1 - c0) / (p1 - p0)
                cut = sp.csr_array(
                    ([steep * base, -1.0], ([0, 0], [k, G + N + k])), (1, 2 * G + 2 * N)
                )
                upper.append(cut)
                sides.append(np.array([steep * p0 - c0]))
        else:
            c2, c1, c0 = row[4:7]
            curvature[k], slope[k] = 2 * c2 * base**2, c1 * base
            constant += c0
    slope[2 * G + N :] = (shed or 0.0) * base
    free = (None, None)
    bounds = [
        *zip(gen[:, 9] / base, gen[:, 8] / base, strict=True),
        (0.0, 0.0),
        *[free] * (N - 1),
        *[free if used else (0.0, 0.0) for used in pieces],
        *[(0.0, d if shed else 0.0) for d in np.maximum(demand, 0.0)],
    ]
    solve = _clarabel if curvature.any() else _highs
    value, z, y, w = solve(curvature, slope, sp.vstack(upper), np.concatenate(sides), balance,
                           taken, bounds)  # fmt: skip
    by_row = np.zeros(4 * L)
    by_row[finite] = -w[: finite.sum()]
    flows = b * (C @ z[G : G + N] - shift)
    loads = demand - z[2 * G + N :]
    rent = float(y @ loads - y @ (at @ z[:G]))
    prices = dict(zip(place, y / base, strict=True))
    binding = int((by_row.reshape(4, L).sum(axis=0) > 1e-6 * base).sum())
    return AngleSolution(value + constant, prices, base * z[:G], base * flows, rent, binding)


def _highs(
    _: np.ndarray, slope: np.ndarray, upper: Any, side: np.ndarray, balance: Any, taken: np.ndarray,
    bounds: list[Any],
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Value, solution, prices of the balance, marginals of the limits (at most 0)."""
    found = linprog(slope, upper, side, balance, taken, bounds, method="highs")
    if found.status == 2:
        raise InfeasibleCase
    assert found.status == 0, found.message
    return found.fun, found.x, found.eqlin.marginals, found.ineqlin.marginals


def _clarabel(
    curvature: np.ndarray, slope: np.ndarray, upper: Any, side: np.ndarray, balance: Any,
    taken: np.ndarray, bounds: list[Any],
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The same with ½Σ curvature·z²."""
    import clarabel

    n = len(slope)
    low = np.array([-np.inf if a is None else a for a, _ in bounds])
    high = np.array([np.inf if a is None else a for _, a in bounds])
    eye = sp.eye_array(n, format="csr")
    below, above = np.isfinite(low), np.isfinite(high)
    G = sp.csc_matrix(sp.vstack([balance, upper, eye[above], -eye[below]]))
    h = np.concatenate([taken, side, high[above], -low[below]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cones = [clarabel.ZeroConeT(len(taken)), clarabel.NonnegativeConeT(len(h) - len(taken))]
    P = sp.csc_matrix(sp.diags_array(curvature))
    found = clarabel.DefaultSolver(P, slope, G, h, cones, settings).solve()
    if str(found.status) == "PrimalInfeasible":
        raise InfeasibleCase
    assert str(found.status) in ("Solved", "AlmostSolved"), found.status
    z = np.array(found.z)
    m = len(taken)
    return found.obj_val, np.array(found.x), -z[:m], -z[m : m + len(side)]


def _angle_limits(branch: np.ndarray, model: str) -> np.ndarray:
    given, widest = np.radians(branch[:, 11:13]), LIMITS[model]
    instead = np.inf if model == "matpower" else 1.0472
    unset = (given == 0).all(axis=1)
    low = np.where(unset | (given[:, 0] < -widest + 1e-9), -instead, given[:, 0])
    high = np.where(unset | (given[:, 1] > widest - 1e-9), instead, given[:, 1])
    return np.column_stack([low, high])
