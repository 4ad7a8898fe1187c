"""Dispatch and MPC against centralised solutions: errors, rounds, processor seconds."""

import argparse
import time
from itertools import product
from typing import Any

import clarabel
import cvxpy as cp
import networkx as nx
import numpy as np
import scipy.sparse as sp
from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import dims_to_solver_cones

from common.report import Report, parse, report_parts
from dual2 import mpc
from dual2 import power as dispatch

CASES = ("case14", "case30", "case57", "case118", "case300")
DAYS = ("case118", "case300")
SUPPLY = 11.0
"""Heat for each building in every step."""
CLOSE = 1e-5
"""Largest relative error of costs and prices of a dispatch."""
MEASURES = {"sums": "sums", "latency": "latency", "floats": "numbers"}
"""What a closed loop is counted by, and its name in the table."""
HOURS = np.arange(24)
PROFILE = 1.1 + 0.35 * np.sin((HOURS - 9) * np.pi / 12) + 0.1 * np.sin((HOURS - 6) * np.pi / 6)
SLOW = ("iD2A", "MiD2A")
"""Methods that take long: a run of these is not repeated."""
ACCURATE = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)


def central_dispatch(case: dispatch.Dispatch, repeats: int) -> tuple[float, np.ndarray, float]:
    """Cost and prices of a dispatch of generators by cvxpy, and CLARABEL's own processor time."""
    units, T = case.units, case.periods
    c2, c1, c0, low, high = (
        np.array(column)[:, None]
        for column in zip(*((*u.cost, u.p_min, u.p_max) for u in units), strict=True)
    )
    p = cp.Variable((len(units), T))
    balance = cp.sum(p, axis=0) == case.total_demand
    limits = [balance, p >= low, p <= high]
    if T > 1 and units[0].ramp is not None:
        limits.append(cp.abs(cp.diff(p, axis=1)) <= np.array([[u.ramp[0]] for u in units]))
    cost = cp.sum(cp.multiply(c2, p**2) + cp.multiply(c1, p)) + T * c0.sum()
    model = cp.Problem(cp.Minimize(cost), limits)
    value = model.solve(solver="CLARABEL", **ACCURATE)
    return float(value), np.abs(balance.dual_value), clarabel_seconds(model, repeats)


def clarabel_seconds(model: cp.Problem, repeats: int) -> float:
    """Processor time of CLARABEL alone on what cvxpy makes of a model, setup included."""
    data = model.get_problem_data("CLARABEL")[0]
    settings, seconds = clarabel.DefaultSettings(), np.inf
    settings.verbose = False
    for name, value in ACCURATE.items():
        setattr(settings, name, value)
    P, cones = sp.triu(data["P"]).tocsc(), dims_to_solver_cones(data["dims"])
    for _ in range(repeats):
        begun = time.process_time()
        clarabel.DefaultSolver(P, data["c"], data["A"], data["b"], cones, settings).solve()
        seconds = min(seconds, time.process_time() - begun)
    return seconds


def report_dispatch(report: Report, options: argparse.Namespace) -> None:
    import pandapower.networks

    rows = []
    ramps = {"ramp": 0.08}, {"ramp": 0.12}
    cases = [(name, {}) for name in options.cases]
    for name in options.days:
        cases += [(name, {"profile": PROFILE} | more) for more in ({}, ramps[name == "case300"])]
    nets = {name: getattr(pandapower.networks, name)() for name in dict(cases)}
    for name, wishes in cases:
        case = dispatch.from_pandapower(nets[name], line_limits=False, **wishes)
        cost, price, central = central_dispatch(case, options.repeats)
        for method in options.methods:
            begun = time.process_time()
            case.solve(method=method, max_rounds=10, record=False, accept="unsolved")
            first, seconds = time.process_time() - begun, np.inf
            for _ in range(1 if method in SLOW else options.repeats):
                begun = time.process_time()
                answer = case.solve(method=method, record=False)
                seconds = min(seconds, time.process_time() - begun)
            binding = sum(
                "ramp" in limit for i in range(len(case.units)) for limit, _ in answer.limits(i)
            )
            errors = abs(answer.cost / cost - 1), float(np.abs(answer.price / price - 1).max())
            report.expect(max(errors) <= CLOSE, f"{name}, {method}: errors {errors}.")
            rows.append((
                name, case.periods, "yes" if "ramp" in wishes else "no", len(case.units),
                f"{case.network.kappa:.0f}", method, answer.status,
                *(f"{error:.1e}" for error in errors), binding,
                answer.result.counts.rounds, answer.result.counts.agree_rounds, f"{first:.1f}",
                f"{seconds:.3f}", f"{seconds / central:.1f}",
            ))  # fmt: skip
    head = ("case", "T", "ramps", "units", "κ_C", "method", "status", "cost error", "price error",
            "binding", "rounds", "agree", "first CPU s", "CPU s", "over CLARABEL's")  # fmt: skip
    report.table("Dispatch against cvxpy, relative errors", head, rows)


class Central:
    """The centralised controller of hard-limited subsystems, parametrised by the states."""

    def __init__(self, controller: mpc.Controller) -> None:
        K, self.parts = controller.horizon, []
        cost, limits, used = 0, [], 0
        for s in controller.subsystems:
            x, u = cp.Variable((K + 1, s.n_x)), cp.Variable((K, s.n_u))
            start, w = cp.Parameter(s.n_x), cp.Parameter(s.n_x)
            move = x[1:] == x[:-1] @ s.A.T + u @ s.B.T + np.ones((K, 1)) @ cp.reshape(
                w, (1, s.n_x), order="C"
            )
            ones = np.ones((K, 1))
            limits += [x[0] == start, move, x[1:] <= ones * s.x_max, x[1:] >= ones * s.x_min]
            limits += [u <= ones * s.u_max, u >= ones * s.u_min]
            roots = [np.linalg.cholesky(W) for W in (s.Q, s.R, s.terminal)]
            cost += cp.sum_squares((x[:-1] - np.ones((K, 1)) * s.x_ref) @ roots[0])
            cost += cp.sum_squares((u - ones * s.u_ref) @ roots[1])
            cost += cp.sum_squares((x[-1] - s.x_ref) @ roots[2])
            used = used + u @ s.resource.T
            self.parts.append((u, start, w))
        limits.append(used <= controller.available())
        self.problem = cp.Problem(cp.Minimize(cost), limits)

    def inputs(self, states: list[Any], weather: list[Any]) -> list[Any]:
        """First inputs of the plan from these states."""
        for (_, start, w), x, d in zip(self.parts, states, weather, strict=True):
            start.value, w.value = x, d
        self.problem.solve(solver="CLARABEL", tol_gap_rel=1e-10, tol_feas=1e-10)
        return [u.value[0] for u, _, _ in self.parts]


def central_loop(controller: mpc.Controller, made: mpc.Buildings, noise: Any) -> float:
    """Closed-loop cost of the centralised controller under the same disturbances."""
    central, cost, states = Central(controller), 0.0, made.states
    for t in range(len(noise)):
        inputs = central.inputs(states, made.weather)
        now = list(zip(controller.subsystems, states, inputs, made.weather, noise[t], strict=True))
        cost += sum(s.stage_cost(x, u) for s, x, u, _, _ in now)
        states = [s.step(x, u, w + e) for s, x, u, w, e in now]
    return cost


def make_controller(
    made: mpc.Buildings, horizon: int, graph: nx.Graph, formulation: str = "local"
) -> mpc.Controller:
    supply = SUPPLY * len(made.subsystems)
    return mpc.Controller(made.subsystems, horizon, supply, graph, formulation=formulation)


def report_mpc(report: Report, options: argparse.Namespace) -> None:
    n, rows = options.buildings, []
    made = mpc.heated_buildings(n)
    graph = nx.random_regular_graph(4, n, seed=1)
    controller = make_controller(made, options.horizon, graph)
    errors = np.random.default_rng(3).standard_normal((options.steps, n, 6))
    for method in options.controllers:  # so that nothing is compiled later
        loop(controller, made, errors[:2], method, 1e-4, warm=True)
    for level in options.noise:
        noise = level * errors
        best = central_loop(controller, made, noise)
        for method, tol in product(options.controllers, options.tol):
            warm, cold = (
                loop(controller, made, noise, method, tol, start) for start in (True, False)
            )
            worst = max(abs(log.cost / best - 1) for log, _ in (warm, cold))
            report.expect(worst <= 10 * tol, f"{method}, tol {tol:g}: cost error {worst:.1e}.")
            rows.append((level, f"{tol:.0e}", method, *mpc_row(warm, cold, best)))
    head = ["noise", "tol", "method", "status", "steps bound", "cost error warm", "cold"]
    for name in (*MEASURES.values(), "CPU s"):
        head += [f"{name} warm", "cold", "ratio"]
    report.table(f"MPC of {n} buildings against a centralised controller", head, rows)
    head = ("formulation", "p", "status", "KKT", "rounds", "numbers sent", "s")
    rows = formulation_rows(made, options.horizon, graph)
    report.expect(all(row[2] == "CONVERGED" for row in rows), "a plan has not converged.")
    report.table("One plan (iD2A, tol 1e-4) in both formulations", head, rows)


def loop(
    controller: mpc.Controller,
    made: mpc.Buildings,
    noise: Any,
    method: str,
    tol: float,
    warm: bool,
) -> tuple[mpc.Simulation, float]:
    """The closed loop, and its processor time."""
    begun = time.process_time()
    log = controller.simulate(
        made.states,
        len(noise),
        warm=warm,
        method=method,
        tol=tol,
        record=False,
        forecast=lambda t: made.weather,
        disturbance=lambda t: np.array(made.weather) + noise[t],
    )
    return log, time.process_time() - begun


def mpc_row(
    warm: tuple[mpc.Simulation, float], cold: tuple[mpc.Simulation, float], best: float
) -> list[Any]:
    """What the loop cost with warm starts and with cold ones, and their ratio, by each measure."""
    (one, first), (other, second) = warm, cold
    ends = {str(status) for status in one.statuses + other.statuses}
    row = ["/".join(sorted(ends)), int((one.price > 1e-6).sum())]
    row += [f"{abs(log.cost / best - 1):.1e}" for log in (one, other)]
    for name in MEASURES:
        few, many = (int(getattr(log, name).sum()) for log in (one, other))
        row += [few, many, f"{many / few:.1f}" if few else "-"]
    return [*row, f"{first:.1f}", f"{second:.1f}", f"{second / first:.1f}"]


def formulation_rows(made: mpc.Buildings, horizon: int, graph: nx.Graph) -> list[tuple[Any, ...]]:
    rows = []
    for formulation in ("local", "paper"):
        controller = make_controller(made, horizon, graph, formulation)
        begun = time.perf_counter()
        plan = controller.plan(made.states, made.weather, tol=1e-4, method="iD2A")
        counts = plan.result.counts
        p = controller.problem(made.states, made.weather).p
        seconds = f"{time.perf_counter() - begun:.1f}"
        status, kkt = plan.result.status, f"{plan.result.certificate.kkt:.1e}"
        rows.append((formulation, p, status, kkt, counts.rounds, f"{counts.floats:.2e}", seconds))
    return rows


PARTS = {"dispatch": report_dispatch, "mpc": report_mpc}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=["auto", "iD2A", "MiD2A"])
    parser.add_argument("--cases", nargs="+", default=CASES, help="of pandapower, one period")
    parser.add_argument("--days", nargs="*", default=DAYS, help="of pandapower, 24 hours")
    repeats = "runs of which the fastest counts; the first is told apart, since it may compile"
    parser.add_argument("--repeats", type=int, default=20, help=repeats)
    parser.add_argument("--buildings", type=int, default=20)
    parser.add_argument("--horizon", type=int, default=15)
    parser.add_argument("--steps", type=int, default=30, help="receding steps of the MPC")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.001, 0.01, 0.1])
    parser.add_argument("--controllers", nargs="+", default=["auto", "iD2A"], help="methods of MPC")
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-4, 1e-6])
    options = parse(
        parser, PARTS, cases=["case14"], days=["case14"], buildings=5, horizon=3, steps=2,
        noise=[0.001], tol=[1e-4], repeats=1,
    )  # fmt: skip
    report_parts(PARTS, options)


if __name__ == "__main__":
    main()
