"""Dispatch problems from pandapower nets (extra ``power``)."""

import warnings
from typing import Any

import numpy as np

from dual2.applications.dispatch.case import Dispatch
from dual2.applications.dispatch.grid import Interface
from dual2.applications.dispatch.matpower import (
    check_ramps,
    generator,
    line_interfaces,
    read_branches,
    with_profile,
)
from dual2.applications.dispatch.units import Generator, Storage, Unit
from dual2.errors import Dual2Error, ProblemError

UNREAD = ("ward", "xward", "motor", "asymmetric_load", "asymmetric_sgen", "dcline", "impedance")
"""Elements that a dispatch would have to model and does not."""


def from_pandapower(
    net: Any,
    *,
    profile: Any = None,
    ramp: Any = None,
    line_limits: bool = False,
    **options: Any,
) -> Dispatch:
    """Read a pandapower net with polynomial costs.

    Units are the elements in service that have a cost: ``gen``, ``ext_grid``, controllable
    ``sgen`` and ``storage``, named ``"gen 0"``, ``"ext_grid 0"``, …. The demand of a bus is its
    loads and shunts minus what uncontrollable elements feed in; lines and transformers in service
    (switches respected) are the grid. Losses are neglected, as in ``pandapower.rundcopp``.

    Parameters
    ----------
    net : pandapowerNet
        With limits (``min_p_mw``, ``max_p_mw``) and ``poly_cost`` of every unit.
    profile : vector of length T, optional
        Factors on the loads, one per period; what uncontrollable elements feed in stays.
    ramp : float or mapping, optional
        Largest change per period: a fraction of p_max for all, or MW by unit name.
    line_limits : bool
        Whether the ratings of lines and transformers limit the flows of the linear (DC) model.
    **options
        Further arguments of :class:`Dispatch`: coupling, reserve, graph, interfaces.

    Examples
    --------
    >>> import pandapower.networks
    >>> from_pandapower(pandapower.networks.case14())
    Dispatch(5 units, 1 periods, demand 259 … 259 MW)
    """
    topology = _topology()
    _refuse_unread(net)
    units: list[Unit] = []
    fixed = {int(bus): 0.0 for bus in net.bus.index[net.bus.in_service]}
    loads = dict(fixed)
    for kind in ("ext_grid", "gen", "sgen", "storage"):
        for index, row in net[kind].iterrows():
            if not row.in_service or int(row.bus) not in fixed:
                continue
            if _dispatchable(kind, row):
                units.append(_unit(net, kind, index, row, ramp))
            else:
                sign = 1.0 if kind == "storage" else -1.0
                fixed[int(row.bus)] += sign * row.p_mw * row.get("scaling", 1.0)
    check_ramps(ramp, units)
    _add(net.load, "scaling", loads)
    _add(net.shunt, "step", fixed)
    grid = topology.create_nxgraph(net)
    options.setdefault("lines", [(int(a), int(b)) for a, b in grid.edges()])
    if line_limits:
        options["interfaces"] = (*options.get("interfaces", ()), *_line_limits(net, list(fixed)))
    return Dispatch(units, with_profile(loads, profile, fixed), **options)


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
    """External grids and generators unless said otherwise; the rest only if controllable."""
    free = row.get("controllable", None)
    unknown = free is None or free != free
    return kind in ("ext_grid", "gen") if unknown else bool(free)


def _unit(net: Any, kind: str, index: Any, row: Any, ramp: Any) -> Generator | Storage:
    name = f"{kind} {index}"
    cost = _cost(net, kind, index, name)
    limits = [float(row.get(column, np.nan)) for column in ("min_p_mw", "max_p_mw")]
    if not np.all(np.isfinite(limits)):
        raise ProblemError(
            f"Unit {name!r} has no finite min_p_mw and max_p_mw (found {limits[0]:g} and "
            f"{limits[1]:g}). Set them in net.{kind}."
        )
    ramp = None if kind == "storage" else ramp
    made = generator(name, int(row.bus), cost, limits, ramp)
    if kind != "storage":
        return made
    energy = (float(row.min_e_mwh), float(row.max_e_mwh))
    energy = (0.0 if np.isnan(energy[0]) else energy[0], energy[1])
    start = energy[1] * float(row.soc_percent) / 100
    room = {"p_max": made.p_max, "p_min": made.p_min, "energy": energy}
    return Storage(name, made.cost, bus=made.bus, initial=start, **room)


def _cost(net: Any, kind: str, index: Any, name: str) -> tuple[float, float, float]:
    own = net.pwl_cost[(net.pwl_cost.et == kind) & (net.pwl_cost.element == index)]
    if len(own):
        raise ProblemError(
            f"Unit {name!r} has a piecewise linear cost; expected a quadratic one (poly_cost). "
            "Fit a quadratic and remove the row of net.pwl_cost."
        )
    own = net.poly_cost[(net.poly_cost.et == kind) & (net.poly_cost.element == index)]
    if len(own) != 1:
        raise ProblemError(
            f"Unit {name!r} has {len(own)} costs; expected one row in net.poly_cost "
            "(pandapower.create_poly_cost)."
        )
    row = own.iloc[0]
    return float(row.cp2_eur_per_mw2), float(row.cp1_eur_per_mw), float(row.cp0_eur)


def _add(table: Any, factor: str, demand: dict[int, float]) -> None:
    """Add p_mw times a factor of every element in service to its bus."""
    for _, row in table.iterrows():
        if row.in_service and int(row.bus) in demand:
            demand[int(row.bus)] += float(row.p_mw * row[factor])


def _line_limits(net: Any, buses: list[int]) -> list[Interface]:
    """Interfaces of rated branches, from pandapower's own branch model."""
    from pandapower.converter.pypower.to_ppc import to_ppc

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pandapower")
        case = to_ppc(net, init="flat", mode="opf")
    lookup = net._pd2ppc_lookups["bus"]
    table = np.real(case["branch"])
    branches = read_branches(table[table[:, 10] > 0])
    inner = line_interfaces([int(k) for k in np.real(case["bus"][:, 0])], branches)
    return [
        Interface(i.name, {b: i.weights[int(lookup[b])] for b in buses}, i.lower, i.upper)
        for i in inner
    ]
