"""The page as a whole: what the templates show, and curves as data for the script."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from dual2.bench.case import slug
from dual2.bench.costs import TARGETS, rows_at_gap
from dual2.bench.store import FAILED, SKIPPED, Store, StoredRun
from dual2.bench.styles import labels, remarks, styles
from dual2.paper.captions import SOURCE, WORDS
from dual2.paper.headline import headline
from dual2.paper.verdicts import VERDICTS
from dual2.solving.plotting import measure_of, require
from dual2.solving.report.curves import AXES, curves, inert, spent
from dual2.solving.report.network import network_places
from dual2.solving.report.templates import templates
from dual2.solving.report.words import power

if TYPE_CHECKING:
    from dual2.paper.captions import About
    from dual2.paper.claims import Claim

BADGES = dict(zip(VERDICTS, ("yes", "no", "open"), strict=True))
"""Class of each verdict's badge."""


def page(store: Store, about: Mapping[str, "About"], claims: Sequence["Claim"]) -> str:
    """The report as HTML text that needs no other file.

    ``store``: where the runs are; ``about``: titles, words, formulas and the paper's constants;
    other groups go by their name; ``claims``: what the paper says, with verdicts.
    """
    require("jinja2", "plotly")
    groups = {group: store.runs(group) for group in store.groups()}
    known = any(group in about for group in groups)
    titles = {slug(group): about[group].title if group in about else group for group in groups}
    links = {name: title.split(":")[0] for name, title in titles.items()}
    links |= {"claims": "Claims"} if claims else {}
    sections = [
        _section(name, title, runs, about.get(group))
        for (name, title), (group, runs) in zip(titles.items(), groups.items(), strict=True)
    ]
    from markupsafe import Markup

    found = templates("dual2.paper.report")
    found.globals |= {"source": SOURCE, "words": WORDS, "badges": BADGES, "breaks": Markup("<br>")}
    return found.get_template("page.html").render(
        title="The paper’s experiments, reproduced" if known else "Benchmark",
        links=links | {"made": "How it was made"},
        known=known,
        settings=len(about),
        chips=_chips(groups, claims),
        ours=_ours(claims),
        headlines=_headlines(groups, titles) if known else [],
        axes={axis: text for axis, (_, text) in AXES.items()},
        sections=sections,
        claims=[(k, list(members)) for k, members in groupby(claims, key=lambda one: one.where)],
        made=_made([run for runs in groups.values() for run in runs]),
        data=inert({slug(group): _data(runs) for group, runs in groups.items()}),
    )


def _headlines(groups: Mapping[str, Sequence[StoredRun]], titles: Mapping[str, str]) -> list[str]:
    """The sentence of each experiment, to the smallest gap."""
    found = (headline(titles[slug(group)], runs, min(TARGETS)) for group, runs in groups.items())
    return [sentence for sentence in found if sentence]


def _chips(groups: Mapping[str, Sequence[StoredRun]], claims: Sequence["Claim"]) -> list[Any]:
    """Kind, number, noun and rest of what is counted: settings, runs, the paper's claims."""
    runs = sum(len(members) for members in groups.values())
    chips = [("", len(groups), "setting", ""), ("", runs, "run", "")]
    printed = Counter(claim.verdict for claim in claims if claim.printed)
    kinds = BADGES.items() if claims else ()
    return chips + [(kind, printed[word], "claim", f" {word}") for word, kind in kinds]


def _ours(claims: Sequence["Claim"]) -> str:
    """The verdicts on claims of our own; empty if there are none."""
    ours = Counter(claim.verdict for claim in claims if not claim.printed)
    return ", ".join(f"{ours[word]} {word}" for word in BADGES) if ours else ""


def _section(
    name: str, title: str, runs: Sequence[StoredRun], about: "About | None"
) -> dict[str, Any]:
    """One section: problem, network, constants, plot, costs, parameters."""
    facts = runs[0].facts
    shown = [run for run in runs if run.trace]
    measure = measure_of(shown)
    places, height = None, 0.0
    if facts.get("edges") and facts.get("n"):
        places, height = network_places(int(facts["n"]), facts["edges"])
    word = "gap" if measure == "gap" else "KKT"
    return {
        "name": name,
        "title": title,
        "about": about,
        "places": places,
        "height": height,
        "facts": {"d": sum(facts.get("dims", ()))} | facts,
        "told": {key: value for key, value in facts.items() if key != "edges"},
        "curves": list(zip(labels(shown), styles(shown), strict=True)),
        "targets": [f"{word} ≤ {power(round(math.log10(target)))}" for target in TARGETS],
        "costs": [
            _row(run, text, look, measure)
            for run, text, look in zip(
                runs, labels(runs, lambda run: run.case.label), styles(runs), strict=True
            )
        ],
    }


def _row(run: StoredRun, name: str, look: Any, measure: str) -> dict[str, Any]:
    """What the tables say about one run."""
    last = list(run.trace.get(measure, ()))[-1:]
    names = " = ".join([name, *(run.case.notes.get("aliases") or [])])
    return {
        "name": name,
        "look": look,
        "remarks": remarks(run),
        "status": run.status,
        "names": names.replace(" = ", "\u00a0=\u00a0"),
        "costs": [costs_at(run, target, measure) for target in TARGETS],
        "last": f"{last[0]:.1e}" if last else "–",
        "reason": run.reason if run.status in (SKIPPED, FAILED) else "",
        "parameters": run.parameters,
        "tuning": run.tuning.get("summary"),
    }


def costs_at(run: StoredRun, target: float, measure: str) -> dict[str, float | str | None]:
    """What was spent, of each kind, until the target was met for good; None where never."""
    stays = rows_at_gap(run.trace, target, measure)[1] if run.trace else None
    if stays is None:
        return dict.fromkeys(AXES)
    costs: dict[str, float | str | None] = {axis: spent(stays, axis) for axis in AXES}
    return costs | {"seconds": f"{stays['seconds']:.2g}"}


def _made(runs: Sequence[StoredRun]) -> dict[str, Any]:
    """Seeds, data, versions and machine."""
    facts: dict[str, Any] = {"seeds": _distinct(run.case.seed for run in runs)}
    for group in _distinct(run.case.group for run in runs):
        hashes = _distinct(run.facts.get("data") for run in runs if run.case.group == group)
        facts |= {f"data of {group}, hash": hashes} if hashes else {}
    for kind in ("versions", "machine"):
        names = dict.fromkeys(name for run in runs for name in getattr(run, kind))
        facts |= {n: _distinct(getattr(run, kind).get(n, "") for run in runs) for n in names}
    return facts


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(value for value in values if value not in ("", None)))


def _data(runs: Sequence[StoredRun]) -> dict[str, Any]:
    """Curves of one group, thinned."""
    shown = [run for run in runs if run.trace]
    return curves(shown, labels(shown), styles(shown))
