"""Experiment I of the paper: elastic net regression with the features spread over 8 agents."""

import csv
import functools
from importlib import resources

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from dual2.functions import L1Norm, SquaredLoss, SquaredNorm
from dual2.network import Network
from dual2.paper.problems.exact_linear import solve_exactly
from dual2.paper.problems.experiment import Experiment
from dual2.problem import Agent, Problem

Vector = NDArray[np.float64]

ALPHA = 100.0
"""Weight of the whole penalty."""

L1_RATIO = 0.1
"""Share of the penalty that is an l1 norm (scikit-learn's word; not the augmentation ``rho``)."""

FEATURES = tuple(
    "MedInc HouseAge AveRooms AveBedrms Population AveOccup Latitude Longitude ones".split()
)
"""Columns of the feature matrix; agents 0 … 6 own one each, agent 7 the last two."""


def housing() -> tuple[Vector, Vector]:
    """The embedded rows as features X (20 × 9, raw, last column ones) and target y.

    The target is the median house value in 100 000 dollars. Where the rows come from is told
    in ``data/README.md``.

    Examples
    --------
    >>> X, y = housing()
    >>> X.shape, X[:2, FEATURES.index("Population")].tolist(), y[:2].tolist()
    ((20, 9), [322.0, 2401.0], [4.526, 3.585])
    """
    source = resources.files("dual2.paper.problems") / "data" / "california_housing_first20.csv"
    rows = list(csv.DictReader(source.read_text(encoding="utf-8").splitlines()))
    raw = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    households = raw["households"]
    X = np.column_stack(
        [
            raw["median_income"],
            raw["housing_median_age"],
            raw["total_rooms"] / households,
            raw["total_bedrooms"] / households,
            raw["population"],
            raw["population"] / households,
            raw["latitude"],
            raw["longitude"],
            np.ones(len(rows)),
        ]
    )
    return X, raw["median_house_value"] / 100_000


def elastic_net(
    X: Vector, y: Vector, l1: float, l2: float, sweeps: int = 10_000
) -> tuple[Vector, Vector]:
    """Minimise ½|Xθ − y|²/p + l1·|θ|₁ + (l2/2)|θ|² centrally, to the last bit.

    Coordinate descent finds the support and the signs; on the support θ and the price
    λ = (Xθ − y)/p solve the linear system l2·θ + Xᵀλ = −l1·sign(θ), Xθ − pλ = y. The optimality
    conditions are checked before the pair (θ, λ) is returned.

    ``X``, ``y``: features and target; ``l1``, ``l2``: weights of the penalty, l2 > 0; ``sweeps``:
    most passes over the coordinates.

    Examples
    --------
    >>> theta, price = elastic_net(np.eye(2), np.array([4.0, 0.1]), l1=0.5, l2=0.5)
    >>> theta.tolist(), price.tolist()
    ([1.5, 0.0], [-1.25, -0.05])
    """
    p, d = X.shape
    gram, moment = X.T @ X / p, X.T @ y / p
    theta = np.zeros(d)
    for _ in range(sweeps):
        before = theta.copy()
        for j in range(d):
            pull = moment[j] - gram[j] @ theta + gram[j, j] * theta[j]
            theta[j] = np.sign(pull) * max(abs(pull) - l1, 0.0) / (gram[j, j] + l2)
        if np.array_equal(before, theta):
            break
    on = theta != 0
    signs = np.sign(theta[on])
    own = X[:, on]
    system = np.block([[l2 * np.eye(own.shape[1]), own.T], [own, -p * np.eye(p)]])
    solution = solve_exactly(system, np.concatenate([-l1 * signs, y]))
    theta[on], price = solution[: len(signs)], solution[len(signs) :]
    slope = X.T @ price + l2 * theta
    scale = max(l1, float(np.abs(moment).max()))
    violation = np.where(on, np.abs(slope + l1 * np.sign(theta)), np.maximum(np.abs(slope) - l1, 0))
    if violation.max() > 1e-12 * scale or np.any(np.sign(theta[on]) != signs):
        raise ArithmeticError(
            f"the support was not found in {sweeps} sweeps: the optimality conditions are violated "
            f"by {violation.max():.1e}; allow more sweeps"
        )
    return theta, price


@functools.cache
def _solution() -> tuple[Vector, Vector]:
    """θ and λ of the experiment; the runs of one process share them."""
    return elastic_net(*housing(), ALPHA * L1_RATIO, ALPHA * (1 - L1_RATIO))


def experiment1() -> Experiment:
    """Experiment I: problem, network (a path of 8 agents) and solution.

    minimise Σ_i (45|x_i|² + 10|x_i|₁) + |Σ_i X_i x_i − y|²/40, i.e. scikit-learn's elastic net
    with ``alpha=100``, ``l1_ratio=0.1`` and an unscaled, penalised column of ones.

    Examples
    --------
    >>> problem, network, reference = experiment1()
    >>> problem.n, problem.p, problem.dims[-1]
    (8, 20, 2)
    >>> print(f"{network.kappa:.3f}")
    25.274
    """
    X, y = housing()
    l1, l2 = ALPHA * L1_RATIO, ALPHA * (1 - L1_RATIO)
    theta, price = (part.copy() for part in _solution())
    columns = [[i] for i in range(7)] + [[7, 8]]
    agents = [Agent(A=X[:, own], f=SquaredNorm(l2), g=L1Norm(l1)) for own in columns]
    problem = Problem(agents, h=SquaredLoss(y, scale=1 / len(y)))
    return Experiment(problem, Network(nx.path_graph(8)), [theta[own] for own in columns], price)
