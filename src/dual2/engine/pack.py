"""Lowering: user objects become the arrays that the compiled loops read.

A :class:`Block` holds everything that kernels (:mod:`dual2.compiled`) read of the owned agents
(rows). What has no compiled kernel (a user's Python function, a LinearOperator) is reached through
its callbacks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dual2.engine.callbacks import GRAD_H, PROX_H, Callbacks
from dual2.engine.pack_agents import (
    Parts,
    nonempty,
    pack_matrices,
    pack_proximable,
    pack_smooth,
    write_blocks,
)
from dual2.functions import Function
from dual2.functions.lowering import Kind, ProxBlock, prox_blocks
from dual2.functions.separable import separable_form
from dual2.problem import Problem

Array = np.ndarray


class Block(NamedTuple):
    """One block of agents (rows) as arrays, D = Σ d_i; made by :func:`pack`.

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


DATA = slice(0, Block._fields.index("inbox"))
"""The fields of a block that say what the problem is."""


@dataclass(frozen=True)
class Packed:
    """A lowered problem.

    Attributes
    ----------
    block : Block
        What the kernels read.
    clip : bool
        Whether prox_{h*} is one scaled clip.
    smooth : Function
        What ``grad_h`` gives the gradient of: h*, or a term of its own beside it.
    callbacks : Callbacks
        The Python functions that the kernels call.
    """

    block: Block
    clip: bool
    smooth: Function
    callbacks: Callbacks

    @property
    def n(self) -> int:
        """Owned agents (rows)."""
        return len(self.block.xptr) - 1

    @property
    def p(self) -> int:
        """Coupling rows."""
        return self.block.cols.shape[1]

    @property
    def size(self) -> int:
        """Length D of the flat x."""
        return int(self.block.xptr[-1])

    @property
    def has_callbacks(self) -> bool:
        """Whether a loop over this block ever leaves compiled code."""
        return bool(self.callbacks.handlers)

    @property
    def work(self) -> float:
        """Multiply-adds of one iteration, roughly."""
        b = self.block
        return float(2 * (b.cols.size + b.sval.size) + 12 * self.n * self.p + 2 * b.fpool.size)

    def split(self, x: Array) -> list[Array]:
        """The flat x as one copy per agent."""
        return [part.copy() for part in np.split(x, self.block.xptr[1:-1])]


def pack(problem: Problem, smooth: Function | None = None) -> Packed:
    """Lower a problem to arrays; ``smooth`` replaces h* where a gradient is taken."""
    agents, p, groups = problem.agents, problem.p, problem.groups
    dims = np.array(problem.dims, dtype=np.int64)
    xptr = np.concatenate([[0], np.cumsum(dims)]).astype(np.int64)
    dual = prox_blocks(problem.h.conjugate, p)
    smooth = problem.h.conjugate if smooth is None else smooth
    by_gradient = _smooth_blocks(smooth.conjugate, p)
    callbacks = Callbacks(int(max(p, dims.max(), 1)) + 1)
    parts = {"xptr": xptr, "inbox": callbacks.inbox, "outbox": callbacks.outbox}
    parts |= pack_matrices(agents, p, callbacks)
    parts |= pack_smooth(agents, groups, xptr, callbacks)
    parts |= pack_proximable(agents, groups, parts, callbacks)
    parts |= _pack_blocks("h", dual, PROX_H, callbacks)
    parts |= _pack_blocks("s", by_gradient, GRAD_H, callbacks)
    lip, mu = np.empty(len(agents)), np.empty(len(agents))
    for group in groups:
        lip[group.at], mu[group.at] = group.f.L, group.f.mu
    block = Block(
        **parts, lip=lip, mu=mu, sigma=np.sqrt(problem.sigma.max2), address=callbacks.address
    )
    return Packed(block, len(dual) == 1 and _is_clip(dual[0]), smooth, callbacks)


def is_separable(blocks: Sequence[ProxBlock]) -> bool:
    """Whether a prox is one piecewise linear-quadratic block, taken as it is."""
    return len(blocks) == 1 and blocks[0].kind == Kind.SEPARABLE and blocks[0].flags in (0, 4)


def _is_clip(block: ProxBlock) -> bool:
    return block.kind == Kind.SEPARABLE and block.flags == 4


def _smooth_blocks(h: Function, p: int) -> list[ProxBlock]:
    """Blocks of h whose conjugate has a compiled gradient; otherwise a callback."""
    if not h.conjugate.smooth:
        return []
    form = separable_form(h, p)
    if form is not None and form.mu > 0:
        return prox_blocks(h, p)
    return [ProxBlock(Kind.CALLBACK, 0, p, np.zeros(0), h)]


def _pack_blocks(name: str, blocks: Sequence[ProxBlock], what: int, callbacks: Callbacks) -> Parts:
    """The table of a public function's blocks, and their parameters."""
    table = np.zeros((len(blocks), 6), np.int64)
    pool = nonempty(np.zeros(sum(block.params.size for block in blocks)))
    write_blocks(blocks, (table, 0), (pool, 0), what, callbacks)
    return {f"{name}tab": table, f"{name}par": pool}
