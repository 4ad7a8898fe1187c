"""The command ``dual2``: problem folders in, solutions and figures out.

Exit codes: 0 converged or done, 2 bad input or usage, 3 not converged, 130 interrupted.
"""

import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import numba
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from dual2.algorithms import METHODS, Method, find_method
from dual2.compiled import cache_directory
from dual2.documents import to_json
from dual2.errors import Dual2Error
from dual2.experiments.exp1 import experiment1
from dual2.experiments.reproduce import QUICK, TARGET, Run
from dual2.experiments.reproduce import reproduce as run_experiment
from dual2.files import refuse_existing, write_atomically
from dual2.folder import load_problem, save_problem
from dual2.problem import Problem
from dual2.processes.command import solve_in_processes
from dual2.processes.launch import started_by_mpi
from dual2.processes.orders import Orders
from dual2.processes.part import take_part
from dual2.result import Result, Status
from dual2.runtime.waiting import TIMEOUT
from dual2.solve import solve as solve_problem
from dual2.solve import versions
from dual2.theory import compare, complexities, condition_numbers
from dual2.theory.report import report as theory_report

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Decentralised constraint-coupled optimisation.",
)

EXIT = {Status.CONVERGED: 0, Status.INTERRUPTED: 130}
"""Exit code of each status; 3 for the others."""

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

METHODS_LEGEND = """\
sends   p-vectors per neighbour in one iteration, one per round, or so many
        "in" so many rounds; scalars agreed for the stopping test come on top
=       other names of the same iteration, as far as it is known here
reconstructed: rebuilt from its family and checked to solve the problem, not
        read from its listing
A problem outside a method's class is reduced to one inside where possible.
"""
"""What the table of ``methods`` says."""

PACKAGES = ("llvmlite", "networkx", "typer", "matplotlib", "scikit-learn", "mpi4py")
"""Packages whose version ``info`` tells besides those of every result."""

Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Problem folder.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; always ends with ``SystemExit``."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="dual2")
    except Dual2Error as error:
        print(f"dual2: {error}", file=sys.stderr)
        raise SystemExit(2) from None


@app.command()
def example(folder: Directory, force: Force = False) -> None:
    """Write an example problem folder: Experiment I, elastic net on 8 agents."""
    problem, network, _ = experiment1()
    save_problem(folder, problem, network, {"method": "iD2A", "tol": 1e-8}, force=force)
    print(f"{folder}: {problem.n} agents, coupling of length {problem.p}.")
    print(f"Solve it with: dual2 solve {folder}")


@app.command()
def solve(
    folder: Directory,
    method: Annotated[str | None, typer.Option(help="iD2A, MiD2A, … (default: auto)")] = None,
    subsolver: Annotated[str | None, typer.Option(help="iDAPG, … (default: auto)")] = None,
    rho: Annotated[str | None, typer.Option(help="Augmentation: auto, 0 or a number.")] = None,
    tol: Annotated[float | None, typer.Option(help="Relative KKT residual (1e-8).")] = None,
    max_rounds: Annotated[int | None, typer.Option(help="Most rounds.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Most seconds.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JSON here.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where FILE ended.")] = False,
    force: Force = False,
    mpi: Annotated[int | None, typer.Option(metavar="N", help="Run in N processes.")] = None,
    gather: Annotated[bool, typer.Option("--gather", help="Collect every x_i in FILE.")] = False,
    partition: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rank of each agent.")
    ] = None,
    reduce: Annotated[str, typer.Option(help="Sums over agents: tree or mpi.")] = "tree",
    checkpoint: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for a neighbour.")] = TIMEOUT,
    log_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="A log per process.")] = None,
) -> None:
    """Solve the problem in a folder; options override those of problem.toml.

    FILE is JSON. While the run has not converged, FILE.state beside it keeps what --resume needs.
    With --mpi, or under mpiexec, each process reads its own agents' files only and writes
    FILE.d/<agent>.json; the options from --gather on are for that.
    """
    given = {
        "method": method, "subsolver": subsolver, "rho": _rho(rho), "tol": tol,
        "max_rounds": max_rounds, "time_limit": time_limit,
    }  # fmt: skip
    chosen = {name: value for name, value in given.items() if value is not None}
    orders = Orders(
        folder, chosen, out, gather, resume, force, partition, reduce, checkpoint, timeout, log_dir
    )
    if mpi is not None:
        raise typer.Exit(solve_in_processes(orders, mpi))
    if started_by_mpi():
        result, silent = take_part(orders)
    else:
        result, silent = _solve_folder(folder, chosen, out, resume, force), False
    if not silent:
        _summary(result)
    raise typer.Exit(EXIT.get(result.status, 3))


def _solve_folder(
    folder: Path, chosen: dict[str, Any], out: Path | None, resume: bool, force: bool
) -> Result:
    problem, network, options = load_problem(folder)
    options |= chosen
    if out is None:
        if resume:
            raise Dual2Error("--resume needs --out FILE, the file of the run to go on with.")
        return solve_problem(problem, network, **options)
    state = out.with_name(out.name + ".state")
    if resume:
        options["start"] = _earlier(state)
    refuse_existing(out, force or resume)
    result = solve_problem(problem, network, **options)
    if result.status == Status.CONVERGED:
        state.unlink(missing_ok=True)
    else:
        result.save(state)
    write_atomically(out, to_json(result.as_dict()))
    return result


def _earlier(state: Path) -> Result:
    if not state.is_file():
        raise Dual2Error(
            f"There is nothing to resume: {state} does not exist. It is written when a run with "
            "--out ends before it has converged."
        )
    return Result.load(state)


def _rho(text: str | None) -> str | float | None:
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise Dual2Error(f"--rho {text!r} found; expected auto, 0 or a positive number.") from None


def _summary(result: Result) -> None:
    table = Table.grid(padding=(0, 2))
    certificate, counts = result.certificate, result.counts
    for name, value in {
        "status": f"{result.status}. {result.advice}",
        "objective": f"{result.objective:.12g}",
        "KKT residual": f"{certificate.kkt:.2e}",
        "error bound": certificate.reason
        if certificate.x_error is None
        else f"|x - x*| <= {certificate.x_error:.2e}",
        "rounds": f"{counts.rounds} (+ {counts.agree_rounds} of agreement)",
        "seconds": f"{result.seconds:.3g}",
    }.items():
        table.add_row(name, value)
    Console().print(table)


@app.command()
def theory(
    folder: Directory,
    eps: Annotated[float, typer.Option(help="Accuracy: |x - x*|² <= eps.")] = 1e-8,
    rho: Annotated[str | None, typer.Option(help="Augmentation: auto, 0 or a number.")] = None,
    cost: Annotated[str, typer.Option(help="Bottleneck: communication, computation.")] = (
        "communication"
    ),
    every: Annotated[bool, typer.Option("--all", help="Show rows that do not apply, too.")] = False,
    run: Annotated[bool, typer.Option("--run", help="Solve, and show what it cost.")] = False,
) -> None:
    """Which methods apply to the problem in a folder, and what the paper predicts they cost."""
    problem, network, options = load_problem(folder)
    if rho is not None:
        options["rho"] = _rho(rho)
    value = options.setdefault("rho", "auto")
    numbers = condition_numbers(problem, network, value)
    rows = complexities(problem, network, eps, value, numbers)
    print(theory_report(problem, network, rows, numbers, cost, every))
    if run:
        result = solve_problem(problem, network, **options)
        print(f"\nMeasured beside predicted: {result.status}\n{compare(rows, result)}")
        raise typer.Exit(EXIT.get(result.status, 3))


@app.command()
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


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="One method, with its parameters.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--for", metavar="DIR", help="Which can solve this problem?")
    ] = None,
) -> None:
    """Every method: the problems it accepts, its messages and parameters; which are the same."""
    if name is not None:
        Console().print(_describe(find_method(name)))
        return
    if folder is not None:
        problem, _, _ = load_problem(folder)
        Console().print(_verdicts(problem))
        return
    Console().print(_conditions())
    print(METHODS_LEGEND)
    Console().print(_sources())


def _plain(title: str, *columns: str) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=column in ("method", "sends"))
    return table


def _conditions() -> Table:
    """What each method accepts and sends."""
    table = _plain("Methods", "method", "accepts", "sends", "what leaves an agent; remarks")
    for method in METHODS.values():
        needs = method.needs
        accepts = f"f {needs.f}; g {needs.g}; h {needs.h}" + (f"; A {needs.A}" if needs.A else "")
        remarks = "; ".join(part for part in (method.reveals, method.remark) if part)
        table.add_row(method.name, accepts, _messages(method), remarks)
    return table


def _messages(method: Method) -> str:
    """p-vectors of one iteration, with the rounds where they are not as many."""
    same = method.vectors == method.rounds
    return method.vectors if same else f"{method.vectors} in {method.rounds}"


def _sources() -> Table:
    """Where the parameters come from, methods with the same ones together."""
    groups: dict[str, list[str]] = {}
    for method in METHODS.values():
        text = "; ".join(f"{key}: {source}" for key, source in method.sources.items())
        groups.setdefault(text, []).append(method.name)
    table = _plain("Parameters and where their values come from unless given", "methods", "values")
    for text, names in groups.items():
        table.add_row(", ".join(names), text)
    return table


def _verdicts(problem: Problem) -> Table:
    """Which methods can solve a problem as it is, and what the others miss."""
    table = _plain("Methods for this problem", "method", "verdict")
    for method in METHODS.values():
        lack = method.lack(problem)
        table.add_row(method.name, f"no: {lack}" if lack else "yes")
    return table


def _describe(method: Method) -> Table:
    """One method in full."""
    table = Table.grid(padding=(0, 2))
    needs = method.needs
    rows = {
        "method": method.name + (f" ({method.remark})" if method.remark else ""),
        "what it is": method.summary,
        "f": needs.f, "g": needs.g, "h": needs.h, "A": needs.A or "any",
        "sends": f"{method.vectors} p-vector(s) per neighbour in {method.rounds} round(s) "
        "per iteration",
        "leaves an agent": method.reveals,
        **method.sources,
    }  # fmt: skip
    for key, value in rows.items():
        table.add_row(key, value)
    return table


@app.command()
def info() -> None:
    """Versions, threads and where compiled kernels are kept."""
    for name, value in environment().items():
        print(f"{name:<12} {value}")


def environment() -> dict[str, str]:
    """What a report of a problem should say about the machine and the installation."""
    rows = versions() | {name: _version(name) for name in PACKAGES}
    folder = cache_directory()
    kernels = len(list(folder.glob("**/*.nbc"))) if folder else 0
    return rows | {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        "threads": str(numba.config.NUMBA_NUM_THREADS),  # type: ignore[attr-defined]
        "cache": f"{folder or 'none is writable'} ({kernels} compiled kernels)",
        "compiler": "off (NUMBA_DISABLE_JIT)" if numba.config.DISABLE_JIT else "on",  # type: ignore
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    main()
