"""``dual2 warm``: compile kernels before somebody waits for them."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import networkx as nx
import numpy as np
import typer

import dual2 as d2
from dual2 import power as dispatch
from dual2.commands.common_options import Force
from dual2.errors import counted
from dual2.files import refuse_existing, write_atomically
from dual2.kernel_cache import cache_directory, cache_root, source_stamp
from dual2.methods.subsolvers import SUBSOLVERS
from dual2.shipped_kernels import FEATURES, MANIFEST, PROCESSOR, VARIABLE, manifest

USUAL = ("auto", "Newton", "iD2A", "MiD2A")
"""Methods whose kernels are compiled unless all are asked for."""


def warm(
    every: Annotated[bool, typer.Option("--all", help="Of every method and subsolver.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write kernels that other machines can use here."),
    ] = None,
    force: Force = False,
) -> None:
    """Compile the kernels ahead, so that the first solve does not wait for them."""
    if out is not None:
        compile_to_ship(out, every, force)
        return
    watched = sys.stderr.isatty()
    for wish in wishes(every):
        for problem in problems():
            with suppress(d2.CapabilityError):
                d2.solve(
                    problem, d2.Network(nx.path_graph(3)), max_rounds=20, progress=watched, **wish
                )
    schedule()
    folder = cache_directory()
    kept = len(list(folder.glob("*.nbc"))) if folder else 0
    print(f"{counted(kept, 'compiled kernel')} in {cache_root()}.")


def wishes(every: bool) -> Iterator[dict[str, Any]]:
    """Arguments of ``solve``, one set for every group of kernels."""
    for method in (*USUAL, *d2.METHODS) if every else USUAL:
        yield {"method": method}
    yield {"method": "Newton", "sums": "exact"}
    for subsolver in SUBSOLVERS if every else ():
        yield {"method": "iD2A", "subsolver": subsolver}
        yield {"method": "iD2A", "subsolver": subsolver, "rho": 0}


def problems() -> Iterator[d2.Problem]:
    """Small ones that need the common kernels, as functions of agents and as the coupling."""
    costs = [d2.Quadratic(np.array([1.0, weight])) for weight in (1.0, 1.5, 2.0)]
    target, labels = np.array([0.1, 0.2]), np.array([1.0, -1.0])
    point = d2.IndicatorPoint(target)
    pairs = (
        (d2.L1Norm(0.1), d2.SquaredLoss(target)),
        (d2.Zero(), point),
        (d2.L2Norm(0.1), point),
        (d2.L1Norm(0.1), d2.LogisticLoss(labels)),
    )
    for g, h in pairs:
        yield d2.Problem([d2.Agent(np.eye(2), f, g) for f in costs], h)


def schedule() -> None:
    """Generators with ramps, with and without reserve: polyhedra, and chains.

    With a linear cost the interior-point method is chosen, with quadratic ones Newton's.
    """
    for least, reserve in ((0.0, 20.0), (0.0, None), (0.005, 20.0), (0.005, None)):
        units = [
            dispatch.Generator(name, (cost, 20.0), p_max=80.0, ramp=30.0, reserve_max=most)
            for name, cost, most in (("a", least, 30.0), ("b", 0.01, 5.0), ("c", 0.02, 0.0))
        ]
        graph = [(0, 1), (1, 2)]
        dispatch.Dispatch(units, [80.0, 90.0, 85.0], graph=graph, reserve=reserve).solve()


def compile_to_ship(out: Path, every: bool, force: bool) -> None:
    """Compile in a process of its own for processors of :data:`PROCESSOR`; kernels and manifest."""
    refuse_existing(out / MANIFEST, force)
    target = {
        "NUMBA_CPU_NAME": PROCESSOR,
        "NUMBA_CPU_FEATURES": ",".join(f"+{name}" for name in FEATURES),
    }
    with tempfile.TemporaryDirectory() as folder:
        variables = os.environ | target | {"DUAL2_CACHE_DIR": folder, VARIABLE: "off"}
        line = [sys.executable, "-m", "dual2.cli", "warm", *(["--all"] if every else [])]
        subprocess.run(line, env=variables, check=True)
        out.mkdir(parents=True, exist_ok=True)
        for old in (*out.glob("*.nbi"), *out.glob("*.nbc")):
            old.unlink()
        for file in Path(folder).glob("*/*/*.nb?"):
            shutil.copy(file, out)
    triple = _triple()
    found = manifest(source_stamp(), (triple, PROCESSOR, target["NUMBA_CPU_FEATURES"]))
    write_atomically(out / MANIFEST, json.dumps(found, indent=1) + "\n")
    print(f"{counted(len(list(out.glob('*.nbc'))), 'kernel')} for {PROCESSOR} in {out}.")


def _triple() -> str:
    """What LLVM calls this system; part of the key under which Numba stores a kernel."""
    from numba.core.registry import cpu_target

    context: Any = cpu_target.target_context
    return context.codegen().magic_tuple()[0]
