"""Dispatch problems from pandapower nets (extra ``power``)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dual2.errors import Dual2Error, ProblemError
from dual2.power.cost_curves import PiecewiseLinearCost
from dual2.power.dispatch import OPTIONS, Dispatch, Unit
from dual2.power.dispatch_checks import check_options
from dual2.power.matpower import check_ramps, generator
from dual2.power.net_tables import costs_by_element, read_grid, supplied_buses
from dual2.power.profiles import Profiles
from dual2.power.storage import Storage

UNREAD = ("ward", "xward", "motor", "asymmetric_load", "asymmetric_sgen", "dcline", "impedance")
"""Elements that a dispatch would have to model and does not."""
TAKERS = ("storage", "load")
"""Elements whose power counts as taken from the grid."""
UNLIMITED = 1e9
"""Limit in MW of an external grid that has none, as in pandapower."""


def from_pandapower(
    net: Any,
    *,
    profile: Any = None,
    ramp: Any = None,
    line_limits: bool = True,
    zones: Any = None,
    **options: Any,
) -> Dispatch:
    """Read a pandapower net, as ``pandapower.rundcopp`` would.

    Quadratic costs of storage and controllable loads are the exception: c2·p² + c1·p here, where
    pandapower flips the sign of c2.

    Units are the elements in service that may be dispatched: every ``ext_grid``, ``gen`` unless
    ``controllable`` is False, controllable ``sgen``, ``storage`` and ``load``, named ``"gen 0"``,
    ``"ext_grid 0"``, …. Costs are those of ``poly_cost`` or ``pwl_cost``; a unit without a row
    costs nothing, and where there are no rows at all every MWh costs 1. The demand of a bus is its
    loads and shunts minus what uncontrollable elements feed in; lines and transformers in service
    (switches respected) are the grid. Buses that no ``ext_grid`` reaches are left out with all
    that is connected to them; an island with an external grid of its own has a balance of its own.
    A storage without ``soc_percent`` is cyclic: it ends with the energy that it begins with, and
    in a case of one period its energy has no limit. Losses are neglected.

    Parameters
    ----------
    net : pandapowerNet
        With limits (``min_p_mw``, ``max_p_mw``) of every unit; an ``ext_grid`` may do without.
    profile : vector of length T or mapping, optional
        Factors on the loads, one per period; or factors by name (``"load 3"``, ``"sgen 0"``), by
        the type of static generators (``"PV"``, ``"WP"``) or by kind (``"load"``, ``"sgen"``),
        the first of these that is given. They multiply the power of what is not dispatched, and
        the limits of what is: of producers the upper one.
    ramp : float or mapping, optional
        Largest change per period: a fraction of p_max for all, or MW by unit name.
    line_limits : bool
        Whether the ratings of lines and transformers limit the flows of the linear (DC) model.
        The 99.999 MVA of transformers in pandapower's RTE and PEGASE cases stand for no rating.
    zones : "zone" or mapping, optional
        Agents are zones instead of units: those of ``net.bus.zone``, or from bus to zone.
    **options
        Further arguments of :class:`Dispatch`: reserve, graph, interfaces, shed, ….

    Examples
    --------
    >>> import pandapower.networks
    >>> from_pandapower(pandapower.networks.case14())
    Dispatch(5 units, 1 periods, demand 259 … 259 MW)
    """
    check_options(options, (*OPTIONS, "profile", "ramp", "line_limits"))
    topology = _topology()
    _refuse_unread(net)
    demand: dict[int, Any] = dict.fromkeys(supplied_buses(net), 0.0)
    if not demand:
        raise ProblemError(
            "The net has no ext_grid in service, nor a gen with slack=True: no bus is supplied. "
            "Put one in service."
        )
    profiles = Profiles(profile)
    units = _read_units(net, demand, ramp, profiles)
    check_ramps(ramp, units)
    profiles.check()
    _add_shunts(net, demand)
    edges = topology.create_nxgraph(net).edges()
    lines = [(int(a), int(b)) for a, b in edges if int(a) in demand and int(b) in demand]
    options.setdefault("lines", lines)
    if line_limits:
        options["grid"] = read_grid(net, list(demand))
    if zones is not None:
        options["zones"] = _zones(net, zones)
    return Dispatch(units, demand, **options)


def _zones(net: Any, zones: Any) -> Mapping[Any, Any]:
    """The zone of each bus; from the net if it is asked."""
    if isinstance(zones, Mapping):
        return zones
    if zones != "zone" or net.bus.zone.isna().any():
        empty = int(net.bus.zone.isna().sum())
        raise ProblemError(
            f"zones = {zones!r} found, with {empty} buses without a zone in net.bus.zone; expected "
            "'zone' and a zone for every bus, or a mapping from bus to zone."
        )
    return {int(bus): zone for bus, zone in net.bus.zone.items()}


def _read_units(net: Any, demand: dict[int, Any], ramp: Any, profiles: Profiles) -> list[Unit]:
    """The units; what is not dispatched is added to the demands."""
    units: list[Unit] = []
    costs = costs_by_element(net)
    for kind in ("ext_grid", "gen", "sgen", "storage", "load"):
        for index, row in net[kind].iterrows():
            bus = int(row.bus)
            keys = (f"{kind} {index}", row.get("type", None), kind)
            factors = profiles.of(*keys)
            if not row.in_service or bus not in demand:
                continue
            if _dispatchable(kind, row):
                limits = _limits(kind, keys[0], row)
                taken = tuple(limit * factors for limit in limits)
                room = taken if kind in TAKERS else profiles.room(limits, *keys)
                unit = _unit(kind, keys[0], row, costs(kind, index), room, ramp)
                units.append(_stored(unit, row, profiles.periods) if kind == "storage" else unit)
            else:
                power = float(row.p_mw * row.get("scaling", 1.0)) * factors
                demand[bus] = demand[bus] + (power if kind in TAKERS else -power)
    return units


def _topology() -> Any:
    try:
        from pandapower import topology
    except ImportError as error:
        raise Dual2Error(
            "Reading a pandapower net needs pandapower, which is not installed: "
            "pip install 'dual2[power]'."
        ) from error
    return topology


def _refuse_unread(net: Any) -> None:
    if not hasattr(net, "poly_cost"):
        raise ProblemError(
            f"A pandapower net was expected; found {type(net).__name__}. Build or load one with "
            "pandapower (a MATPOWER case goes to from_matpower)."
        )
    for kind in UNREAD:
        if kind in net and len(net[kind]) and net[kind].in_service.any():
            raise ProblemError(
                f"The net has {int(net[kind].in_service.sum())} {kind} in service, which a "
                "dispatch does not model. Replace them by loads, or take them out of service."
            )


def _dispatchable(kind: str, row: Any) -> bool:
    """External grids always, generators unless said otherwise; the rest only if controllable."""
    free = row.get("controllable", None)
    unknown = free is None or free != free
    return kind == "ext_grid" or (kind == "gen" if unknown else bool(free))


def _limits(kind: str, name: str, row: Any) -> list[float]:
    """Least and most power of a unit."""
    limits = [float(row.get(column, np.nan)) for column in ("min_p_mw", "max_p_mw")]
    if kind == "ext_grid":
        limits = list(np.where(np.isnan(limits), [-UNLIMITED, UNLIMITED], limits))
    if not np.all(np.isfinite(limits)):
        raise ProblemError(
            f"Unit {name!r} has no finite min_p_mw and max_p_mw (found {limits[0]:g} and "
            f"{limits[1]:g}). Set them in net.{kind}."
        )
    return limits


def _unit(kind: str, name: str, row: Any, cost: Any, room: Any, ramp: Any) -> Unit:
    if kind not in TAKERS:
        return generator(name, int(row.bus), cost, room, ramp)
    if isinstance(cost, PiecewiseLinearCost):
        raise ProblemError(
            f"Unit {name!r} has a piecewise linear cost; expected a polynomial one of a {kind} "
            "(poly_cost)."
        )
    where = {"p_min": room[0], "p_max": room[1], "bus": int(row.bus)}
    return Storage(name, cost, **where)


def _stored(unit: Unit, row: Any, periods: int) -> Unit:
    """A storage with its energy: from ``soc_percent``, or else cyclic if there are periods.

    In one period a storage of unknown charge has no limit of energy, as for ``rundcopp``.
    """
    low, high, charge = (
        float(row.get(name, np.nan)) for name in ("min_e_mwh", "max_e_mwh", "soc_percent")
    )
    energy = (0.0 if np.isnan(low) else low, np.inf if np.isnan(high) else high)
    if np.isnan(charge):
        return replace(unit, energy=energy, cyclic=True) if periods > 1 else unit
    return replace(unit, energy=energy, initial=high * charge / 100.0)


def _add_shunts(net: Any, demand: dict[int, Any]) -> None:
    for _, row in net.shunt.iterrows():
        if row.in_service and int(row.bus) in demand:
            demand[int(row.bus)] = demand[int(row.bus)] + float(row.p_mw * row.step)
