"""A dispatch as a problem over a network of its units."""

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dual2.applications.dispatch.answer import Answer
from dual2.applications.dispatch.grid import Interface, agent_graph, reached
from dual2.applications.dispatch.units import Generator, Unit, UnitAgent
from dual2.applications.participants import distinct_names, read_network
from dual2.errors import NetworkError, ProblemError
from dual2.functions import IndicatorAtMost, IndicatorBox, IndicatorPoint, Stacked
from dual2.functions.arguments import Array, entries
from dual2.network import Network
from dual2.problem import Agent, Problem
from dual2.solving.result import NotSolved, Result, Status
from dual2.solving.solve import solve_for_all
from dual2.solving.storage.answers import read_result

COUPLINGS = ("equal", "at least")


class Dispatch:
    """Least cost at which generators and storage meet a demand, with the prices behind it.

    Minimise Σ_i cost_i(p_i) subject to Σ_i p_{i,t} = demand_t (or ≥), Σ_i r_{i,t} ≥ reserve_t,
    flow limits, and every unit's own limits, where a storage enters with -y. Each unit is an
    agent: its cost and limits stay with it, only prices travel.

    Parameters
    ----------
    units : sequence of Generator and Storage
        Who takes part; names must differ.
    demand : float, vector of length T, or mapping from bus to either
        In MW; T is the number of periods.
    graph : networkx.Graph, edge list or Network, optional
        Who talks to whom, by unit names or numbers.
    lines : iterable of (bus, bus), optional
        The grid, from which the communication follows, see :func:`agent_graph`; one of ``graph``
        and ``lines`` is needed.
    coupling : {"equal", "at least"}
        Whether the demand must be met exactly or may be exceeded.
    reserve : float or vector of length T, optional
        Reserve to hold in all.
    interfaces : iterable of Interface
        Limits of flows; they need the demand by bus.

    Examples
    --------
    >>> from dual2.applications import dispatch
    >>> case = dispatch.Dispatch(
    ...     [dispatch.Generator("coal", cost=(0.05, 20.0), p_max=80.0),
    ...      dispatch.Generator("gas", cost=(0.10, 30.0), p_max=100.0)],
    ...     demand=120.0, graph=[("coal", "gas")],
    ... )
    >>> print(case.solve())
    CONVERGED: cost 3280, price 38 per MWh; ... rounds
    unit  bus  power  cost  marginal  limits
    coal    0     80  1920        28  p_max
    gas     0     40  1360        38
    """

    def __init__(
        self,
        units: Sequence[Unit],
        demand: Any,
        *,
        graph: Any = None,
        lines: Iterable[tuple[Any, Any]] | None = None,
        coupling: str = "equal",
        reserve: Any = None,
        interfaces: Iterable[Interface] = (),
    ) -> None:
        self.units: tuple[Unit, ...] = tuple(units)
        self.coupling = coupling
        self.interfaces = tuple(interfaces)
        self.demand, self.periods = _read_demand(demand)
        self.reserve = None if reserve is None else self._read_reserve(reserve)
        self._check()
        self.network: Network = self._read_network(graph, lines)
        self.models: list[UnitAgent] = [unit.model(self.periods) for unit in self.units]
        self._check_capacity()

    def __repr__(self) -> str:
        total = self.total_demand
        return (
            f"Dispatch({len(self.units)} units, {self.periods} periods, demand "
            f"{total.min():g} … {total.max():g} MW)"
        )

    @property
    def names(self) -> list[str]:
        """Names of the units, in the order of the agents."""
        return [unit.name for unit in self.units]

    @property
    def total_demand(self) -> Array:
        """Demand of all buses together, for each period."""
        return np.sum(list(self.demand.values()), axis=0)

    # -- the problem --------------------------------------------------------------------------

    @cached_property
    def problem(self) -> Problem:
        """The dispatch as a :class:`dual2.Problem`: agent i is unit i, in MW."""
        rows = [
            np.vstack(
                [
                    model.power,
                    *([self._reserve_scale * model.reserve] if self.reserve is not None else []),
                    *(w.weights.get(unit.bus, 0.0) * model.power for w in self.interfaces),
                ]
            )
            for unit, model in zip(self.units, self.models, strict=True)
        ]
        agents = [Agent(A, s.f, s.g) for A, s in zip(rows, self.models, strict=True)]
        return Problem(agents, self._coupling_function())

    @property
    def _reserve_scale(self) -> float:
        """Scale of the reserve rows that gives them the curvature of the balance."""
        holders = [u for u in self.units if isinstance(u, Generator) and u.reserve_max > 0]
        soft = min(u.cost[0] for u in self.units)
        least = min((u.reserve_cost[0] for u in holders), default=soft)
        return float(np.sqrt(least / soft)) if least > 0 and soft > 0 else 1.0

    def _coupling_function(self) -> Stacked:
        T, total = self.periods, self.total_demand
        balance = IndicatorPoint(total) if self.coupling == "equal" else IndicatorBox(total, np.inf)
        parts: list[Any] = [balance]
        if self.reserve is not None:
            parts.append(IndicatorBox(self._reserve_scale * self.reserve, np.inf))
        for interface in self.interfaces:
            taken = sum(
                w * self.demand[b] for b, w in interface.weights.items() if b in self.demand
            )
            upper, lower = interface.upper + taken, interface.lower + taken
            only_upper = np.isneginf(lower).all() if np.ndim(lower) else lower == -np.inf
            parts.append(IndicatorAtMost(upper) if only_upper else IndicatorBox(lower, upper))
        return Stacked(parts, [T] * len(parts))

    def solve(self, **options: Any) -> Answer:
        """Solve; options are those of :func:`dual2.solve` (method, tol, runtime, start, …).

        Raises
        ------
        ProblemError
            If reserve, flow and ramp limits turn out to contradict the demand.
        NotSolved
            With ``throw=True``, if the run ended before it converged.
        """
        start = options.get("start")
        if isinstance(start, Answer):
            options["start"] = start.result
        throw = options.pop("throw", False)
        result = solve_for_all(self.problem, self.network, **options)
        if result.status == Status.INFEASIBLE:
            raise ProblemError(self._contradiction(result))
        if throw and result.status != Status.CONVERGED:
            raise NotSolved(result)
        return self.answer(result)

    def answer(self, result: Result | Mapping[str, Any]) -> Answer:
        """What a result of ``solve(case.problem, case.network)`` means for the units.

        The JSON document that ``dual2 solve --out`` wrote will do, too.
        """
        return Answer(self, read_result(result, len(self.units)))

    def save(self, path: str | os.PathLike[str], force: bool = False, **options: Any) -> Path:
        """Write a problem folder for ``dual2 solve PATH``; see ``dual2.save_problem``."""
        from dual2.solving.storage import save_problem

        return save_problem(path, self.problem, self.network, options, force)

    def row_names(self) -> list[str]:
        """What each block of T coupling rows stands for."""
        reserve = [] if self.reserve is None else ["reserve"]
        return ["demand", *reserve, *(interface.name for interface in self.interfaces)]

    def _contradiction(self, result: Result) -> str:
        direction = np.abs(np.asarray(result.certificate.separator)).reshape(-1, self.periods)
        worst = np.argwhere(direction > 0.1 * direction.max())
        names = self.row_names()
        where = ", ".join(f"{names[k]} in period {t}" for k, t in worst[:6])
        return (
            f"The dispatch is infeasible: {where}{', …' if len(worst) > 6 else ''} cannot be met "
            "together within the units' limits and ramps. Relax a limit or add capacity."
        )

    # -- reading and checking -------------------------------------------------------------------

    def _read_reserve(self, reserve: Any) -> Array:
        value = entries("Dispatch", "reserve", reserve)
        if np.ndim(value) and len(np.atleast_1d(value)) != self.periods:
            raise ProblemError(
                f"Dispatch: reserve has {np.size(value)} entries; the demand has {self.periods} "
                "periods."
            )
        return np.array(np.broadcast_to(value, (self.periods,)))

    def _read_network(self, graph: Any, lines: Iterable[tuple[Any, Any]] | None) -> Network:
        if graph is not None:
            if lines is None:
                self._check_interfaces({*(unit.bus for unit in self.units), *self.demand})
            return read_network(graph, self.names, "units")
        if lines is None and len(self.units) > 1:
            raise NetworkError(
                "Dispatch: nobody said who talks to whom. Give graph= (pairs of units) or lines= "
                "(pairs of buses)."
            )
        buses, lines = [unit.bus for unit in self.units], list(lines or [])
        self._check_interfaces({*buses, *self.demand, *(end for line in lines for end in line)})
        network = Network(agent_graph(buses, lines))
        served = reached(buses, lines)
        for bus, power in self.demand.items():
            if bus is not None and bus not in served and np.any(power):
                raise ProblemError(
                    f"Dispatch: the demand of {power.max():g} MW at bus {bus!r} cannot be served: "
                    "no line leads there from any unit."
                )
        return network

    def _check(self) -> None:
        distinct_names(self.units, "units")
        if self.coupling not in COUPLINGS:
            raise ProblemError(
                f"Dispatch: coupling = {self.coupling!r}; expected 'equal' or 'at least'."
            )
        if self.interfaces and list(self.demand) == [None]:
            raise ProblemError("Dispatch: interfaces need the demand by bus: demand={bus: MW}.")
        taken = {"demand", "reserve"}
        for interface in self.interfaces:
            if interface.name in taken:
                raise ProblemError(
                    f"Interface {interface.name!r}: the name is taken. Interfaces need names of "
                    "their own, other than 'demand' and 'reserve'."
                )
            taken.add(interface.name)

    def _check_interfaces(self, buses: set[Hashable]) -> None:
        """Refuse weights of buses that do not exist."""
        for interface in self.interfaces:
            strange = [bus for bus in interface.weights if bus not in buses]
            if strange:
                raise ProblemError(
                    f"Interface {interface.name!r}: bus {strange[0]!r} is unknown; neither a unit, "
                    "nor a demand, nor a line is there."
                )

    def _check_capacity(self) -> None:
        """Refuse a demand that exceeds what the units can do, period by period."""
        least, most = np.sum([_reach(model) for model in self.models], axis=0)
        total = self.total_demand
        held = np.zeros_like(total) if self.reserve is None else self.reserve
        slack = 1e-9 * np.maximum(1.0, np.abs(total))
        for t in range(self.periods):
            if total[t] > most[t] + slack[t]:
                raise ProblemError(
                    f"Dispatch: in period {t} the demand is {total[t]:g} MW, but the units can "
                    f"deliver at most {most[t]:g} MW. Add capacity or lower the demand."
                )
            if self.coupling == "equal" and total[t] < least[t] - slack[t]:
                raise ProblemError(
                    f"Dispatch: in period {t} the demand is {total[t]:g} MW, but the units deliver "
                    f"at least {least[t]:g} MW. Lower some p_min, add storage, or use "
                    "coupling='at least'."
                )
        self._check_changes(total)
        offered = [getattr(unit, "reserve_max", 0.0) for unit in self.units]
        if held.max(initial=0.0) > sum(offered) + 1e-9:
            raise ProblemError(
                f"Dispatch: the reserve is {held.max():g} MW, but the units can hold at most "
                f"{sum(offered):g} MW (reserve_max)."
            )

    def _check_changes(self, total: Array) -> None:
        """Refuse a demand that changes faster than all ramps together allow."""
        ramps = [getattr(unit, "ramp", None) or (np.inf, np.inf) for unit in self.units]
        up, down = np.sum(ramps, axis=0)
        for t, change in enumerate(np.diff(total), start=1):
            falls = self.coupling == "equal" and -change > down * (1 + 1e-9)
            if change > up * (1 + 1e-9) or falls:
                raise ProblemError(
                    f"Dispatch: from period {t - 1} to {t} the demand changes by {change:g} MW, "
                    f"but all ramps together allow {down if falls else up:g} MW. Add units that "
                    "can follow, or storage."
                )


def _reach(model: UnitAgent) -> tuple[Array, Array]:
    """Least and most power fed into the grid in each period, ramps followed from both ends."""
    T = len(model.power)
    low, high = np.full(T, -np.inf), np.full(T, np.inf)
    ramps = np.full((T, 2), np.inf)
    for limit in model.limits:
        if limit.up_name == "p_max":
            low[limit.period], high[limit.period] = limit.lower, limit.upper
        elif limit.up_name == "ramp up" and np.count_nonzero(limit.row) == 2:
            ramps[limit.period] = limit.upper, -limit.lower
    for limit in model.limits:
        if limit.up_name == "ramp up" and np.count_nonzero(limit.row) == 1:
            low[0], high[0] = max(low[0], limit.lower), min(high[0], limit.upper)
    for t in range(1, T):
        high[t] = min(high[t], high[t - 1] + ramps[t, 0])
        low[t] = max(low[t], low[t - 1] - ramps[t, 1])
    for t in range(T - 2, -1, -1):
        high[t] = min(high[t], high[t + 1] + ramps[t + 1, 1])
        low[t] = max(low[t], low[t + 1] - ramps[t + 1, 0])
    return (low, high) if model.power[0, 0] > 0 else (-high, -low)


def _read_demand(demand: Any) -> tuple[dict[Hashable, Array], int]:
    """Demand by bus (None where no bus was named) as vectors of one length."""
    given = dict(demand) if isinstance(demand, Mapping) else {None: demand}
    found = {bus: np.atleast_1d(entries("Dispatch", "demand", d)) for bus, d in given.items()}
    lengths = {len(d) for d in found.values()} - {1} or {1}
    if not found:
        raise ProblemError("Dispatch: the demand names no bus; expected demand={bus: MW}.")
    if len(lengths) > 1:
        raise ProblemError(
            f"Dispatch: the demands of the buses have lengths {sorted(lengths)}; expected one "
            "number of periods."
        )
    T = lengths.pop()
    return {bus: np.array(np.broadcast_to(d, (T,))) for bus, d in found.items()}, T
