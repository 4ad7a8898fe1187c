"""The command that runs the paper's experiments."""

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from dual2.bench.costs import COUPLING, LOCAL, rows_at_gap
from dual2.bench.harness import LINES
from dual2.bench.store import StoredRun
from dual2.commands.common_options import Force, plain_table
from dual2.paper.captions import ABOUT
from dual2.paper.figures import REPORT
from dual2.paper.headline import headline
from dual2.paper.problems import experiment1
from dual2.paper.reproduction import Reproduction
from dual2.paper.reproduction import reproduce as run_experiments
from dual2.paper.theorem_bounds import bounded_run, bounds_figure
from dual2.paper.verdicts import VERDICTS, Claim
from dual2.solving.plotting import write_figure

COSTS = {
    "agree": ("agree_rounds",),
    "numbers": ("floats",),
    "local": LOCAL,
    "coupling": COUPLING,
    "sec": ("seconds",),
}
"""Columns of the table of ``reproduce`` besides rounds: trace columns that each adds up."""

WIDTH = 100
"""Columns that the table needs."""

LEGEND = """\
rounds    exchanges with neighbours when the gap was first met
for good  the same from when on it stayed there
agree     exchanges of scalars for sums and maxima over all agents
numbers   numbers sent by all agents together
local     calls to ∇f and prox g
coupling  calls to A, Aᵀ and prox h*
sec       seconds; noisy, as several runs share the machine
"""
"""What the columns of the table mean."""

NEXT = """\
Next: dual2 example FOLDER and dual2 solve FOLDER for a problem of your own, the folder examples for
Python, dual2 methods for the methods; docs/ has the rest.
"""
"""Where to look after the first command."""


def reproduce(
    experiment: Annotated[str, typer.Argument(help="exp1, exp2, exp3 or all")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")] = Path(
        "results"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="A gap of 1e-4 instead of 1e-8, smaller limits.")
    ] = False,
    literal: Annotated[
        bool, typer.Option("--literal", help="Literal mode, too: nothing spared, slower.")
    ] = False,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Theorems 2 and 3 beside literal runs of exp1.")
    ] = False,
    force: Force = False,
    workers: Annotated[int | None, typer.Option(help="Processes; as many as cores.")] = None,
) -> None:
    """Run experiments of the paper: every run stored, figures, tables, claims and a report.

    What was run before in DIR is kept, unless --force; an interrupted command continues.
    """
    found = run_experiments(
        experiment,
        out,
        quick=quick,
        force=force,
        literal=literal,
        workers=workers,
        progress=LINES,
    )
    console = Console()
    console.width = max(console.width, WIDTH)
    for group, runs in found.runs.items():
        if runs:
            console.print(_costs(ABOUT[group].title, runs, found.target))
    print(LEGEND)
    for claim in found.claims:
        print(f"{claim.verdict:<18} {claim.where}: {claim.text}")
    if both := [claim for claim in found.claims if claim.sparse]:
        console.print(_modes(both))
    _tell_rest(found, out)
    if bounds and not found.outcome.interrupted:
        _draw_bounds(experiment, out)
    if found.files:
        print("\n" + "\n".join(_sentences(found, out)))
        print(NEXT)
    raise typer.Exit(found.outcome.exit_code)


def _costs(title: str, runs: list[StoredRun], target: float) -> Table:
    """What each method had spent when the gap first met the target."""
    heading = f"{title}\nCost of a relative gap |x - x*|/|x*| <= {target:g}"
    numbers = ("rounds", "for good", *COSTS)
    table = plain_table(heading, ("method", *numbers, "status"), numbers)
    for run in runs:
        spent, stays = rows_at_gap(run.trace, target) if run.trace else (None, None)
        cells = [_cost(spent, ("rounds",)), _cost(stays, ("rounds",))]
        cells += [_cost(spent, columns) for columns in COSTS.values()]
        table.add_row(run.case.label, *cells, run.status)
    return table


def _modes(claims: list[Claim]) -> Table:
    """The verdicts on each claim in both modes."""
    title = "Verdicts, and how often the inner test is made"
    table = plain_table(title, ("claim", "literal: always", "every tenth iteration"), ())
    for claim in claims:
        experiment = claim.where.partition(" (")[0].partition(", text")[0]
        table.add_row(f"{experiment}: {claim.text}", claim.verdict, claim.sparse)
    return table


def _cost(spent: dict[str, float] | None, columns: tuple[str, ...]) -> str:
    if spent is None or not set(columns) <= spent.keys():
        return "-"
    total = sum(spent[name] for name in columns)
    if columns == ("seconds",):
        return f"{total:.2g}"
    return f"{total:.0f}" if total < 1e6 else f"{total / 1e6:.1f}M"


def _draw_bounds(experiment: str, out: Path) -> None:
    """The bounds of Theorems 2 and 3 beside runs of Experiment I: a figure, and what it shows."""
    if experiment not in ("exp1", "all"):
        print(
            f"--bounds: Theorems 2 and 3 need a strongly convex F_ρ, which only Experiment I has; "
            f"there is no figure for {experiment}.",
            file=sys.stderr,
        )
        return
    problem, network, reference = experiment1()
    runs = [bounded_run(problem, network, reference, method) for method in ("iD2A", "MiD2A")]
    figure = bounds_figure(runs, "Experiment I: Theorems 2 and 3 beside literal runs")
    for suffix in ("png", "pdf"):
        write_figure(figure, out / f"exp1-bounds.{suffix}")
    print("\n" + "\n".join(map(str, runs)) + f"\nDrawn in {out / 'exp1-bounds.png'}, .pdf.")


def _sentences(found: Reproduction, out: Path) -> list[str]:
    """What to remember: who was fastest, whether the paper is right, where all of it is."""
    said = [headline(ABOUT[group].title, runs, found.target) for group, runs in found.runs.items()]
    said = [sentence for sentence in said if sentence]
    printed = Counter(claim.verdict for claim in found.claims if claim.printed)
    if printed:
        told = ", ".join(f"{printed[verdict]} {verdict}" for verdict in VERDICTS)
        said.append(f"Of the paper's {printed.total()} claims about this: {told}.")
    return [*said, f"Everything is on one page: open {out / REPORT} in a browser."]


def _tell_rest(found: Reproduction, out: Path) -> None:
    outcome = found.outcome
    for run in outcome.failed:
        print(f"FAILED: {run.case.group}, {run.case.label}: {run.reason}", file=sys.stderr)
    for run in outcome.skipped:
        reason = run.reason.partition(" These methods can")[0]
        print(f"skipped: {run.case.group}, {run.case.label}: {reason}", file=sys.stderr)
    if outcome.interrupted:
        print(f"{out}: {outcome}; interrupted, run the same command to continue.")
        return
    names = ", ".join(file.name for file in found.files)
    print(f"{outcome}. Written to {out}: {names}")
