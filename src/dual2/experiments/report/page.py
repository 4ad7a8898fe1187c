"""The page as a whole: sections from the store, curves as data for the script."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.experiments.captions import SOURCE, WORDS
from dual2.experiments.case import slug
from dual2.experiments.costs import AXES, spent
from dual2.experiments.report.network import network_svg
from dual2.experiments.report.tables import (
    BADGES,
    claims_table,
    constants_table,
    costs_table,
    mathematics,
    pairs,
    parameters_table,
    swatch,
)
from dual2.experiments.store import Store, StoredRun
from dual2.experiments.styles import labels, styles
from dual2.plotting import FAR, LABELS, SHORTEST, measure_of, require
from dual2.version import __version__

if TYPE_CHECKING:
    from dual2.experiments.catalogue import About
    from dual2.experiments.claims import Claim

POINTS = 400
"""Most points of a curve on the page; the whole trace is in the csv file."""

DASHES = {"solid": "solid", "dashed": "dash", "dashdot": "dashdot", "dotted": "dot"}
"""Kinds of lines by the names of plotly."""

SYMBOLS = {
    "*": "star", "s": "square", "^": "triangle-up", "v": "triangle-down", "D": "diamond",
    "o": "circle", "P": "cross", "X": "x", "h": "hexagon", "<": "triangle-left",
    ">": "triangle-right", "p": "pentagon", "d": "diamond-tall", "8": "octagon", "H": "hexagon2",
}  # fmt: skip
"""Markers by the names of plotly."""

LEAD = (
    "Every number and curve on this page was measured here and is drawn from the stored runs. "
    "Choose what is counted on the horizontal axis, drag over a plot to zoom (on a phone, after "
    "touching the magnifier), double-click to return, point at a curve for its values, press a "
    "name below a plot to hide or show its curve."
)


def page(store: Store, about: Mapping[str, "About"], claims: Sequence["Claim"]) -> str:
    """The report as HTML text that needs no other file.

    Parameters
    ----------
    store : Store
        Where the runs are.
    about : mapping from group to About
        Titles, words, formulas and the paper's constants; other groups go by their name.
    claims : sequence of Claim
        What the paper says, with verdicts.
    """
    groups = {group: store.runs(group) for group in store.groups()}
    known = any(group in about for group in groups)
    title = "The paper’s experiments, reproduced" if known else "Benchmark"
    titles = {group: about[group].title if group in about else group for group in groups}
    data = {
        "far": FAR,
        "shortest": SHORTEST,
        "axes": {axis: text for axis, (_, text) in AXES.items()},
        "groups": {slug(group): _data(runs) for group, runs in groups.items()},
    }
    source = f"<p>{escape(SOURCE)}: its three experiments, run again.</p>" if known else ""
    return Template(_file("template.html")).substitute(
        title=title, version=escape(__version__), css=_file("report.css"), source=source, lead=LEAD,
        words=_details("Words used on this page", pairs(WORDS, "word", "meaning")),
        navigation=_navigation(titles, bool(claims)), summary=_summary(groups, claims),
        claims=_claims(claims),
        experiments="\n".join(
            _experiment(group, titles[group], runs, about.get(group))
            for group, runs in groups.items()
        ),
        made=_made([run for runs in groups.values() for run in runs], known),
        data=_inert(data), plotly=_plotly(), script=_file("report.js"),
    )  # fmt: skip


def _file(name: str) -> str:
    return resources.files("dual2.experiments.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    require("plotly")
    from plotly.offline import get_plotlyjs

    return get_plotlyjs().replace("</script", "<\\/script")


def _inert(data: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _navigation(titles: Mapping[str, str], claims: bool) -> str:
    links = {slug(group): title.split(":")[0] for group, title in titles.items()}
    links |= {"claims": "Claims"} if claims else {}
    links |= {"made": "How it was made"}
    return "".join(f'<a href="#{name}">{escape(text)}</a>' for name, text in links.items())


def _summary(groups: Mapping[str, Sequence[StoredRun]], claims: Sequence["Claim"]) -> str:
    """Chips that count settings, runs and the paper's claims; a line on those of our own."""
    runs = sum(len(members) for members in groups.values())
    chips = [("", len(groups), "setting", ""), ("", runs, "run", "")]
    printed = Counter(claim.verdict for claim in claims if claim.printed)
    if claims:
        chips += [(kind, printed[word], "claim", f" {word}") for word, kind in BADGES.items()]
    items = "".join(
        f'<li class="{kind}"><b>{count}</b> {noun}{"" if count == 1 else "s"}{rest}</li>'
        for kind, count, noun, rest in chips
    )
    ours = Counter(claim.verdict for claim in claims if not claim.printed)
    more = ", ".join(f"{ours[word]} {word}" for word in BADGES)
    line = (
        "<p>These are the claims of the paper about its own settings. The same claims on variants "
        f"that are not in the paper, and our own aims: {more}.</p>"
    )
    return f'<ul class="summary">{items}</ul>{line if ours else ""}'


def _claims(claims: Sequence["Claim"]) -> str:
    if not claims:
        return ""
    return (
        '<section id="claims"><h2>What the paper says, and what we measured</h2>'
        f"{claims_table(claims)}</section>"
    )


def _experiment(group: str, title: str, runs: Sequence[StoredRun], about: "About | None") -> str:
    """One section: problem, network, constants, plot, costs, parameters."""
    name, facts = slug(group), runs[0].facts
    shown = [run for run in runs if run.trace]
    parts = [f"<h2>{escape(title)}</h2>"]
    if about:
        parts += [f"<p>{mathematics(text)}</p>" for text in about.words.split("\n\n")]
        parts.append(f'<div class="formula scroll" tabindex="0">{mathematics(about.formula)}</div>')
    parts.append(_setting(facts, about))
    if shown:
        parts.append(_plot(name, title, shown))
    axis = '<span class="axis-name">communication rounds</span>'
    parts.append(f"<h3>Spent until a target was met for good: {axis}</h3>")
    parts.append(costs_table(runs, measure_of(shown)))
    parts.append(_details("Parameters used, and where they come from", _parameters(runs)))
    told = {key: value for key, value in facts.items() if key != "edges"}
    parts.append(_details("Data, network and reference solution", pairs(told)))
    return f'<section id="{name}" class="experiment">{"".join(parts)}</section>'


def _setting(facts: Mapping[str, Any], about: "About | None") -> str:
    """The network beside the constants."""
    picture = ""
    if facts.get("edges") and facts.get("n"):
        drawn = network_svg(int(facts["n"]), facts["edges"])
        words = f"{facts['n']} agents, {len(facts['edges'])} edges"
        picture = f"<figure>{drawn}<figcaption>The network: {words}</figcaption></figure>"
    facts = {"d": sum(facts.get("dims", ())), **facts}
    constants = constants_table(about.constants, facts) if about and about.constants else ""
    return f'<div class="setting">{picture}{constants}</div>'


def _plot(name: str, title: str, runs: Sequence[StoredRun]) -> str:
    """Buttons, the place for the plot, the legend as buttons; the script enables them."""
    axes = "".join(
        f'<button type="button" disabled data-axis="{axis}" '
        f'aria-pressed="{str(axis == "rounds").lower()}">{escape(text)}</button>'
        for axis, (_, text) in AXES.items()
    )
    legend = "".join(
        f'<button type="button" disabled data-curve="{position}" aria-pressed="true">{swatch(look)}'
        f"<span>{escape(text)}</span></button>"
        for position, (text, look) in enumerate(zip(labels(runs), styles(runs), strict=True))
    )
    waiting = (
        "The plot appears when the page has loaded."
        "<noscript> It needs JavaScript; so do the buttons.</noscript>"
    )
    return (
        f'<div class="plot" data-group="{name}"><div class="choices">'
        f'<div class="axes" role="group" aria-label="Horizontal axis">{axes}</div>'
        '<div class="scales" role="group" aria-label="Scale of the horizontal axis">'
        '<button type="button" disabled data-scale="linear">linear</button>'
        '<button type="button" disabled data-scale="log">log</button></div></div>'
        f'<div class="canvas" role="img" aria-label="Convergence: {escape(title)}">'
        f"<p>{waiting}</p></div>"
        f'<div class="legend" role="group" aria-label="Curves">{legend}'
        '<button type="button" disabled class="all">show all</button></div></div>'
    )


def _parameters(runs: Sequence[StoredRun]) -> str:
    names = labels(runs, lambda run: run.case.label)
    return "".join(
        f"<h4>{escape(name)}</h4>"
        + (f"<p>{escape(run.tuning['summary'])}</p>" if run.tuning.get("summary") else "")
        + parameters_table(run)
        for name, run in zip(names, runs, strict=True)
        if run.parameters
    )


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def _made(runs: Sequence[StoredRun], known: bool) -> str:
    """Versions, machine, seeds, and how to make it all again."""
    command = "dual2 reproduce all --out DIR" if known else "dual2 bench CONFIG.toml"
    facts: dict[str, Any] = {"seeds": _distinct(run.case.seed for run in runs)}
    for group in _distinct(run.case.group for run in runs):
        hashes = _distinct(run.facts.get("data") for run in runs if run.case.group == group)
        facts |= {f"data of {group}, hash": hashes} if hashes else {}
    for kind in ("versions", "machine"):
        names = dict.fromkeys(name for run in runs for name in getattr(run, kind))
        facts |= {n: _distinct(getattr(run, kind).get(n, "") for run in runs) for n in names}
    return (
        f"<p>The runs are made by <code>{command}</code>; each is stored with its arguments, "
        "parameters, counts and trace in <code>DIR/runs</code>. Figures, tables and this page are "
        "drawn from there by <code>dual2 plot DIR --force</code>, and come out the same to the "
        "last byte. Rounds and calls are counted, and do not depend on the machine; seconds do, "
        "and are noisy where several runs share it.</p>" + pairs(facts)
    )


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(value for value in values if value not in ("", None)))


def _data(runs: Sequence[StoredRun]) -> dict[str, Any]:
    """Curves of one group, thinned."""
    shown = [run for run in runs if run.trace]
    measure = measure_of(shown)
    curves = [
        {
            "name": text, "colour": look.colour, "dash": DASHES[look.dash], "width": look.width,
            "order": look.order, "symbol": SYMBOLS.get(look.marker, ""), **_curve(run, measure),
        }
        for run, text, look in zip(shown, labels(shown), styles(shown), strict=True)
    ]  # fmt: skip
    return {"label": LABELS[measure], "measure": measure, "curves": curves}


def _curve(run: StoredRun, measure: str) -> dict[str, Any]:
    """Points of a curve; those that a logarithmic axis cannot show are left out."""
    values = np.asarray(run.trace[measure], dtype=float)
    rows = np.flatnonzero(np.isfinite(values) & (values > 0))
    if len(rows) > POINTS:
        rows = rows[np.linspace(0, len(rows) - 1, POINTS).round().astype(int)]
    axes = {axis: np.asarray(spent(run.trace, axis), dtype=float)[rows] for axis in AXES}
    return {
        "y": _rounded(values[rows], 4),
        "x": {axis: _rounded(column, 7) for axis, column in axes.items()},
    }


def _rounded(values: Iterable[float], digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]
