"""What the progress bar shows before the first round: kernels compile, or the run starts."""

import pytest

from dual2.compiling import WATCHER
from dual2.solving.progress import Bar, StageColumn


def shown(bar: Bar) -> str:
    """The text of the stage."""
    column = next(one for one in bar._progress.columns if isinstance(one, StageColumn))
    return column.render(bar._progress.tasks[0]).plain


def test_a_bar_that_waits_for_kernels_says_so(monkeypatch):
    bar = Bar("iD2A", 1e-8)
    assert shown(bar) == "starting"
    monkeypatch.setattr(WATCHER, "_depth", 1)
    assert shown(bar) == "compiling kernels"


@pytest.mark.parametrize("rounds, kkt, text", [(7, 0.25, "7 rounds, residual 2.50e-01")])
def test_a_bar_shows_rounds_and_residual(rounds, kkt, text):
    bar = Bar("iD2A", 1e-8)
    bar.update(rounds, kkt)
    assert shown(bar) == text
