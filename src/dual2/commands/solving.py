"""Problem folders in, solutions and predictions out."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from dual2.commands import NOT_WRITTEN
from dual2.commands.clusters import solve_in_cluster
from dual2.commands.common_options import EXIT, Directory, Force, rho_value
from dual2.commands.theory import report as theory_report
from dual2.errors import counted
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.processes.checkpoints import INTERVAL
from dual2.processes.launch import solve_in_processes, started_processes
from dual2.processes.options import ProcessOptions
from dual2.processes.persistence import keep, open_store, state_to_resume
from dual2.processes.worker import take_part
from dual2.runtime import Transport
from dual2.runtime.waiting import TIMEOUT
from dual2.solving.result import Result
from dual2.solving.solve import solve as solve_problem
from dual2.solving.storage import load_problem, save_problem
from dual2.solving.unsolved import NOT_SOLVED, ending, is_solved
from dual2.theory import compare, complexities, condition_numbers


def example(folder: Directory, force: Force = False) -> None:
    """Write an example problem folder: Experiment I, elastic net on 8 agents."""
    problem, network, _ = experiment1()
    save_problem(folder, problem, network, {"tol": 1e-8}, force=force)
    print(f"{folder}: {counted(problem.n, 'agent')}, coupling of length {problem.p}.")
    print(f"Solve it with: dual2 solve {folder}")


def solve(
    folder: Directory,
    *,
    method: Annotated[str | None, typer.Option(help="Newton, iD2A, … (default: auto)")] = None,
    subsolver: Annotated[str | None, typer.Option(help="iDAPG, … (default: auto)")] = None,
    rho: Annotated[str | None, typer.Option(help="Augmentation: auto, 0 or a number.")] = None,
    tol: Annotated[float | None, typer.Option(help="Relative KKT residual (1e-8).")] = None,
    max_rounds: Annotated[int | None, typer.Option(help="Most rounds.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Most seconds.")] = None,
    sums: Annotated[str | None, typer.Option(help="Rounding of sums: tree or exact.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JSON here.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where FILE ended.")] = False,
    force: Force = False,
    mpi: Annotated[int | None, typer.Option(metavar="N", help="Run in N processes.")] = None,
    gather: Annotated[bool, typer.Option("--gather", help="Collect every x_i in FILE.")] = False,
    partition: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rank of each agent.")
    ] = None,
    reduce: Annotated[str, typer.Option(help="Sums over agents: tree or mpi.")] = "tree",
    checkpoint: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = INTERVAL,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for a neighbour.")] = TIMEOUT,
    log_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="A log per process.")] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ENGINE:N", help="Run in N workers: ray:4, dask:4.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Of a running Ray or Dask cluster.")] = None,
) -> None:
    """Solve the problem in a folder; options override those of problem.toml.

    With --sums exact the answer has the same bits in one process, over MPI and between parties.
    FILE is JSON. While the run has not converged, the folder FILE.d keeps what --resume needs.
    With --mpi, or under mpiexec, each process reads its own agents' files only and writes
    FILE.d/<agent>.json; --gather, --partition, --reduce, --timeout and --log-dir are for that.
    With --cluster each worker reads its own agents' files, under the same path, and writes
    FILE.d/<agent>.json; --gather writes FILE with every x_i instead.
    """
    given = {
        "method": method,
        "subsolver": subsolver,
        "rho": rho_value(rho),
        "tol": tol,
        "max_rounds": max_rounds,
        "time_limit": time_limit,
        "sums": sums,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    asked = ProcessOptions(
        folder, chosen, out, gather, resume, force, partition, reduce, checkpoint, timeout, log_dir
    )
    if mpi is not None:
        raise typer.Exit(solve_in_processes(asked, mpi))
    if cluster is not None:
        result = solve_in_cluster(asked, cluster, address)
        _summary(result)
        raise typer.Exit(EXIT.get(result.status, 3))
    if started_processes():
        result, written, silent = take_part(asked)
    else:
        asked.refuse_alone()
        result, written = _solve_folder(asked)
        silent = False
    if not silent:
        _summary(result)
    raise typer.Exit(EXIT.get(result.status, 3) if written else NOT_WRITTEN)


def _solve_folder(asked: ProcessOptions) -> tuple[Result, bool]:
    """The answer, and whether it is written where that was asked for."""
    problem, network, options = load_problem(asked.folder)
    options |= asked.chosen
    here, owned = Transport(), list(range(problem.n))
    store = open_store(here, asked, owned)
    start = state_to_resume(here, asked, {}, store)
    options |= {"record": False, "throw": False}  # the answer has no trace, and is always wanted
    result = solve_problem(problem, network, start=start, checkpoints=store, **options)
    return result, keep(here, asked, owned, store, result, problem.n)


def _summary(result: Result) -> None:
    table = Table.grid(padding=(0, 2))
    certificate, counts = result.certificate, result.counts
    solved = is_solved(result)
    if not solved:
        print(_not_solved(result))
    for name, value in {
        "status": f"{result.status}. {result.advice.replace('start=result', '--resume')}",
        "objective" if solved else "objective (of no solution)": f"{result.objective:.12g}",
        "KKT residual": f"{certificate.kkt:.2e}",
        "error bound": certificate.reason
        if certificate.x_error is None
        else f"|x - x*| <= {certificate.x_error:.2e}",
        "method": result.parameters["method"][0],
        "rounds": f"{counts.rounds} (+ {counts.agree_rounds} of agreement)",
        "seconds": f"{result.seconds:.3g}",
    }.items():
        table.add_row(name, value)
    Console().print(table)


def _not_solved(result: Result) -> str:
    """The first line of an answer that is none: what is violated, by how much, and where."""
    certificate = result.certificate
    return (
        f"{NOT_SOLVED} ({ending(result.status)}). The coupling is off by "
        f"{certificate.coupling:.2g} of its size in row {certificate.row}, the balance of forces "
        f"by {certificate.stationarity:.2g} at agent {certificate.agent}; what follows is no "
        "solution."
    )


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
        options["rho"] = rho_value(rho)
    value = options.setdefault("rho", "auto")
    numbers = condition_numbers(problem, network, value)
    rows = complexities(problem, network, eps, value, numbers)
    print(theory_report(problem, network, rows, numbers, cost, every))
    if run:
        options.setdefault("method", "iD2A")  # what the paper predicts
        result = solve_problem(problem, network, **options)
        print(f"\nMeasured beside predicted: {result.status}\n{compare(rows, result)}")
        raise typer.Exit(EXIT.get(result.status, 3))
