"""Local problems with a quadratic penalty, solved to machine precision by compiled code.

Methods of ADMM type ask every agent for

    argmin_x  f_i(x) + g_i(x) + Σ_k ψ_k((A_i x)_k) + (q/2)|x - prox center|²,

where ψ_k(u) = (r/2)(u - t_k)², or (r/2)max(u - t_k, 0)² and its mirror image for inequalities. A
linear term <A_iᵀλ, x> needs no place of its own: it moves t by -λ/r. With dense A_i, quadratic f_i
and separable g_i the active set method of :mod:`~dual2.methods.local.penalty_newton` ends after
a few Newton steps; everything else, and what it leaves unsettled, takes the semismooth Newton
method of :mod:`dual2.methods.local.semismooth_penalty`. Both are warm started.
"""

import numpy as np

from dual2.compiled import inline
from dual2.engine.local import FAILED
from dual2.methods.local.penalty_newton import solve_local
from dual2.methods.local.semismooth_penalty import minimise
from dual2.methods.local.solver_kind import ACTIVE_SET_SOLVER, GRADIENT_SOLVER

Array = np.ndarray


@inline
def local_argmin(block, i, task, solver_kind, scratch):
    """The local problem of agent i, from the flat x, in place.

    ``task.par`` (7p) has 1/r, 0 and the bounds of ψ' in places 0, 1, 5 and 6 (the form of a
    separable conjugate), ``task.z`` (n, p) the t. ``solver_kind`` says how it is solved.
    Returns the number of gradients, or FAILED.
    """
    tried = 0
    if solver_kind == ACTIVE_SET_SOLVER:
        tried, settled = solve_local(block, i, task, scratch)
        if settled:
            return tried
    more = minimise(block, i, task, solver_kind != GRADIENT_SOLVER, scratch)
    return FAILED if more == FAILED else tried + more


def penalty_rows(r: Array, low: Array, high: Array) -> Array:
    """The (n, 7p) table that :func:`local_argmin` reads, r per agent, bounds of ψ' per row.

    Examples
    --------
    >>> penalty_rows(np.array([2.0]), np.array([0.0]), np.array([np.inf])).tolist()
    [[0.5, 0.0, 0.0, 0.0, 0.0, 0.0, inf]]
    """
    p = low.size
    rows = np.zeros((r.size, 7 * p))
    rows[:, :p] = 1.0 / r[:, None]
    rows[:, 5 * p : 6 * p] = low
    rows[:, 6 * p :] = high
    return rows
