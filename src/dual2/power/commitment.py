"""Relaxed unit commitment: start-up costs, minimum load and times, on/off as fractions."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from dual2.errors import ProblemError
from dual2.functions import PiecewiseQuadratic
from dual2.functions.arguments import Array
from dual2.power.cost_curves import PiecewiseLinearCost
from dual2.power.unit_agents import (
    LimitTable,
    Terminal,
    UnitAgent,
    feasible_set,
    ramp_limits,
)

if TYPE_CHECKING:
    from dual2.power.generators import Generator


@dataclass(frozen=True)
class Commitment:
    """Rules of a unit that can be switched off, relaxed: it may be on by a fraction u_t in [0, 1].

    p_min·u_t ≤ p_t ≤ p_max·u_t, and u_t - u_{t-1} = v_t - w_t with starts v_t and stops w_t ≥ 0.
    Within ``min_up`` periods before t at most u_t started, within ``min_down`` at most 1 - u_t
    stopped. The cost is c2·p_t² + c1·p_t + c0·u_t per hour and ``start_cost``·v_t. The optimum is a
    lower bound of that with whole decisions, and prices are those of the relaxation.

    Parameters
    ----------
    start_cost : float
        Of one start.
    min_up, min_down : int
        Periods for which it stays on after a start, and off after a stop.
    initial_on : float, optional
        Whether it is on before the first period (0 or 1, or a fraction). Unless given, the first
        period counts no start.

    Examples
    --------
    >>> from dual2 import power
    >>> block = power.Generator("block", (0.0, 20.0), p_min=40.0, p_max=100.0,
    ...                         commitment=power.Commitment(start_cost=500.0, initial_on=0.0))
    >>> peak = power.Generator("peak", (0.0, 50.0), p_max=100.0)
    >>> answer = power.Dispatch([block, peak], [10.0, 60.0], graph=[("block", "peak")]).solve()
    >>> round(answer.cost, 4), round(float(answer.on["block"][1]), 4)
    (1700.0, 0.6)
    """

    start_cost: float = 0.0
    min_up: int = 1
    min_down: int = 1
    initial_on: float | None = None

    def __post_init__(self) -> None:
        if not (self.start_cost >= 0 and np.isfinite(self.start_cost)):
            raise ProblemError(
                f"Commitment: start_cost = {self.start_cost!r}; expected a number ≥ 0."
            )
        for name in ("min_up", "min_down"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 1:
                raise ProblemError(f"Commitment: {name} = {value!r}; expected whole periods ≥ 1.")
        if self.initial_on is not None and not 0 <= self.initial_on <= 1:
            raise ProblemError(
                f"Commitment: initial_on = {self.initial_on!r}; expected 0, 1 or a fraction."
            )


def check_commitment(unit: "Generator") -> None:
    """Refuse what the relaxation does not cover."""
    if isinstance(unit.cost, PiecewiseLinearCost) or unit.reserve_max > 0:
        raise ProblemError(
            f"{unit!s}: a unit with commitment has a polynomial cost and no reserve here; found "
            f"{'a piecewise linear cost' if unit.reserve_max == 0 else 'reserve_max'}. Leave one "
            "of them out."
        )
    if np.any(np.less(unit.p_min, 0)):
        raise ProblemError(f"{unit!s}: commitment needs p_min ≥ 0; found {np.min(unit.p_min):g}.")


@dataclass(frozen=True)
class CommittedUnit:
    """Builds the agent of a unit with commitment; its variables are power, on, starts, stops."""

    unit: "Generator"
    rules: Commitment
    hours: float

    def over(self, low: Array, high: Array, slope: Array) -> UnitAgent:
        """The agent for limits and linear costs by period."""
        T = len(low)
        eye, none = sp.eye_array(T, format="csr"), sp.csr_array((T, T))
        power, on = (sp.hstack(parts, format="csr") for parts in
                     ([eye, none, none, none], [none, eye, none, none]))  # fmt: skip
        changes = sp.hstack([none, none, eye, none]), sp.hstack([none, none, none, eye])
        starts, stops = (sp.csr_array(part) for part in changes)
        tables = [
            LimitTable.of(power, 0.0, high, ("", "p_max")),
            LimitTable.of(on, 0.0, 1.0, ("", "")),
            LimitTable.of(power - sp.diags_array(high) @ on, -np.inf, 0.0, ("", "p_max when on")),
            LimitTable.of(power - sp.diags_array(low) @ on, 0.0, np.inf, ("p_min when on", "")),
            *self._switches(T, on, starts, stops),
        ]
        c2, _, c0 = self.unit.cost
        curves = np.concatenate([np.full(T, 2.0 * c2), np.zeros(3 * T)])
        costs = [slope, np.full(T, c0), np.full(T, self.rules.start_cost / self.hours), np.zeros(T)]
        f = PiecewiseQuadratic(curvature=curves, slope=np.concatenate(costs), offset=0.0 * curves)
        if self.unit.ramp is not None:
            tables.append(ramp_limits(power, self.unit.ramp, self.unit.initial))
        table = LimitTable.joined(tables)
        g, here = feasible_set(str(self.unit), table), (Terminal(self.unit.bus, power),)
        return UnitAgent(f, g, table, here, power, 0.0 * power, more={"on": on})

    def _switches(
        self, T: int, on: sp.csr_array, starts: sp.csr_array, stops: sp.csr_array
    ) -> list[LimitTable]:
        """Starts and stops follow from on; minimum times up and down."""
        first = self.rules.initial_on
        before = sp.eye_array(T, k=-1, format="csr") @ on
        right = np.zeros(T)
        right[0] = 0.0 if first is None else first
        top = np.ones(T)
        if first is None:  # nothing starts or stops in the first period, whatever on is
            top[0] = 0.0
            balance = (on - before - starts + stops)[1:]
            kept = LimitTable.of(balance, 0.0, 0.0, ("", "")) if T > 1 else None
        else:
            kept = LimitTable.of(on - before - starts + stops, right, right, ("", ""))
        tables = [] if kept is None else [kept]
        for changes, minimum, name in (
            (starts, self.rules.min_up, "min_up"),
            (stops, self.rules.min_down, "min_down"),
        ):
            tables.append(LimitTable.of(changes, 0.0, top, ("", "")))
            recent = sum(sp.eye_array(T, k=-s, format="csr") for s in range(min(minimum, T)))
            left = recent @ changes - on if name == "min_up" else recent @ changes + on
            tables.append(LimitTable.of(left, -np.inf, float(name == "min_down"), ("", name)))
        return tables
