"""A dispatch as a problem over a network of its units."""

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import NetworkError, ProblemError
from dual2.functions import Function, IndicatorAtMost, IndicatorBox, IndicatorPoint, Stacked
from dual2.functions.arguments import Array, entries
from dual2.network import Network
from dual2.participants import distinct_names, read_network
from dual2.power.answer import Answer
from dual2.power.checks import check_capacity, reach, read_demand
from dual2.power.costs import curvature
from dual2.power.flows import Grid
from dual2.power.generation import solve_by_rows
from dual2.power.grid import Interface, agent_graph, reached
from dual2.power.line_rows import LineRows, Row
from dual2.power.units import Generator, Unit, UnitAgent, shed_units
from dual2.power.zones import Zones
from dual2.problem import Agent, Problem
from dual2.solving.result import NotSolved, Result, Status
from dual2.solving.storage.answers import read_result
from dual2.solving.unsolved import check_accept, warn_unsolved

COUPLINGS = ("equal", "at least")
OPTIONS = ("graph", "lines", "coupling", "reserve", "interfaces", "grid", "zones", "shed")
"""What a dispatch can be told beside its units and the demand."""


class Dispatch:
    """Least cost at which generators and storage meet a demand, with the prices behind it.

    Minimise Σ_i cost_i(p_i) subject to Σ_i p_{i,t} = demand_t (or ≥), Σ_i r_{i,t} ≥ reserve_t,
    flow limits, and every unit's own limits, where a storage enters with -y. Each unit is an
    agent: its cost and limits stay with it. By default sums of powers and of p × p matrices travel
    along a spanning tree; with ``method="iD2A"`` only prices do.

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
    grid : Grid, optional
        Lines with their limits in the linear (DC) model; needs the demand by bus.
    zones : mapping from bus to zone, optional
        Agents are zones instead of units: each answers for all units at its buses. ``graph`` is
        then one of zones, by their names or numbers.
    shed : float, optional
        Price per MWh at which demand may stay unserved: one more unit ``"shed BUS"`` for each bus
        with a demand. Unless given, every demand must be met.

    Examples
    --------
    >>> from dual2 import power
    >>> case = power.Dispatch(
    ...     [power.Generator("coal", cost=(0.05, 20.0), p_max=80.0),
    ...      power.Generator("gas", cost=(0.10, 30.0), p_max=100.0)],
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
        grid: Grid | None = None,
        zones: Mapping[Any, Hashable] | None = None,
        shed: float | None = None,
    ) -> None:
        self.demand, self.periods = read_demand(demand)
        self.units: tuple[Unit, ...] = (*units, *shed_units(self.demand, shed))
        self.coupling, self.grid, self.shed = coupling, grid, shed
        self.zones = None if zones is None else Zones(zones, self.units)
        self.interfaces = tuple(interfaces)
        self.reserve = None if reserve is None else self._read_reserve(reserve)
        self._check()
        if grid is not None and lines is None and graph is None:
            lines = grid.pairs
        self.network: Network = self._read_network(graph, lines)
        self.models: list[UnitAgent] = [unit.model(self.periods) for unit in self.units]
        low, high = np.array([reach(unit, self.periods) for unit in self.units]).swapaxes(0, 1)
        check_capacity(self, low, high)
        self.line_rows = None if grid is None else LineRows(self, grid, low, high)
        if self.line_rows:
            self.line_rows.check()

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
    def buses(self) -> list[Any]:
        """Every bus: of the grid, or else where there is a unit or a demand."""
        known = [] if self.grid is None else list(self.grid.place)
        own = [*(unit.bus for unit in self.units), *(bus for bus in self.demand if bus is not None)]
        return list(dict.fromkeys([*known, *own]))

    @property
    def total_demand(self) -> Array:
        """Demand of all buses together, for each period."""
        return np.sum(list(self.demand.values()), axis=0)

    # -- the problem --------------------------------------------------------------------------

    @cached_property
    def problem(self) -> Problem:
        """The dispatch as a :class:`dual2.Problem`: agent i is unit i (or zone i), in MW.

        Of the lines' limits it has those that some dispatch could violate.
        """
        return self.problem_with(self.line_rows.kept if self.line_rows else ())

    def problem_with(self, rows: Sequence[Row]) -> Problem:
        """The same with these limits of lines only."""
        line_rows = self.line_rows
        weights = line_rows.weights(rows) if line_rows else np.zeros((0, len(self.units)))
        periods = [row.period for row in rows]
        agents, known = [], {}
        for k, (unit, model) in enumerate(zip(self.units, self.models, strict=True)):
            blocks = [model.power]
            if self.reserve is not None:
                blocks.append(self._reserve_scale * model.reserve)
            blocks += [i.weights.get(unit.bus, 0.0) * model.power for i in self.interfaces]
            if rows:
                blocks.append(weights[:, k, None] * model.power[periods])
            A = np.vstack(blocks)
            A.setflags(write=False)
            A = known.setdefault((A.shape, A.tobytes()), A)  # alike units share their matrix
            agents.append(Agent(A, model.f, model.g))
        if self.zones is not None:
            agents = self.zones.join(agents)
        return Problem(agents, self._coupling_function(rows))

    @property
    def _reserve_scale(self) -> float:
        """Scale of the reserve rows that gives them the curvature of the balance."""
        holders = [u for u in self.units if isinstance(u, Generator) and u.reserve_max > 0]
        soft = min(curvature(u.cost) for u in self.units)
        least = min((u.reserve_cost[0] for u in holders), default=soft)
        return float(np.sqrt(least / soft)) if least > 0 and soft > 0 else 1.0

    def _coupling_function(self, rows: Sequence[Row]) -> Function:
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
        sizes = [T] * len(parts)
        if self.line_rows and rows:
            parts.append(IndicatorBox(*self.line_rows.bounds(rows)))
            sizes.append(len(rows))
        return Stacked(parts, sizes) if len(parts) > 1 else parts[0]

    def solve(self, *, accept: str | None = None, **options: Any) -> Answer:
        """Solve; options are those of :func:`dual2.solve` (method, tol, runtime, start, …).

        Limits of lines enter when the flows violate them: solve, add the violated ones, solve
        again from there, until all are met. ``start`` may be an earlier answer. An answer that has
        not converged says so first, with what it violates, and comes with a warning;
        ``accept="unsolved"`` takes it without.

        Raises
        ------
        ProblemError
            If reserve, flow and ramp limits turn out to contradict the demand.
        NotSolved
            With ``throw=True``, if the run ended before it converged.
        """
        check_accept("Dispatch.solve", accept)
        throw = options.pop("throw", False)
        result, rows = solve_by_rows(self, options)
        if result.status == Status.INFEASIBLE:
            raise ProblemError(self._contradiction(result, rows))
        if throw and result.status != Status.CONVERGED:
            raise NotSolved(result)
        answer = Answer(self, result, rows)
        if not answer.solved:
            warn_unsolved(answer.notice, accept)
        return answer

    def answer(self, result: Result | Mapping[str, Any]) -> Answer:
        """What a result of ``solve(case.problem, case.network)`` means for the units.

        The JSON document that ``dual2 solve --out`` wrote will do, too.
        """
        rows = self.line_rows.kept if self.line_rows else []
        return Answer(self, read_result(result, self.network.n), rows)

    def save(self, path: str | os.PathLike[str], force: bool = False, **options: Any) -> Path:
        """Write a problem folder for ``dual2 solve PATH``; see ``dual2.save_problem``."""
        from dual2.solving.storage import save_problem

        return save_problem(path, self.problem, self.network, options, force)

    def row_names(self) -> list[str]:
        """What each block of T coupling rows stands for."""
        reserve = [] if self.reserve is None else ["reserve"]
        return ["demand", *reserve, *(interface.name for interface in self.interfaces)]

    @property
    def base_rows(self) -> int:
        """Coupling rows without those of lines."""
        return self.periods * len(self.row_names())

    def by_unit(self, x: Sequence[Array]) -> list[Array]:
        """The variables of each unit, from those of the agents."""
        if self.zones is None:
            return list(x)
        return self.zones.split(x, [model.power.shape[1] for model in self.models])

    def injections(self, x: Sequence[Array]) -> Array:
        """What each unit feeds into the grid, (units, T), from the variables of the agents."""
        pairs = zip(self.models, self.by_unit(x), strict=True)
        return np.array([model.power @ own for model, own in pairs])

    def _contradiction(self, result: Result, rows: Sequence[Row]) -> str:
        direction = np.abs(np.asarray(result.certificate.separator))
        worst = np.flatnonzero(direction > 0.1 * direction.max())
        names = [f"{name} in period {t}" for name in self.row_names() for t in range(self.periods)]
        if self.grid:
            names += [f"{self.grid.lines[row.line].name} in period {row.period}" for row in rows]
        where = ", ".join(names[k] for k in worst[:6])
        return (
            f"The dispatch is infeasible: {where}{', …' if len(worst) > 6 else ''} cannot be met "
            "together within the units' limits and ramps. Relax a limit, add capacity, or allow "
            "unserved energy (shed=price per MWh)."
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
            if self.zones is not None:
                return read_network(graph, self.zones.names, "zones")
            return read_network(graph, self.names, "units")
        if lines is None and len(self.units) > 1:
            raise NetworkError(
                "Dispatch: nobody said who talks to whom. Give graph= (pairs of units) or lines= "
                "(pairs of buses)."
            )
        buses, lines = [unit.bus for unit in self.units], list(lines or [])
        self._check_interfaces({*buses, *self.demand, *(end for line in lines for end in line)})
        talks = agent_graph(buses, lines)
        network = Network(talks if self.zones is None else self.zones.graph(talks))
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
        limited = self.interfaces or self.grid is not None or self.shed is not None
        if limited and list(self.demand) == [None]:
            raise ProblemError(
                "Dispatch: interfaces, grid and shed need the demand by bus: demand={bus: MW}."
            )
        if self.grid is not None:
            self._check_grid(self.grid)
        taken = {"demand", "reserve"}
        for interface in self.interfaces:
            if interface.name in taken:
                raise ProblemError(
                    f"Interface {interface.name!r}: the name is taken. Interfaces need names of "
                    "their own, other than 'demand' and 'reserve'."
                )
            taken.add(interface.name)

    def _check_grid(self, grid: Grid) -> None:
        if self.coupling != "equal":
            raise ProblemError(
                "Dispatch: with a grid, coupling='at least' leaves open where the surplus goes. "
                "Use coupling='equal'."
            )
        for bus in [*(unit.bus for unit in self.units), *self.demand]:
            if bus not in grid.place:
                raise ProblemError(f"Dispatch: no line of the grid leads to bus {bus!r}.")

    def _check_interfaces(self, buses: set[Hashable]) -> None:
        """Refuse weights of buses that do not exist."""
        for interface in self.interfaces:
            strange = [bus for bus in interface.weights if bus not in buses]
            if strange:
                raise ProblemError(
                    f"Interface {interface.name!r}: bus {strange[0]!r} is unknown; neither a unit, "
                    "nor a demand, nor a line is there."
                )
