"""A dispatch as a problem over a network of its units."""

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import NetworkError, ProblemError
from dual2.functions.arguments import Array, entries, number
from dual2.network import Network
from dual2.participants import distinct_names, read_network
from dual2.power.answer import Answer
from dual2.power.balance_rows import (
    CO2,
    block_sizes,
    coupling_function,
    named_conflict,
    unit_matrix,
)
from dual2.power.dc_lines import DCLine
from dual2.power.dispatch_checks import (
    check_capacity,
    check_grid,
    check_interface_length,
    read_demand,
    read_islands,
)
from dual2.power.flows import Grid
from dual2.power.generation import solve_by_rows
from dual2.power.generators import Generator, shed_units
from dual2.power.grid import Interface, agent_graph, reached
from dual2.power.line_rows import LineRows, Row
from dual2.power.outages import Security
from dual2.power.storage import Storage
from dual2.power.unit_agents import Terminal, UnitAgent
from dual2.power.zones import Zones
from dual2.problem import Agent, Problem
from dual2.solving.result import NotSolved, Result, Status
from dual2.solving.storage.answers import read_result
from dual2.solving.unsolved import check_accept, warn_unsolved

Unit = Generator | Storage | DCLine
COUPLINGS = ("equal", "at least")
OPTIONS = (
    *("graph", "lines", "coupling", "reserve", "interfaces", "grid", "zones", "shed", "hours"),
    *("co2_cap", "security", "islands"),
)
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
    shed : float, vector of length T, or mapping from bus to either, optional
        Price per MWh at which demand may stay unserved: one more unit ``"shed BUS"`` for each bus
        with a demand. Unless given, every demand must be met.
    hours : float
        Length of a period; costs are per hour, prices per MWh, ramps per period.
    co2_cap : float, optional
        Most tonnes of CO₂ in all periods together, by the ``emissions`` of generators.
    security : Security, optional
        Flows stay within limits after the outage of any one line of the grid, too.
    islands : mapping from bus to island, optional
        Parts that only DC lines join, each with a balance of its own; by default those of the
        grid, or one.

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
        shed: Any = None,
        hours: float = 1.0,
        co2_cap: float | None = None,
        security: Security | None = None,
        islands: Mapping[Any, Hashable] | None = None,
    ) -> None:
        self.demand, self.periods = read_demand(demand)
        self.units: tuple[Unit, ...] = (*units, *shed_units(self.demand, shed))
        self.coupling, self.grid, self.shed = coupling, grid, shed
        self.hours = number("Dispatch", "hours", hours, above=0.0)
        self.co2_cap = None if co2_cap is None else number("Dispatch", "co2_cap", co2_cap)
        self.security, self.given_islands = security, islands
        self.zones = None if zones is None else Zones(zones, self.units)
        self.interfaces = tuple(interfaces)
        self.reserve = None if reserve is None else self._read_reserve(reserve)
        self._check()
        self._island, self.islands = read_islands(self, islands)
        if grid is not None and lines is None and graph is None:
            lines = grid.pairs
        self.network: Network = self._read_network(graph, lines)
        self.models: list[UnitAgent] = [unit.model(self.periods, self.hours) for unit in self.units]
        self.terminals: list[tuple[int, Terminal]] = [
            (k, terminal) for k, model in enumerate(self.models) for terminal in model.terminals
        ]
        low, high = (
            np.vstack(ends)
            for ends in zip(*(unit.reach(self.periods) for unit in self.units), strict=True)
        )
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
        own = [*self.unit_buses, *(bus for bus in self.demand if bus is not None)]
        return list(dict.fromkeys([*known, *own]))

    @property
    def total_demand(self) -> Array:
        """Demand of all buses together, for each period."""
        return np.sum(list(self.demand.values()), axis=0)

    def island_of(self, bus: Any) -> int:
        """The number of the island in which a bus lies."""
        return self._island[bus]

    @cached_property
    def island_demand(self) -> Array:
        """Demand of each island, (islands, T)."""
        found = np.zeros((len(self.islands), self.periods))
        for bus, power in self.demand.items():
            found[self._island[bus]] += power
        return found

    # -- the problem --------------------------------------------------------------------------

    @cached_property
    def problem(self) -> Problem:
        """The dispatch as a :class:`dual2.Problem`: agent i is unit i (or zone i), in MW.

        Costs are per hour. Of the lines' limits it has those that some dispatch could violate.
        """
        if self.security is not None:
            raise ProblemError(
                "Rows of outages are generated while solving, so that the problem has no fixed "
                "rows. Use solve(); problem_with(answer.active) is the problem that it ended with."
            )
        return self.problem_with(self.line_rows.kept if self.line_rows else ())

    def problem_with(self, rows: Sequence[Row]) -> Problem:
        """The same with these limits of lines only."""
        agents, known = [], {}
        for k, model in enumerate(self.models):
            A = unit_matrix(self, k, model, rows)
            if isinstance(A, np.ndarray):
                A.setflags(write=False)
                A = known.setdefault((A.shape, A.tobytes()), A)  # alike units share their matrix
            agents.append(Agent(A, model.f, model.g))
        if self.zones is not None:
            agents = self.zones.join(agents)
        return Problem(agents, coupling_function(self, rows))

    def solve(self, *, accept: str | None = None, **options: Any) -> Answer:
        """Solve; options are those of :func:`dual2.solve` (method, tol, runtime, start, …).

        Limits of lines enter when the flows violate them: solve, add the violated ones, solve
        again from there, until all are met. ``start`` may be an earlier answer. An answer that has
        not converged says so first, with what it violates, and comes with a warning;
        ``accept="unsolved"`` takes it without.

        The trace of the run is recorded with ``record=True`` or a ``reference`` only: a residual in
        every iteration takes each storage's nearest feasible schedule, many times the work of an
        iteration.

        Raises
        ------
        ProblemError
            If reserve, flow and ramp limits turn out to contradict the demand.
        NotSolved
            With ``throw=True``, if the run ended before it converged.
        """
        check_accept("Dispatch.solve", accept)
        throw = options.pop("throw", False)
        options.setdefault("record", "reference" in options)
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

    @property
    def base_rows(self) -> int:
        """Coupling rows without those of lines."""
        return sum(block_sizes(self).values())

    def by_unit(self, x: Sequence[Array]) -> list[Array]:
        """The variables of each unit, from those of the agents."""
        if self.zones is None:
            return list(x)
        return self.zones.split(x, [model.power.shape[1] for model in self.models])

    def injections(self, x: Sequence[Array]) -> Array:
        """What is fed in at each terminal, (terminals, T), from the variables of the agents."""
        own = self.by_unit(x)
        return np.array([terminal.matrix @ own[k] for k, terminal in self.terminals])

    def _contradiction(self, result: Result, rows: Sequence[Row]) -> str:
        where = named_conflict(self, np.asarray(result.certificate.separator), rows)
        return (
            f"The dispatch is infeasible: {where} cannot be met "
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
                self._check_interfaces({*self.unit_buses, *self.demand})
            if self.zones is not None:
                return read_network(graph, self.zones.names, "zones")
            return read_network(graph, self.names, "units")
        if lines is None and len(self.units) > 1:
            raise NetworkError(
                "Dispatch: nobody said who talks to whom. Give graph= (pairs of units) or lines= "
                "(pairs of buses)."
            )
        buses = [unit.bus for unit in self.units]
        ties = [unit.buses for unit in self.units if isinstance(unit, DCLine)]
        lines = [*(lines or []), *ties]
        lines += self._island_links(buses, lines)
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

    def _island_links(self, buses: list[Any], lines: list[Any]) -> list[tuple[Any, Any]]:
        """Links between the first units of islands, since sums travel through all agents."""
        links, first = [], dict[int, Any]()
        for bus in buses:
            first.setdefault(self._island[bus], bus)
        for a, b in pairwise(first.values()):
            if b not in reached([a], [*lines, *links]):
                links.append((a, b))
        return links

    @property
    def unit_buses(self) -> list[Any]:
        """Every bus where a unit meets the grid."""
        return [bus for unit in self.units for bus in unit.buses]

    def _check(self) -> None:
        distinct_names(self.units, "units")
        if self.coupling not in COUPLINGS:
            raise ProblemError(
                f"Dispatch: coupling = {self.coupling!r}; expected 'equal' or 'at least'."
            )
        limited = self.interfaces or self.grid is not None or self.shed is not None
        if self.security is not None and self.grid is None:
            raise ProblemError("Dispatch: security needs lines: give grid=power.Grid(lines).")
        if limited and list(self.demand) == [None]:
            raise ProblemError(
                "Dispatch: interfaces, grid and shed need the demand by bus: demand={bus: MW}."
            )
        if self.grid is not None:
            check_grid(self, self.grid)
        taken = {"demand", "reserve", CO2}
        for interface in self.interfaces:
            if interface.name in taken:
                raise ProblemError(
                    f"Interface {interface.name!r}: the name is taken. Interfaces need names of "
                    "their own, other than 'demand' and 'reserve'."
                )
            taken.add(interface.name)
            check_interface_length(self, interface)

    def _check_interfaces(self, buses: set[Hashable]) -> None:
        """Refuse weights of buses that do not exist."""
        for interface in self.interfaces:
            strange = [bus for bus in interface.weights if bus not in buses]
            if strange:
                raise ProblemError(
                    f"Interface {interface.name!r}: bus {strange[0]!r} is unknown; neither a unit, "
                    "nor a demand, nor a line is there."
                )
