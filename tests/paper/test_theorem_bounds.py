"""Theorems 2 and 3 beside runs: the bounds hold, fall as printed, and a wrong one is noticed."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.commands.reproduce import _draw_bounds
from dual2.errors import CapabilityError
from dual2.paper.theorem_bounds import BoundedRun, bounded_run, bounds_figure
from dual2.reference import solve_reference

NETWORK = d2.Network(nx.path_graph(4))


def problem(h=None, mus=(1.0, 2.0, 5.0, 1.5)):
    rng = np.random.default_rng(3)
    agents = [d2.Agent(rng.standard_normal((2, 2)), d2.SquaredNorm(mu)) for mu in mus]
    return d2.Problem(agents, h or d2.SquaredLoss([3.0, -1.0]))


@pytest.fixture(scope="module", params=["iD2A", "MiD2A"])
def run(request):
    made = problem()
    solution = solve_reference(made).x
    return bounded_run(made, NETWORK, solution, request.param, target=1e-6)


def test_no_iterate_is_farther_than_the_theorems_allow(run):
    assert run.violations == (0, 0)
    assert run.measured[-1] < 1e-8 * run.measured[0]
    assert "exceeded at 0, that of Theorem 3 at 0" in str(run)


def test_the_bound_of_theorem_3_falls_by_theta(run):
    """θ = 1 - 1/(c√κ_F), κ_F = 2κ_C, or 2κ(P_K(C)) for MiD2A."""
    network = NETWORK if run.method.startswith("iD2A") else NETWORK.chebyshev()
    theta = 1 - 1 / (1.5 * np.sqrt(2 * network.kappa))
    np.testing.assert_allclose(run.theorem_3[1:] / run.theorem_3[:-1], theta, rtol=1e-9)
    assert np.all(run.theorem_2 <= run.theorem_3 * (1 + 1e-9))


def test_a_bound_that_is_too_small_is_counted(run):
    wrong = replace(run, theorem_2=0.5 * run.measured, theorem_3=run.measured)
    assert wrong.violations == (len(run.measured), 0)


def test_the_general_convex_case_is_refused():
    made = problem(d2.IndicatorAtMost([1.0, 1.0]))
    with pytest.raises(CapabilityError, match="need a strongly convex F_ρ"):
        bounded_run(made, NETWORK, [np.zeros(2)] * 4)


def test_a_panel_for_each_run():
    line = np.array([1.0, 0.5])
    runs = [BoundedRun(name, line, 2 * line, 3 * line) for name in ("iD2A", "MiD2A")]
    figure = bounds_figure(runs, "title")
    assert [panel.get_title() for panel in figure.axes] == ["iD2A", "MiD2A"]
    assert [len(panel.get_lines()) for panel in figure.axes] == [3, 3]


def test_other_experiments_have_no_such_figure(tmp_path, capsys):
    _draw_bounds("exp2", tmp_path)
    assert "only Experiment I has" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
