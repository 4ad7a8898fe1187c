"""Experiment II of the paper: linear regression with non-negative predictions, on 8 agents."""

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from dual2.functions import NonnegativeSquaredLoss, SquaredNorm
from dual2.network import Network
from dual2.paper.problems.elastic_net_regression import housing
from dual2.paper.problems.exact_linear import solve_exactly
from dual2.paper.problems.experiment import Experiment
from dual2.paper.problems.quadratic_program import solve_quadratic
from dual2.problem import Agent, Problem

Vector = NDArray[np.float64]

ALPHA = 100.0
"""Weight of the ridge penalty."""

ROWS = 9
"""Samples used: the first ones."""

SHIFT = 3.5
"""What the active variant subtracts from the targets (100 000 dollars)."""


def experiment2(active: bool = False) -> Experiment:
    """Experiment II: problem, network (a path of 8 agents) and solution.

    minimise Σ_i 50|x_i|² + |Σ_i X_i x_i − y|²/18 subject to Σ_i X_i x_i ≥ 0.

    As printed no constraint binds at the solution, so that it is plain ridge regression. The
    active variant predicts how much a house is worth beyond 350 000 dollars: some predictions
    would be negative, and the constraint matters.

    Parameters
    ----------
    active : bool
        Whether the targets are shifted by −:data:`SHIFT`.

    Examples
    --------
    >>> for active in (False, True):
    ...     found = experiment2(active)
    ...     print(found.problem.n, found.problem.p, found.active_rows)
    8 9 0
    8 9 2
    """
    X, y = housing()
    X, y = X[:ROWS], y[:ROWS] - (SHIFT if active else 0.0)
    columns = [[i] for i in range(7)] + [[7, 8]]
    agents = [Agent(A=X[:, own], f=SquaredNorm(ALPHA)) for own in columns]
    problem = Problem(agents, h=NonnegativeSquaredLoss(y, scale=1 / ROWS))
    P = X.T @ X / ROWS + ALPHA * np.eye(X.shape[1])
    found = solve_quadratic(P, -X.T @ y / ROWS, -X, np.zeros(ROWS))
    theta, price = _solution(X, y, found.active)
    reference = [theta[own] for own in columns]
    rows = int(found.active.sum())
    return Experiment(problem, Network(nx.path_graph(8)), reference, price, rows)


def _solution(X: Vector, y: Vector, active: NDArray[np.bool_]) -> tuple[Vector, Vector]:
    """θ and λ from the data themselves, no product of which is rounded.

    αθ + Xᵀλ = 0, Xθ - pλ - pμ = y and (Xθ)_j = 0 in the active rows, μ_j their multipliers.
    """
    d, rows = X.shape[1], np.eye(ROWS)[active]
    k = len(rows)
    system = np.block(
        [
            [ALPHA * np.eye(d), X.T, np.zeros((d, k))],
            [X, -ROWS * np.eye(ROWS), -ROWS * rows.T],
            [X[active], np.zeros((k, ROWS + k))],
        ]
    )
    solution = solve_exactly(system, np.concatenate([np.zeros(d), y, np.zeros(k)]))
    return solution[:d], solution[d : d + ROWS]
