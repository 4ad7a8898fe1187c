"""Linear and quadratic programs that fool certificates: right, wrong and not solved, by family.

The minimum is that of HiGHS (linear) and CLARABEL (the other solver's where one fails). There is no
reference where they differ by more than 1e-6 of the terms, or where their point misses a row by
more than 1e-6 of its terms: with right-hand sides of 1e-11 they return 0. Nor is there one where an
answer meets all rows and costs less (for costs of 1e-11 HiGHS stops at any vertex), or where weak
duality refutes it (with multipliers of 4e6 a violation of 3e-8 is worth 10 %).

An answer CONVERGED is wrong if its objective is off by more than 1e-5 of the magnitudes of its
terms, or if the residual that ``tests/support/plain_kkt.py`` computes in extended precision exceeds
the tolerance (with or without a reference). INFEASIBLE and UNBOUNDED are wrong: every program has a
solution by construction.
"""

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dual2 as d2
from common.report import Report, parse

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from plain_kkt import Program, plain_kkt, value  # pyright: ignore[reportMissingImports]

TOL, OBJECTIVE, REFERENCE = 1e-8, 1e-5, 1e-6
PARTS = (3, 2, 4, 3)
TIGHT = {"tol_gap_abs": 1e-18, "tol_gap_rel": 1e-9, "tol_feas": 1e-13}
"""The defaults of CLARABEL are absolute: too coarse for minima of 1e-5."""
Array = np.ndarray


def ordinary(rng: np.random.Generator) -> Program:
    """A program with a known feasible point, bounded below by costs ≥ 0 on x ≥ 0."""
    n, p = sum(PARTS), int(rng.integers(3, 6))
    A = rng.standard_normal((p, n)) * (rng.random((p, n)) < 0.7)
    upper = np.where(rng.random(n) < 0.5, rng.uniform(1, 5, n), np.inf)
    x = rng.uniform(0, 1, n) * (rng.random(n) < 0.6)
    P = np.zeros((n, n))
    if rng.random() < 0.5:
        P = np.diag(rng.uniform(0, 2, n) * (rng.random(n) < 0.7))
    low = A @ x
    high = np.where(rng.random(p) < 0.6, low, low + rng.uniform(0, 2, p))
    return Program(A, P, rng.uniform(0.1, 2, n), np.zeros(n), upper, low, high, PARTS)


def changed(program: Program, **fields: Any) -> Program:
    """The same with other data."""
    return Program(**{**vars(program), **fields})


def big_cost(program: Program, rng: np.random.Generator) -> Program:
    """A few costs of 1e4 … 1e12."""
    q = program.q.copy()
    q[rng.integers(len(q), size=2)] = 10.0 ** rng.uniform(4, 12)
    return changed(program, q=q)


def dust(program: Program, rng: np.random.Generator) -> Program:
    """Equations whose right-hand side should be 0, and is 1e-15 … 1e-9."""
    A, x = program.A.copy(), np.clip(rng.uniform(0.2, 0.9, len(program.q)), 0, program.upper)
    A[:2, -1] = -(A[:2, :-1] @ x[:-1]) / x[-1]
    low = A @ x
    high = low + (program.high - program.low)
    low[:2] = high[:2] = 10.0 ** rng.uniform(-15, -9) * rng.standard_normal(2)
    return changed(program, A=A, low=low, high=high)


def units(program: Program, rng: np.random.Generator) -> Program:
    """Rows and variables in units over twelve decades."""
    r = 10.0 ** rng.uniform(-6, 6, len(program.low))
    c = 10.0 ** rng.uniform(-6, 6, len(program.q))
    return changed(
        program,
        A=program.A * r[:, None] * c,
        P=program.P * c[:, None] * c,
        q=program.q * c,
        lower=program.lower / c,
        upper=program.upper / c,
        low=program.low * r,
        high=program.high * r,
    )


def near_parallel(program: Program, rng: np.random.Generator) -> Program:
    """Two rows that differ by 1e-10 … 1e-4."""
    A, x = program.A.copy(), np.clip(np.full(len(program.q), 0.5), 0, program.upper)
    A[1] = A[0] + 10.0 ** rng.uniform(-10, -4) * rng.standard_normal(len(x))
    low = A @ x
    return changed(program, A=A, low=low, high=low + (program.high - program.low))


def nearly_infeasible(program: Program, rng: np.random.Generator) -> Program:
    """A row that is met in a corner of the box up to 1e-10 … 1e-3."""
    A, upper = program.A.copy(), np.minimum(program.upper, 5.0)
    A[0] = np.abs(A[0])
    top = A[0] @ upper
    x = upper * (1 - 10.0 ** rng.uniform(-10, -3))
    low, high = A @ x, np.full(len(A), np.inf)
    low[1:], low[0] = low[1:] - 1.0, min(low[0], top)
    return changed(program, A=A, upper=upper, low=low, high=high)


def tiny_slope(program: Program, rng: np.random.Generator) -> Program:
    """Costs of 1e-12 … 1e-6 beside those of 1."""
    q = program.q * np.where(rng.random(len(program.q)) < 0.5, 10.0 ** rng.uniform(-12, -6), 1.0)
    return changed(program, q=q)


def huge_price(program: Program, rng: np.random.Generator) -> Program:
    """A row that only variables with coefficients of 1e-9 … 1e-3 can meet: a huge multiplier."""
    A, low, high = program.A.copy(), program.low.copy(), program.high.copy()
    A[0] = 0.0
    A[0, :2] = 10.0 ** rng.uniform(-9, -3)
    upper, lower = program.upper.copy(), program.lower
    upper[:2] = np.inf
    x = np.zeros(len(upper))
    x[0] = 1.0
    low, high = A @ x - 1e-3 * (np.arange(len(A)) > 0), np.full(len(A), np.inf)
    return changed(program, A=A, low=low, high=high, upper=upper, lower=lower)


FAMILIES: dict[str, Callable[[Program, np.random.Generator], Program]] = {
    "big costs": big_cost,
    "dust": dust,
    "units": units,
    "near-parallel rows": near_parallel,
    "nearly infeasible": nearly_infeasible,
    "tiny slopes": tiny_slope,
    "huge multipliers": huge_price,
}


def minimum(program: Program) -> float | None:
    """What HiGHS and CLARABEL agree on, None if they do not."""
    import cvxpy as cp

    x = cp.Variable(len(program.q))
    cost = program.q @ x
    weights = np.diag(program.P)
    if weights.any():
        cost = cost + 0.5 * cp.sum(cp.multiply(weights, cp.square(x)))
    limits = [x >= program.lower]
    for bound, sign, expression in (
        (program.upper, 1.0, x),
        (program.high, 1.0, program.A @ x),
        (-program.low, -1.0, program.A @ x),
    ):
        kept = np.flatnonzero(np.isfinite(bound))
        if kept.size:
            limits.append(sign * expression[kept] <= bound[kept])
    found = []
    for solver in (cp.CLARABEL, cp.HIGHS):
        if solver == cp.HIGHS and weights.any():
            continue
        model = cp.Problem(cp.Minimize(cost), limits)
        with warnings.catch_warnings():  # an answer that may be inaccurate is not used
            warnings.simplefilter("ignore")
            try:
                model.solve(solver=solver, **(TIGHT if solver == cp.CLARABEL else {}))
            except (cp.SolverError, ValueError):
                continue
        if model.status == "optimal":
            point = np.asarray(x.value, dtype=np.float64)
            if misses_a_row(program, point):
                return None
            found.append((float(value(program, point)), terms(program, point)))
    if not found or abs(found[0][0] - found[-1][0]) > REFERENCE * max(found[-1][1], 1e-300):
        return None
    return found[-1][0]


def misses_a_row(program: Program, x: Array) -> bool:
    """Whether a row is violated by more than a part of its terms."""
    s = program.A @ x
    y = np.clip(s, program.low, program.high)
    size = np.maximum(np.abs(program.A) @ np.abs(x), np.abs(y))
    return bool(np.any(np.abs(s - y) > REFERENCE * size))


def terms(program: Program, x: Array) -> float:
    """Magnitudes of the terms of the objective."""
    return float(np.abs(program.q) @ np.abs(x) + 0.5 * np.diag(program.P) @ x**2)


def lower_bound(program: Program, x: Array, lam: Array) -> float:
    """The dual function at λ in extended precision, for points not far beyond the largest of x.

    Weak duality: no feasible point there costs less, whoever found it.
    """
    A, q, lam = (np.asarray(v, np.longdouble) for v in (program.A, program.q, lam))
    F, curvature, far = q + A.T @ lam, np.diag(program.P), 10.0 * (1.0 + np.abs(x).max())
    lower, upper = np.maximum(program.lower, -far), np.minimum(program.upper, far)
    flat = np.where(F > 0, lower, upper)
    curved = np.clip(-F / np.where(curvature > 0, curvature, 1), lower, upper)
    v = np.where(curvature > 0, curved, flat)
    end = np.where(lam > 0, program.high, program.low)
    support = np.sum(np.where(lam == 0, 0, lam * np.where(lam == 0, 0, end)))
    return float(F @ v + 0.5 * curvature @ v**2 - support)


def judge(program: Program, best: float | None, method: str) -> str:
    """``right``, ``wrong``, ``no reference`` or that a run did not solve it."""
    network = d2.Network([(0, 1), (1, 2), (2, 3)])
    options = {"record": False, "time_limit": 5.0, "max_rounds": 20_000, "progress": False}
    try:
        result = d2.solve(program.problem(), network, method=method, tol=TOL, **options)
    except d2.CapabilityError:
        return "not taken"
    if result.status in ("INFEASIBLE", "UNBOUNDED"):
        return "wrong"
    if result.status != "CONVERGED":
        return "not solved"
    x = np.concatenate(result.x)
    if max(plain_kkt(program, x, result.dual)) > TOL * (1 + 1e-6):
        return "wrong"
    if best is None:
        return "no reference"
    off = (float(value(program, x)) - best) / max(terms(program, x), abs(best), 1e-300)
    if off < -OBJECTIVE and not misses_a_row(program, x):
        return "no reference"
    if lower_bound(program, x, result.dual) > best + OBJECTIVE * max(terms(program, x), abs(best)):
        return "no reference"
    return "right" if abs(off) <= OBJECTIVE else "wrong"


def main() -> None:
    """Count by family and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=60, help="programs of each family")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--methods", nargs="+", default=["auto", "Newton", "interior-point"])
    options = parse(parser, seeds=1, methods=["auto"])
    report, rows = Report(options), []
    for name, change in FAMILIES.items():
        counts: dict[str, Counter[str]] = {method: Counter() for method in options.methods}
        for seed in range(options.first, options.first + options.seeds):
            rng = np.random.default_rng([seed, len(name)])
            plain = ordinary(rng)
            program = change(plain, rng)
            best = minimum(plain if change is units else program)  # units do not change it
            for method, found in counts.items():
                kind = judge(program, best, method)
                found[kind] += 1
                report.expect(kind != "wrong", f"{name}, seed {seed}, {method}")
        kinds = ("right", "wrong", "not solved", "not taken", "no reference")
        rows += [[name, method, *(c[kind] for kind in kinds)] for method, c in counts.items()]
    head = ["family", "method", "right", "wrong", "not solved", "not taken", "no reference"]
    report.table("Programs that fool certificates", head, rows)
    report.end()


if __name__ == "__main__":
    main()
