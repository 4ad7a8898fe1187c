"""Groups of agents in standard form, and the public block of h.

Agents with diagonal curvature and no rows of their own are computed together, padded to a width
that depends on the agent alone, so that its numbers have the same bits in any group.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from dual2.conic.block import Block, limits_of, single_block
from dual2.conic.couplings import (
    Coupling,
    DenseCoupling,
    SparseCoupling,
    coupling_of,
)
from dual2.conic.standard_form import StandardForm, standard_form
from dual2.functions import Function, PiecewiseQuadratic
from dual2.problem import Problem
from dual2.problem.groups import Forms, Group
from dual2.problem.matrices import Shared

Array = np.ndarray
MOST_NUMBERS = 2_000_000
"""Numbers in the dense columns of a group."""
LEAST_SPARSE, SPARSE_SHARE = 1_000, 0.25
"""Entries from which columns may be computed with as sparse ones, and the share that is not 0."""
MOST_PADDED = 2_000
"""Variables of an agent up to which it is computed together with others."""


class Member(NamedTuple):
    """Agents in standard form: their places, columns, and form of all in one.

    Columns are (agents, p, d), or of one agent sparse (p, d).
    """

    places: Array
    A: Any
    form: StandardForm
    dim: int


def padded_width(n: int) -> int:
    """The next of the widths 1, 2, …, 8, 10, 12, 14, 16, 20, 24, … by which members are padded.

    Examples
    --------
    >>> [padded_width(n) for n in (1, 5, 9, 17)]
    [1, 5, 10, 20]
    """
    step = 1 << max(n.bit_length() - 3, 0)
    return -(-n // step) * step


def has_blocks(function: Function, dim: int) -> bool:
    """Whether a function has a block form."""
    if function.form is not None:
        return True
    return function.blocks(dim) is not None


def private_blocks(problem: Problem, active: Array) -> list[Block]:
    """The agents of this process in groups; of the coupling the ``active`` rows."""
    together: dict[tuple[int, bool], list[Member]] = defaultdict(list)
    blocks = []
    for group in problem.groups:
        for member in _members(problem, group):
            if _simple(member):
                together[padded_width(_widest(member)), sp.issparse(member.A)].append(member)
            else:
                blocks.append(_single(member, active))
    for (width, sparse), members in sorted(together.items()):
        for part in _cut(members, width, len(active)):
            blocks.append(_joined(part, width, active, sparse))
    return blocks


def public_block(h: Function, p: int) -> tuple[Block, Array, Array]:
    """The block of h, its offset, and the rows that it does not leave free."""
    found = h.blocks(p) if h.form is None else _blocks_of(h.form.broadcast(p), p)
    assert found is not None, "planned for functions in block form"
    form = standard_form([found])
    active = np.flatnonzero(~_free_rows(form))
    A = coupling_of(sp.csr_array(-form.P[active]))
    return single_block(np.zeros(0, np.int64), A, form), form.offset[active], active


def _free_rows(form: StandardForm) -> Array:
    """Rows of h that cost nothing anywhere."""
    if form.smooth or form.H.ndim > 1 or len(form.rows.rhs):
        return np.zeros(len(form.offset), bool)
    dear = np.isfinite(form.lower) | np.isfinite(form.upper) | (form.H != 0) | (form.q != 0)
    return (np.diff(form.P.indptr) > 0) & (form.P @ dear.astype(float) == 0)


# -- members -----------------------------------------------------------------------------------
def _members(problem: Problem, group: Group) -> list[Member]:
    """A group whose functions split by coordinate as one, any others agent by agent."""
    f, g, d = group.f, group.g, group.dim
    if isinstance(f, Forms) and isinstance(g, Forms) and not isinstance(group.A, Shared):
        if not any(_has_sparse_columns(problem.agents[i].A) for i in group.at.tolist()):
            parts = [_blocks_of(_flat(one), len(group.at) * d) for one in (f, g)]
            A = np.array([problem.agents[i].A for i in group.at.tolist()])
            return [Member(group.at, A, standard_form(parts), d)]
    return [_member(problem.agents[i], i) for i in group.at.tolist()]


def _member(agent: Any, place: int) -> Member:
    d, A = agent.dim, agent.A
    parts = [
        _blocks_of(one.form.broadcast(d), d) if one.form is not None else one.blocks(d)
        for one in (agent.f, agent.g)
    ]
    if isinstance(A, LinearOperator):
        A = A @ np.eye(d)
    A = sp.csr_array(A) if _has_sparse_columns(A) else np.asarray(A, dtype=float)[None]
    return Member(np.array([place]), A, standard_form(parts), d)


def _has_sparse_columns(A: Any) -> bool:
    """Whether an agent's columns are computed with as sparse ones."""
    if sp.issparse(A) or isinstance(A, LinearOperator):
        return sp.issparse(A)
    A = np.asarray(A)
    return A.size >= LEAST_SPARSE and np.count_nonzero(A) <= SPARSE_SHARE * A.size


def _flat(forms: Forms) -> PiecewiseQuadratic:
    """Functions of several agents as one of all their coordinates."""
    shape = forms.shape
    values = {f.name: getattr(forms.form, f.name) for f in fields(PiecewiseQuadratic)}
    return PiecewiseQuadratic(
        **{k: np.array(np.broadcast_to(v, shape)).ravel() for k, v in values.items()}
    )


def _blocks_of(form: PiecewiseQuadratic, d: int) -> Any:
    return form.blocks(d)


def _simple(member: Member) -> bool:
    """Whether it can be computed together with others."""
    form = member.form
    plain = (
        not form.smooth and not len(form.rows.rhs) and not sp.issparse(form.H) and form.H.ndim == 1
    )
    return plain and _widest(member) <= MOST_PADDED


def _owners(member: Member) -> Array:
    """To which agent of the member each w belongs."""
    owner = np.zeros(member.form.n, np.int64)
    rows = np.repeat(np.arange(len(member.form.offset)), np.diff(member.form.P.indptr))
    owner[member.form.P.indices] = rows // member.dim
    return owner


def _widest(member: Member) -> int:
    counts = np.bincount(_owners(member), minlength=len(member.places))
    return max(int(counts.max(initial=0)), 1)


def _cut(members: Sequence[Member], width: int, p: int) -> list[list[Member]]:
    """Members in groups of limited size."""
    parts: list[list[Member]] = [[]]
    size = 0
    for member in members:
        own = len(member.places) * width * max(p, 1)
        if parts[-1] and size + own > MOST_NUMBERS:
            parts.append([])
            size = 0
        parts[-1].append(member)
        size += own
    return parts


# -- blocks ------------------------------------------------------------------------------------
def _joined(members: Sequence[Member], width: int, active: Array, sparse: bool) -> Block:
    """One group of all agents of these members."""
    count = sum(len(member.places) for member in members)
    H, q = np.zeros((count, width)), np.zeros((count, width))  # padding must not set the units
    lower, upper = np.full((count, width), -np.inf), np.full((count, width), np.inf)
    A = np.zeros((0 if sparse else count, len(active), width))
    maps, offsets, columns, first = [], [], [], 0
    for member in members:
        form, m, owner = member.form, len(member.places), _owners(member)
        slot = np.arange(form.n) - np.searchsorted(owner, owner)
        rows = first + owner
        H[rows, slot], q[rows, slot] = form.H, form.q
        lower[rows, slot], upper[rows, slot] = form.lower, form.upper
        coordinate = np.zeros(form.n, np.int64)
        coordinate[form.P.indices] = np.repeat(np.arange(m * member.dim), np.diff(form.P.indptr))
        if sparse:
            own = sp.coo_array(sp.csr_array(member.A[active].T)[coordinate])
            columns.append((own.data, (rows * width + slot)[own.coords[0]], own.coords[1]))
        else:
            A[rows, :, slot] = member.A[owner, :, coordinate % member.dim][:, active]
        place = sp.csr_array(
            (np.ones(form.n), (coordinate, owner * width + slot)), shape=(m * member.dim, m * width)
        )
        maps.append(place)
        offsets.append(form.offset)
        first += m
    places = np.concatenate([member.places for member in members])
    expansion = sp.csr_array(sp.block_diag(maps, format="csr"))
    g, bounded = limits_of(lower, upper)
    joint: Coupling = DenseCoupling(A)
    if sparse:
        data, at, row = (np.concatenate(part) for part in zip(*columns, strict=True))
        shape = (count * width, len(active))
        joint = SparseCoupling(sp.csr_array((data, (at, row)), shape=shape), count)
    return Block(
        places=places,
        A=joint,
        H=H,
        q=q,
        g=g,
        bounded=bounded,
        rows=None,
        columns=np.ones_like(q),
        expansion=expansion,
        offset=np.concatenate(offsets),
    )


def _single(member: Member, active: Array) -> Block:
    """An agent of its own."""
    A, P = member.A, member.form.P
    if sp.issparse(A):
        return single_block(member.places, coupling_of((A @ P)[active]), member.form)
    return single_block(member.places, coupling_of((P.T @ A[0][active].T).T), member.form)
