"""Every case of the table of methods for sixty iterations, here or in the processes of a job.

As a script, ``mpi_methods.py FOLDER`` writes what its process knows to ``FOLDER/<rank>.npz``. Two
processes run all cases; with another number of them one method of each family is enough, since
methods reach the others by three verbs only.
"""

import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

import dual2 as d2
from methods_table import EQUATION, LASSO, NETWORK, ROWS

__all__ = ["CASES", "EQUATION", "LASSO", "NETWORK", "arrays", "cases_of"]
ITERATIONS = 60
NEVER, SOON = {"tol": 0.0, "atol": 1e-300}, {"tol": 1e-6}
"""A run that ends by its rounds; one that ends before rounding decides how many sums it takes."""
OVER_SUMS = ("Newton", "L-BFGS", "interior-point")
CASES = {label: case for row in ROWS for label, case in row.cases().items()}
ONE_OF_A_FAMILY = (
    "iD2A",
    "MiD2A exact alone",
    "NPGA-ED",
    "Tracking-ADMM",
    "FISTA",
    "Newton",
    "L-BFGS",
)


def cases_of(ranks):
    """The names of the cases that so many processes run."""
    return tuple(CASES) if ranks == 2 else ONE_OF_A_FAMILY


def run(name, runtime, rounds):
    """The result of a case after that many rounds."""
    method, problem, wishes = CASES[name]
    wishes = {"network": NETWORK, "record": name in ("iD2A", "MiD2A", "DPMM")} | wishes
    wishes |= SOON if name.startswith(OVER_SUMS) else NEVER
    return d2.solve(problem, method=method, **wishes, max_rounds=rounds, runtime=runtime)


def rounds_of(name):
    """Rounds of these iterations."""
    known = run(name, "stacked", 1).parameters
    return ITERATIONS * known.get("rounds_per_iteration", known.get("rounds_per_mix"))[0]


def arrays(name, runtime):
    """What the processes' runs are compared by."""
    result = run(name, runtime, rounds_of(name))
    counts = np.array(list(asdict(result.counts).values()))
    rows = {f"{name}/x{i}": x for i, x in zip(result.owned, result.x, strict=True)}
    rows |= {f"{name}/dual{i}": row for i, row in zip(result.owned, result.duals, strict=True)}
    found = result.certificate
    sums = np.array([*result.y, result.objective, found.kkt, found.consensus])
    trace = result.trace.get("kkt", np.zeros(0))
    same = {"counts": counts, "trace": trace, "sums": sums}
    return rows | {f"{name}/{key}": value for key, value in same.items()}


def main(folder):
    """Run every case in this process of the job and write what it knows."""
    from dual2.runtime.mpi import Mpi

    mpi = Mpi(timeout=100.0)
    found = {}
    for name in cases_of(mpi.size):
        found |= arrays(name, mpi)
    np.savez(Path(folder) / f"{mpi.rank}.npz", **found)


if __name__ == "__main__":
    main(sys.argv[1])
