"""The two messages of an iteration, and step lengths as counts, so that a minimum is a sum."""

from functools import lru_cache

import numpy as np

from dual2.methods.interior_point.schema import Schema
from dual2.methods.message import REQUESTS

Array = np.ndarray
LEVELS = np.concatenate(
    [
        [1.0, 0.9999, 0.999, 0.998, 0.995],
        np.linspace(0.99, 0.7, 30),
        np.linspace(0.68, 0.2, 25),
        0.2 * 0.85 ** np.arange(1.0, 31.0),
        1e-3 * 0.5 ** np.arange(20.0),
        [0.0],
    ]
)
"""Step lengths between which a minimum is agreed on, from the longest to none."""
SCALARS = (
    "vHv", "qv", "gz", "sz", "magnitude_quadratic", "magnitude_linear", "v_rd", "support", "rd2",
    "force2", "rd2_user", "force2_user", "rs2", "size2", "outward2", "Hv2", "ray2", "v2", "z2",
    "first", "scalar_affine",
)  # fmt: skip
"""Numbers of the first exchange, one per agent."""


@lru_cache(maxsize=16)
def header() -> Schema:
    """What begins every message: how many agents allow each level, requests."""
    return Schema({"levels": len(LEVELS), "requests": REQUESTS})


@lru_cache(maxsize=4)
def linearised(p: int, entries: int) -> Schema:
    """One candidate of the first exchange, with so many entries of S."""
    vectors = {name: p for name in ("product", "load", "AMu", "AMt", "AM_affine")}
    return Schema({"refused": 1, "schur": entries} | vectors | dict.fromkeys(SCALARS, 1))


@lru_cache(maxsize=4)
def corrections(p: int) -> Schema:
    """The second exchange: right-hand sides at the target and per unit of σ, divisor."""
    return Schema(
        {"AM_target": p, "AM_centre": p, "scalar_target": 1, "scalar_centre": 1, "divisor": 1}
    )


def level_of(lengths: Array) -> Array:
    """Place of the longest level that is not above each length."""
    return np.searchsorted(-LEVELS, -np.minimum(lengths, 1.0), side="left").clip(
        max=len(LEVELS) - 1
    )


def mark_levels(lengths: Array) -> Array:
    """A row per agent with 1 at its level.

    Examples
    --------
    >>> float(shortest(mark_levels(np.array([0.5, 2.0])).sum(axis=0)))
    0.5
    """
    rows = np.zeros((len(lengths), len(LEVELS)))
    rows[np.arange(len(lengths)), level_of(lengths)] = 1.0
    return rows


def shortest(counts: Array) -> float:
    """The shortest level that some agent has marked."""
    marked = np.flatnonzero(counts > 0.5)
    return float(LEVELS[marked[-1]]) if marked.size else 1.0
