"""DC optimal power flow: cases in two models, and pandapower's nets with linear costs.

``cases``: every MATPOWER case of ``--folder`` (by default the variable DUAL2_GRIDS, or the cases of
the tests), cost and prices of all buses against HiGHS or Clarabel on the form with an angle for
each bus. ``nets``: pandapower's cases as they are, cost against HiGHS or, with quadratic costs,
Clarabel, both without limits of lines if none binds. ``areas``: PGLib's cases, if the folder has
them, with areas as agents beside the iterations that PowerModelsADA publishes.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linprog

from common.report import Report, parse, report_parts
from dual2 import power as dispatch
from dual2.errors import ProblemError
from dual2.power.case_file import read_case

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "support"))
from dcopf_reference import AngleSolution, InfeasibleCase, angle_solution  # noqa: E402

MODELS = ("powermodels", "matpower")
OURS = str(ROOT / "tests" / "data" / "grids")
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
HEAD = ["case", "model", "units", "rows", "cost error", "price error", "sums", "latency", "floats"]
HEAD += ["s to read", "s to solve"]


def price_error(answer: dispatch.Answer, reference: AngleSolution) -> float:
    """Largest error over the buses, as a fraction of the largest price."""
    ours, theirs = answer.bus_prices(), reference.prices
    largest = max(abs(price) for price in theirs.values())
    return max(abs(float(ours[bus][0]) - price) for bus, price in theirs.items()) / largest


def timed(read: Any) -> tuple[dispatch.Answer, float, float]:
    begun = time.perf_counter()
    case = read()
    middle = time.perf_counter()
    answer = case.solve(record=False)
    return answer, middle - begun, time.perf_counter() - middle


def case_row(report: Report, path: Path, model: str) -> list[Any]:
    """A case in one model, beside the textbook formulation by HiGHS or Clarabel."""
    try:
        reference = angle_solution(path, model)
    except InfeasibleCase:
        reference = None
    try:
        answer, *seconds = timed(lambda: dispatch.from_matpower(path, model=model))
    except ProblemError as error:
        fine = reference is None and ("infeasible" in str(error))
        report.expect(fine, f"{path.stem}, {model}: {error}")
        return [path.stem, model, "", "", "infeasible", *[""] * 6]
    if reference is None:
        report.expect(False, f"{path.stem}, {model}: infeasible by the reference, solved by ours.")
        return [path.stem, model, "", "", "WRONG", *[""] * 6]
    counts, error = answer.result.counts, abs(answer.cost / reference.cost - 1)
    prices = price_error(answer, reference)
    report.expect(error <= CLOSE, f"{path.stem}, {model}: the cost is off by {error:.1e}.")
    report.expect(prices <= CLOSE_PRICES, f"{path.stem}, {model}: prices off: {prices}.")
    sent = [counts.sums, counts.latency, counts.floats]
    size = [len(answer.case.units), len(answer.active)]
    return [path.stem, model, *size, f"{error:.0e}", f"{prices:.0e}", *sent, *seconds]


def report_cases(report: Report, options: argparse.Namespace) -> None:
    sized = [(len(read_case(path)["bus"]), path) for path in Path(options.folder).glob("*.m")]
    rows = [
        case_row(report, path, model)
        for buses, path in sorted(sized)
        if buses <= options.buses
        for model in MODELS
    ]
    report.table("Cases of the folder", HEAD, rows)


def report_areas(report: Report, options: argparse.Namespace) -> None:
    """One exchange of theirs is an iteration; of ours a round: a sum takes two for each level."""
    folder, rows = Path(options.folder), []
    for name, (zones, *published) in ADA.items():
        path = folder / f"pglib_opf_{name}.m"
        if not path.exists():
            report.say(f"{name} is not among the cases of the folder.")
            continue
        read = {"model": "powermodels", "zones": zones}
        answer, *_ = timed(lambda p=path, how=read: dispatch.from_matpower(p, **how))
        counts = answer.result.counts
        error = abs(answer.cost / angle_solution(path, "powermodels").cost - 1)
        report.expect(error <= CLOSE, f"{name} by areas: the cost is off by {error:.1e}.")
        size = [answer.case.network.n, len(answer.active)]
        rows.append([name, *size, counts.sums, counts.latency, f"{error:.0e}", *published])
    if not rows:
        report.say("Give --folder with these cases of PGLib to run areas as agents.")
        return
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


PARTS = {"cases": report_cases, "nets": report_nets, "areas": report_areas}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default=os.environ.get("DUAL2_GRIDS", OURS))
    parser.add_argument("--buses", type=int, default=10_000, help="of the largest case")
    parser.add_argument("--nets", nargs="*", default=NETS)
    options = parse(parser, PARTS, nets=["case89pegase"])
    report_parts(PARTS, options)


if __name__ == "__main__":
    main()
