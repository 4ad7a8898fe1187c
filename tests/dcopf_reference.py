"""DC optimal power flow as a textbook writes it, with an angle for each bus, solved by HiGHS."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from dual2.applications.dispatch.case_file import read_case

LIMITS = {"matpower": 2 * np.pi, "powermodels": np.pi / 2}


def solve_angles(path: Any, model: str) -> tuple[float, dict[int, float]]:
    """Cost and prices by bus of a case with linear costs, powers and flows in per unit."""
    case = read_case(path)
    base, bus = case["baseMVA"], case["bus"]
    gen, cost = (table[case["gen"][:, 7] > 0] for table in (case["gen"], case["gencost"]))
    branch = case["branch"][case["branch"][:, 10] > 0]
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
    balance = sp.hstack([at, -(C.T @ flow)])
    taken = (bus[:, 2] + bus[:, 4]) / base - C.T @ (b * shift)
    rating = np.where(branch[:, 5] == 0, np.inf, branch[:, 5]) / base
    angles = _angle_limits(branch, model)
    rows = sp.vstack([flow, -flow, C, -C])
    sides = [rating + b * shift, rating - b * shift, angles[:, 1], -angles[:, 0]]
    limit = np.concatenate(sides)
    finite = np.isfinite(limit)
    upper = sp.hstack([sp.csr_array((4 * L, G)), rows]).tocsr()[finite]
    slope = np.concatenate([base * cost[:, 5], np.zeros(N)])
    free = [(0.0, 0.0), *[(None, None)] * (N - 1)]
    bounds = [*zip(gen[:, 9] / base, gen[:, 8] / base, strict=True), *free]
    found = linprog(slope, upper, limit[finite], balance, taken, bounds, method="highs")
    assert found.status == 0, found.message
    prices = found.eqlin.marginals / base
    return found.fun + cost[:, 6].sum(), dict(zip(place, prices, strict=True))


def _angle_limits(branch: np.ndarray, model: str) -> np.ndarray:
    given, widest = np.radians(branch[:, 11:13]), LIMITS[model]
    instead = np.inf if model == "matpower" else 1.0472
    unset = (given == 0).all(axis=1)
    low = np.where(unset | (given[:, 0] < -widest + 1e-9), -instead, given[:, 0])
    high = np.where(unset | (given[:, 1] > widest - 1e-9), instead, given[:, 1])
    return np.column_stack([low, high])
