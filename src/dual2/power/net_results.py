"""A dispatch written back into the pandapower net that it was read from."""

from typing import Any

import numpy as np

from dual2.errors import ProblemError
from dual2.functions.arguments import Array
from dual2.power.answer import Answer
from dual2.power.net_tables import read_grid, supplied_buses
from dual2.solving.unsolved import check_accept

ENDS = {"line": ("p_from_mw", "p_to_mw"), "trafo": ("p_hv_mw", "p_lv_mw")}
KINDS = ("ext_grid", "gen", "sgen", "storage", "load")


def write_results(answer: Answer, net: Any, period: int = 0, *, accept: str | None = None) -> None:
    """Fill ``net.res_cost`` and the tables ``net.res_bus``, ``res_gen``, ``res_line``, … .

    Written are powers (``p_mw``, ``p_from_mw``, …), prices (``res_bus.lam_p``), angles
    (``va_degree``, that of the external grid as it is set) and ``loading_percent``. What the net
    leaves out of service or unsupplied has no number (NaN). Reactive powers and voltages are no
    part of the linear model, and the columns for them are not there.

    Parameters
    ----------
    answer : Answer
        Of a case that :func:`from_pandapower` read with its lines.
    net : pandapowerNet
        The net it was read from, unchanged.
    period : int
        Which of the periods.
    accept : {None, "unsolved"}
        ``"unsolved"`` also writes an answer that has not converged.

    Examples
    --------
    >>> import pandapower.networks
    >>> from dual2 import power
    >>> net = pandapower.networks.case30()
    >>> answer = power.from_pandapower(net).solve()
    >>> power.write_results(answer, net)
    >>> bool(abs(net.res_gen.p_mw.sum() + net.res_ext_grid.p_mw.sum() - 189.2) < 1e-6)
    True
    """
    check_accept("write_results", accept)
    if not answer.solved and accept is None:
        raise ProblemError(
            f'{answer.notice} The net is left as it is; accept="unsolved" writes it all the same.'
        )
    grid = answer.case.grid
    if grid is None or set(grid.place) != set(supplied_buses(net)):
        raise ProblemError(
            "The answer has no lines, or other buses than the net; expected that of a case from "
            "power.from_pandapower(net), and the net as it was then."
        )
    if not 0 <= period < answer.case.periods:
        raise ProblemError(f"period = {period}; the answer has {answer.case.periods} periods.")
    net.res_cost = answer.cost
    _write_elements(answer, net, period)
    _write_buses(answer, net, period)
    flows = {row["line"]: row["flow"][period] for row in answer.lines}
    nominal = read_grid(net, supplied_buses(net), nominal=True)
    ratings = {line.name: line.rating for line in nominal.lines}
    for kind, (start, end) in ENDS.items():
        names = [f"{kind} {index}" for index in net[kind].index]
        flow = np.array([flows.get(name, np.nan) for name in names])
        rating = np.array([ratings.get(name, np.inf) for name in names])
        loading = 100.0 * np.abs(flow) / rating
        columns = {start: flow, end: -flow, "loading_percent": loading}
        net[f"res_{kind}"] = _frame(columns, net[kind].index)


def _frame(columns: dict[str, Array], index: Any) -> Any:
    import pandas

    return pandas.DataFrame(columns, index=index)


def _write_elements(answer: Answer, net: Any, period: int) -> None:
    """Powers of units as dispatched, of everything else as the net sets them."""
    powers = dict(zip(answer.case.names, answer.power[:, period], strict=True))
    for kind in KINDS:
        table, found = net[kind], []
        for index, row in table.iterrows():
            served = row.in_service and int(row.bus) in answer.case.demand
            fixed = float(row.get("p_mw", np.nan) * row.get("scaling", 1.0)) if served else np.nan
            found.append(powers.get(f"{kind} {index}", fixed))
        net[f"res_{kind}"] = _frame({"p_mw": np.array(found, dtype=float)}, table.index)


def _references(net: Any) -> dict[int, float]:
    """Buses whose angle is set: those of external grids, then of generators that are slack."""
    sources = net.ext_grid[net.ext_grid.in_service]
    found = {int(row.bus): float(row.va_degree) for _, row in sources.iterrows()}
    slack = net.gen[net.gen.in_service & net.gen.slack.astype(bool)]
    return found | {int(bus): 0.0 for bus in slack.bus if int(bus) not in found}


def _write_buses(answer: Answer, net: Any, period: int) -> None:
    rows = {row["bus"]: row for row in answer.buses}
    turns: dict[int, float] = {}
    for bus, angle in _references(net).items():
        if bus in rows:
            island = answer.case.island_of(bus)
            turns.setdefault(island, angle - rows[bus]["angle"][period])
    turn = np.array([turns[answer.case.island_of(bus)] for bus in rows])
    keys = ("angle", "demand", "generation", "price")
    angle, demand, made, price = (
        np.array([row[key][period] for row in rows.values()]) for key in keys
    )
    columns = {"va_degree": angle + turn, "p_mw": demand - made, "lam_p": price}
    net.res_bus = _frame(columns, list(rows)).reindex(net.bus.index)
