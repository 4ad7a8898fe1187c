"""The yardstick: the same iteration written in C, on the same problem, in turns.

Times are minima over repeats that take turns, so that other work on the machine hits every
contestant alike; what counts are the ratios.
"""

import argparse
import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

import dual2 as d2
from common.loops import Loop, best_times, steps_for
from common.report import Report

Size = tuple[int, int, int]
SIZES: tuple[Size, ...] = ((8, 20, 9), (100, 50, 500), (1000, 100, 5000), (10000, 50, 20000))
SMOKE: tuple[Size, ...] = ((8, 20, 9), (20, 10, 40))
"""(n, p, Σd)."""
WEIGHT, L1, CURVATURE = 90.0, 10.0, 20.0
AGREE = 1e-12
"""Relative difference of x and λ that rounding may make in a few iterations."""
SIMD_DOT = ["-DSIMD_DOT", "-fopenmp-simd"]


def size(text: str) -> Size:
    """``8,20,9`` as a size; for ``--sizes``."""
    n, p, total = map(int, text.split(","))
    return n, p, total


class Instance(NamedTuple):
    """A problem of some size, with a start for x and the arrays that C wants."""

    problem: d2.Problem
    network: d2.Network
    x: np.ndarray
    blocks: list[np.ndarray]
    y: np.ndarray

    def arrays(self) -> list[Any]:
        """n, p, offsets and columns of A, f, g, h and the neighbours, in the order of the C."""
        offsets = np.cumsum([0, *(A.shape[1] for A in self.blocks)])
        columns = np.concatenate([A.T for A in self.blocks])
        sizes = [self.problem.n, self.problem.p]
        return [*sizes, offsets, columns, WEIGHT, L1, self.y, CURVATURE, *self.network.neighbours]


def instance(
    n: int, p: int, total: int, f: d2.Function | None = None, g: d2.Function | None = None
) -> Instance:
    """f = 45|x|², g = 10|x|₁, h = |z-y|²/40 on a path (n = 8) or a random 4-regular graph."""
    rng = np.random.default_rng(0)
    dims = np.full(n, total // n)
    dims[-1] += total - dims.sum()
    f, g = f or d2.SquaredNorm(WEIGHT), g or d2.L1Norm(L1)
    blocks = [10 * rng.standard_normal((p, d)) for d in dims]
    y = rng.standard_normal(p)
    agents = [d2.Agent(A, f, g) for A in blocks]
    graph = nx.path_graph(n) if n == 8 else nx.random_regular_graph(4, n, seed=0)
    problem = d2.Problem(agents, d2.SquaredLoss(y, scale=1 / CURVATURE))
    return Instance(problem, d2.Network(graph), rng.standard_normal(total), blocks, y)


class CLoop:
    """A compiled C function on arrays of its own; the number of steps is its last argument."""

    def __init__(
        self,
        function: Callable[..., None],
        arguments: Sequence[Any],
        x: np.ndarray,
        lam: np.ndarray,
    ) -> None:
        self._function, self.x, self.duals = function, x, lam
        self._kept = [
            np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a for a in arguments
        ]
        self._arguments = [_argument(a) for a in self._kept]

    def run(self, steps: int) -> None:
        """That many iterations; an even number leaves λ where it was."""
        self._function(*self._arguments, ctypes.c_int64(steps))


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_int64(value) if isinstance(value, int) else ctypes.c_double(value)


@contextmanager
def compiled(name: str, variants: dict[str, list[str]]) -> Iterator[list[Callable[..., None]]]:
    """The function ``name`` of ``name.c`` in its variants, with gcc -O3 -march=native."""
    source = Path(__file__).parents[1] / f"{name}.c"
    with tempfile.TemporaryDirectory() as folder:
        functions = []
        for k, options in enumerate(variants.values()):
            target = str(Path(folder, f"{name}{k}.so"))
            command = ["gcc", "-O3", "-march=native", "-fPIC", "-shared", *options]
            subprocess.run([*command, "-o", target, str(source)], check=True)
            functions.append(getattr(ctypes.CDLL(target), name))
        yield functions


def report_against_c(
    report: Report,
    title: str,
    name: str,
    variants: dict[str, list[str]],
    loops: Callable[[Instance], tuple[Loop, Callable[[Callable[..., None]], CLoop]]],
    options: argparse.Namespace,
) -> None:
    """One iteration of the library's loop over that of each variant of the C.

    ``loops`` gives the library's loop on an instance and, for a C function, the C loop;
    ``options`` are ``sizes``, ``repeats`` and ``seconds`` of one timing.
    """
    if shutil.which("gcc") is None:
        report.leave_out("the comparison with C, because there is no gcc.")
        return
    rows = []
    with compiled(name, variants) as functions:
        for one in options.sizes:
            own, make = loops(instance(*one))
            others = [make(function) for function in functions]
            error = _difference(own, others)
            report.expect(error <= AGREE, f"at {one} C and the library differ by {error:.1e}.")
            steps = steps_for(own.run, options.seconds)
            turns = [lambda f=f, s=steps: f.run(s) for f in (own, *others)]
            times = best_times(turns, options.repeats)
            micro = [1e6 * t / steps for t in times]
            ratios = [f"{times[0] / t:.2f}" for t in times[1:]]
            rows.append([one, *micro, *ratios, f"{error:.0e}"])
    head = ["(n, p, Σd)", "dual2 µs", *(f"{name} µs" for name in variants)]
    head += [*(f"over {name}" for name in variants), "differ"]
    report.table(f"{title} against C (gcc -O3 -march=native), one thread", head, rows)


def _difference(own: Loop, others: Sequence[CLoop], steps: int = 20) -> float:
    """Largest relative difference of x and λ after some iterations of all loops."""
    own.run(steps)
    errors = []
    for other in others:
        other.run(steps)
        for a, b in ((own.x, other.x), (own.duals, other.duals)):
            errors.append(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300)))
    return max(errors)
