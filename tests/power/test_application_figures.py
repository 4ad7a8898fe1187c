"""Figures of dispatch and control show limits, references and the prices that units see."""

import networkx as nx
import numpy as np
import pytest

from dual2 import mpc, power

pytest.importorskip("matplotlib", reason="figures need matplotlib")


def heights(panel, label):
    """y values of the lines with a label, the first of which has it."""
    lines = [line for line in panel.lines if line.get_linestyle() == label]
    return sorted({float(y) for line in lines for y in np.unique(line.get_ydata())})


def room(name, x_ref=1.0):
    return mpc.Subsystem(name, A=[[0.9]], B=[[0.5]], Q=1.0, R=0.1, u_min=0.0, u_max=0.6,
                         x_min=-50.0, x_max=1.2, resource=[[1.0]], x_ref=x_ref)  # fmt: skip


def test_a_closed_loop_is_drawn_with_its_references_and_limits():
    controller = mpc.Controller([room("a"), room("b", 0.5)], 5, 0.9, nx.path_graph(2))
    states, inputs, shared, _ = controller.simulate([[0.0], [0.0]], 6).plot().axes
    assert heights(states, ":") == [0.5, 1.0]
    assert heights(states, "--") == [1.2]  # that of -50 would flatten the curves
    assert heights(inputs, "--") == [0.0, 0.6]
    assert shared.get_ylim()[0] == 0.0 and shared.get_ylim()[1] > 0.9


def test_many_references_are_not_drawn():
    rooms = [room(f"room {k}", 0.1 * k) for k in range(9)]
    controller = mpc.Controller(rooms, 3, 9.0, nx.path_graph(9))
    states, *_ = controller.simulate([[0.0]] * 9, 2).plot().axes
    assert heights(states, ":") == []


def test_units_are_drawn_with_the_price_of_their_bus():
    units = [
        power.Generator("cheap", cost=(0.01, 10.0), p_max=200.0, bus="a"),
        power.Generator("dear", cost=(0.01, 30.0), p_max=200.0, bus="b"),
    ]
    grid = power.Grid([power.Line("a", "b", 500.0, rating=60.0)])
    answer = power.Dispatch(units, {"b": 150.0}, grid=grid).solve()
    _, costs = answer.plot().axes
    drawn = [float(part[0, 1]) for line in costs.collections for part in line.get_segments()]
    seen = [answer.bus_price(bus)[0] for bus in ("a", "b")]
    assert abs(seen[0] - seen[1]) > 10.0
    np.testing.assert_allclose(drawn, seen)


def test_stored_energy_has_the_colour_of_its_storage_and_its_limits():
    units = [
        power.Generator("gas", cost=(0.05, 10.0), p_max=200.0),
        power.Storage("battery", (0.0, 0.0), 20.0, -20.0, energy=(5.0, 60.0), initial=30.0),
    ]
    answer = power.Dispatch(units, [50.0, 80.0, 120.0], graph=[("gas", "battery")]).solve()
    schedule, stored, _ = answer.plot().axes
    fills = {patch.get_label(): patch.get_facecolor()[:3] for patch in schedule.patches}
    from matplotlib.colors import to_rgb

    curve = next(line for line in stored.lines if line.get_label() == "battery")
    assert to_rgb(curve.get_color()) == pytest.approx(fills["battery"])
    assert heights(stored, "--") == [5.0, 60.0]
