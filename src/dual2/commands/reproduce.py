"""The command that runs the paper's experiments."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from dual2.commands.options import Force
from dual2.experiments.reproduce import QUICK, TARGET, Run
from dual2.experiments.reproduce import reproduce as run_experiment
from dual2.result import Status

COSTS = {
    "agree": ("agree_rounds",),
    "local": ("grad_f", "prox_g"),
    "coupling": ("A", "AT", "prox_h"),
    "sec": ("seconds",),
}
"""Columns of the table of ``reproduce`` besides rounds: trace columns that each adds up."""

LEGEND = """\
rounds    exchanges with neighbours when the gap was first met
for good  the same from when on it stayed there
agree     exchanges of scalars for sums and maxima over all agents
local     calls to ∇f and prox g
coupling  calls to A, Aᵀ and prox h*
"""
"""What the columns of the table mean."""


def reproduce(
    experiment: Annotated[str, typer.Argument(help="exp1")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")] = Path(
        "results"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Stop at a gap of 1e-4.")] = False,
    force: Force = False,
) -> None:
    """Run an experiment of the paper; write its traces (csv), record (json) and figure (png)."""
    runs = run_experiment(experiment, out, quick=quick, force=force, report=_ended)
    target = QUICK if quick else TARGET
    Console().print(_costs(runs, target))
    print(LEGEND)
    print(f"Written to {out}: {experiment}.csv (traces), {experiment}.json, {experiment}.png")
    if any(run.result.status != Status.CONVERGED for run in runs):
        raise typer.Exit(3)


def _ended(run: Run) -> None:
    print(f"{run.name}: {run.result.status}, {run.result.seconds:.3g} s", file=sys.stderr)


def _costs(runs: list[Run], target: float) -> Table:
    """What each method had spent when the gap first met the target."""
    title = f"Cost of a relative gap |x - x*|/|x*| <= {target:g}"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("method", no_wrap=True)
    for title in ("rounds", "for good", *COSTS):
        table.add_column(title, justify="right")
    table.add_column("status", no_wrap=True)
    for run in runs:
        spent, stays = run.reached, run.settled
        cells = [_cost(spent, ("rounds",)), _cost(stays, ("rounds",))]
        cells += [_cost(spent, columns) for columns in COSTS.values()]
        table.add_row(run.name, *cells, str(run.result.status))
    return table


def _cost(spent: dict[str, float] | None, columns: tuple[str, ...]) -> str:
    if spent is None:
        return "-"
    total = sum(spent[name] for name in columns)
    if columns == ("seconds",):
        return f"{total:.2g}"
    return f"{total:.0f}" if total < 1e6 else f"{total / 1e6:.1f}M"
