"""Everything a store has to show, drawn from it: tables, figures, report.

For each group of runs there are NAME.csv (traces), NAME.json (what was run and what came out),
NAME.png and NAME.pdf (convergence). Groups of the paper have NAME-paper.png and NAME-paper.pdf as
well: what the paper's own figure shows, in its three panels, for print. One report.html has all of
it, claims.csv the claims of the paper. The same store gives the same bytes, whenever it is drawn.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dual2.bench.case import slug
from dual2.bench.costs import TARGETS, rows_at_gap
from dual2.bench.store import Store, StoredRun
from dual2.bench.styles import labels, styles
from dual2.errors import Dual2Error
from dual2.files import refuse_existing, to_csv, write_atomically
from dual2.paper.planned_runs import LITERAL
from dual2.paper.report import page
from dual2.solving.plotting import PANELS, Style, measure_of, plot_trace, require, write_figure
from dual2.solving.storage import to_json

if TYPE_CHECKING:
    from dual2.paper.captions import About
    from dual2.paper.claims import Claim

SUFFIXES = ("csv", "json", "png", "pdf")
"""Files of each group."""

REPORT, CLAIMS = "report.html", "claims.csv"
"""The page, and the claims as a table: one row each, in both modes if literal runs are there."""

OF_PAPER, OF_PAPER_SUFFIXES, OF_PAPER_WIDTH = "-paper", ("png", "pdf"), 10.0
"""End of the name of the figure that shows what the paper shows, its files and width in inches."""


def draw(
    folder: str | os.PathLike[str],
    *,
    force: bool = False,
    about: "Mapping[str, About] | None" = None,
    claims: "Callable[[Store], Sequence[Claim]] | None" = None,
) -> list[Path]:
    """Draw everything in a store again, into its folder; the files that were written.

    ``force``: replace files that are there; ``about``: titles and texts, a group without goes by
    its name; ``claims``: judges the paper's claims, asked if the store has a group with a text.
    """
    store, about = Store(folder), about or {}
    groups = store.groups() if (store.folder / "runs").is_dir() else []
    if not groups:
        raise Dual2Error(
            f"{folder} holds no stored runs (expected {Path(folder) / 'runs'}/*.json). Make some "
            "with dual2 reproduce or dual2 bench, or name another folder."
        )
    require("jinja2", "matplotlib", "plotly")
    names = {group: slug(group) for group in groups}
    files = [store.folder / f"{name}.{suffix}" for name in names.values() for suffix in SUFFIXES]
    of_paper = {name for group, name in names.items() if group in about}
    files += [
        store.folder / f"{name}{OF_PAPER}.{suffix}"
        for name in sorted(of_paper)
        for suffix in OF_PAPER_SUFFIXES
    ]
    judged = claims is not None and bool(about.keys() & names.keys())
    files += [store.folder / CLAIMS] * judged + [store.folder / REPORT]
    for file in files:
        refuse_existing(file, force)
    for group, name in names.items():
        title = about[group].title if group in about else group
        _draw_group(store.runs(group), group, title, store.folder / name)
        if name in of_paper:
            stem = store.folder / f"{name}{OF_PAPER}"
            _draw_runs([run for run in store.runs(group) if _of_paper(run)], stem, "")
    found = claims(store) if claims and judged else []
    if judged:
        write_atomically(store.folder / CLAIMS, claims_csv(found))
    write_atomically(store.folder / REPORT, page(store, about, found))
    return [file for file in files if file.exists()]


def _draw_group(runs: Sequence[StoredRun], group: str, title: str, stem: Path) -> None:
    write_atomically(stem.with_suffix(".csv"), csv_text(runs))
    write_atomically(stem.with_suffix(".json"), json_text(group, runs))
    _draw_runs(runs, stem, title)


def _of_paper(run: StoredRun) -> bool:
    """Whether the paper's figure has such a curve: no method or mode of ours."""
    return not run.case.notes.get("ours") and not run.case.label.endswith(LITERAL)


def _draw_runs(runs: Sequence[StoredRun], stem: Path, title: str) -> None:
    """A figure of all runs with a trace; without a title it is the one for print."""
    shown = [run for run in runs if len(run.trace.get("rounds", ()))]
    if not shown:
        for suffix in (".png", ".pdf"):
            stem.with_suffix(suffix).unlink(missing_ok=True)
        return
    named = dict(zip(labels(shown), shown, strict=True))
    looks = dict(zip(named, styles(shown), strict=True))
    if not title:  # in black and white only a marker parts MiD2A from iD2A
        looks = {name: _marked(named[name], look) for name, look in looks.items()}
    print_form = {} if title else {"panels": PANELS[:3], "width": OF_PAPER_WIDTH}
    figure = plot_trace(named, title=title or None, styles=looks, **print_form)
    for suffix in (".png", ".pdf"):
        write_figure(figure, stem.with_suffix(suffix))
        figure.set_layout_engine("none")  # both files have the layout of the first


def _marked(run: StoredRun, look: Style) -> Style:
    """The look of a run in print."""
    is_mid2a = str(run.case.solve.get("method", "")).lower() == "mid2a"
    return replace(look, marker="*") if is_mid2a and not look.marker else look


def csv_text(runs: Sequence[StoredRun]) -> str:
    """Every trace as rows, the run's name first; empty where a trace lacks a column."""
    columns = list(dict.fromkeys(column for run in runs for column in run.trace))
    rows: list[list[Any]] = []
    for name, run in zip(_names(runs), runs, strict=True):
        blank = [""] * len(next(iter(run.trace.values()), ()))
        values = [np.asarray(run.trace.get(column, blank)).tolist() for column in columns]
        rows += [[name, *row] for row in zip(*values, strict=True)]
    return to_csv(["run", *columns], rows)


def claims_csv(claims: "Sequence[Claim]") -> str:
    """The claims as rows; the two modes are empty where a claim was judged once only."""
    head = ["claim", "where", "verdict", "literal", "every tenth iteration", "measured", "reason"]
    rows = [
        [c.text, c.where, c.verdict, c.verdict if c.sparse else "", c.sparse, c.measured, c.reason]
        for c in claims
    ]
    return to_csv(head, rows)


def json_text(group: str, runs: Sequence[StoredRun]) -> str:
    """What was run, with which parameters, and what came out."""
    records = {name: _record(run) for name, run in zip(_names(runs), runs, strict=True)}
    return to_json({"experiment": group, "runs": records})


def _names(runs: Sequence[StoredRun]) -> list[str]:
    return labels(runs, lambda run: run.case.label)


def _record(run: StoredRun) -> dict[str, Any]:
    """One run without its trace; ``reached`` and ``settled`` by target, see ``rows_at_gap``."""
    record = {f.name: getattr(run, f.name) for f in fields(run) if f.name not in ("case", "trace")}
    parameters = {
        name: {"value": value, "source": source} for name, (value, source) in run.parameters.items()
    }
    reached: dict[str, Any] = {}
    settled: dict[str, Any] = {}
    if run.trace:
        measure = measure_of([run])
        for target in TARGETS:
            first, stays = rows_at_gap(run.trace, target, measure)
            reached[f"{target:g}"], settled[f"{target:g}"] = first, stays
    costs = {"reached": reached, "settled": settled}
    return run.case.as_dict() | record | {"parameters": parameters} | costs
