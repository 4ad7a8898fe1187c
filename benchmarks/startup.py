"""What a new process costs: import, first solve with cold and with warm cache of kernels."""

import argparse
import json
import os
import subprocess
import tempfile

from common import interpreter
from common.report import Report, parse

_CHILD = """
import json, time
begun = time.perf_counter()
import dual2 as d2
imported = time.perf_counter()
from dual2.paper.problems.elastic_net_regression import experiment1
problem, network, *_ = experiment1()
built = time.perf_counter()
first = d2.solve(problem, network, method="iD2A")
solved = time.perf_counter()
second = d2.solve(problem, network, method="iD2A")
again = time.perf_counter()
assert first.status == "CONVERGED", first.status
print(json.dumps([imported - begun, built - imported, solved - built, again - solved]))
"""


def new_process(**environment: str) -> list[float]:
    """Seconds of import, problem, first and second solve of Experiment I (iD2A), new process."""
    command = [*interpreter.PYTHON, "-c", _CHILD]
    done = subprocess.run(
        command, env=os.environ | environment, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="processes with a warm cache")
    parser.add_argument(
        "--warm", action="store_true", help="compile nothing, use the cache there is"
    )
    options = parse(parser, repeats=1, warm=True)
    report = Report(options)
    with tempfile.TemporaryDirectory() as folder:
        cache = {} if options.warm else {"DUAL2_CACHE_DIR": folder}
        cold = {} if options.warm else {"cold": new_process(**cache)}
        runs = [new_process(**cache) for _ in range(options.repeats)]
    warm = [min(column) for column in zip(*runs, strict=True)]
    head = ["cache", "import", "problem", "first solve", "import to answer", "second solve"]
    rows = [
        [name, *times[:3], sum(times[:3]), times[3]]
        for name, times in (cold | {f"warm (best of {options.repeats})": warm}).items()
    ]
    report.table("A new process, seconds (Experiment I)", head, rows)
    report.end()


if __name__ == "__main__":
    main()
