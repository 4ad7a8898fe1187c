"""DC optimal power flow: PGLib's cases in two models, and pandapower's nets with linear costs.

``pglib``: cost against the reference of the folder, prices of all buses against HiGHS on the form
with an angle for each bus (cases with linear costs). ``nets``: pandapower's cases as they are,
cost against HiGHS or, with quadratic costs, Clarabel, both without limits of lines if none binds.
``areas``: PGLib's cases with areas as agents, beside the iterations that PowerModelsADA publishes.
"""

import argparse
import csv
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linprog

from common.report import Report, parse
from dual2.applications import dispatch
from dual2.errors import ProblemError

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
from dcopf_reference import solve_angles  # noqa: E402

COLUMNS = {"powermodels": "dc_objective_reference", "matpower": "objective_matpower_model"}
NETS = ("case89pegase", "case_illinois200", "case1888rte", "case2848rte")
CLOSE, CLOSE_PRICES, CLOSE_NETS = 1e-6, 1e-5, 1e-7
ADA: dict[str, tuple[Any, ...]] = {
    "case14_ieee": ({bus: int(bus > 5) for bus in range(1, 15)}, 14, 34, 20),
    "case39_epri": ("area", 71, 69, 63),
    "case179_goc": ("area", 61, 26, 43),
    "case300_ieee": ("zone", 37, 59, 35),
    "case588_sdet": ("area", 1168, 655, 1155),
}
"""How buses make areas, and iterations of ADMM, ATC and APP for the DC approximation in the
documentation of PowerModelsADA (docs/src/comparison.md, version 0.1: PGLib's cases in as many
areas; the buses of theirs in case300 are not published)."""
HEAD = ["case", "model", "units", "rows", "cost error", "price error", "sums", "latency", "floats",
        "s to read", "s to solve"]  # fmt: skip


def price_error(answer: dispatch.Answer, path: Path, model: str) -> float | None:
    """Largest error over the buses, as a fraction of the largest price; None: costs not linear."""
    if any(unit.cost[0] for unit in answer.case.units):
        return None
    _, theirs = solve_angles(path, model)
    ours = answer.bus_prices()
    largest = max(abs(price) for price in theirs.values())
    return max(abs(float(ours[bus][0]) - price) for bus, price in theirs.items()) / largest


def timed(read: Any) -> tuple[dispatch.Answer, float, float]:
    begun = time.perf_counter()
    case = read()
    middle = time.perf_counter()
    answer = case.solve(record=False)
    return answer, middle - begun, time.perf_counter() - middle


def pglib_row(report: Report, path: Path, model: str, reference: str) -> list[Any]:
    try:
        answer, *seconds = timed(lambda: dispatch.from_matpower(path, model=model))
    except ProblemError as error:
        fine = reference == "infeasible" and "infeasible" in str(error)
        report.expect(fine, f"{path.stem}, {model}: {error}")
        return [path.stem[10:], model, "", "", "infeasible", *[""] * 6]
    counts, error = answer.result.counts, abs(answer.cost / float(reference) - 1)
    prices = price_error(answer, path, model)
    report.expect(error <= CLOSE, f"{path.stem}, {model}: the cost is off by {error:.1e}.")
    report.expect((prices or 0) <= CLOSE_PRICES, f"{path.stem}, {model}: prices off: {prices}.")
    shown = "" if prices is None else f"{prices:.0e}"
    sent = [counts.sums, counts.latency, counts.floats]
    size = [len(answer.case.units), len(answer.active)]
    return [path.stem[10:], model, *size, f"{error:.0e}", shown, *sent, *seconds]


def report_pglib(report: Report, options: argparse.Namespace) -> None:
    folder, rows = Path(options.folder), []
    with (folder / "REFERENCE.csv").open() as stream:
        table = list(csv.DictReader(stream))
    for entry in sorted(table, key=lambda row: int(row["n_bus"])):
        path = folder / f"{entry['case']}.m"
        if path.exists() and int(entry["n_bus"]) <= options.buses:
            rows += [pglib_row(report, path, model, entry[COLUMNS[model]]) for model in COLUMNS]
    report.table("Cases of PGLib", HEAD, rows)


def report_areas(report: Report, options: argparse.Namespace) -> None:
    """One exchange of theirs is an iteration; of ours a round: a sum takes two for each level."""
    folder, rows = Path(options.folder), []
    with (folder / "REFERENCE.csv").open() as stream:
        known = {row["case"]: row for row in csv.DictReader(stream)}
    for name, (zones, *published) in ADA.items():
        path = folder / f"pglib_opf_{name}.m"
        if not path.exists():
            report.say(f"{name} is not among the cases of the folder.")
            continue
        read = {"model": "powermodels", "zones": zones}
        answer, *_ = timed(lambda p=path, how=read: dispatch.from_matpower(p, **how))
        counts = answer.result.counts
        error = abs(answer.cost / float(known[path.stem][COLUMNS["powermodels"]]) - 1)
        report.expect(error <= CLOSE, f"{name} by areas: the cost is off by {error:.1e}.")
        size = [answer.case.network.n, len(answer.active)]
        rows.append([name, *size, counts.sums, counts.latency, f"{error:.0e}", *published])
    head = ["case", "areas", "rows", "sums", "latency", "cost error", "ADMM", "ATC", "APP"]
    title = "Areas as agents; beside it the iterations that PowerModelsADA publishes"
    report.table(title, head, rows)


def central_cost(case: dispatch.Dispatch) -> float:
    """Least cost with all rated lines, by HiGHS or Clarabel."""
    import cvxpy as cp

    units, lines = case.units, case.line_rows
    c2, c1, c0 = np.array([unit.cost for unit in units]).T
    bounds = np.array([(float(unit.p_min), float(unit.p_max)) for unit in units])
    kept = sorted({row.line for row in lines.kept}) if lines else []
    H = lines.factors[kept] if lines else np.zeros((0, len(units)))
    low, high = (side[kept, 0] for side in (lines.lower, lines.upper)) if lines else ([], [])
    if not c2.any():
        sides, limit = np.vstack([H, -H]), np.concatenate([high, -np.asarray(low)])
        total = np.ones((1, len(units)))
        found = linprog(c1, sides, limit, total, case.total_demand, bounds, method="highs")
        return float(found.fun + c0.sum())
    p = cp.Variable(len(units))
    limits = [cp.sum(p) == case.total_demand[0], p >= bounds[:, 0], p <= bounds[:, 1]]
    limits += [H @ p <= high, H @ p >= low] if kept else []
    cost = cp.sum(cp.multiply(c2, p**2)) + c1 @ p + c0.sum()
    accuracy = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
    return float(cp.Problem(cp.Minimize(cost), limits).solve(solver="CLARABEL", **accuracy))


def report_nets(report: Report, options: argparse.Namespace) -> None:
    import pandapower.networks

    rows = []
    for name in options.nets:
        net = getattr(pandapower.networks, name)()
        answer, *seconds = timed(lambda net=net: dispatch.from_pandapower(net))
        error = abs(answer.cost / central_cost(answer.case) - 1)
        report.expect(error <= CLOSE_NETS, f"{name}: the cost is off by {error:.1e}.")
        counts, size = answer.result.counts, [len(answer.case.units), len(answer.active)]
        sent = [counts.sums, counts.latency, counts.floats]
        rows.append([name, "matpower", *size, f"{error:.0e}", "", *sent, *seconds])
    report.table("Nets of pandapower, without any option", HEAD, rows)


PARTS = {"pglib": report_pglib, "nets": report_nets, "areas": report_areas}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default=str(ROOT / "tests" / "data" / "pglib"))
    parser.add_argument("--buses", type=int, default=10_000, help="of the largest case")
    parser.add_argument("--nets", nargs="*", default=NETS)
    options = parse(parser, PARTS, nets=["case89pegase"])
    report = Report(options)
    for name in options.parts:
        PARTS[name](report, options)
    report.end()


if __name__ == "__main__":
    main()
