"""Experiment I: rounds to the solution, the printed rules, conservation."""

import numpy as np
import pytest

import dual2 as d2
from dual2.methods.gossip.id2a import Settings
from dual2.methods.registry import find_method
from dual2.paper.problems.elastic_net_regression import experiment1

pytestmark = pytest.mark.numerics

PROBLEM, NETWORK, REFERENCE = experiment1()


def first(result, level=1e-8):
    """The first row of the trace with a gap of at most ``level``."""
    row = int(np.argmax(result.trace["gap"] <= level))
    assert result.trace["gap"][row] <= level
    return {name: column[row] for name, column in result.trace.items()}


@pytest.mark.parametrize(
    "method, rounds, iterations, stopped",
    [("iD2A", 7_000, 7_000, 9_000), ("MiD2A", 40_000, 8_000, 50_000)],
)
def test_defaults(method, rounds, iterations, stopped):
    result = d2.solve(PROBLEM, NETWORK, method=method, reference=REFERENCE)
    assert result.status == "CONVERGED"
    assert result.certificate.kkt <= 1e-8
    assert result.counts.rounds <= stopped
    row = first(result)
    assert row["rounds"] <= rounds and row["iterations"] <= iterations
    assert result.counts.rounds == result.counts.iterations * result.parameters["rounds_per_mix"][0]
    error = np.linalg.norm(np.concatenate(result.x) - np.concatenate(REFERENCE))
    assert error <= result.certificate.x_error <= 1e-3


@pytest.mark.parametrize(
    "method, expected",
    [
        ("iD2A", {"outer": 228, "rounds": 30_913}),
        ("MiD2A", {"outer": 19, "iterations": 6_230, "rounds": 31_245}),
    ],
)
def test_printed_constants_and_schedule(method, expected):
    """First row of the published comparison (c = 2, e₁ from Remark 13 at zero), factor 1.5."""
    result = d2.solve(
        PROBLEM, NETWORK, method=method, reference=REFERENCE, constants="paper", accuracy="paper"
    )
    row = first(result)
    for name, count in expected.items():
        assert count / 1.5 <= row[name] <= 1.5 * count


def test_rho_zero():
    result = d2.solve(PROBLEM, NETWORK, rho=0, reference=REFERENCE, tol=1e-6, max_rounds=20_000)
    assert result.counts.rounds == result.counts.outer
    assert result.trace["gap"][-1] < 0.1 * result.trace["gap"][0]
    assert result.parameters["rho"] == (0.0, "given")


@pytest.mark.parametrize("method", ["iD2A", "MiD2A"])
def test_conservation(method):
    """After 10⁵ iterations Σz is still zero, and the gap has not risen again."""
    found = find_method(method)
    plan = found.plan(PROBLEM, NETWORK, Settings(method))
    x = np.concatenate(REFERENCE)
    plan.algorithm.start(np.zeros(9), np.zeros((8, 20)))
    gaps = []
    for tenth in range(1, 11):
        plan.algorithm.advance(tenth * 10_000 * plan.runtime.network.rounds, 600.0)
        gaps.append(float(np.linalg.norm(plan.algorithm.x - x) / np.linalg.norm(x)))
    z = plan.algorithm.state()["outer_z"]
    assert plan.algorithm.oracle_calls()["iterations"] == 100_000
    assert np.abs(z.sum(axis=0)).max() <= 5e-9 * np.abs(z).max()
    assert max(gaps[4:]) <= 1e-10


def test_conservation_through_solve():
    """The same through the public door: the state of a result holds z."""
    limits = {"tol": 0.0, "atol": 1e-300, "max_rounds": 100_000, "record": False}
    result = d2.solve(PROBLEM, NETWORK, method="iD2A", **limits)
    z = result.state["outer_z"]
    assert result.counts.rounds == 100_000
    assert np.abs(z.sum(axis=0)).max() <= 5e-9 * np.abs(z).max()
