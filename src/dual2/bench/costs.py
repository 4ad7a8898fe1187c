"""What a run had spent when the gap met a target."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dual2.solving.report.curves import AXES

TARGETS = (1e-2, 1e-4, 1e-6, 1e-8)
"""Relative gaps at which costs are read off."""

LOCAL, COUPLING = AXES["local"][0], AXES["coupling"][0]
"""Columns of the calls of an agent on its own, and of those that touch the coupling."""

Row = dict[str, float]


def rows_at_gap(
    trace: Mapping[str, Any], target: float, measure: str = "gap"
) -> tuple[Row | None, Row | None]:
    """First row of a trace with a gap of at most ``target``, and the one from which it stays.

    Examples
    --------
    >>> rows_at_gap({"rounds": [1, 10, 20, 40], "gap": [1.0, 1e-9, 1e-7, 1e-8]}, 1e-8)
    ({'rounds': 10.0, 'gap': 1e-09}, {'rounds': 40.0, 'gap': 1e-08})
    """
    met = np.asarray(trace[measure]) <= target
    last_miss = np.flatnonzero(~met).max(initial=-1)
    rows = (int(np.argmax(met)) if met.any() else len(met), int(last_miss) + 1)
    first, stays = (
        {name: float(column[row]) for name, column in trace.items()} if row < len(met) else None
        for row in rows
    )
    return first, stays
