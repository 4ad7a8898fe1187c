"""Solves models one after the other, each in a process of its own that is killed at its limit.

``python -m common.testset_worker`` reads its job (a JSON object) from its standard input and prints
a line of JSON for each solver as soon as it has ended. Kernels are loaded once: the processes of
the models are forked from this one after a small model has been solved.
"""

import json
import os
import select
import signal
import sys
import time
import traceback
from typing import Any

import numpy as np
import scipy.sparse as sp

import dual2 as d2
from common.central_solvers import row_of
from dual2.models import Model, read_model

SLACK, GRACE = 1.5, 20.0
"""A process is killed after SLACK·limit + GRACE seconds for each of its solvers."""

REACH = 1e8
"""A certificate counts if nothing within this distance of 0 meets the constraints."""

Array = np.ndarray


def certificate_margin(model: Model, coupling: Array, weights: Array) -> float:
    """By how much a combination of constraints is missed, relative to its terms.

    A positive margin proves that with a = Aᵀw, no x within the bounds and |x_j| ≤ 1e8 has aᵀx as
    large as (Ax)ᵀw must be. The sign of w is not known; the better one counts. All is computed in
    the units of the file, from its arrays alone.
    """
    full = np.zeros(len(model.constraints))
    full[coupling] = np.asarray(weights)[: len(coupling)]
    return max(_margin(model, full), _margin(model, -full))


def _margin(model: Model, w: Array) -> float:
    w = np.where((w > 0) & np.isneginf(model.row_lower), 0.0, w)
    w = np.where((w < 0) & np.isposinf(model.row_upper), 0.0, w)
    ends = np.where(w > 0, model.row_lower, model.row_upper)
    least = np.where(w == 0, 0.0, ends)  # wᵀ(Ax) ≥ Σ w·ends
    a = model.A.T @ w
    far = np.where(a > 0, model.upper, model.lower)
    far = np.where(np.isfinite(far), far, np.sign(a) * REACH)
    most = np.where(a == 0, 0.0, a * far)  # Σ a_j x_j ≤ Σ most
    size = np.abs(w * least).sum() + np.abs(most).sum()
    return float(((w * least).sum() - most.sum()) / size) if size else 0.0


def own_row(model: Model, job: dict[str, Any]) -> dict[str, Any]:
    """dual2's answer: statuses as they are, exchanges, numbers sent."""
    begun = time.process_time()
    problem, owned = model.to_problem(
        agents=job["agents"], seed=job["seed"], private_rows=job["private_rows"]
    )
    read = time.process_time() - begun
    begun = time.process_time()
    result = d2.solve(
        problem, owned.network(job["network"]), method=job["method"], tol=job["tol"],
        time_limit=job["limit"], record=False,
    )  # fmt: skip
    cpu = time.process_time() - begun
    x = np.empty(len(model.variables))
    for mine, part in zip(owned.columns, result.x, strict=True):
        x[mine] = part
    counts, separator = result.counts, result.certificate.separator
    margin = None
    if result.status == "INFEASIBLE" and separator is not None:
        margin = certificate_margin(model, owned.coupling, np.asarray(separator))
    return {
        "solver": "dual2",
        "status": str(result.status),
        "objective": model.objective(x),
        "violation": model.violation(x),
        "kkt": result.certificate.kkt,
        "iterations": counts.outer,
        "exchanges": counts.latency,
        "sums": counts.sums,
        "floats": counts.floats,
        "cpu": cpu,
        "cpu_to_read": read,
        "margin": margin,
        "rows": problem.p,
        "variables": len(model.variables),
        "by": result.setting.get("method", ""),
    }


def warm_up(job: dict[str, Any]) -> None:
    """Solve small models with every kind of row, so that kernels are there."""
    for curvature in (0.0, 1.0):
        model = Model.from_arrays(
            [1.0, 2.0, 3.0, 1.0], [[1, 1, 1, 1], [1, 0, 1, 0], [0, 1, 1, 0]], [2, -np.inf, 0.1],
            [2, 3, 5], Q=sp.diags_array([curvature, curvature, 0.0, 0.0]), upper=4.0,
        )  # fmt: skip
        own_row(model, {**job, "agents": 2, "limit": 30.0, "private_rows": False})


def run(job: dict[str, Any], path: str, pipe: int) -> None:
    """All solvers on one model; each row is written as soon as it is there."""
    model = read_model(path, relax=True)
    for name in job["solvers"]:
        try:
            row = own_row(model, job) if name == "dual2" else row_of(model, name, job["limit"])
        except Exception as error:
            traceback.print_exc()
            row = {"solver": name, "status": f"{type(error).__name__}: {error}"[:200]}
        if row is not None:
            os.write(pipe, (json.dumps({"path": path, **row}) + "\n").encode())


def supervised(job: dict[str, Any], path: str) -> None:
    """Run in a forked process and pass on what it writes, until it ends or its time is over."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        code = 1
        try:
            run(job, path, write)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write)
    deadline = time.monotonic() + len(job["solvers"]) * (SLACK * job["limit"] + GRACE)
    while select.select([read], [], [], max(0.0, deadline - time.monotonic()))[0]:
        data = os.read(read, 65536)
        if not data:
            break
        sys.stdout.write(data.decode())
        sys.stdout.flush()
    else:
        os.kill(child, signal.SIGKILL)
    os.close(read)
    os.waitpid(child, 0)
    print(json.dumps({"path": path, "solver": ""}), flush=True)


def main() -> None:
    job = json.load(sys.stdin)
    if "dual2" in job["solvers"]:
        warm_up(job)
    for path in job["paths"]:
        supervised(job, path)


if __name__ == "__main__":
    main()
