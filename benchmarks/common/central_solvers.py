"""Central solvers on a :class:`~dual2.models.Model`: CLARABEL, HiGHS, OSQP, SCS.

Each gets the whole model and returns its status (``SOLVED``, ``INFEASIBLE``, ``UNBOUNDED`` or its
own word), x, iterations and processor seconds. Objectives and violations are evaluated alike.
"""

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dual2.models import Model

Array = np.ndarray


class CentralAnswer(NamedTuple):
    """What a central solver returns."""

    status: str
    x: Array | None
    iterations: int
    cpu: float


def _rows(model: Model) -> tuple[sp.csc_array, Array, Array]:
    """Constraints and bounds of variables that exist, as rows with bounds."""
    boxed = np.flatnonzero(np.isfinite(model.lower) | np.isfinite(model.upper))
    eye = sp.eye_array(len(model.c), format="csr")[boxed]
    low = np.concatenate([model.row_lower, model.lower[boxed]])
    up = np.concatenate([model.row_upper, model.upper[boxed]])
    return sp.csc_array(sp.vstack([model.A, eye])), low, up


def _cone_form(model: Model) -> tuple[sp.csc_matrix, Array, int]:
    """Gx + s = h, s in {0}^equations × nonnegative numbers; the number of equations."""
    rows, low, up = _rows(model)
    rows = sp.csr_array(rows)
    equal = low == up
    above, below = np.isfinite(up) & ~equal, np.isfinite(low) & ~equal
    G = sp.csc_matrix(sp.vstack([rows[equal], rows[above], -rows[below]]))
    return G, np.concatenate([up[equal], up[above], -low[below]]), int(equal.sum())


def _costs(model: Model) -> tuple[sp.csc_matrix, Array]:
    sign = -1.0 if model.maximise else 1.0
    return sp.csc_matrix(sp.triu(sign * model.Q)), sign * model.c


def clarabel_answer(model: Model, limit: float) -> CentralAnswer:
    import clarabel

    (P, q), (G, h, equations) = _costs(model), _cone_form(model)
    cones = [clarabel.ZeroConeT(equations), clarabel.NonnegativeConeT(len(h) - equations)]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.time_limit = False, limit
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    begun = time.process_time()
    found = clarabel.DefaultSolver(P, q, G, h, [c for c in cones if c.dim], settings).solve()
    cpu = time.process_time() - begun
    known = {"Solved": "SOLVED", "AlmostSolved": "SOLVED", "PrimalInfeasible": "INFEASIBLE"}
    known |= {"DualInfeasible": "UNBOUNDED", "AlmostPrimalInfeasible": "INFEASIBLE"}
    status = known.get(str(found.status), str(found.status))
    return CentralAnswer(status, np.array(found.x), found.iterations, cpu)


def highs_answer(model: Model, limit: float) -> CentralAnswer:
    """Linear programs by ``scipy.optimize.linprog``, quadratic ones by ``highspy``."""
    from scipy.optimize import linprog

    if model.Q.nnz:
        return _highs_quadratic(model, limit)
    _, q = _costs(model)
    rows, low, up = sp.csr_array(model.A), model.row_lower, model.row_upper
    equal = low == up
    above, below = np.isfinite(up) & ~equal, np.isfinite(low) & ~equal
    begun = time.process_time()
    found = linprog(
        q,
        sp.vstack([rows[above], -rows[below]], format="csc") if (above | below).any() else None,
        np.concatenate([up[above], -low[below]]) if (above | below).any() else None,
        rows[equal] if equal.any() else None,
        low[equal] if equal.any() else None,
        np.column_stack([model.lower, model.upper]),
        options={"time_limit": limit, "primal_feasibility_tolerance": 1e-9},
    )
    cpu = time.process_time() - begun
    status = {0: "SOLVED", 2: "INFEASIBLE", 3: "UNBOUNDED"}.get(found.status, "NOT SOLVED")
    return CentralAnswer(status, found.x, found.nit, cpu)


def _highs_quadratic(model: Model, limit: float) -> CentralAnswer:
    """Active sets, so that digits do not depend on a tolerance of the gap."""
    import highspy

    (P, q), A = _costs(model), sp.csc_matrix(model.A)
    lp, hessian, solver = highspy.HighsLp(), highspy.HighsHessian(), highspy.Highs()
    lp.num_row_, lp.num_col_ = model.A.shape
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = q, model.lower, model.upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = A.indptr, A.indices, A.data
    lower = sp.csc_matrix(P.T)
    hessian.dim_, hessian.format_ = len(q), highspy.HessianFormat.kTriangular
    hessian.start_, hessian.index_, hessian.value_ = lower.indptr, lower.indices, lower.data
    for name, value in (("output_flag", False), ("time_limit", limit)):
        solver.setOptionValue(name, value)
    begun = time.process_time()
    solver.passModel(lp)
    solver.passHessian(hessian)
    solver.run()
    cpu = time.process_time() - begun
    word = solver.modelStatusToString(solver.getModelStatus())
    status = {"Optimal": "SOLVED", "Infeasible": "INFEASIBLE"}.get(word, "NOT SOLVED")
    iterations = solver.getInfo().qp_iteration_count
    return CentralAnswer(status, np.array(solver.getSolution().col_value), iterations, cpu)


def osqp_answer(model: Model, limit: float) -> CentralAnswer:
    import osqp

    (P, q), (A, low, up) = _costs(model), _rows(model)
    solver = osqp.OSQP()
    begun = time.process_time()
    solver.setup(
        P, q, sp.csc_matrix(A), low, up, verbose=False, eps_abs=1e-8, eps_rel=1e-8,
        max_iter=10_000_000, time_limit=limit, polishing=True,
    )  # fmt: skip
    found = solver.solve(raise_error=False)
    cpu = time.process_time() - begun
    known = {"solved": "SOLVED", "primal infeasible": "INFEASIBLE", "dual infeasible": "UNBOUNDED"}
    status = known.get(found.info.status, found.info.status)
    return CentralAnswer(status, np.array(found.x), found.info.iter, cpu)


def scs_answer(model: Model, limit: float) -> CentralAnswer:
    import scs

    (P, q), (G, h, equations) = _costs(model), _cone_form(model)
    begun = time.process_time()
    solver = scs.SCS(
        {"P": P, "A": G, "b": h, "c": q}, {"z": equations, "l": len(h) - equations},
        verbose=False, eps_abs=1e-8, eps_rel=1e-8, max_iters=10_000_000, time_limit_secs=limit,
    )  # fmt: skip
    found = solver.solve()
    cpu = time.process_time() - begun
    known = {"solved": "SOLVED", "infeasible": "INFEASIBLE", "unbounded": "UNBOUNDED"}
    status = known.get(found["info"]["status"], found["info"]["status"])
    return CentralAnswer(status, np.array(found["x"]), found["info"]["iter"], cpu)


class CentralSolver(NamedTuple):
    """A central solver: the module it needs, whether it takes quadratic costs, how to call it."""

    module: str
    quadratic: bool
    solve: Callable[[Model, float], CentralAnswer]


CENTRAL: dict[str, CentralSolver] = {
    "CLARABEL": CentralSolver("clarabel", True, clarabel_answer),
    "HiGHS": CentralSolver("scipy", find_spec("highspy") is not None, highs_answer),
    "OSQP": CentralSolver("osqp", True, osqp_answer),
    "SCS": CentralSolver("scs", True, scs_answer),
}


def installed() -> list[str]:
    """Names of the central solvers that can be imported."""
    return [name for name, solver in CENTRAL.items() if find_spec(solver.module)]


def row_of(model: Model, name: str, limit: float) -> dict[str, Any] | None:
    """A solver's answer as a row of the table; None if it takes no such model."""
    solver = CENTRAL[name]
    if model.Q.nnz and not solver.quadratic:
        return None
    status, x, iterations, cpu = solver.solve(model, limit)
    fine = x is not None and bool(np.isfinite(x).all())
    return {
        "solver": name,
        "status": status,
        "objective": model.objective(x) if fine else None,
        "violation": model.violation(x) if fine else None,
        "iterations": int(iterations),
        "cpu": cpu,
    }
