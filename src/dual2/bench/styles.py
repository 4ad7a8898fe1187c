"""How a run looks wherever it is drawn: one colour per method, one kind of line per variant.

The colours stand out from white paper and from a dark page alike (contrast at least 3 : 1), so
that a method has the same one in every figure.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np

from dual2.bench.imported import is_imported
from dual2.bench.store import StoredRun
from dual2.methods import METHODS, find_method
from dual2.methods.registry import AUTO
from dual2.solving.plotting import DASHES, Style
from dual2.solving.result import Status

OURS = Style("#a83fd1", marker="*", width=2.8, order=-1)
"""Our own defaults: a wide line beneath the others, so that a curve they share is seen."""

OUR_DASHES = {"MiD2A": "dashed", "Newton": "dashdot", "L-BFGS": "dotted"}
"""Kinds of their lines; the others are solid."""

BASES = {
    "iD2A": Style("#1c7ed6", width=1.8),
    "MiD2A": Style("#e8590c", width=1.8),
    "NPGA-P2D2": Style("#2b8a3e", marker="s", width=1.4),
    "NPGA-EXTRA": Style("#0c8599", marker="^", width=1.4),
    "NPGA-ED": Style("#967200", marker="v", width=1.4),
    "NPGA-ATC": Style("#d6336c", marker="D", width=1.4),
    "NPGA-II": Style("#8d6e63", marker="o", width=1.4),
    "Tracking-ADMM": Style("#5c940d", marker="P", width=1.4),
    "NECPD": Style("#d23434", marker="X", width=1.4),
    "APAPC-Chebyshev": Style("#7d858c", marker="h", width=1.4),
    AUTO: Style("#7a5af0", marker="d", width=1.8),
}
"""Methods of the paper's figures, the first two the paper's own; last what ``solve`` chooses."""

OTHERS = ("#5f6fd8", "#b0692f", "#3f8f8f", "#b0559a", "#7a8a2a", "#c0504d", "#4f81a8", "#8a6fb0")
"""Colours of the remaining methods, in the order of the registry."""

MARKERS = ("<", ">", "p", "d", "8", "H")

SUBSOLVERS = {"pdpg": "dashed", "lpd": "dashdot"}
"""Kinds of lines of the subsolvers; the others are solid."""

LITERAL_MARKER, LITERAL_WIDTH = "|", 1.0
"""Runs with ``accuracy="literal"``: a thin line with ticks, in the colour of their method."""

FILLED = {"solid": "full", "dashed": "left", "dashdot": "bottom", "dotted": "none"}
"""How markers are filled where there are no lines to tell methods of one colour apart."""

SAID = {"ours": "our "}
"""What a name contains if it says a remark itself, where that is not the remark."""


def style(run: StoredRun) -> Style:
    """The look of a run, from its method, subsolver and ρ alone.

    Examples
    --------
    >>> from dual2.bench.case import Case
    >>> pdpg = Case("exp2", "a", "exp2", solve={"method": "iD2A", "subsolver": "PDPG"})
    >>> style(StoredRun(pdpg, "CONVERGED"))
    Style(colour='#1c7ed6', dash='dashed', marker='', width=1.8, order=0)
    """
    solve = run.case.solve
    asked = str(solve.get("method", AUTO))
    if is_imported(asked):
        turn = crc32(asked.encode())
        return Style(OTHERS[turn % len(OTHERS)], marker=MARKERS[turn % len(MARKERS)], width=1.4)
    name = AUTO if asked.lower() == AUTO else find_method(asked).name
    if run.case.notes.get("ours"):
        return replace(OURS, dash=OUR_DASHES.get(name, "solid"))
    base = _base(name)
    if solve.get("accuracy") == "literal":
        base = replace(base, marker=LITERAL_MARKER, width=LITERAL_WIDTH)
    dash = SUBSOLVERS.get(str(solve.get("subsolver", "")).lower(), base.dash)
    dash = "dotted" if solve.get("rho", "auto") == 0 else dash
    return replace(base, dash=dash)


def _base(name: str) -> Style:
    if name in BASES:
        return BASES[name]
    position = [known for known in METHODS if known not in BASES].index(name)
    marker = MARKERS[position % len(MARKERS)]
    return Style(OTHERS[position % len(OTHERS)], marker=marker, width=1.4)


def styles(runs: Iterable[StoredRun]) -> list[Style]:
    """One style for each run; of curves that would look the same later ones change their line."""
    found: list[Style] = []
    taken: set[Style] = set()
    for run in runs:
        own = style(run)
        turn = DASHES.index(own.dash)
        order = [DASHES[(turn + step) % len(DASHES)] for step in range(len(DASHES))]
        choices = [replace(own, dash=dash) for dash in order]
        found.append(next((choice for choice in choices if choice not in taken), own))
        if run.trace:
            taken.add(found[-1])
    return found


PRINT_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#8a5a00", "#5b3fb5")
"""Colours of a comparison in print; all of them dark enough on white paper."""

PRINT_MARKERS = ("o", "s", "^", "D", "v", "X", "P", "<", ">", "p", "h")
"""Shapes that a print in black and white tells apart."""


def print_styles(names: Iterable[str]) -> dict[str, Style]:
    """A look for each name of one comparison: no two share a marker and a colour.

    Examples
    --------
    >>> looks = print_styles(f"variant {k}" for k in range(77))
    >>> len({(look.colour, look.marker) for look in looks.values()})
    77
    """
    return {
        name: Style(
            PRINT_COLOURS[k % len(PRINT_COLOURS)],
            DASHES[k % len(DASHES)],
            PRINT_MARKERS[k % len(PRINT_MARKERS)],
            1.3,
        )
        for k, name in enumerate(names)
    }


def points(look: Style) -> dict[str, Any]:
    """How points without a line look, as arguments of ``plot``."""
    return {
        "linestyle": "none",
        "marker": look.marker or "o",
        "color": look.colour,
        "fillstyle": FILLED[look.dash],
    }


def draw_costs(
    panel: Any, look: Style, costs: Mapping[str, float], rows: Sequence[str], label: str | None
) -> None:
    """A method's marker in each row at what it cost there, unless that is infinite."""
    finite = {row: cost for row, cost in costs.items() if math.isfinite(cost)}
    heights = [rows.index(row) for row in finite]
    panel.plot(list(finite.values()), heights, label=label, markersize=7, **points(look))


def name_rows(panel: Any, rows: Sequence[str]) -> None:
    """The rows of :func:`draw_costs` by name, the first one on top."""
    panel.set_yticks(np.arange(len(rows)), rows)
    panel.invert_yaxis()


def remarks(run: StoredRun) -> list[str]:
    """What a reader must know about a curve and its name does not say, like tuned or cut.

    Examples
    --------
    >>> from dual2.bench.case import Case
    >>> case = Case("exp1", "NPGA-EXTRA", "exp1", notes={"reconstructed": True})
    >>> remarks(StoredRun(case, "MAX_ROUNDS", counts={"rounds": 3_000_000}))
    ['reconstructed', 'cut at 3 M rounds']
    """
    notes = run.case.notes
    told = {
        "ours": bool(notes.get("ours")),
        "tuned": bool(run.tuning or notes.get("tune")),
        "reconstructed": bool(notes.get("reconstructed")),
        f"cut at {_rounds(run)} rounds": run.status == Status.MAX_ROUNDS,
        f"cut after {run.seconds:.3g} s": run.status == Status.TIME_LIMIT,
        "diverged": run.status == Status.DIVERGED,
        "stalled": run.status == Status.STALLED,
    }
    name = run.case.label
    return [word for word, holds in told.items() if holds and SAID.get(word, word) not in name]


def _rounds(run: StoredRun) -> str:
    rounds = run.counts.get("rounds", 0)
    for unit, name in ((1_000_000, " M"), (1_000, " k")):
        if rounds >= 0.9995 * unit:
            return f"{rounds / unit:.3g}{name}"
    return str(rounds)


def label(run: StoredRun) -> str:
    """Name of a run with its other names and remarks, as a legend shows it.

    Examples
    --------
    >>> from dual2.bench.case import Case
    >>> case = Case("exp1", "DCPA", "exp1", notes={"aliases": ["NPGA-I"], "ours": False})
    >>> label(StoredRun(case, "CONVERGED"))
    'DCPA = NPGA-I'
    """
    names = [run.case.label]
    names += [alias for alias in run.case.notes.get("aliases") or [] if alias not in names[0]]
    told = remarks(run)
    return " = ".join(names) + (f" ({', '.join(told)})" if told else "")


def labels(runs: Iterable[StoredRun], name: Callable[[StoredRun], str] = label) -> list[str]:
    """Names of a group of runs; the seed tells apart those that differ in nothing else."""
    runs = list(runs)
    plain = [name(run) for run in runs]
    return [
        f"{text}, seed {run.case.seed}" if plain.count(text) > 1 else text
        for text, run in zip(plain, runs, strict=True)
    ]
