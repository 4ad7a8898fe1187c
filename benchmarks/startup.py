"""What the first minutes cost: import, help and first solves in new processes, cold and warm.

Processor seconds of each process. Cold: no compiled kernel is there. Warm: all are kept from the
run before. Shipped: the cache is empty, but ``--kernels`` names the folder of ``dual2-kernels``
(``dual2 warm --out DIR`` makes one).
"""

import argparse
import os
import resource
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common import interpreter
from common.report import Report, parse

ROOT = Path(__file__).resolve().parents[1]
_OWN = """
import networkx as nx, numpy as np, dual2 as d2
rng = np.random.default_rng(0)
X = rng.standard_normal((20, 6))
y = X @ [1.0, -2.0, 0.0, 0.0, 0.5, 0.0]
blocks = np.hsplit(X, 3)
agents = [d2.Agent(A=block, f=d2.SquaredNorm(0.1), g=d2.L1Norm(0.05)) for block in blocks]
problem = d2.Problem(agents, h=d2.SquaredLoss(y, scale=1 / 20))
result = d2.solve(problem, d2.Network(nx.path_graph(3)), tol=1e-8, method={method!r})
assert result.status == "CONVERGED", result.status
"""
_FIT = """
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from dual2.learn import VerticalRidge
X, y = load_diabetes(return_X_y=True, as_frame=True)
model = VerticalRidge(alpha=1.0, parties={"one": list(X)[:4], "two": list(X)[4:]}).fit(X, y)
assert model.result_.status == "CONVERGED", model.result_.status
"""
_LIBRARIES = """
import pandas, sklearn.datasets, sklearn.linear_model
"""
_DISPATCH = f"""
from dual2 import power
case = power.from_matpower({str(ROOT / "tests/data/grids/five_buses.m")!r})
assert case.solve().status == "CONVERGED"
"""
STEPS = {
    "import dual2": ["-c", "import dual2"],
    "dual2 --version": ["-m", "dual2.cli", "--version"],
    "dual2 --help": ["-m", "dual2.cli", "--help"],
    "solve (default)": ["-c", _OWN.format(method="auto")],
    "solve (interior-point)": ["-c", _OWN.format(method="interior-point")],
    "solve (iD2A)": ["-c", _OWN.format(method="iD2A")],
    "fit (VerticalRidge)": ["-c", _FIT],
    "of that, scikit-learn and pandas": ["-c", _LIBRARIES],
    "dispatch (five buses)": ["-c", _DISPATCH],
}
"""What is timed, and how Python is called for it."""


def seconds(arguments: Sequence[str], cache: str, kernels: str = "off") -> float:
    """Processor seconds of a new process, its answer checked."""
    variables = {"DUAL2_CACHE_DIR": cache, "DUAL2_KERNELS": kernels, "OPENBLAS_NUM_THREADS": "1"}
    before = _spent()
    command = [*interpreter.PYTHON, *arguments]
    subprocess.run(command, env=os.environ | variables, check=True, stdout=subprocess.DEVNULL)
    return _spent() - before


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="processes with a warm cache")
    parser.add_argument("--kernels", help="folder of shipped kernels, for a third column")
    parser.add_argument("--warm", action="store_true", help="use the cache there is")
    options = parse(parser, repeats=1, warm=True)
    report = Report(options)
    rows = []
    for name, arguments in STEPS.items():
        row: list[object] = [name]
        with tempfile.TemporaryDirectory() as empty:
            cache = os.environ.get("DUAL2_CACHE_DIR", "") if options.warm else empty
            row += [] if options.warm else [seconds(arguments, cache)]
            row.append(min(seconds(arguments, cache) for _ in range(options.repeats)))
        if options.kernels:
            with tempfile.TemporaryDirectory() as empty:
                row.append(seconds(arguments, empty, str(Path(options.kernels).resolve())))
        rows.append(row)
    head = [
        "a new process",
        *([] if options.warm else ["cold"]),
        f"warm (best of {options.repeats})",
    ]
    title = "Processor seconds from the start of a process to its end"
    report.table(title, head + ["shipped kernels"] * bool(options.kernels), rows)
    report.end()


if __name__ == "__main__":
    main()
