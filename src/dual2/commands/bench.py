"""The commands that run a benchmark, and that draw figures, tables and the report from its runs."""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from dual2.bench import peers
from dual2.bench.bands import bands_figure
from dual2.bench.config import Config, read_config
from dual2.bench.harness import LINES, Outcome, run_cases
from dual2.bench.latex import latex_table
from dual2.bench.peer_report import (
    peers_csv,
    peers_figure,
    peers_json,
    peers_markdown,
    standing,
)
from dual2.bench.provenance import provenance, remark, reproduce_bench, write_provenance
from dual2.bench.store import Store, StoredRun
from dual2.bench.study import (
    SYMBOLS,
    TITLES,
    Growth,
    exponents_csv,
    growth,
    study_figure,
    two,
)
from dual2.bench.summary import SummaryLine, summarise, summary_csv, summary_figure
from dual2.commands.common_options import Force, plain_table
from dual2.errors import Dual2Error, counted
from dual2.files import refuse_existing, write_atomically
from dual2.paper.captions import ABOUT
from dual2.paper.claims import claims
from dual2.paper.figures import draw
from dual2.solving.plotting import require, write_figure

FITTED = """\
𝒜        calls to ∇f or prox g, ℬ calls to A, Aᵀ or prox h*, the most frequent
theory   the same fit through the paper's bounds for these very problems: upper
         bounds, without the logarithms that Õ hides
"""

LEGEND = """\
rounds   exchanges with neighbours until the KKT residual met tol, median over
         the seeds; a dash where the median run did not get there
seconds  of the iterations; noisy if several workers ran side by side
"""

WIDTH = 88
"""Columns that the tables need at least."""


def bench(
    config: Annotated[
        str | None,
        typer.Argument(metavar="CONFIG", help="TOML file, or one that comes along by name."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder; results/NAME if left out.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; as many as cores.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Make finished runs again.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Of peers: fewer, shorter runs.")] = False,
    reproduce: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Run a stored benchmark again, compare the counts."),
    ] = None,
) -> None:
    """Run problems × networks × methods × seeds; continues where an earlier run stopped.

    CONFIG may be peers (ours beside rivals), paper (its three experiments) or scaling (growth with
    κ_f, κ_C, n and p).
    """
    if reproduce is not None:
        if config is not None or out is not None or force or quick:
            raise Dual2Error("--reproduce DIR goes with --workers only: DIR has its config.")
        raise typer.Exit(_reproduce(reproduce, workers))
    if config is None:
        raise Dual2Error("CONFIG is missing; expected a TOML file, a name, or --reproduce DIR.")
    require("matplotlib")
    if config == peers.NAME and not Path(config).exists():
        raise typer.Exit(bench_peers(out, workers, force, quick))
    if quick:
        raise Dual2Error("--quick is for 'dual2 bench peers' only; shorten the config instead.")
    plan = read_config(config)
    folder = out or Path("results") / plan.name
    store = Store(folder)
    _refuse_foreign(folder, force)
    outcome = run_cases(plan.cases, store, workers=workers, force=force, progress=LINES)
    runs = [store.load(case) for case in plan.cases if store.has(case)]
    lines = summarise(runs)
    if lines:
        record = provenance(plan, runs, folder)
        write_provenance(folder, record)
        _write(plan, folder, lines, growth(plan.studies, runs))
        _write_for_print(folder, lines, runs, remark(record))
    _tell(outcome, folder)
    raise typer.Exit(outcome.exit_code)


def bench_peers(out: Path | None, workers: int | None, force: bool, quick: bool) -> int:
    """Ours beside rivals: runs, tables (md, csv, json) and a figure; the exit code."""
    name = f"{peers.NAME}-quick" if quick else peers.NAME
    folder = out or Path("results") / name
    store, cases = Store(folder), peers.peer_cases(quick)
    _refuse_foreign(folder, force, {peers.NAME: ("md", "csv", "json", "png")})
    outcome = run_cases(cases, store, workers=workers, force=force, progress=LINES)
    runs = [store.load(case) for case in cases if store.has(case)]
    if runs:
        found, title = [standing(run) for run in runs], "Ours beside rivals"
        text = peers_markdown(found, title, peers.budgets(quick))
        print(text)
        write_atomically(folder / f"{peers.NAME}.md", text)
        write_atomically(folder / f"{peers.NAME}.csv", peers_csv(found))
        write_atomically(folder / f"{peers.NAME}.json", peers_json(found))
        write_figure(peers_figure(runs, title), folder / f"{peers.NAME}.png")
    for run in outcome.failed:
        print(f"FAILED: {run.case.label} on {run.case.group}: {run.reason}", file=sys.stderr)
    _tell_end(outcome, folder)
    return outcome.exit_code


def _reproduce(folder: Path, workers: int | None) -> int:
    """Run a benchmark again; 3 if a run fails or differs."""
    found = reproduce_bench(folder, workers=workers, progress=LINES)
    for change in found.changes:
        print(f"changed since: {change}")
    for difference in found.differences:
        print(f"differs: {difference}")
    total = found.outcome.ran + found.outcome.missing
    print(f"{found.same} of {counted(total, 'run')} with the same status, data and counts.")
    return found.outcome.exit_code or (3 if found.differences else 0)


TABLES = {
    "summary": ("csv", "png", "tex"),
    "studies": ("csv", "png"),
    "curves": ("pdf", "png"),
    "bench": ("json",),
}


def _refuse_foreign(
    folder: Path, force: bool, files: Mapping[str, tuple[str, ...]] = TABLES
) -> None:
    """An error before any work if the tables would replace files that no benchmark wrote."""
    own = force or (folder / "plan.json").is_file()
    for name, suffixes in files.items():
        for suffix in suffixes:
            refuse_existing(folder / f"{name}.{suffix}", own)


def _write(plan: Config, folder: Path, lines: list[SummaryLine], grown: list[Growth]) -> None:
    """Tables on the screen, the same as CSV, and figures."""
    screen = Console(width=max(Console().width, WIDTH))
    screen.print(_table(lines, plan.title))
    print(LEGEND)
    write_atomically(folder / "summary.csv", summary_csv(lines))
    write_figure(summary_figure(lines, plan.title), folder / "summary.png")
    if grown:
        screen.print(_exponents(grown))
        print(FITTED)
        write_atomically(folder / "studies.csv", exponents_csv(grown))
        write_figure(study_figure(grown, plan.title), folder / "studies.png")


def _write_for_print(
    folder: Path, lines: list[SummaryLine], runs: list[StoredRun], made: str
) -> None:
    """The table for LaTeX and the figure with bands; each says what it was made from."""
    write_atomically(folder / "summary.tex", latex_table(lines, made))
    figure = bands_figure(runs)
    for suffix in ("pdf", "png"):
        write_figure(figure, folder / f"curves.{suffix}", made)


def _table(lines: list[SummaryLine], title: str) -> Table:
    """The summary; a problem and its network are named once."""
    numbers = ("rounds", "seconds")
    table = plain_table(title, ("problem", "network", "method", *numbers, "runs"), numbers)
    before = ""
    for line in lines:
        where = ("", "") if line.place == before else (line.problem, line.network)
        costs = [_number(line.costs[kind], kind == "seconds") for kind in numbers]
        told = ", ".join(f"{number} {status}" for status, number in line.statuses.items())
        table.add_row(*where, line.method, *costs, told)
        before = line.place
    return table


def _number(value: float, seconds: bool) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:.2g}" if seconds else f"{value:.0f}"


def _exponents(grown: list[Growth]) -> Table:
    """Exponents with standard errors, the theory's in brackets."""
    title, numbers = "Exponents a of cost ∝ qᵃ ± standard error (theory)", TITLES.values()
    table = plain_table(title, ("q", "method", *numbers), numbers)
    cells: dict[tuple[str, str], list[str]] = {}
    for one in grown:
        m, t = one.measured, one.theory
        text = "-" if m is None else f"{two(m.exponent)}±{m.error:.2f}"
        text += " (-)" if t is None else f" ({two(t.exponent)})"
        cells.setdefault((SYMBOLS.get(one.over, one.over), one.method), []).append(text)
    before = ""
    for (over, method), texts in cells.items():
        table.add_row("" if over == before else over, method, *texts)
        before = over
    return table


def _tell(outcome: Outcome, folder: Path) -> None:
    for word, runs in (("skipped", outcome.skipped), ("FAILED", outcome.failed)):
        reasons: dict[tuple[str, str], list[str]] = {}
        for run in runs:
            reasons.setdefault((run.case.label, run.reason), []).append(run.case.group)
        for (label, reason), groups in reasons.items():
            names = list(dict.fromkeys(groups))
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            print(f"{word}: {label} on {names[0]}{more}: {reason}", file=sys.stderr)
    _tell_end(outcome, folder)


def _tell_end(outcome: Outcome, folder: Path) -> None:
    more = "; interrupted, run the same command to continue." if outcome.interrupted else "."
    print(f"{folder}: {outcome}{more}")


Stored = Annotated[Path, typer.Argument(metavar="DIR", help="Folder with stored runs.")]


def plot(folder: Stored, force: Force = False) -> None:
    """Draw figures (png, pdf), tables (csv, json) and report.html from the runs in a folder."""
    for file in draw(folder, force=force, about=ABOUT, claims=claims):
        print(file)
