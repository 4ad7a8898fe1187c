"""What the kernels (:mod:`dual2.compiled`) read of a block of agents."""

from typing import NamedTuple

import numpy as np

Array = np.ndarray


class Block(NamedTuple):
    """One block of agents (rows) as arrays, D = Σ d_i; made by :func:`dual2.engine.pack.pack`.

    Each field has one dtype and layout, so that every kernel has exactly one signature.
    """

    xptr: Array
    """Agent i owns x[xptr[i]:xptr[i+1]] of the flat x."""
    akind: Array
    """How A_i is held: DENSE_A, SPARSE_A or OPERATOR_A."""
    place: Array
    """(D, 2): column j of A_i is row place[j, 0] of ``cols`` if A_i is dense, else entries
    place[j, 0] … place[j, 1] of ``sval`` and ``sidx``."""
    cols: Array
    """(·, p): columns of dense A_i."""
    sval: Array
    """Entries of sparse A_i."""
    sidx: Array
    """Their rows."""
    easy: Array
    """1 where the local problem separates and is solved coordinate by coordinate."""
    coef: Array
    """(7, D): curvature, linear, slopes left and right of a kink, the kink and bounds of g_i where
    it is separable, plus the diagonal part of f_i."""
    fkind: Array
    """Of what f_i consists: SIMPLE_F, or DENSE_F and LOGISTIC_F added, or CALLBACK_F."""
    fcoef: Array
    """(2, D): diagonal and linear part of f_i."""
    fptr: Array
    """Where the dense and logistic parts of f_i begin in ``fpool``."""
    fpool: Array
    """Matrices row by row, then offsets and weights of the logistic part."""
    fsize: Array
    """Rows of the logistic part."""
    gptr: Array
    """Blocks gptr[i] … gptr[i+1]-1 of ``gtab`` are those of g_i."""
    gtab: Array
    """(·, 6): kind, flags, start, size, first parameter and end of parameters of a prox block."""
    gpar: Array
    """Parameters of the blocks."""
    lip: Array
    """L_i of f_i."""
    mu: Array
    """μ_i of f_i."""
    sigma: Array
    """|A_i|."""
    htab: Array
    """Blocks of h*, for its prox, as in ``gtab``."""
    hpar: Array
    """Their parameters."""
    stab: Array
    """Blocks of the conjugate of what enters by its gradient (of h, where that is h*)."""
    spar: Array
    """Their parameters."""
    inbox: Array
    """Where a Python function finds its operand, longer than any; last entry: the step."""
    outbox: Array
    """Where it leaves its answer."""
    address: int
    """How it is called, see :mod:`dual2.engine.callbacks`."""

    @property
    def data(self) -> tuple[Array, ...]:
        """All that says what the problem is."""
        return self[:-3]
