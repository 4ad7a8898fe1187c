"""Dispatch problems from MATPOWER (and PYPOWER) cases."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from dual2.applications.dispatch.case import Dispatch
from dual2.applications.dispatch.grid import Interface, transfer_factors
from dual2.applications.dispatch.units import Generator, Unit
from dual2.errors import ProblemError, unknown_name
from dual2.functions.arguments import Array, entries

UNLIMITED = 9900.0
"""Branch ratings from here on, and 0, mean that there is no limit."""

Branch = tuple[Any, Any, float, float]
"""Ends, reactance times tap ratio, rating in MW."""


def from_matpower(
    case: Mapping[str, Any],
    *,
    profile: Any = None,
    ramp: Any = None,
    line_limits: bool = False,
    **options: Any,
) -> Dispatch:
    """Read a MATPOWER-style case: a dict with arrays ``bus``, ``gen``, ``gencost``, ``branch``.

    Generators in service become units named ``"gen 0"``, ``"gen 1"``, … (rows of ``gen``), with
    polynomial costs of degree at most two; the demand is PD plus the shunts' GS; the branches in
    service are the grid. Losses are neglected.

    Parameters
    ----------
    case : mapping
        The arrays of the case format, version 2; a struct that scipy.io.loadmat read with
        ``simplify_cells=True`` will do.
    profile : vector of length T, optional
        Factors on the loads (PD), one per period.
    ramp : float or mapping, optional
        Largest change per period: a fraction of p_max for all, or MW by unit name.
    line_limits : bool
        Whether ratings (RATE_A) limit the flows of the linear (DC) model.
    **options
        Further arguments of :class:`Dispatch`: coupling, reserve, graph, interfaces.

    Examples
    --------
    >>> case = {
    ...     "bus": [[1, 3, 0.0, 0, 0], [2, 1, 90.0, 0, 0]],
    ...     "gen": [[1, 0, 0, 0, 0, 1, 100, 1, 80.0, 0.0], [2, 0, 0, 0, 0, 1, 100, 1, 50.0, 10.0]],
    ...     "gencost": [[2, 0, 0, 3, 0.02, 15.0, 0.0], [2, 0, 0, 3, 0.05, 18.0, 0.0]],
    ...     "branch": [[1, 2, 0.01, 0.1, 0, 60.0, 0, 0, 0, 0, 1]],
    ... }
    >>> from_matpower(case)
    Dispatch(2 units, 1 periods, demand 90 … 90 MW)
    """
    bus, gen, branch = (_table(case, *entry) for entry in (("bus", 5), ("gen", 10), ("branch", 11)))
    costs = _table(case, "gencost", 5)
    if len(costs) < len(gen):
        raise ProblemError(f"The case has {len(gen)} generators and {len(costs)} rows of gencost.")
    cost = lambda k: _polynomial(f"gen {k}", costs[k])  # noqa: E731
    units = [
        generator(f"gen {k}", int(row[0]), cost(k), row[[9, 8]], ramp)
        for k, row in enumerate(gen)
        if row[7] > 0
    ]
    check_ramps(ramp, units)
    loads, shunts = ({int(row[0]): row[k] for row in bus if row[1] != 4} for k in (2, 4))
    live = branch[branch[:, 10] > 0]
    lines = [(int(row[0]), int(row[1])) for row in live]
    if line_limits:
        options["interfaces"] = (
            *options.get("interfaces", ()),
            *line_interfaces(list(loads), read_branches(live)),
        )
    options.setdefault("lines", lines)
    return Dispatch(units, with_profile(loads, profile, shunts), **options)


def _table(case: Mapping[str, Any], name: str, columns: int) -> Array:
    if name not in case:
        raise ProblemError(
            f"The case has no {name!r}; expected the MATPOWER arrays bus, gen, gencost and branch."
        )
    table = np.atleast_2d(np.asarray(case[name], dtype=float))
    if table.shape[1] < columns:
        raise ProblemError(
            f"The case's {name!r} has {table.shape[1]} columns; the format has at least {columns}."
        )
    return table


def _polynomial(name: str, row: Array) -> tuple[float, ...]:
    """c2, c1, c0 from a row of gencost."""
    count = int(row[3])
    if row[0] != 2:
        raise ProblemError(
            f"Generator {name!r} has a piecewise linear cost (model {row[0]:g}); expected a "
            "polynomial one (model 2). Fit a quadratic."
        )
    coefficients = row[4 : 4 + count]
    if np.any(coefficients[:-3]):
        raise ProblemError(
            f"Generator {name!r} has a cost of degree {count - 1}; expected a quadratic one."
        )
    return tuple(np.concatenate([np.zeros(3), coefficients])[-3:])


def generator(
    name: str, bus: Hashable, cost: Sequence[float], limits: Sequence[float], ramp: Any
) -> Generator:
    """A generator of a case, between two limits; ``ramp`` as for :func:`from_matpower`."""
    p_min, p_max = limits
    if isinstance(ramp, Mapping):
        rate = ramp.get(name)
    else:
        rate = None if ramp is None else float(ramp) * p_max
    return Generator(name, cost, p_max=p_max, p_min=p_min, bus=bus, ramp=rate)


def check_ramps(ramp: Any, units: Sequence[Unit]) -> None:
    """Refuse ramps of units that do not exist."""
    names = [unit.name for unit in units]
    for name in ramp if isinstance(ramp, Mapping) else ():
        if name not in names:
            raise ProblemError(unknown_name("unit in ramp", name, names))


def with_profile(
    loads: dict[Any, float], profile: Any, fixed: dict[Any, float]
) -> dict[Any, float | Array]:
    """The loads of every bus times the profile, plus what does not follow it."""
    factors = entries("Dispatch", "profile", 1.0 if profile is None else profile)
    return {bus: power * factors + fixed[bus] for bus, power in loads.items()}


def read_branches(table: Array) -> list[Branch]:
    """Ends, reactance and rating of branches in the case format."""
    if np.any(table[:, 9]):
        raise ProblemError(
            "Some branches are phase shifters (nonzero SHIFT), which the flow limits do not model. "
            "Set their SHIFT to 0 or leave line_limits=False."
        )
    ratio = np.where(table[:, 8] == 0, 1.0, table[:, 8])
    return [
        (int(row[0]), int(row[1]), float(row[3] * tap), float(row[5]))
        for row, tap in zip(table, ratio, strict=True)
    ]


def line_interfaces(buses: Sequence[Hashable], branches: Sequence[Branch]) -> list[Interface]:
    """One interface for each branch with a rating."""
    factors = transfer_factors(buses, [(a, b, x) for a, b, x, _ in branches])
    found: dict[str, Interface] = {}
    for (a, b, _, rating), row in zip(branches, factors, strict=True):
        if not 0 < rating < UNLIMITED:
            continue
        name = f"line {a}-{b}"
        while name in found:
            name += "'"
        weights = {bus: float(w) for bus, w in zip(buses, row, strict=True)}
        found[name] = Interface(name, weights, -rating, rating)
    return list(found.values())
