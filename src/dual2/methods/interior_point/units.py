"""Units in which rows, columns and costs have size 1.

Ruiz equilibration (Ruiz 2001) in its maximum norm: rows by one agreed maximum per round, columns
and private rows by each agent alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dual2.conic.block import SCALES, Block
from dual2.conic.schur_pattern import (
    LEAST_ROWS,
    SchurPattern,
    triangle_counts,
)
from dual2.methods.interior_point.schur import SchurFactors

if TYPE_CHECKING:
    from dual2.methods.interior_point.agents import Agents

Array = np.ndarray
ROUNDS = 4
"""Rounds of equilibration."""
COSTS, LEAST_COST = (1e-8, 1e8), 1e-10
"""Within which the objective is scaled; part of the largest cost from which others count."""


class Units(NamedTuple):
    """What the set-up agrees on.

    ``factors`` of the rows in every round, the objective's ``cost_scale``, the right-hand side
    ``b`` in these units, and ``pairs``, the complementarity pairs of all agents; whether somebody
    has smooth terms (``curved``) or second-order ``cones``; which ``entries`` S has.
    """

    factors: Array
    cost_scale: float
    b: Array
    pairs: float
    curved: bool
    cones: bool
    entries: Array


def agree_on_units(agents: Agents) -> tuple[Units, list[Block], SchurFactors]:
    """Four maxima and a sum; the units, the blocks in them, and the factors of S."""
    p, blocks, factors = agents.p, agents.plain, []
    scales, sizes = np.ones(p), np.zeros(p + 2)
    for _ in range(ROUNDS):
        sizes = _largest_in_rows(agents, blocks)
        root = np.sqrt(np.where(sizes[:p] > 0, sizes[:p], 1.0))
        wanted = np.clip(scales / root, *SCALES)
        factors.append(wanted / scales)
        scales = wanted
        blocks = [block.equilibrated(factors[-1]) for block in blocks]
    cost = _cost_scale(largest=sizes[p], smallest=1.0 / sizes[p + 1] if sizes[p + 1] > 0 else 0.0)
    places = p * (p + 1) // 2 if p >= LEAST_ROWS else 0
    total = agents.runtime.allreduce_filled(p + 3 + places, _fill_offsets(agents, places))
    agents.sums += 1
    pairs, curved, cones = total[p : p + 3] + _traits(blocks[-1]).sum(axis=0)
    pattern = SchurPattern.full(p)
    if places:
        own = triangle_counts(agents.plain[-1].cliques())
        pattern = SchurPattern.of_counts(p, total[p + 3 :] + own)
    blocks = [block.final(cost, pattern) for block in blocks]
    b = (agents.h_offset - total[:p]) * scales
    units = Units(np.array(factors), cost, b, float(pairs), curved > 0, cones > 0, pattern.entries)
    return units, blocks, SchurFactors(pattern)


def _largest_in_rows(agents: Agents, blocks: list[Block]) -> Array:
    """Largest entry of every row over all agents, the largest cost, the inverse of the least.

    The entry 1 of h's slack counts where no agent has one: its column takes any unit, and a row of
    1e-9 must not look like one of size 1.
    """
    rows = np.zeros((agents.runtime.n, agents.p + 2))
    for block in blocks[:-1]:
        rows[block.places, :-2] = block.A.largest_in_rows()
        rows[block.places, -2:] = _extreme_costs(block)
    sizes, public = agents.runtime.allreduce_max(rows), blocks[-1]
    found = np.where(sizes[:-2] > 0, sizes[:-2], public.A.largest_in_rows()[0])
    return np.append(found, np.maximum(sizes[-2:], _extreme_costs(public)))


def _extreme_costs(block: Block) -> Array:
    """The largest cost, and the inverse of the least that is not 0."""
    least, largest = block.extreme_costs()
    return np.array([largest, 1.0 / least if least > 0 else 0.0])


def _cost_scale(largest: float, smallest: float) -> float:
    """The unit of the objective: between its largest and its smallest coefficients.

    Scaled by the largest alone, costs of 1e-11 would vanish beside the regularisation.
    """
    if not largest > 0:
        return 1.0
    middle = np.sqrt(largest * max(smallest, LEAST_COST * largest))
    return float(np.clip(1.0 / middle, *COSTS))


def _fill_offsets(agents: Agents, places: int) -> Callable[[Array, Array], None]:
    """A_i x_i at v = 0 of each agent, its :func:`_traits`, and which entries of S it has.

    The entries of a group are counted in the row of its first agent: sums of whole numbers are the
    same however agents are grouped.
    """
    p = agents.p
    rows = np.zeros((agents.runtime.n, p + 3))
    x = agents.x([np.zeros_like(block.q) for block in agents.plain])
    if x.any():
        rows[:, :-3] = agents.runtime.products(x)[:, agents.active]
    for block in agents.plain[:-1]:
        rows[block.places, -3:] = _traits(block)
    firsts = np.array([block.places[0] for block in agents.plain[:-1]], dtype=np.int64)

    def fill(at: Array, out: Array) -> None:
        out[:, : p + 3] = rows[at]
        if places:
            out[:, p + 3 :] = 0.0
            for k in np.flatnonzero(np.isin(firsts, at)).tolist():
                row = int(np.flatnonzero(at == firsts[k])[0])
                out[row, p + 3 :] = triangle_counts(agents.plain[k].cliques())

    return fill


def _traits(block: Block) -> Array:
    """Of each agent: pairs, whether it has smooth terms, whether it has cones."""
    cones = block.rows is not None and len(block.rows.cones) > 0
    found = np.empty((len(block.q), 3))
    found[:, 0], found[:, 1:] = block.counts, (len(block.smooth) > 0, cones)
    return found
