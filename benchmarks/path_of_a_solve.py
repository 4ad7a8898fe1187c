"""The way of one ``solve`` through the package: modules, and changes of module.

Every function of the package is taken once, at its first call, in the order of these calls: that is
the order in which a reader meets them. Compiled kernels count as one function each.
"""

import argparse
import os
import sys
from itertools import groupby
from types import FrameType
from typing import Any

import networkx as nx
import numpy as np

import dual2 as d2
from common.report import Report, parse

ROOT = os.path.dirname(d2.__file__) + os.sep


def example(n: int = 8, p: int = 20) -> tuple[d2.Problem, d2.Network]:
    """Elastic net over a path, the example of the front page."""
    rng = np.random.default_rng(0)
    f, g = d2.SquaredNorm(90.0), d2.L1Norm(10.0)
    agents = [d2.Agent(rng.standard_normal((p, 2)), f, g) for _ in range(n)]
    h = d2.SquaredLoss(rng.standard_normal(p), scale=1 / 20)
    return d2.Problem(agents, h), d2.Network(nx.path_graph(n))


def way_of_solve(method: str = "iD2A", **options: Any) -> tuple[list[tuple[str, str]], int]:
    """(module, function) in the order of first calls, and the number of all calls."""
    problem, network = example()
    way: dict[tuple[str, str], int] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(ROOT):
            key = (file.removeprefix(ROOT), frame.f_code.co_qualname)
            way[key] = way.get(key, 0) + 1

    sys.setprofile(watch)
    try:
        d2.solve(problem, network, method=method, progress=False, **options)
    finally:
        sys.setprofile(None)
    return list(way), sum(way.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", action="store_true", help="list them, visit by visit")
    parser.add_argument("--method", default="iD2A", help="any name, or auto for the default")
    parser.add_argument("--max-rounds", type=int, default=10_000_000)
    options = parse(parser, max_rounds=50)
    report = Report(options)
    way, calls = way_of_solve(options.method, max_rounds=options.max_rounds)
    visits = [(module, list(part)) for module, part in groupby(way, key=lambda step: step[0])]
    if options.functions:
        for module, part in visits:
            report.say(f"{module}: {', '.join(name for _, name in part)}")
    row = [len({module for module, _ in way}), len(visits) - 1, len(way), calls]
    report.table(
        f"One solve by {options.method}",
        ["modules", "changes of module", "functions", "calls"],
        [row],
    )
    report.end()


if __name__ == "__main__":
    main()
