"""Lowering: user objects become the arrays that the compiled loops read.

A :class:`Block` holds everything that kernels (:mod:`dual2.compiled`) read of the owned agents
(rows). What has no compiled kernel (a user's Python function, a LinearOperator) is reached through
its callbacks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dual2.engine.callbacks import ADJOINT, APPLY, GRAD_F, GRAD_H, PROX_G, PROX_H, Callbacks
from dual2.engine.local import (
    CALLBACK_F,
    DENSE_A,
    DENSE_F,
    LOGISTIC_F,
    OPERATOR_A,
    SIMPLE_F,
    SPARSE_A,
)
from dual2.functions import Function
from dual2.functions.lowering import Kind, ProxBlock, SmoothForm, prox_blocks, smooth_form
from dual2.functions.separable import separable_form
from dual2.problem import Agent, Problem

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


Parts = dict[str, Array]
"""Fields of a block by name."""
_SPARSE_BELOW = 0.15
"""Density under which a sparse A_i is kept sparse."""


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
    agents, p = problem.agents, problem.p
    dims = np.array([a.dim for a in agents], dtype=np.int64)
    xptr = np.concatenate([[0], np.cumsum(dims)]).astype(np.int64)
    forms = _smooth_forms(agents)
    blocks = [prox_blocks(a.g, a.dim) for a in agents]
    dual = prox_blocks(problem.h.conjugate, p)
    smooth = problem.h.conjugate if smooth is None else smooth
    by_gradient = _smooth_blocks(smooth.conjugate, p)
    callbacks = Callbacks(int(max(p, dims.max(), 1)) + 1)
    parts = {"xptr": xptr, "inbox": callbacks.inbox, "outbox": callbacks.outbox}
    parts |= _pack_matrices(agents, p, callbacks) | _pack_smooth(agents, forms, xptr, callbacks)
    parts |= _pack_easy(agents, parts, blocks) | _pack_blocks("g", blocks, PROX_G, callbacks)
    parts |= _pack_blocks("h", [dual], PROX_H, callbacks)
    parts |= _pack_blocks("s", [by_gradient], GRAD_H, callbacks)
    block = Block(
        **parts,
        gptr=np.concatenate([[0], np.cumsum([len(b) for b in blocks])]).astype(np.int64),
        lip=np.array([a.f.L for a in agents], float),
        mu=np.array([a.f.mu for a in agents], float),
        sigma=np.sqrt(problem.sigma.max2),
        address=callbacks.address,
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


def _pack_matrices(agents: Sequence[Agent], p: int, callbacks: Callbacks) -> Parts:
    kinds = np.zeros(len(agents), dtype=np.int64)
    place: list[Array] = []
    dense: list[Array] = []
    values, indices = [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    rows = entries = 0
    for i, agent in enumerate(agents):
        matrix, d = agent.A, agent.dim
        if sp.issparse(matrix) and matrix.nnz >= _SPARSE_BELOW * p * d:
            matrix = matrix.toarray()
        if isinstance(matrix, np.ndarray):
            dense.append(matrix.T)
            place.append(np.column_stack([np.arange(rows, rows + d), np.zeros(d)]))
            rows += d
        elif sp.issparse(matrix):
            kinds[i] = SPARSE_A
            csc = sp.csc_array(matrix)
            place.append(entries + np.column_stack([csc.indptr[:-1], csc.indptr[1:]]))
            values.append(csc.data)
            indices.append(csc.indices)
            entries += csc.nnz
        else:
            kinds[i] = OPERATOR_A
            place.append(np.zeros((d, 2)))
            callbacks.add_function(APPLY, i, agent.apply, d, p)
            callbacks.add_function(ADJOINT, i, agent.adjoint, p, d)
    cols = np.ascontiguousarray(np.vstack([np.zeros((0, p)), *dense]), dtype=np.float64)
    where = np.ascontiguousarray(np.vstack(place), dtype=np.int64)
    sval, sidx = np.concatenate(values), np.concatenate(indices).astype(np.int64)
    return {"akind": kinds, "place": where, "cols": cols, "sval": sval, "sidx": sidx}


def _smooth_forms(agents: Sequence[Agent]) -> list[SmoothForm | None]:
    """The form of each f_i, found once where agents share it."""
    known: dict[tuple[int, int], SmoothForm | None] = {}
    keys = [(id(agent.f), agent.dim) for agent in agents]
    for key, agent in zip(keys, agents, strict=True):
        if key not in known:
            known[key] = smooth_form(agent.f, agent.dim)
    return [known[key] for key in keys]


def _pack_smooth(
    agents: Sequence[Agent], forms: list[SmoothForm | None], xptr: Array, callbacks: Callbacks
) -> Parts:
    n = len(agents)
    fkind, fptr, fsize = np.zeros(n, np.int64), np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    fcoef = np.zeros((2, int(xptr[-1])))
    pool: list[Array] = []
    for i, (agent, form) in enumerate(zip(agents, forms, strict=True)):
        fptr[i + 1] = fptr[i]
        if form is None:
            fkind[i] = CALLBACK_F
            callbacks.add_function(GRAD_F, i, agent.f.grad, agent.dim, agent.dim)
            continue
        fcoef[0, xptr[i] : xptr[i + 1]] = form.diagonal
        fcoef[1, xptr[i] : xptr[i + 1]] = form.linear
        parts: list[Array] = []
        if form.dense is not None:
            fkind[i] |= DENSE_F
            parts.append(form.dense.ravel())
        if form.M is not None:
            fkind[i] |= LOGISTIC_F
            fsize[i] = form.M.shape[0]
            parts += [form.M.ravel(), form.offset, form.weight]
        pool += parts
        fptr[i + 1] += sum(part.size for part in parts)
    fpool = _nonempty(np.concatenate([np.zeros(0), *pool]))
    return {"fkind": fkind, "fcoef": fcoef, "fptr": fptr, "fpool": fpool, "fsize": fsize}


def _pack_easy(
    agents: Sequence[Agent], parts: Parts, blocks: Sequence[Sequence[ProxBlock]]
) -> Parts:
    """Agents whose f_i + g_i is separable and strongly convex: coordinates in closed form."""
    easy, xptr = np.zeros(len(agents), dtype=np.int64), parts["xptr"]
    coef = np.zeros((7, int(xptr[-1])))
    coef[0] = 1.0
    for i, agent in enumerate(agents):
        own = blocks[i]
        part = slice(xptr[i], xptr[i + 1])
        if not is_separable(own):
            continue
        coef[:, part] = own[0].params.reshape(7, agent.dim)
        coef[:2, part] += parts["fcoef"][:, part]
        plain = parts["akind"][i] == DENSE_A and parts["fkind"][i] == SIMPLE_F
        easy[i] = int(plain and np.all(coef[0, part] > 0))
    return {"easy": easy, "coef": coef}


def _pack_blocks(
    name: str, owners: Sequence[Sequence[ProxBlock]], what: int, callbacks: Callbacks
) -> Parts:
    """Rows (kind, flags, start, size, first parameter, end of parameters) and their pool."""
    table: list[tuple[int, ...]] = []
    pool: list[Array] = []
    used = 0
    for blocks in owners:
        start = 0
        for block in blocks:
            if block.kind == Kind.CALLBACK and what == GRAD_H:
                gradient = block.function.conjugate.grad
                callbacks.add_function(what, len(table), gradient, block.size, block.size)
            elif block.kind == Kind.CALLBACK:
                callbacks.add_prox(what, len(table), block.function.prox, block.size)
            end = used + block.params.size
            table.append((int(block.kind), block.flags, start, block.size, used, end))
            pool.append(block.params)
            start, used = start + block.size, end
    rows = np.array(table, dtype=np.int64).reshape(-1, 6)
    return {f"{name}tab": rows, f"{name}par": _nonempty(np.concatenate([np.zeros(0), *pool]))}


def _nonempty(array: Array) -> Array:
    """A contiguous float64 array of at least one entry."""
    out = np.ascontiguousarray(array, dtype=np.float64)
    return out if out.size else np.zeros(1)
