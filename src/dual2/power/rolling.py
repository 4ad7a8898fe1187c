"""Rolling horizon: a long dispatch window by window, with states carried over."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dual2.errors import ProblemError
from dual2.functions.arguments import Array
from dual2.power.answer import Answer
from dual2.power.dc_lines import DCLine
from dual2.power.dispatch import Dispatch
from dual2.power.generators import Generator
from dual2.power.grid import Interface
from dual2.power.storage import Storage


@dataclass(frozen=True, eq=False)
class RollingAnswer:
    """What a rolling horizon comes to: of each window the periods that were carried out.

    Attributes
    ----------
    power : ndarray (units, T)
        Power of each unit, as in :class:`Answer`.
    price : ndarray (T,)
        Price of each period, in the window in which it was carried out.
    energy : dict of str to ndarray (T,)
        Energy of each storage.
    cost : float
        Cost of the periods that were carried out.
    windows : tuple of Answer
        The answer of every window.
    names : tuple of str
        Names of the units.
    """

    power: Array
    price: Array
    energy: dict[str, Array]
    cost: float
    windows: tuple[Answer, ...]
    names: tuple[str, ...]

    def __repr__(self) -> str:
        T = self.power.shape[1]
        return f"<RollingAnswer: {T} periods in {len(self.windows)} windows, cost {self.cost:.8g}>"


def roll(case: Dispatch, window: int, step: int | None = None, **options: Any) -> RollingAnswer:
    """Solve a dispatch window by window, carrying out the first periods of each.

    Each window begins with the powers (for ramps) and energies at which the last one ended. What
    a storage shall have in the end counts in the last window only, so that windows before it see
    no worth in energy beyond their own end: give the storage a negative linear cost, or a longer
    window, if that matters.

    Parameters
    ----------
    case : Dispatch
        All periods.
    window : int
        Periods that each solve looks at.
    step : int, optional
        Periods that are carried out of each; half a window unless given.
    **options
        Of :meth:`Dispatch.solve`. A window that has not converged ends the run with an error,
        as ``throw=True`` does.

    Raises
    ------
    ProblemError
        If the case has what couples all periods: a CO₂ cap, cyclic storage, commitment.

    Examples
    --------
    >>> from dual2 import power
    >>> units = [power.Generator("base", (0.0, 20.0), 60.0, ramp=20.0),
    ...          power.Generator("peak", (0.0, 90.0), 60.0),
    ...          power.Storage("battery", (0.0, 0.0), 15.0, -15.0, energy=(0.0, 30.0))]
    >>> case = power.Dispatch(units, [40.0, 50.0, 70.0, 80.0, 60.0, 40.0],
    ...                       graph=[("base", "peak"), ("peak", "battery")])
    >>> power.roll(case, window=4, step=2)
    <RollingAnswer: 6 periods in 2 windows, cost 7150>
    """
    T, step = case.periods, max(1, window // 2) if step is None else step
    if not 1 <= step <= window:
        raise ProblemError(
            f"roll: window = {window} and step = {step}; expected 1 ≤ step ≤ window."
        )
    _check_rolling(case)
    known: list[Any] = list(case.units)  # those for unserved demand among them
    answers, pieces, prices, start, cost = list[Answer](), [], [], 0, 0.0
    energies: dict[str, list[Array]] = {}
    while start < T:
        stop = min(start + window, T)
        part = _window(case, known, start, stop)
        answer = part.solve(throw=True, **options)
        done = stop - start if stop == T else step
        answers.append(answer)
        pieces.append(answer.power[:, :done])
        prices.append(answer.price[:done])
        cost += float(answer.costs_by_period[:, :done].sum())
        for name, energy in answer.energy.items():
            energies.setdefault(name, []).append(energy[:done])
        known = [_carried(unit, answer, done - 1) for unit in known]
        start += done
    joined = {name: np.concatenate(parts) for name, parts in energies.items()}
    power, price = np.hstack(pieces), np.concatenate(prices)
    return RollingAnswer(power, price, joined, cost, tuple(answers), tuple(case.names))


def _check_rolling(case: Dispatch) -> None:
    """Refuse what couples all periods."""
    found = ["a CO₂ cap"] if case.co2_cap is not None else []
    for unit in case.units:
        if isinstance(unit, Storage) and unit.cyclic:
            found.append(f"the cyclic {unit!s}")
        if isinstance(unit, Generator) and unit.commitment is not None:
            found.append(f"the commitment of {unit!s}")
    if found:
        raise ProblemError(
            f"roll: {', '.join(found)} couples all periods, which windows cannot see. Replace it "
            "by a price, or by initial and final values."
        )


def _cut(value: Any, periods: slice) -> Any:
    """The entries of some periods; a number stays."""
    return value[periods] if np.ndim(value) else value


def _window(case: Dispatch, units: Sequence[Any], start: int, stop: int) -> Dispatch:
    """The dispatch of some periods."""
    some, last = slice(start, stop), stop == case.periods
    return Dispatch(
        [_cut_unit(unit, some, last) for unit in units],
        {bus: power[some] for bus, power in case.demand.items()},
        graph=case.network,
        coupling=case.coupling,
        reserve=_cut(case.reserve, some) if case.reserve is not None else None,
        interfaces=[_cut_interface(one, some) for one in case.interfaces],
        grid=None if case.grid is None else case.grid.over(some),
        zones=None if case.zones is None else case.zones.of_bus,
        hours=case.hours,
        security=case.security,
        islands=case.given_islands,
    )


def _cut_interface(interface: Interface, periods: slice) -> Interface:
    low, high = _cut(interface.lower, periods), _cut(interface.upper, periods)
    return Interface(interface.name, interface.weights, low, high)


def _cut_unit(unit: Any, periods: slice, last: bool) -> Any:
    """A unit over some periods; what it shall end with counts in the last window only."""
    changes = {name: _cut(getattr(unit, name), periods) for name in ("p_min", "p_max")}
    if isinstance(unit.cost, tuple):
        c2, c1, c0 = unit.cost
        changes["cost"] = (c2, _cut(c1, periods), c0)
    if isinstance(unit, Storage):
        changes["inflow"] = None if unit.inflow is None else _cut(unit.inflow, periods)
        changes["final"] = unit.final if last else None
    return replace(unit, **changes)


def _carried(unit: Any, answer: Answer, period: int) -> Any:
    """A unit with the state that it has after a period."""
    k = answer.case.names.index(unit.name)
    if isinstance(unit, Storage):
        if unit.name not in answer.energy:
            return unit
        low, high = unit.energy
        return replace(unit, initial=float(np.clip(answer.energy[unit.name][period], low, high)))
    if isinstance(unit, DCLine) or unit.ramp is None:
        return unit
    return replace(unit, initial=float(answer.power[k, period]))
