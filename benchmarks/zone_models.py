"""Zones over hours: units with ramps, a lossy store and an export limit in each zone.

Each zone is an agent with thousands of private rows; the zones meet in one balance for each hour
and in one budget of emissions. The cost is compared with HiGHS' on the whole model. Seconds of ours
are those of all zones, one after the other, in one process.
"""

import argparse
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

import dual2 as d2
from common.central_solvers import clarabel_answer, highs_answer
from common.report import Report, parse
from dual2.models import Model

SIZES = ("3x24x4", "10x24x8", "3x168x4")
CLOSE = 1e-7


def zone_model(zones: int, hours: int, units: int, seed: int = 0) -> Model:
    """Variables of a zone by hour: units, charge, discharge, level; 3 more than its units."""
    rng = np.random.default_rng(seed)
    day = 1.0 + 0.25 * np.sin(2 * np.pi * (np.arange(hours) - 8) / 24)
    blocks, names, rows = [], [], []
    costs, upper, low, up, demands, emissions = [], [], [], [], [], []
    for z in range(zones):
        size = rng.uniform(20.0, 100.0, units)
        price = rng.uniform(10.0, 80.0, units)
        carbon = 1.1 - price / 80.0  # what is cheap emits
        demand = 0.55 * size.sum() * day * rng.uniform(0.9, 1.1, hours)
        matrix, ends = _zone_rows(size, demand, hours, up_to=0.2 * size.sum())
        blocks.append(matrix)
        low.append(ends[0])
        up.append(ends[1])
        kinds = [*(f"unit{u}" for u in range(units)), "charge", "discharge", "level"]
        names += [f"zone{z}_{kind}_{t}" for kind in kinds for t in range(hours)]
        rows += [f"zone{z}_private_{k}" for k in range(matrix.shape[0])]
        costs.append(np.repeat([*price, 0.1, 0.1, 0.0], hours))
        upper.append(np.repeat([*size, 15.0, 15.0, 60.0], hours))
        emissions.append(np.repeat([*carbon, 0.0, 0.0, 0.0], hours))
        demands.append(demand)
    eye = sp.eye_array(hours)
    balance = sp.hstack([eye] * units + [-eye, eye, 0 * eye])
    linking = sp.vstack(
        [sp.hstack([balance] * zones), sp.csr_array(np.concatenate(emissions)[None])]
    )
    total = np.sum(demands, axis=0)
    return Model.from_arrays(
        np.concatenate(costs),
        sp.vstack([sp.block_diag(blocks), linking]),
        np.concatenate([*low, total, [-np.inf]]),
        np.concatenate([*up, total, [0.64 * total.sum()]]),
        upper=np.concatenate(upper),
        variables=tuple(names),
        constraints=(*rows, *(f"balance_{t}" for t in range(hours)), "emissions"),
    )


def _zone_rows(
    size: np.ndarray, demand: np.ndarray, hours: int, up_to: float
) -> tuple[sp.csr_array, tuple[np.ndarray, np.ndarray]]:
    """Ramps of units, the level of the store (in at 0.95, out at 0.9), the limit of exports."""
    n, eye = len(size), sp.eye_array(hours, format="csr")
    change = (eye - sp.eye_array(hours, k=-1, format="csr"))[1:]
    last = sp.eye_array(hours, k=-1, format="lil")
    last[0, hours - 1] = 1.0  # the level of the last hour is that before the first
    none = sp.csr_array((hours - 1, 3 * hours))
    ramps = sp.hstack([sp.block_diag([change] * n), sp.vstack([none] * n)])
    level = sp.hstack([sp.csr_array((hours, n * hours)), -0.95 * eye, eye / 0.9, eye - last])
    export = sp.hstack([*[eye] * n, -eye, eye, 0 * eye])
    steps = np.repeat(0.25 * size, hours - 1)
    low = np.concatenate([-steps, np.zeros(hours), demand - up_to])
    high = np.concatenate([steps, np.zeros(hours), demand + up_to])
    return sp.csr_array(sp.vstack([ramps, level, export])), (low, high)


def row(report: Report, size: str, options: argparse.Namespace) -> list[Any]:
    """One size: ours, HiGHS and CLARABEL."""
    model = zone_model(*map(int, size.split("x")), seed=options.seed)
    central = {"HiGHS": highs_answer, "CLARABEL": clarabel_answer}
    theirs = {name: solve(model, options.limit) for name, solve in central.items()}
    highs = theirs["HiGHS"]
    assert highs.x is not None, highs.status
    best = model.objective(highs.x)
    begun = time.process_time()
    problem, owned = model.to_problem(lambda name: name.split("_")[0])
    read = time.process_time() - begun
    begun = time.process_time()
    result = d2.solve(
        problem, owned.network(), method=options.method, time_limit=options.limit, record=False
    )
    cpu = time.process_time() - begun
    x = np.concatenate(result.x)
    error, violation = model.objective(x) / best - 1, model.violation(x)
    good = result.status == "CONVERGED" and abs(error) <= CLOSE
    report.expect(good, f"{size}: {result.status}, cost off by {error:.1e}.")
    counts = result.counts
    private = sum(map(len, owned.private))
    shown = [result.status, f"{error:.0e}", f"{violation:.0e}", counts.latency, counts.sums]
    seconds = [read, cpu, highs.cpu, theirs["CLARABEL"].cpu]
    return [size, len(model.c), private, problem.p, *shown, counts.floats, *seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", default=SIZES, help="zones x hours x units")
    parser.add_argument("--method", default="interior-point")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each solver")
    parser.add_argument("--seed", type=int, default=0)
    options = parse(parser, sizes=["2x12x3"])
    report = Report(options)
    head = ["zones x hours x units", "variables", "private rows", "linking", "status"]
    head += ["cost error", "violation", "exchanges", "sums", "numbers", "s to read", "s", "s HiGHS"]
    rows = [row(report, size, options) for size in options.sizes]
    report.table("Zones as agents", [*head, "s CLARABEL"], rows)
    report.end()


if __name__ == "__main__":
    main()
