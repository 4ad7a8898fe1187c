"""Lowering: user objects become the arrays that the compiled loops read.

A :class:`Packed` block holds everything the owned agents (rows) know, in arrays of one dtype and
layout each, so that every kernel has exactly one signature. What has no compiled kernel (a
user's Python function, a LinearOperator) is reached through the block's :class:`Door`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from dual2.engine.door import ADJOINT, APPLY, GRAD_F, GRAD_H, PROX_G, PROX_H, Door
from dual2.engine.local import (
    CALLBACK_F,
    CALLBACK_KIND,
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
_SPARSE_BELOW = 0.15
"""Density under which a sparse A_i is kept sparse (break-even measured at 5-25 %)."""


@dataclass(frozen=True)
class Packed:
    """One block of agents as arrays. D = Σ d_i; agent i owns x[xptr[i]:xptr[i+1]].

    Attributes
    ----------
    n, p : int
        Owned agents (rows) and coupling rows.
    local : tuple of arrays
        xptr, akind, place (D, 2), cols (·, p), sval, sidx: column j of A_i is row place[j, 0] of
        cols if A_i is dense, else entries place[j, 0] … place[j, 1] of sval, sidx; easy (1: the
        local problem separates and is solved coordinate by coordinate), coef (7, D) (curvature,
        linear, slopes, kink and bounds of g_i where separable, plus the diagonal part of f_i),
        fkind, fcoef (2, D), fptr, fpool, fsize (f_i), gptr, gtab, gpar (prox blocks of g_i), lip,
        mu, sigma (L_i, μ_i, |A_i|).
    prox_h, smooth_h : tuple of arrays
        (htab, hpar) of the blocks of h* (for its prox) and of h (for the gradient of h*).
    doorway : tuple
        inbox, outbox, address of the door.
    clip : bool
        Whether prox_{h*} is one scaled clip.
    smooth : Function
        What ``smooth_h`` gives the gradient of: h*, or a term of its own beside it.
    """

    n: int
    p: int
    local: tuple[Array, ...]
    prox_h: tuple[Array, Array]
    smooth_h: tuple[Array, Array]
    doorway: tuple[Array, Array, int]
    clip: bool
    smooth: Function
    door: Door

    @property
    def size(self) -> int:
        """Length D of the flat x."""
        return int(self.local[0][-1])

    @property
    def has_callbacks(self) -> bool:
        """Whether a loop over this block ever leaves compiled code."""
        return bool(self.door.handlers)

    @property
    def work(self) -> float:
        """Multiply-adds of one iteration, roughly."""
        cols, sval, fpool = self.local[3], self.local[4], self.local[11]
        return float(2 * (cols.size + sval.size) + 12 * self.n * self.p + 2 * fpool.size)

    def split(self, x: Array) -> list[Array]:
        """The flat x as one copy per agent."""
        return [part.copy() for part in np.split(x, self.local[0][1:-1])]


def pack(problem: Problem, smooth: Function | None = None) -> Packed:
    """Lower a problem to arrays; ``smooth`` replaces h* where a gradient is taken."""
    agents, p = problem.agents, problem.p
    door = Door()
    dims = np.array([a.dim for a in agents], dtype=np.int64)
    xptr = np.concatenate([[0], np.cumsum(dims)]).astype(np.int64)
    width = int(max(p, dims.max(), 1)) + 1
    inbox, outbox = np.zeros(width), np.zeros(width)
    akind, *matrices = _pack_matrices(agents, p, door, inbox, outbox)
    fkind, fcoef, fptr, fpool, fsize = _pack_smooth(agents, xptr, door, inbox, outbox)
    blocks = [prox_blocks(a.g, a.dim) for a in agents]
    gptr = np.concatenate([[0], np.cumsum([len(b) for b in blocks])]).astype(np.int64)
    gtab, gpar = _pack_blocks(blocks, PROX_G, door, inbox, outbox)
    easy, coef = _pack_easy(agents, xptr, akind, fkind, fcoef, blocks)
    lip, mu = np.array([a.f.L for a in agents], float), np.array([a.f.mu for a in agents], float)
    sigma = np.sqrt(problem.sigma.max2)
    dual_blocks = prox_blocks(problem.h.conjugate, p)
    clip = len(dual_blocks) == 1 and _is_clip(dual_blocks[0])
    smooth = problem.h.conjugate if smooth is None else smooth
    own = _smooth_blocks(smooth.conjugate, p)
    return Packed(
        n=len(agents), p=p, door=door, clip=clip, smooth=smooth,
        local=(xptr, akind, *matrices, easy, coef, fkind, fcoef, fptr, fpool, fsize,
               gptr, gtab, gpar, lip, mu, sigma),
        prox_h=_pack_blocks([dual_blocks], PROX_H, door, inbox, outbox),
        smooth_h=_pack_blocks([own], GRAD_H, door, inbox, outbox),
        doorway=(inbox, outbox, door.address),
    )  # fmt: skip


def is_separable(blocks: Sequence[ProxBlock]) -> bool:
    """Whether a prox is one piecewise linear-quadratic block, taken as it is."""
    return len(blocks) == 1 and blocks[0].kind == Kind.SEPARABLE and blocks[0].flags in (0, 4)


def _is_clip(block: ProxBlock) -> bool:
    return block.kind == Kind.SEPARABLE and block.flags == 4


def _smooth_blocks(h: Function, p: int) -> list[ProxBlock]:
    """Blocks of h whose conjugate has a compiled gradient; otherwise one for the door."""
    if not h.conjugate.smooth:
        return []
    form = separable_form(h, p)
    if form is not None and form.mu > 0:
        return prox_blocks(h, p)
    return [ProxBlock(Kind.CALLBACK, 0, p, np.zeros(0), h)]


def _pack_matrices(
    agents: Sequence[Agent], p: int, door: Door, inbox: Array, outbox: Array
) -> tuple[Array, Array, Array, Array, Array]:
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
            door.open(APPLY, i, _handler(agent.apply, inbox, d, outbox, p))
            door.open(ADJOINT, i, _handler(agent.adjoint, inbox, p, outbox, d))
    cols = np.ascontiguousarray(np.vstack([np.zeros((0, p)), *dense]), dtype=np.float64)
    where = np.ascontiguousarray(np.vstack(place), dtype=np.int64)
    return kinds, where, cols, np.concatenate(values), np.concatenate(indices).astype(np.int64)


def _pack_smooth(
    agents: Sequence[Agent], xptr: Array, door: Door, inbox: Array, outbox: Array
) -> tuple[Array, Array, Array, Array, Array]:
    n = len(agents)
    fkind, fptr, fsize = np.zeros(n, np.int64), np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    fcoef = np.zeros((2, int(xptr[-1])))
    pool: list[Array] = []
    known: dict[tuple[int, int], SmoothForm | None] = {}
    for i, agent in enumerate(agents):
        key = (id(agent.f), agent.dim)
        if key not in known:
            known[key] = smooth_form(agent.f, agent.dim)
        form = known[key]
        fptr[i + 1] = fptr[i]
        if form is None:
            fkind[i] = CALLBACK_F
            door.open(GRAD_F, i, _handler(agent.f.grad, inbox, agent.dim, outbox, agent.dim))
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
    return fkind, fcoef, fptr, _nonempty(np.concatenate([np.zeros(0), *pool])), fsize


def _pack_easy(
    agents: Sequence[Agent], xptr: Array, akind: Array, fkind: Array, fcoef: Array,
    blocks: Sequence[Sequence[ProxBlock]],
) -> tuple[Array, Array]:  # fmt: skip
    """Agents whose f_i + g_i is separable and strongly convex: coordinates in closed form."""
    easy = np.zeros(len(agents), dtype=np.int64)
    coef = np.zeros((7, int(xptr[-1])))
    coef[0] = 1.0
    for i, agent in enumerate(agents):
        own = blocks[i]
        part = slice(xptr[i], xptr[i + 1])
        if not is_separable(own):
            continue
        coef[:, part] = own[0].params.reshape(7, agent.dim)
        coef[:2, part] += fcoef[:, part]
        plain = akind[i] == DENSE_A and fkind[i] == SIMPLE_F
        easy[i] = int(plain and np.all(coef[0, part] > 0))
    return easy, coef


def _pack_blocks(
    owners: Sequence[Sequence[ProxBlock]], what: int, door: Door, inbox: Array, outbox: Array
) -> tuple[Array, Array]:
    """Rows (kind, flags, start, size, first parameter, end of parameters) and their pool."""
    table: list[tuple[int, ...]] = []
    pool: list[Array] = []
    used = 0
    for blocks in owners:
        start = 0
        for block in blocks:
            if block.kind == CALLBACK_KIND:
                handler = _block_handler(what, block, inbox, outbox)
                door.open(what, len(table), handler)
            end = used + block.params.size
            table.append((int(block.kind), block.flags, start, block.size, used, end))
            pool.append(block.params)
            start, used = start + block.size, end
    rows = np.array(table, dtype=np.int64).reshape(-1, 6)
    return rows, _nonempty(np.concatenate([np.zeros(0), *pool]))


def _block_handler(what: int, block: ProxBlock, inbox: Array, outbox: Array) -> Callable[[], None]:
    """Handler for a prox (the step is the inbox's last entry) or for the gradient of h*."""
    size, function = block.size, block.function
    if what == GRAD_H:
        return _handler(function.conjugate.grad, inbox, size, outbox, size)

    def prox() -> None:
        outbox[:size] = function.prox(inbox[:size].copy(), float(inbox[-1]))

    return prox


def _handler(
    function: Callable[[Array], Array], inbox: Array, taken: int, outbox: Array, given: int
) -> Callable[[], None]:
    def answer() -> None:
        outbox[:given] = function(inbox[:taken].copy())

    return answer


def _nonempty(array: Array) -> Array:
    """A contiguous float64 array of at least one entry."""
    out = np.ascontiguousarray(array, dtype=np.float64)
    return out if out.size else np.zeros(1)
