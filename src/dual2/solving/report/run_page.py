"""The page about one run: how it went, how good the answer is, what it cost, the prices."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.errors import counted
from dual2.files import refuse_existing, write_atomically
from dual2.solving.plotting import Style, measure_of
from dual2.solving.report.curves import AXES, curves, drawable, inert
from dual2.solving.report.network import network_places
from dual2.solving.report.templates import templates
from dual2.solving.result import Result, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOK = Style("#1c7ed6", width=2.0)
MOST_ROWS = 200
"""Rows of the coupling whose prices are told: those with the largest."""

COUNTED = {
    "rounds": "exchanges of p-vectors with the neighbours",
    "agree_rounds": "exchanges of scalars for maxima and sums over all agents",
    "sums": "exact sums over the network, 2·height rounds each",
    "vectors": "p-vectors sent to each neighbour by gossip",
    "floats": "numbers sent in all, by all agents",
    "grad_f": "gradients of f_i, the most of any agent",
    "prox_g": "proxes of g_i",
    "A": "products with A_i",
    "AT": "products with the transpose of A_i",
    "prox_h": "proxes or gradients of h*",
    "iterations": "iterations of the subsolver",
    "outer": "iterations of the outer loop",
}
"""What each count counts."""


def write_report(result: Result, path: Path, force: bool = False, light: bool = False) -> Path:
    """Write the page of a result; see :meth:`dual2.Result.report`."""
    refuse_existing(path, force)
    write_atomically(path, page_of(result, light).encode())
    return path


def page_of(result: Result, light: bool = False) -> str:
    """The page as HTML text that needs no other file; ``light``: without plotly.js."""
    setting = result.setting
    places, height = None, 0.0
    if setting.get("edges"):
        places, height = network_places(setting["n"], setting["edges"])
    curve = _curves(result)
    return (
        templates()
        .get_template("run.html")
        .render(
            title=f"{setting.get('method', 'A run')}: {result.status}",
            links=_links(curve is not None, bool(places)),
            result=result,
            good=result.status == Status.CONVERGED,
            chips=_chips(result),
            places=places,
            height=height,
            edges=setting.get("edges", []),
            axes={axis: text for axis, (_, text) in AXES.items()},
            curves=[(setting.get("method", "this run"), LOOK)] if curve else [],
            certificate=_certificate(result),
            counts=_counts(result),
            prices=_prices(result),
            rows=result.dual.size,
            data=inert({"run": curve} if curve else {}),
            light=light,
        )
    )


def _links(drawn: bool, network: bool) -> dict[str, str]:
    links = {"convergence": "Convergence"} if drawn else {}
    links |= {"network": "Network"} if network else {}
    return links | {
        "certificate": "Certificate",
        "counts": "Counts",
        "prices": "Prices",
        "why": "Why this way",
    }


def _chips(result: Result) -> list[tuple[int | str, str]]:
    sizes = result.setting
    found: list[tuple[int | str, str]] = []
    for key, noun in (("n", "agent"), ("p", "row")):
        if key in sizes:
            number, word = counted(sizes[key], noun).split(" ")
            found.append((int(number), word))
    return [*found, (result.counts.latency, "exchanges waited for"), (f"{result.seconds:.3g}", "s")]


def _curves(result: Result) -> dict[str, Any] | None:
    """The curve of the run; None where no two points of it can be drawn."""
    if not result.trace or len(drawable(result.trace, measure_of([result]))) < 2:
        return None
    return curves([result], [result.setting.get("method", "this run")], [LOOK])


def _certificate(result: Result) -> "Mapping[str, Any]":
    c = result.certificate
    rows: dict[str, Any] = {
        "KKT residual": c.kkt,
        f"stationarity, worst at agent {c.agent}, variable {c.coordinate}": c.stationarity,
        f"coupling, worst at row {c.row}": c.coupling,
        "objective, relative to its terms": c.objective,
        "spread of the prices, max_i |λ_i − λ̄|": c.consensus,
        "duality gap, at most": c.gap,
        "distance to the solution, at most": c.x_error,
        "why": c.reason,
    }
    if c.separator is not None:
        rows["separator, which proves that there is no solution"] = c.separator
    if c.ray is not None:
        rows["ray, along which the objective falls for ever"] = c.ray
    short = {k: float(f"{v:.3g}") if isinstance(v, float) else v for k, v in rows.items()}
    return short


def _counts(result: Result) -> list[tuple[str, int, str]]:
    found = asdict(result.counts)
    first = [("latency", result.counts.latency, "what one waits for: rounds and agree_rounds")]
    return first + [(name, found[name], words) for name, words in COUNTED.items() if found[name]]


def _prices(result: Result) -> list[tuple[int, float, float]]:
    """Row, what is used of it, price; the rows of the largest prices, in their order."""
    size = np.abs(np.nan_to_num(result.dual))
    shown = np.sort(np.argsort(-size, kind="stable")[:MOST_ROWS])
    return [(int(row), float(result.y[row]), float(result.dual[row])) for row in shown]
