"""Costs as the report's tables write them."""

from dual2.experiments.costs import rows_at_gap
from dual2.experiments.store import StoredRun
from dual2.solving.report.curves import AXES, spent


def costs_at(run: StoredRun, target: float, measure: str) -> dict[str, float | str | None]:
    """What was spent, of each kind, until the target was met for good; None where never."""
    stays = rows_at_gap(run.trace, target, measure)[1] if run.trace else None
    if stays is None:
        return dict.fromkeys(AXES)
    costs: dict[str, float | str | None] = {axis: spent(stays, axis) for axis in AXES}
    return costs | {"seconds": f"{stays['seconds']:.2g}"}
