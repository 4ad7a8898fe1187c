"""Dispatch problems from MATPOWER (and PYPOWER) cases."""

import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np

from dual2.errors import ProblemError, unknown_name
from dual2.functions.arguments import Array
from dual2.power.branches import read_lines
from dual2.power.case_file import read_case
from dual2.power.cost_curves import PiecewiseLinearCost
from dual2.power.dispatch import OPTIONS, Dispatch, Unit
from dual2.power.dispatch_checks import check_options
from dual2.power.flows import Grid
from dual2.power.generators import Generator
from dual2.power.profiles import LOAD, Profiles

ISOLATED = 4
"""Type of a bus that is out of service."""


def from_matpower(
    case: Mapping[str, Any] | str | os.PathLike[str],
    *,
    model: str = "matpower",
    profile: Any = None,
    ramp: Any = None,
    line_limits: bool = True,
    zones: Any = None,
    **options: Any,
) -> Dispatch:
    """Read a MATPOWER case: a file ``case.m``, or a dict of its arrays.

    Generators in service become units named ``"gen 0"``, ``"gen 1"``, … (rows of ``gen``), with
    polynomial costs of degree at most two or convex piecewise linear ones; the demand is PD plus
    the shunts' GS; the branches in service are the grid, with their ratings (RATE_A) and angle
    limits. Losses are neglected.

    Parameters
    ----------
    case : path or mapping
        A case file, which is read and never executed, or the arrays ``bus``, ``gen``,
        ``gencost``, ``branch`` of the case format, version 2, and ``baseMVA``; a struct that
        scipy.io.loadmat read with ``simplify_cells=True`` will do.
    model : {"matpower", "powermodels"}
        The linear model of a branch. MATPOWER's: susceptance baseMVA/(x·tap), phase shifts,
        angle limits where they are within ±360° and not both 0. That of PowerModels, which the
        PGLib baselines were made with: baseMVA·x/(r²+x²), neither taps nor shifts, angle limits
        of at most 1.0472 rad.
    profile : vector of length T or mapping, optional
        Factors on the loads (PD), one per period; or factors by bus number, ``"load"`` for all
        other buses, and by unit (``"gen 3"``), whose greatest power they multiply.
    ramp : float or mapping, optional
        Largest change per period: a fraction of p_max for all, or MW by unit name.
    line_limits : bool
        Whether ratings and angles limit the flows.
    zones : {"area", "zone"} or mapping, optional
        Agents are areas instead of units, by these columns of ``bus`` or from bus to zone.
    **options
        Further arguments of :class:`Dispatch`: reserve, graph, interfaces, shed, ….

    Examples
    --------
    >>> case = {
    ...     "bus": [[1, 3, 0.0, 0, 0], [2, 1, 90.0, 0, 0]],
    ...     "gen": [[1, 0, 0, 0, 0, 1, 100, 1, 80.0, 0.0], [2, 0, 0, 0, 0, 1, 100, 1, 50.0, 10.0]],
    ...     "gencost": [[2, 0, 0, 3, 0.02, 15.0, 0.0], [2, 0, 0, 3, 0.05, 18.0, 0.0]],
    ...     "branch": [[1, 2, 0.01, 0.1, 0, 60.0, 0, 0, 0, 0, 1]],
    ... }
    >>> answer = from_matpower(case).solve()
    >>> {bus: price.round(3).tolist() for bus, price in answer.bus_prices().items()}
    {1: [17.4], 2: [21.0]}
    """
    check_options(options, (*OPTIONS, "model", "profile", "ramp", "line_limits"))
    if isinstance(case, str | os.PathLike):
        case = read_case(case)
    _refuse_unread(case)
    bus, gen, branch = (_table(case, *entry) for entry in (("bus", 5), ("gen", 10), ("branch", 11)))
    _check_buses(bus, gen, branch)
    bus = bus[bus[:, 1] != ISOLATED]
    profiles = Profiles(profile)
    units = _units(case, gen, {int(row[0]) for row in bus}, ramp, profiles)
    check_ramps(ramp, units)
    loads, shunts = ({int(row[0]): float(row[k]) for row in bus} for k in (2, 4))
    live = branch[branch[:, 10] > 0]
    live = live[np.isin(live[:, :2], list(loads)).all(axis=1)]
    lines = [(int(row[0]), int(row[1])) for row in live]
    demand = {b: power * profiles.of(b, LOAD) + shunts[b] for b, power in loads.items()}
    profiles.check()
    if zones is not None:
        options["zones"] = _zones(bus, zones)
    if line_limits:
        island = _island(units, lines, demand)
        inside = live[np.isin(live[:, :2], list(island)).all(axis=1)]
        grid_lines = read_lines(inside, model, case.get("baseMVA"))
        options["grid"] = Grid(grid_lines, {bus: bus for bus in demand if bus in island}, model)
        demand = {bus: power for bus, power in demand.items() if bus in island}
    options.setdefault("lines", lines)
    return Dispatch(units, demand, **options)


def _refuse_unread(case: Any) -> None:
    if not isinstance(case, Mapping):
        raise ProblemError(
            f"The case is of type {type(case).__name__}; expected the path of a case file, or a "
            "mapping with the arrays bus, gen, gencost and branch."
        )
    if str(case.get("version", "2")) != "2":
        raise ProblemError(
            f"The case has format version {case['version']}; expected 2. Convert it with "
            "MATPOWER's savecase."
        )
    table = _numbers(case.get("dcline", np.zeros((0, 3))), "dcline")
    live = int(np.count_nonzero(table[:, 2])) if table.shape[1] > 2 else 0
    if live:
        raise ProblemError(
            f"The case has {live} HVDC lines in service (dcline), which a dispatch does not model. "
            "Replace them by loads and generators, or take them out of service."
        )


def _check_buses(bus: Array, gen: Array, branch: Array) -> None:
    """Every bus has a number of its own, and what is in service stands at a bus."""
    numbers, counts = np.unique(bus[:, 0], return_counts=True)
    twice, odd = numbers[counts > 1], numbers[(numbers != np.rint(numbers)) | (numbers < 0)]
    if twice.size:
        raise ProblemError(f"The case's 'bus' has number {twice[0]:g} twice; expected it once.")
    if odd.size:
        raise ProblemError(f"The case's 'bus' has the number {odd[0]:g}; expected a whole number.")
    ends = (("gen", gen, gen[:, :1], 7), ("branch", branch, branch[:, :2], 10))
    for name, table, places, status in ends:
        lost = ~np.isin(places, numbers) & (table[:, status, None] > 0)
        if lost.any():
            row, column = np.argwhere(lost)[0]
            raise ProblemError(
                f"Row {row} of the case's {name!r} is in service at bus {places[row, column]:g}, "
                "which 'bus' does not have. Correct the number, or take it out of service."
            )


def _island(units: Sequence[Unit], lines: Sequence[tuple[int, int]], demand: Any) -> set[int]:
    """The buses that lines connect with the first unit; whatever is left must be idle."""
    graph = nx.Graph(lines)
    graph.add_nodes_from(demand)
    graph.add_nodes_from(unit.bus for unit in units)
    island = set(nx.node_connected_component(graph, units[0].bus)) if units else set()
    busy = {unit.bus for unit in units} | {bus for bus, power in demand.items() if np.any(power)}
    return set(graph.nodes) if busy - island else island


def _zones(bus: Array, zones: Any) -> Mapping[Any, Any]:
    """The zone of each bus, from a column of the table if it is named."""
    if isinstance(zones, Mapping):
        return zones
    columns = {"area": 6, "zone": 10}
    if zones not in columns or bus.shape[1] <= columns[zones]:
        raise ProblemError(
            f"zones = {zones!r} with {bus.shape[1]} columns of bus found; expected 'area' (column "
            "7), 'zone' (column 11) or a mapping from bus to zone."
        )
    return {int(row[0]): int(row[columns[zones]]) for row in bus}


def _units(
    case: Mapping[str, Any], gen: Array, buses: set[int], ramp: Any, profiles: Profiles
) -> list[Unit]:
    costs = _table(case, "gencost", 5)
    if len(costs) < len(gen):
        raise ProblemError(f"The case has {len(gen)} generators and {len(costs)} rows of gencost.")
    found: list[Unit] = []
    for k, row in enumerate(gen):
        if row[7] > 0 and int(row[0]) in buses:
            name, cost = f"gen {k}", _cost(f"gen {k}", costs[k])
            room = profiles.room(row[[9, 8]], name)
            found.append(generator(name, int(row[0]), cost, room, ramp))
    return found


def _numbers(given: Any, name: str) -> Array:
    try:
        table = np.atleast_2d(np.asarray(given, dtype=float))
    except (TypeError, ValueError) as error:
        raise ProblemError(
            f"The case's {name!r} is no table of numbers ({error}); expected rows of equal length."
        ) from None
    if table.ndim != 2:
        raise ProblemError(f"The case's {name!r} has shape {table.shape}; expected a table.")
    return table


def _table(case: Mapping[str, Any], name: str, columns: int) -> Array:
    if name not in case:
        raise ProblemError(
            f"The case has no {name!r}; expected the MATPOWER arrays bus, gen, gencost and branch."
        )
    table = _numbers(case[name], name)
    if table.size == 0:
        return np.zeros((0, max(columns, table.shape[1])))
    if table.shape[1] < columns:
        raise ProblemError(
            f"The case's {name!r} has {table.shape[1]} columns; the format has at least {columns}."
        )
    if np.isnan(table).any():
        row, column = np.argwhere(np.isnan(table))[0]
        raise ProblemError(f"The case's {name!r} has a NaN in row {row}, column {column}.")
    return table


def _cost(name: str, row: Array) -> tuple[float, ...] | PiecewiseLinearCost:
    """c2, c1, c0 or the points of a row of gencost."""
    count = int(row[3])
    if row[0] not in (1, 2):
        raise ProblemError(
            f"Generator {name!r} has the cost model {row[0]:g}; expected 1 (piecewise linear) or 2 "
            "(polynomial)."
        )
    needed = 4 + count * (2 if row[0] == 1 else 1)
    if needed > len(row) or count < 1:
        raise ProblemError(
            f"Generator {name!r}: its row of gencost announces {count} points or coefficients and "
            f"has {len(row)} columns; expected {needed}."
        )
    if row[0] == 1:
        return PiecewiseLinearCost.of(f"Generator {name!r}", row[4:needed:2], row[5:needed:2])
    coefficients = row[4:needed]
    if np.any(coefficients[:-3]):
        raise ProblemError(
            f"Generator {name!r} has a cost of degree {count - 1}; expected a quadratic one."
        )
    return tuple(np.concatenate([np.zeros(3), coefficients])[-3:])


def generator(name: str, bus: Hashable, cost: Any, limits: Sequence[Any], ramp: Any) -> Generator:
    """A generator of a case, between two limits; ``ramp`` as for :func:`from_matpower`."""
    p_min, p_max = limits
    if isinstance(ramp, Mapping):
        rate = ramp.get(name)
    else:
        rate = None if ramp is None else float(ramp) * float(np.max(p_max))
    return Generator(name, cost, p_max=p_max, p_min=p_min, bus=bus, ramp=rate)


def check_ramps(ramp: Any, units: Sequence[Unit]) -> None:
    """Refuse ramps of units that do not exist."""
    names = [unit.name for unit in units]
    for name in ramp if isinstance(ramp, Mapping) else ():
        if name not in names:
            raise ProblemError(unknown_name("unit in ramp", name, names))
