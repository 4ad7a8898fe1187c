"""Row generation: limits of lines enter the problem when flows violate them."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.errors import ProblemError
from dual2.functions import IndicatorBox
from dual2.power.answer import Answer
from dual2.power.line_rows import Row
from dual2.solving.result import Counts, Result, Status
from dual2.solving.solve import solve_for_all

if TYPE_CHECKING:
    from dual2.power.dispatch import Dispatch


def solve_by_rows(case: "Dispatch", options: dict[str, Any]) -> tuple[Result, list[Row]]:
    """Solve without limits of lines, add those that are violated, and solve again from there.

    Whether a limit is violated is known from one sum over the network of the units' shares of all
    flows. Returned are the result of the last solve, with the counts and seconds of all solves and
    sums together, and the limits that it had.
    """
    rows = _known_rows(case, options)
    options = {"method": default_method(case)} | options
    spent: list[Result] = []
    while True:
        left = _left(options, spent)
        result = solve_for_all(case.problem_with(rows), case.network, **options | left)
        spent.append(result)
        if case.line_rows is None or result.status != Status.CONVERGED:
            break
        new = case.line_rows.violated(case.injections(result.x), rows)
        if not new:
            break
        rows = rows + new
        duals = np.hstack([result.duals, np.zeros((len(result.duals), len(new)))])
        options = options | {"start": (result.x, duals)}
    return _together(case, spent), rows


def default_method(case: "Dispatch") -> str:
    """``"auto"``, or interior-point where an agent has several units with constraints of their own.

    Dual methods find the schedule of a whole zone in every sum, as one problem of all its units;
    an interior-point step is one sparse factorisation. By zones of 18 units with ramps over 24
    hours the former took 19 times the processor time of the latter.
    """
    if case.zones is None:
        return "auto"
    joined = any(
        len(own) > 1 and any(not isinstance(case.models[k].g, IndicatorBox) for k in own)
        for own in case.zones.members
    )
    return "interior-point" if joined else "auto"


def _known_rows(case: "Dispatch", options: dict[str, Any]) -> list[Row]:
    """The rows to begin with: those that the start knows a price for."""
    start = options.get("start")
    if isinstance(start, Answer):
        options["start"] = (
            start.result if start.case is case else (start.result.x, start.result.duals)
        )
        return list(start.active)
    if start is None or case.line_rows is None:
        return []
    duals = start.duals if isinstance(start, Result) else np.asarray(start[1])
    kept, extra = case.line_rows.kept, np.shape(duals)[-1] - case.base_rows
    if extra not in (0, len(kept)):
        raise ProblemError(
            f"The start has {np.shape(duals)[-1]} prices; expected {case.base_rows}, or "
            f"{case.base_rows + len(kept)} with those of all lines. An earlier answer will do."
        )
    return list(kept) if extra else []


def _left(options: dict[str, Any], spent: Sequence[Result]) -> dict[str, Any]:
    """What is left of the limits on rounds and seconds."""
    left: dict[str, Any] = {}
    if spent and "max_rounds" in options:
        used = sum(result.counts.latency for result in spent)
        left["max_rounds"] = max(options["max_rounds"] - used, 1)
    if spent and options.get("time_limit") is not None:
        used = sum(result.seconds for result in spent)
        left["time_limit"] = max(options["time_limit"] - used, 1e-3)
    return left


def _together(case: "Dispatch", spent: Sequence[Result]) -> Result:
    """The last result with the counts of all, and of the sums of flows between them."""
    if case.line_rows is None:
        return spent[-1]
    total = {
        field.name: sum(getattr(result.counts, field.name) for result in spent)
        for field in fields(Counts)
    }
    total["rounds"] += 2 * case.network.tree.height * len(spent)
    total["sums"] += len(spent)
    total["floats"] += 2 * (case.network.n - 1) * case.line_rows.base.size * len(spent)
    seconds = sum(result.seconds for result in spent)
    return replace(spent[-1], counts=Counts(**total), seconds=seconds)
