"""Convergence figures."""

from types import SimpleNamespace

import numpy as np
import pytest

from dual2.errors import Dual2Error
from dual2.solving.plotting import plot_trace


def run(last=1000, **more):
    spent = np.linspace(0, last, 50)
    trace = dict.fromkeys(("rounds", "grad_f", "prox_g", "A", "AT", "prox_h"), spent)
    trace |= {"agree_rounds": 0.1 * spent}
    return SimpleNamespace(trace=trace | {"kkt": 10 ** (-8 * spent / last)} | more)


def test_axes_add_up_the_oracles():
    figure = plot_trace(run())
    ends = [panel.lines[0].get_xdata()[-1] for panel in figure.axes]
    assert ends == [2000, 3000, 1000, 1100]
    assert {panel.get_yscale() for panel in figure.axes} == {"log"}
    assert {panel.get_xscale() for panel in figure.axes} == {"linear"}
    assert figure.axes[0].get_ylabel() == "relative KKT residual"
    assert not figure.legends


def test_several_curves_far_apart():
    gap = {"gap": np.geomspace(1, 1e-9, 50)}
    figure = plot_trace({"fast": run(10, **gap), "slow": run(1e6, **gap)}, title="Both")
    assert figure.axes[2].get_xscale() == "log"
    assert figure.axes[0].get_ylabel().startswith("relative gap")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fast", "slow"]
    assert figure.get_suptitle() == "Both"


def test_zero_and_missing_values_are_left_out():
    figure = plot_trace(run(kkt=np.r_[np.nan, 0.0, np.ones(48)]))
    assert len(figure.axes[0].lines[0].get_xdata()) == 48


@pytest.mark.parametrize("suffix, start", [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_files(tmp_path, suffix, start):
    path = tmp_path / f"figure.{suffix}"
    plot_trace(run(), path)
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_errors():
    with pytest.raises(Dual2Error, match="empty"):
        plot_trace({})
    with pytest.raises(Dual2Error, match=r"no column 'grad_f'.*record=True"):
        plot_trace(SimpleNamespace(trace={"rounds": [1], "kkt": [1]}))
