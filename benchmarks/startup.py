"""What a new process costs: import, first solve with warm and with cold cache of kernels."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from report import Report

_CHILD = """
import json, time
begun = time.perf_counter()
import dual2 as d2
imported = time.perf_counter()
from dual2.experiments.exp1 import experiment1
problem, network, *_ = experiment1()
built = time.perf_counter()
first = d2.solve(problem, network)
solved = time.perf_counter()
second = d2.solve(problem, network)
again = time.perf_counter()
assert first.status == "CONVERGED", first.status
print(json.dumps([imported - begun, built - imported, solved - built, again - solved]))
"""


def new_process(cache: str) -> list[float]:
    """Seconds of import, problem, first and second solve of Experiment I in a new process."""
    environment = {**os.environ, "DUAL2_CACHE_DIR": cache}
    command = [sys.executable, "-c", _CHILD]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def report_startup(report: Report, repeats: int = 5) -> None:
    with tempfile.TemporaryDirectory() as cache:
        cold = new_process(cache)
        runs = [new_process(cache) for _ in range(repeats)]
    warm = [min(column) for column in zip(*runs, strict=True)]
    head = ["cache", "import", "problem", "first solve", "import to answer", "second solve"]
    rows = [
        [name, *times[:3], sum(times[:3]), times[3]]
        for name, times in (("cold", cold), (f"warm (best of {repeats})", warm))
    ]
    title = "A new process, seconds (Experiment I; aims: import ≤ 1, first warm solve ≤ 1.5)"
    report.table(title, head, rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", help="write the table to this Markdown file")
    options = parser.parse_args()
    tables = Report(options.out)
    report_startup(tables, options.repeats)
    tables.save()
