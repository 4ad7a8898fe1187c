"""Tables of a pandapower net: costs by element, and the branches of its own model as a grid."""

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dual2.errors import ProblemError
from dual2.power.branches import read_lines
from dual2.power.cost_curves import PiecewiseLinearCost
from dual2.power.flows import Grid

NO_RATING = (99_999.0, 99.999)
"""What pandapower's converters write for a transformer without rating, in MVA; the latter in nets
from the time when the unit was kVA (its RTE and PEGASE cases)."""
CostOf = Callable[[str, Any], Any]


def costs_by_element(net: Any) -> CostOf:
    """What an element costs: its row of ``poly_cost`` or ``pwl_cost``.

    As in pandapower, an element without a row costs nothing, and if nothing has a cost every MWh
    costs 1.
    """
    found: dict[tuple[str, int], Any] = {}
    active = net.pwl_cost[net.pwl_cost.power_type == "p"]
    for table, read in ((net.poly_cost, _polynomial), (active, _points)):
        for _, row in table.iterrows():
            place = str(row.et), int(row.element)
            if place in found:
                raise ProblemError(
                    f"Unit '{place[0]} {place[1]}' has several costs; expected one row in "
                    "net.poly_cost or net.pwl_cost."
                )
            found[place] = read(row)
    nothing = (0.0, 0.0, 0.0) if found else (0.0, 1.0, 0.0)
    return lambda kind, index: found.get((kind, int(index)), nothing)


def _polynomial(row: Any) -> tuple[float, float, float]:
    return float(row.cp2_eur_per_mw2), float(row.cp1_eur_per_mw), float(row.cp0_eur)


def _points(row: Any) -> PiecewiseLinearCost:
    """Areas [from, to, slope], the first beginning at the cost from·slope."""
    areas = np.atleast_2d(np.asarray(row.points, dtype=float))
    if areas.shape[1] != 3 or np.any(areas[1:, 0] != areas[:-1, 1]):
        raise ProblemError(
            f"The pwl_cost of '{row.et} {row.element}' is {row.points}; expected consecutive areas "
            "[from, to, slope]."
        )
    steps = areas[:, 2] * (areas[:, 1] - areas[:, 0])
    first = areas[0, 0] * areas[0, 2]
    powers = np.concatenate([areas[:1, 0], areas[:, 1]])
    owner = f"The pwl_cost of '{row.et} {row.element}'"
    return PiecewiseLinearCost.of(owner, powers, first + np.concatenate([[0.0], np.cumsum(steps)]))


def supplied_buses(net: Any) -> list[int]:
    """Buses in service that an external grid reaches."""
    from pandapower.topology import unsupplied_buses

    lost = unsupplied_buses(net)
    return [int(bus) for bus in net.bus.index[net.bus.in_service] if bus not in lost]


def read_grid(net: Any, buses: Sequence[int], nominal: bool = False) -> Grid:
    """Lines and transformers between these buses, from pandapower's own branch model.

    As there, a branch without ``max_loading_percent`` has no limit; ``nominal`` gives all branches
    their rating instead, which is a loading of 100 %.
    """
    from pandapower.converter.pypower.to_ppc import to_ppc

    net = _with_reactive_limits(net)
    for kind in ("line", "trafo", "trafo3w") if nominal else ():
        net[kind]["max_loading_percent"] = 100.0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pandapower")
        case = to_ppc(net, init="flat", mode="opf", switch_rx_ratio=0.5)
    lookup, live = net._pd2ppc_lookups["bus"], np.flatnonzero(case["internal"]["branch_is"])
    names, unrated = _branch_names(net, len(case["internal"]["branch_is"]))
    table = np.real(case["branch"]).copy()
    table[unrated[live] | np.isnan(table[:, 5]), 5] = 0.0
    nodes = {bus: int(lookup[bus]) for bus in buses}
    lines = read_lines(table, "matpower", case["baseMVA"], [names[k] for k in live])
    return Grid(lines, nodes, "matpower")


def _with_reactive_limits(net: Any) -> Any:
    """A copy with the limits of reactive power that pandapower asks for and no dispatch uses."""
    net = deepcopy(net)
    for kind in ("gen", "sgen", "load", "storage"):
        for column in {"min_q_mvar", "max_q_mvar"}.difference(net[kind].columns):
            net[kind][column] = 0.0
    return net


def _branch_names(net: Any, count: int) -> tuple[list[str], NDArray[np.bool_]]:
    """Names of pandapower's branches, in service or not, and which of them have no rating."""
    names, unrated = [f"branch {k}" for k in range(count)], np.zeros(count, dtype=bool)
    for kind, (begin, end) in net._pd2ppc_lookups["branch"].items():
        if kind in ("line", "trafo"):
            names[begin:end] = [f"{kind} {index}" for index in net[kind].index]
        if kind == "trafo":
            unrated[begin:end] = np.isin(net.trafo.sn_mva.to_numpy(dtype=float), NO_RATING)
    return names, unrated
