"""Table I: who accepts what."""

import numpy as np
import pytest

import dual2 as d2
from dual2.theory import accepts
from dual2.theory.conditions import TABLE, is_bounded, is_indicator, is_point

STRONG = d2.SquaredNorm(1.0)
FLAT = d2.LogisticRegression(np.ones((2, 3)), [1.0, -1.0])
SQUARES = d2.LeastSquares(np.ones((2, 3)), [1.0, 0.0])
POINT = d2.IndicatorPoint(np.ones(3))
BOX, HALF = d2.IndicatorBox(-1.0, 1.0), d2.IndicatorNonnegative()
OURS = {"iD2A", "MiD2A"}
RATED = {"DCDA", "NPGA"} | OURS
COMPACT = {"Tracking-ADMM", "NECPD"}
USER = d2.Proximable(lambda v, t: v)
ENTROPY = d2.LogisticLoss([1.0, 1.0, 1.0]).conjugate


def accepted(f, g, h, dims=(3, 3)):
    agents = [d2.Agent(np.ones((3, d)), f, g) for d in dims]
    return {name for name, verdict in accepts(d2.Problem(agents, h)).items() if verdict.accepted}


def test_every_algorithm_of_the_table():
    # Five lines of Table I, eight algorithms.
    assert [len(row.methods) for row in TABLE] == [1, 2, 1, 2, 2]
    agents = [d2.Agent(np.eye(3), STRONG)]
    assert len(accepts(d2.Problem(agents, POINT))) == 8


@pytest.mark.parametrize(
    "f, g, h, names",
    [
        (STRONG, d2.Zero(), POINT, {"IDC-ADMM", "Proj-IDEA"} | RATED),
        (STRONG, BOX, POINT, {"IDC-ADMM", "Proj-IDEA"} | COMPACT | RATED),
        (STRONG, HALF, POINT, {"IDC-ADMM", "Proj-IDEA"} | RATED),
        (STRONG, d2.L1Norm(1.0), POINT, {"IDC-ADMM"} | RATED),
        (STRONG, USER, POINT, RATED),
        (STRONG, ENTROPY, POINT, RATED),
        (FLAT, BOX, POINT, {"Proj-IDEA"} | COMPACT),
        (SQUARES, BOX, POINT, {"IDC-ADMM", "Proj-IDEA"} | COMPACT),
        (FLAT, d2.L1Norm(1.0), POINT, set()),
        (STRONG, BOX, d2.IndicatorAtMost(np.ones(3)), OURS),
        (STRONG, d2.L1Norm(1.0), d2.LogisticLoss([1.0, 1.0, -1.0]), OURS),
        (FLAT, d2.Zero(), d2.SquaredLoss(np.ones(3)), set()),
    ],
)
def test_who_accepts(f, g, h, names):
    assert accepted(f, g, h) == names


def test_unequal_dimensions_exclude_idc_admm():
    assert accepted(STRONG, d2.Zero(), POINT, (3, 2)) == {"Proj-IDEA"} | RATED


def test_reasons_name_the_agent_and_the_function():
    agents = [d2.Agent(np.eye(3), STRONG, BOX), d2.Agent(np.eye(3), FLAT, HALF)]
    verdicts = accepts(d2.Problem(agents, POINT))
    assert "agent 1: f must be strongly convex" in verdicts["iD2A"].reason
    assert "agent 1: g must be the indicator of a compact set" in verdicts["NECPD"].reason
    accepted, reason = accepts(d2.Problem(agents[:1], d2.SquaredLoss(np.ones(3))))["NPGA"]
    assert not accepted
    assert "SquaredLoss" in reason
    assert verdicts["Proj-IDEA"].reason.startswith("f: convex")


@pytest.mark.parametrize(
    "g, indicator, bounded",
    [
        (d2.Zero(), True, False),
        (BOX, True, True),
        (BOX.shift([1.0, 0.0]), True, True),
        (d2.IndicatorBox([0.0, -np.inf], 1.0), True, False),
        (d2.IndicatorSimplex(2.0), True, True),
        (d2.IndicatorBall(1.0).shift([1.0, 2.0]), True, True),
        (d2.IndicatorHalfspace([1.0, 1.0], 0.0), True, False),
        (d2.IndicatorAffine([[1.0, 1.0]], [1.0]), True, False),
        (d2.IndicatorAffine(np.eye(2), [1.0, 2.0]), True, True),
        (d2.Stacked([d2.IndicatorBall(1.0), BOX], [1, 1]), True, True),
        (d2.Stacked([d2.IndicatorBall(1.0), HALF], [1, 1]), True, False),
    ],
)
def test_sets(g, indicator, bounded):
    assert is_indicator(g) is indicator
    assert is_bounded(g) is bounded


@pytest.mark.parametrize(
    "g",
    [
        d2.L1Norm(1.0),
        d2.ElasticNet(0.0, 1.0),
        BOX.tilt(1.0),
        d2.IndicatorBall(1.0).tilt([1.0, 0.0]),
        d2.IndicatorSimplex().plus_quadratic(1.0),
        d2.Stacked([BOX, d2.L1Norm(1.0)], [1, 1]),
        d2.L2Norm(1.0),
        USER,
    ],
)
def test_no_sets(g):
    assert not is_indicator(g)


def test_points():
    assert is_point(POINT)
    assert is_point(d2.IndicatorBox(1.0, 1.0))
    assert not is_point(BOX)
    assert not is_point(d2.SquaredLoss([1.0]))
