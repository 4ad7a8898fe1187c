"""Runs that are stopped early: nothing that they print or return may look like a solution.

Dispatches, model fits, control plans, closed loops, cvxpy models and plain problems are solved
once, then stopped by ``max_rounds``, ``time_limit`` or Ctrl-C at a random part of what they need.
Every text that a user sees of a stopped run must say first that nothing is solved, violations must
be those that the arrays have, and a further use must be refused.

    python benchmarks/early_stops.py [--runs 200] [--seed 0] [--smoke]
"""

import argparse
import re
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from sklearn.exceptions import ConvergenceWarning

import dual2 as d2
import dual2.learn as dl
from common.report import Report, parse
from dual2 import mpc
from dual2 import power as dispatch

SAYS_SO = re.compile(r"NOT SOLVED|MAX_ROUNDS|TIME_LIMIT|STALLED|INTERRUPTED")
"""What the first line of a text about an unsolved answer contains."""
CLOSE = 1e-6
STOPS = ("max_rounds", "time_limit", "Ctrl-C")


@dataclass(frozen=True)
class Seen:
    """What a user sees of one run.

    ``texts`` is all that is printed, ``warned`` whether a warning came, ``refused`` whether a
    further use was, ``missed`` and ``claimed`` by how much a constraint is violated, by the arrays
    and by what the answer says (None where it says nothing in numbers). ``seconds`` are those that
    ``time_limit`` counts, None where there is no such number.
    """

    status: str
    texts: tuple[str, ...] = ()
    warned: bool = True
    refused: bool = True
    missed: float = 0.0
    claimed: float | None = None
    rounds: int = 0
    seconds: float | None = None


def network(n: int) -> d2.Network:
    return d2.Network([(i, i + 1) for i in range(n - 1)])


# -- what is solved ----------------------------------------------------------------------------
def schedule(rng: np.random.Generator, options: dict[str, Any]) -> Seen:
    """A day of a few units with ramps."""
    n = int(rng.integers(3, 7))
    units = [
        dispatch.Generator(
            f"u{k}", cost=(float(rng.uniform(0.01, 0.2)), float(rng.uniform(5, 40))),
            p_max=float(rng.uniform(40, 90)), ramp=float(rng.uniform(15, 40)),
        )
        for k in range(n)
    ]  # fmt: skip
    demand = 25.0 * n * (1 + 0.1 * rng.standard_normal(8))
    case = dispatch.Dispatch(units, demand, graph=[(f"u{k}", f"u{k + 1}") for k in range(n - 1)])
    with watched() as heard:
        answer = case.solve(**options)
    missed = float(np.abs(demand - answer.injection.sum(axis=0)).max())
    claimed = [one.amount for one in answer.violations if one.what == "Balance"]
    tables = [str(row) for row in (answer.rows[0], answer.buses[0])]
    return Seen(
        answer.status, (str(answer), repr(answer), *tables), bool(heard), True, missed,
        max(claimed, default=0.0), answer.result.counts.latency, answer.result.seconds,
    )  # fmt: skip


MODELS = (
    dl.VerticalRidge(1e-3, parties=3),
    dl.VerticalLasso(0.01, parties=3),
    dl.VerticalLogisticRegression(parties=3),
    dl.VerticalQuantileRegressor(alpha=1e-3, parties=2),
    dl.VerticalLinearSVC(parties=2),
)


def fit(rng: np.random.Generator, options: dict[str, Any]) -> Seen:
    """A model; ``time_limit`` is none of an estimator's parameters, so Ctrl-C stands for it."""
    model = MODELS[int(rng.integers(len(MODELS)))]
    X = rng.standard_normal((80, 8))
    y: Any = X[:, 0] - X[:, 3] + rng.standard_normal(80)
    if isinstance(model, dl.VerticalLogisticRegression | dl.VerticalLinearSVC):
        y = (y > 0).astype(int)
    model = type(model)(**model.get_params())
    model.set_params(max_iter=options.get("max_rounds", model.max_iter))
    seconds = options.get("time_limit")
    with watched() as heard, ctrl_c(seconds):
        model.fit(X, y)
    told = any(issubclass(one.category, ConvergenceWarning) for one in heard)
    results = model.result_ if isinstance(model.result_, list) else [model.result_]
    worst = next((r for r in results if r.status != "CONVERGED"), results[0])
    status = str(worst.status) if not model.converged_ else "CONVERGED"
    texts = [str(one.message) for one in heard if one.category is ConvergenceWarning]
    texts += [model.explain().split("The last problem:\n")[-1]] if len(results) == 1 else []
    counts = model.communication_
    return Seen(status, tuple(texts), told, True, rounds=counts["rounds"] + counts["agree_rounds"])


def rooms(rng: np.random.Generator) -> tuple[mpc.Controller, list[list[float]]]:
    pair = [
        mpc.Subsystem(
            name, A=[[0.9]], B=[[0.5]], Q=float(rng.uniform(0.5, 2)), R=0.1, u_min=0.0, u_max=2.0,
            resource=[[1.0]], x_ref=float(rng.uniform(2, 4)),
        )
        for name in ("kitchen", "study", "hall")
    ]  # fmt: skip
    graph = [("kitchen", "study"), ("study", "hall")]
    return mpc.Controller(pair, horizon=6, limit=2.5, graph=graph), rng.uniform(
        0, 1, (3, 1)
    ).tolist()


def plan(rng: np.random.Generator, options: dict[str, Any]) -> Seen:
    """The inputs of a few rooms."""
    controller, start = rooms(rng)
    with watched() as heard:
        found = controller.plan(start, **options)
    missed = float(max((found.usage - 2.5).max(), 0.0))
    claimed = [one.amount for one in found.violations if one.what == "resource[0]"]
    return Seen(
        str(found.result.status), (repr(found),), bool(heard), True, missed,
        max(claimed, default=0.0), found.result.counts.latency, found.result.seconds,
    )  # fmt: skip


def loop(rng: np.random.Generator, options: dict[str, Any]) -> Seen:
    """Three steps of a closed loop; the limits are those of each step."""
    controller, start = rooms(rng)
    with watched() as heard:
        log = controller.simulate(start, steps=3, **options)
    status = "CONVERGED" if log.failure is None else str(log.failure)
    applied = log.steps == 3 if log.failure is None else log.steps < 3
    rounds = int(np.max(log.latency, initial=0))
    return Seen(status, (str(log),), bool(heard), applied and not log.unsolved, rounds=rounds)


def model(rng: np.random.Generator, options: dict[str, Any]) -> Seen:
    """A cvxpy model with a shared equation and a shared limit."""
    x, y = cp.Variable(4, name="x"), cp.Variable(4, name="y")
    b = rng.uniform(1, 2, 4)
    cost = cp.sum_squares(x - rng.standard_normal(4)) + cp.norm1(y)
    problem = cp.Problem(cp.Minimize(cost), [x + y == b, x >= 0, cp.sum(x) - cp.sum(y) <= 0.3])
    ours = d2.from_cvxpy(problem, [x, y])
    result = d2.solve(ours, network(2), **options)
    with watched() as heard:
        value = ours.assign(result)
    nothing = problem.value is None and x.value is None and not np.isfinite(value)
    texts = [str(one.message) for one in heard] or [str(problem.status)]
    return Seen(
        str(result.status), tuple(texts), bool(heard), nothing, rounds=result.counts.latency,
        seconds=result.seconds,
    )  # fmt: skip


def plain(rng: np.random.Generator, options: dict[str, Any]) -> Seen:
    """A linear program of three agents."""
    agents = [
        d2.Agent(rng.standard_normal((3, 4)), d2.Quadratic(np.zeros(4), rng.uniform(0.1, 1, 4)),
                 d2.IndicatorBox(0.0, 3.0))
        for _ in range(3)
    ]  # fmt: skip
    b = sum(agent.A @ rng.uniform(0.5, 2, 4) for agent in agents)
    result = d2.solve(d2.Problem(agents, d2.IndicatorPoint(b)), network(3), **options)
    refused = True
    if options and result.status != "CONVERGED":  # Ctrl-C would come only once
        try:
            problem = d2.Problem(agents, d2.IndicatorPoint(b))
            again = d2.solve(problem, network(3), throw=True, **options)
            refused = again.status == "CONVERGED"  # in the same time, on a machine less busy
        except d2.NotSolved as error:
            refused = str(error.result.status) in str(error)
    texts = repr(result), result.explain()
    return Seen(
        str(result.status), texts, True, refused, rounds=result.counts.latency,
        seconds=result.seconds,
    )  # fmt: skip


KINDS: dict[str, Callable[[np.random.Generator, dict[str, Any]], Seen]] = {
    "dispatch": schedule,
    "fit": fit,
    "plan": plan,
    "closed loop": loop,
    "cvxpy": model,
    "plain": plain,
}


# -- stopping ----------------------------------------------------------------------------------
@contextmanager
def watched() -> Iterator[list[warnings.WarningMessage]]:
    """Every warning in the block."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield heard


@contextmanager
def ctrl_c(seconds: float | None) -> Iterator[None]:
    """Ctrl-C after so many seconds, if the block takes as long."""
    if seconds is None:
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def stopped(kind: str, stop: str, seed: int, whole: Seen, seconds: float) -> Seen | None:
    """The same run, stopped; None if Ctrl-C left nothing but ``KeyboardInterrupt``."""
    part = float(np.random.default_rng([seed, 1]).uniform(0.02, 0.9))
    run, rng = KINDS[kind], np.random.default_rng(seed)
    if stop == "max_rounds":
        return run(rng, {"max_rounds": max(int(part * whole.rounds), 1)})
    try:
        if stop == "time_limit":
            own = seconds if whole.seconds is None else whole.seconds
            return run(rng, {"time_limit": part * own})
        with ctrl_c(part * seconds):
            return run(rng, {})
    except KeyboardInterrupt:
        return None


def judge(seen: Seen) -> str:
    """What could be mistaken for a solution; empty if nothing."""
    if seen.status == "CONVERGED":
        return "" if seen.missed <= CLOSE * 1e3 else f"CONVERGED with {seen.missed:g} missed"
    silent = [text for text in seen.texts if not SAYS_SO.search(text.splitlines()[0])]
    if silent:
        return f"says nothing: {silent[0].splitlines()[0][:80]}"
    if any("CONVERGED" in text for text in seen.texts):
        return "names CONVERGED"
    if not seen.warned:
        return "no warning"
    if not seen.refused:
        return "was used further"
    if seen.claimed is not None and abs(seen.claimed - seen.missed) > CLOSE * max(1, seen.missed):
        return f"claims a violation of {seen.claimed:g}; the arrays have {seen.missed:g}"
    return ""


def campaign(runs: int, seed: int) -> list[tuple[str, str, str, str]]:
    """Kind, stop, how it ended, and what is wrong, of so many runs."""
    found, pairs = [], [(kind, stop) for kind in KINDS for stop in STOPS]
    for kind in KINDS:  # kernels, and the modules that are imported late
        KINDS[kind](np.random.default_rng(seed), {})
    for k in range(runs):
        kind, stop = pairs[k % len(pairs)]
        begun = time.perf_counter()
        whole = KINDS[kind](np.random.default_rng(seed + k), {})
        seconds = time.perf_counter() - begun
        seen = stopped(kind, stop, seed + k, whole, seconds)
        status = "KeyboardInterrupt" if seen is None else seen.status.split(".")[0]
        found.append((kind, stop, status, "" if seen is None else judge(seen)))
    return found


def main() -> None:
    """Print how the runs ended, and everything that could be mistaken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parse(parser, runs=18)
    report, rows = Report(asked), []
    found = campaign(asked.runs, asked.seed)
    for kind in KINDS:
        for stop in STOPS:
            own = [run for run in found if run[:2] == (kind, stop)]
            ends = ", ".join(f"{n} {end}" for end, n in Counter(run[2] for run in own).items())
            rows.append([kind, stop, len(own), sum(bool(run[3]) for run in own), ends])
    report.table("Stopped runs", ["of", "by", "runs", "mistakable", "ended"], rows)
    for kind, stop, status, wrong in found:
        report.expect(not wrong, f"{kind} stopped by {stop} ({status}): {wrong}")
    report.end()


if __name__ == "__main__":
    main()
