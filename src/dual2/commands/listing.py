"""What there is: the methods, and this installation."""

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Annotated

import numba
import typer
from rich.console import Console
from rich.table import Table

from dual2.commands.common_options import plain_table
from dual2.errors import counted
from dual2.kernel_cache import cache_directory
from dual2.methods import METHODS, Method, Settings, find_method
from dual2.methods.guide import GUIDES
from dual2.problem import Problem
from dual2.runtime import local_problem
from dual2.solving.choice import choose
from dual2.solving.storage import load_problem
from dual2.solving.version import versions

METHODS_LEGEND = """\
sends   p-vectors per neighbour in one iteration, one per round, or so many
        "in" so many rounds; scalars agreed for the stopping test come on top;
        K = ⌊√κ_C⌋ per product with a Chebyshev polynomial of the network
        (APAPC-Chebyshev rounds up),
        N = ⌈√(L_B/μ_B)⌉ of its steps for the coupling (both by theorem);
        2·height for an exact sum along a spanning tree of that height
=       other names of the same iteration, as far as it is known here
reconstructed: rebuilt from its family and checked to solve the problem, not
        read from its listing
A problem outside a method's class is reduced to one inside where possible.
auto, the default, is the method of least predicted waiting time: Newton where
        every function has derivatives and the curvature sums are affordable
        (up to some hundred rows always), else iD2A; --for DIR tells which
"""
"""What the table of ``methods`` says."""

PACKAGES = ("llvmlite", "networkx", "typer", "matplotlib", "scikit-learn", "mpi4py")
"""Packages whose version ``info`` tells besides those of every result."""


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
        problem, network, options = load_problem(folder)
        Console().print(_verdicts(problem))
        share, tol = local_problem(problem, network), float(options.get("tol", 1e-8))
        print(f"auto: {choose(share, network, Settings(), tol).reason}.")
        return
    Console().print(_conditions())
    print(METHODS_LEGEND)
    Console().print(_sources())


def _conditions() -> Table:
    """What each method accepts and sends."""
    columns = ("method", "accepts", "sends", "what leaves an agent; remarks")
    table = plain_table("Methods", columns)
    for method in METHODS.values():
        needs = method.needs
        accepts = f"f {needs.f}; g {needs.g}; h {needs.h}" + (
            f"; A {needs.A}" if needs.A.words else ""
        )
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
    title = "Parameters and where their values come from unless given"
    table = plain_table(title, ("methods", "values"))
    for text, names in groups.items():
        table.add_row(", ".join(names), text)
    return table


def _verdicts(problem: Problem) -> Table:
    """Which methods can solve a problem as it is, and what the others miss."""
    table = plain_table("Methods for this problem", ("method", "verdict"))
    for method in METHODS.values():
        lack = method.lack(problem)
        table.add_row(method.name, f"no: {lack}" if lack else "yes")
    return table


def _describe(method: Method) -> Table:
    """One method in full."""
    table = Table.grid(padding=(0, 2))
    needs, guide = method.needs, GUIDES.get(method.name)
    rows = {
        "method": method.name + (f" ({method.remark})" if method.remark else ""),
        "what it is": method.summary,
        "f": needs.f.words,
        "g": needs.g.words,
        "h": needs.h.words,
        "A": needs.A.words or "any",
        "sends": f"{counted(method.vectors, 'p-vector')} per neighbour in "
        f"{counted(method.rounds, 'round')} per iteration",
        "leaves an agent": method.reveals,
        **({"guarantee": guide.guarantee, "when to use": guide.when} if guide else {}),
        **method.sources,
    }
    for row in rows.items():
        table.add_row(*row)
    return table


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
        "cache": f"{folder or 'none is writable'} ({counted(kernels, 'compiled kernel')})",
        "compiler": "off (NUMBA_DISABLE_JIT)" if numba.config.DISABLE_JIT else "on",  # type: ignore
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
