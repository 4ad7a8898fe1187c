"""Lowering: user objects become the arrays that the compiled loops read.

A :class:`Block` holds everything that kernels (:mod:`dual2.compiled`) read of the owned agents
(rows). What has no compiled kernel (a user's Python function, a LinearOperator) is reached through
its callbacks. Functions that split by coordinate are written group by group, see
:mod:`dual2.problem.groups`; only others are asked one by one. A matrix that several agents share is
stored once.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dual2.engine.callbacks import (
    ADJOINT,
    APPLY,
    GRAD_F,
    GRAD_H,
    PROX,
    PROX_G,
    PROX_H,
    Call,
    Callbacks,
    Calls,
)
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
from dual2.functions.kernels import KINKLESS, prox_block, prox_separable
from dual2.functions.lowering import (
    PARAMETERS,
    KernelKind,
    ProxBlock,
    SmoothForm,
    prox_blocks,
    smooth_form,
)
from dual2.problem import Agent, Problem
from dual2.problem.groups import Forms, Group

Array = np.ndarray
Parts = dict[str, Array]
"""Fields of a block by name."""
SPARSE_BELOW = 0.15
"""Density under which a matrix of few entries is kept sparse."""


class PackedBlock(NamedTuple):
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
    prox: int
    """How the compiled proxes are called."""


DATA = slice(0, PackedBlock._fields.index("inbox"))
"""The fields of a block that say what the problem is."""
MATRICES = ("xptr", "akind", "place", "cols", "sval", "sidx")
"""Those that say what the A_i are."""


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
    callbacks : Callbacks or None
        The Python functions that the kernels call, if there are any.
    """

    block: PackedBlock
    clip: bool
    smooth: Function
    callbacks: Callbacks | None

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
    def work(self) -> float:
        """Multiply-adds of one iteration, roughly."""
        b = self.block
        return float(2 * (b.cols.size + b.sval.size) + 12 * self.n * self.p + 2 * b.fpool.size)


def pack(problem: Problem, smooth: Function | None = None) -> Packed:
    """Lower a problem to arrays; ``smooth`` replaces h* where a gradient is taken."""
    agents, p, groups = problem.agents, problem.p, problem.groups
    dims = np.array(problem.dims, dtype=np.int64)
    xptr = np.concatenate([[0], np.cumsum(dims)]).astype(np.int64)
    star, calls = problem.dual_term, []
    primal = star.primal if smooth is None else smooth.conjugate
    smooth = smooth or star.function
    by_gradient = _smooth_blocks(primal, p) if smooth.smooth else []
    dual = prox_blocks(star.function, p)
    parts = {"xptr": xptr} | pack_matrices(agents, p, calls)
    parts |= pack_smooth(agents, groups, xptr, calls)
    parts |= pack_proximable(agents, groups, parts, calls)
    parts |= _pack_blocks("h", dual, PROX_H, calls)
    parts |= _pack_blocks("s", by_gradient, GRAD_H, calls)
    parts |= {"lip": problem.sizes.L, "mu": problem.sizes.mu, "sigma": np.sqrt(problem.sigma.max2)}
    width = int(max(p, dims.max(), 1)) + 1
    callbacks = Callbacks(width, calls) if calls else None
    parts["inbox"], parts["outbox"] = np.zeros((2, width))
    if callbacks is not None:
        parts |= {"inbox": callbacks.inbox, "outbox": callbacks.outbox}
    address = callbacks.address if callbacks else 0
    kinds = {*parts["gtab"][:, 0].tolist(), *parts["htab"][:, 0].tolist()}
    plain = kinds <= {KernelKind.SEPARABLE, KernelKind.CALLBACK}
    block = PackedBlock(**parts, address=address, prox=_prox_address(plain))
    return Packed(block, len(dual) == 1 and _is_clip(dual[0]), smooth, callbacks)


@functools.cache
def _prox_address(separable: bool) -> int:
    """Where the prox kernel of all kinds of blocks, or of SEPARABLE ones, is in this process.

    That of all kinds takes five times as long to compile.
    """
    kernel = prox_separable if separable else prox_block
    kernel.compile(PROX)
    found = kernel.overloads[PROX.args]
    return found.library.get_pointer_to_function(found.fndesc.llvm_func_name)


def is_separable(blocks: Sequence[ProxBlock]) -> bool:
    """Whether a prox is one piecewise linear-quadratic block, taken as it is."""
    return len(blocks) == 1 and blocks[0].kind == KernelKind.SEPARABLE and blocks[0].flags in (0, 4)


def _is_clip(block: ProxBlock) -> bool:
    return block.kind == KernelKind.SEPARABLE and block.flags == 4


def _smooth_blocks(h: Function, p: int) -> list[ProxBlock]:
    """Blocks of h whose conjugate has a compiled gradient; otherwise a callback."""
    if h.form is not None and h.form.mu > 0:
        return prox_blocks(h, p)
    return [ProxBlock(KernelKind.CALLBACK, 0, p, np.zeros(0), h)]


def _pack_blocks(name: str, blocks: Sequence[ProxBlock], what: int, calls: Calls) -> Parts:
    """The table of a public function's blocks, and their parameters."""
    table = np.zeros((len(blocks), 6), np.int64)
    pool = nonempty(np.zeros(sum(block.params.size for block in blocks)))
    write_blocks(blocks, (table, 0), (pool, 0), what, calls)
    return {f"{name}tab": table, f"{name}par": pool}


# -- agents --------------------------------------------------------------------------------------


def pack_matrices(agents: Sequence[Agent], p: int, calls: Calls) -> Parts:
    """The A_i, each distinct one once; see :class:`dual2.engine.pack.Block`."""
    known: dict[int, tuple[int, Array]] = {}
    dense, values, indices = [np.zeros((0, p))], [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    rows = entries = 0
    for i, agent in enumerate(agents):
        matrix, d = agent.A, agent.A.shape[1]
        if id(matrix) in known and known[id(matrix)][0] != OPERATOR_A:
            continue
        if sp.issparse(matrix) and matrix.nnz >= SPARSE_BELOW * p * d:
            matrix = matrix.toarray()
        if isinstance(matrix, np.ndarray):
            dense.append(matrix.T)
            place = np.column_stack([np.arange(rows, rows + d), np.zeros(d, dtype=np.int64)])
            kind, rows = DENSE_A, rows + d
        elif sp.issparse(matrix):
            csc = sp.csc_array(matrix)
            kind, place = SPARSE_A, entries + np.column_stack([csc.indptr[:-1], csc.indptr[1:]])
            values.append(csc.data)
            indices.append(csc.indices)
            entries += csc.nnz
        else:
            kind, place = OPERATOR_A, np.zeros((d, 2), dtype=np.int64)
            calls.append(Call(APPLY, i, agent.apply, d, p))
            calls.append(Call(ADJOINT, i, agent.adjoint, p, d))
        known[id(agent.A)] = kind, place
    found = [known[id(agent.A)] for agent in agents]
    cols = np.ascontiguousarray(np.vstack(dense), dtype=np.float64)
    where = np.ascontiguousarray(np.concatenate([place for _, place in found]), dtype=np.int64)
    sval, sidx = np.concatenate(values), np.concatenate(indices).astype(np.int64)
    kinds = np.array([kind for kind, _ in found], dtype=np.int64)
    return {"akind": kinds, "place": where, "cols": cols, "sval": sval, "sidx": sidx}


def _places(group: Group, first: Array) -> Array:
    """(k, d): where the variables of a group's agents are, each beginning at ``first``."""
    return first[group.at][:, None] + np.arange(group.dim)


def pack_smooth(
    agents: Sequence[Agent], groups: Sequence[Group], xptr: Array, calls: Calls
) -> Parts:
    """The f_i: diagonal and linear parts, then matrices of those that have any."""
    n, others = len(agents), []
    fkind, sizes, fsize = (np.zeros(n, np.int64) for _ in range(3))
    fcoef = np.zeros((2, int(xptr[-1])))
    for group in groups:
        if isinstance(group.f, Forms):
            own = _places(group, xptr)
            fcoef[0, own], fcoef[1, own] = group.f.form.curvature, group.f.form.linear
        else:
            others += group.at.tolist()
    pool: list[Array] = [np.zeros(0)]
    known: dict[tuple[int, int], SmoothForm | None] = {}
    for i in sorted(others):
        agent = agents[i]
        key = id(agent.f), agent.dim
        form = known[key] if key in known else smooth_form(agent.f, agent.dim)
        known[key] = form
        if form is None:
            fkind[i] = CALLBACK_F
            calls.append(Call(GRAD_F, i, agent.f.grad, agent.dim, agent.dim))
            continue
        fcoef[:, xptr[i] : xptr[i + 1]] = form.diagonal, form.linear
        parts, fkind[i], fsize[i] = _coupled_parts(form)
        pool += parts
        sizes[i] = sum(part.size for part in parts)
    fptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    fpool = nonempty(np.concatenate(pool))
    return {"fkind": fkind, "fcoef": fcoef, "fptr": fptr, "fpool": fpool, "fsize": fsize}


def _coupled_parts(form: SmoothForm) -> tuple[list[Array], int, int]:
    """The matrices of a smooth function, of which kind it is, and rows of its logistic part."""
    parts, kind, rows = [], SIMPLE_F, 0
    if form.dense is not None:
        kind |= DENSE_F
        parts.append(form.dense.ravel())
    if form.M is not None:
        kind, rows = kind | LOGISTIC_F, form.M.shape[0]
        parts += [form.M.ravel(), form.offset, form.weight]
    return parts, kind, rows


def pack_proximable(
    agents: Sequence[Agent], groups: Sequence[Group], parts: Parts, calls: Calls
) -> Parts:
    """The g_i as blocks; with the diagonal of f_i, the coordinates of those that split."""
    n, xptr = len(agents), parts["xptr"]
    others = [i for g in groups if not isinstance(g.g, Forms) for i in g.at.tolist()]
    blocks = {i: prox_blocks(agents[i].g, agents[i].dim) for i in others}
    counts, sizes = np.ones(n, np.int64), PARAMETERS * np.diff(xptr)
    for i, own in blocks.items():
        counts[i], sizes[i] = len(own), sum(block.params.size for block in own)
    gptr, start = (np.concatenate([[0], np.cumsum(v)]).astype(np.int64) for v in (counts, sizes))
    gtab, gpar = np.zeros((gptr[-1], 6), np.int64), nonempty(np.zeros(start[-1]))
    for i, own in blocks.items():
        write_blocks(own, (gtab, int(gptr[i])), (gpar, int(start[i])), PROX_G, calls)
    coef, easy = np.zeros((PARAMETERS, int(xptr[-1]))), np.zeros(n, np.int64)
    coef[0] = 1.0
    plain = (parts["akind"] == DENSE_A) & (parts["fkind"] == SIMPLE_F)
    for group in groups:
        if isinstance(group.g, Forms):
            at, places = group.at, _places(group, xptr)
            gtab[gptr[at]] = _separable_rows(group.g, start[at])
            for k, column in enumerate(group.g.form.columns):
                gpar[_places(group, start + k * group.dim)] = coef[k, places] = column
            coef[:2, places] += parts["fcoef"][:, places]
            easy[at] = plain[at] & (coef[0, places] > 0).all(axis=1)
    return {"gptr": gptr, "gtab": gtab, "gpar": gpar, "coef": coef, "easy": easy}


def _separable_rows(forms: Forms, start: Array) -> Array:
    """Rows of ``gtab`` for functions that split by coordinate."""
    k, d = forms.shape
    kinked = np.not_equal(forms.form.slope_left, forms.form.slope_right)
    rows = np.zeros((k, 6), np.int64)
    rows[:, 0], rows[:, 3] = KernelKind.SEPARABLE, d
    rows[:, 1] = np.where(np.broadcast_to(kinked, (k, d)).any(axis=1), 0, KINKLESS)
    rows[:, 4], rows[:, 5] = start, start + PARAMETERS * d
    return rows


def write_blocks(
    blocks: Sequence[ProxBlock],
    table: tuple[Array, int],
    pool: tuple[Array, int],
    what: int,
    calls: Calls,
) -> None:
    """Rows (kind, flags, start, size, first parameter, end of parameters) and their parameters.

    ``table`` and ``pool`` are what is written to, and from which place on.
    """
    (rows, row), (numbers, used), start = table, pool, 0
    for block in blocks:
        if block.kind == KernelKind.CALLBACK and what == GRAD_H:
            gradient = block.function.conjugate.grad
            calls.append(Call(what, row, gradient, block.size, block.size))
        elif block.kind == KernelKind.CALLBACK:
            calls.append(Call(what, row, block.function.prox, block.size, block.size, True))
        end = used + block.params.size
        rows[row] = int(block.kind), block.flags, start, block.size, used, end
        numbers[used:end] = block.params
        row, start, used = row + 1, start + block.size, end


def nonempty(array: Array) -> Array:
    """A contiguous float64 array of at least one entry."""
    out = np.ascontiguousarray(array, dtype=np.float64)
    return out if out.size else np.zeros(1)
