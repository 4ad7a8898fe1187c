"""Units in which rows, columns and costs have size 1.

Ruiz equilibration (Ruiz 2001) in its maximum norm: rows by one agreed maximum per round, columns
and private rows by each agent alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dual2.methods.interior_point.block import SCALES, Block

if TYPE_CHECKING:
    from dual2.methods.interior_point.agents import Agents

Array = np.ndarray
ROUNDS = 4
"""Rounds of equilibration."""
COSTS = 1e-8, 1e8
"""Within which the objective is scaled."""


class Units(NamedTuple):
    """What the set-up agrees on.

    ``factors`` of the rows in every round, the objective's ``cost_scale``, the right-hand side
    ``b`` in these units, and ``pairs``, the complementarity pairs of all agents; whether somebody
    has smooth terms (``curved``) or second-order ``cones``.
    """

    factors: Array
    cost_scale: float
    b: Array
    pairs: float
    curved: bool
    cones: bool


def agree_on_units(agents: Agents) -> tuple[Units, list[Block]]:
    """Four maxima and a sum; the units and the blocks in them."""
    p, blocks, factors = agents.p, agents.plain, []
    scales, sizes = np.ones(p), np.zeros(p + 1)
    for _ in range(ROUNDS):
        sizes = _largest_in_rows(agents, blocks)
        root = np.sqrt(np.where(sizes[:p] > 0, sizes[:p], 1.0))
        wanted = np.clip(scales / root, *SCALES)
        factors.append(wanted / scales)
        scales = wanted
        blocks = [block.equilibrated(factors[-1]) for block in blocks]
    cost = float(np.clip(1.0 / sizes[p], *COSTS)) if sizes[p] > 0 else 1.0
    blocks = [block.with_cost(cost) for block in blocks]
    total = agents.runtime.allreduce_filled(p + 3, _fill_offsets(agents))
    agents.sums += 1
    pairs, curved, cones = total[p:] + _traits(blocks[-1]).sum(axis=0)
    b = (agents.h_offset - total[:p]) * scales
    return Units(np.array(factors), cost, b, float(pairs), curved > 0, cones > 0), blocks


def _largest_in_rows(agents: Agents, blocks: list[Block]) -> Array:
    """Largest entry of every row over all agents and h, and the largest cost."""
    rows = np.zeros((agents.runtime.n, agents.p + 1))
    for block in blocks[:-1]:
        rows[block.places, :-1] = block.A.largest_in_rows()
        rows[block.places, -1] = block.largest_cost()
    own = np.append(blocks[-1].A.largest_in_rows()[0], blocks[-1].largest_cost())
    return np.maximum(agents.runtime.allreduce_max(rows), own)


def _fill_offsets(agents: Agents) -> Callable[[Array, Array], None]:
    """A_i x_i at v = 0 of each agent, and its :func:`_traits`."""
    rows = np.zeros((agents.runtime.n, agents.p + 3))
    x = agents.x([np.zeros_like(block.q) for block in agents.plain])
    if x.any():
        rows[:, :-3] = agents.runtime.products(x)[:, agents.active]
    for block in agents.plain[:-1]:
        rows[block.places, -3:] = _traits(block)

    def fill(at: Array, out: Array) -> None:
        out[:] = rows[at]

    return fill


def _traits(block: Block) -> Array:
    """Of each agent: pairs, whether it has smooth terms, whether it has cones."""
    cones = block.rows is not None and len(block.rows.cones) > 0
    found = np.empty((len(block.q), 3))
    found[:, 0], found[:, 1:] = block.counts, (len(block.smooth) > 0, cones)
    return found
