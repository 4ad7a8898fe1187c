"""The smallest eigenvalue of the augmented Gram matrix, on which Case 3 of the paper rests."""

import math

import numpy as np
from scipy.linalg import block_diag
from scipy.sparse.linalg import LinearOperator

from dual2.network import AnyNetwork
from dual2.problem import Problem
from dual2.problem.matrices import as_dense

MEANINGLESS = 1e12
"""Condition number beyond which a strong convexity constant is rounding noise in float64."""

DENSE_SIZE = 1500
"""Largest n·p for which λ_min(𝐀𝐀ᵀ + ρL_f𝐂) is computed."""

NOISE = "not meaningful in double precision"


def augmented_eigenvalue(problem: Problem, weight: float, network: AnyNetwork) -> tuple[float, str]:
    """λ_min(𝐀𝐀ᵀ + weight·𝐂) and a note: 0 if it is rounding noise, NaN if it is not computed.

    The paper's weight is ρL_f. The matrix needs all A_i at once, so no agent of a network can
    compute this number; it serves reproductions and explanations.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> agents = [d2.Agent([[1.0], [0.0]], d2.SquaredNorm(1.0)),
    ...           d2.Agent([[0.0], [1.0]], d2.SquaredNorm(1.0))]
    >>> problem = d2.Problem(agents, d2.IndicatorPoint(np.ones(2)))
    >>> round(augmented_eigenvalue(problem, 4.0, d2.Network([(0, 1)]))[0], 4)
    0.2929
    """
    size = problem.n * problem.p
    if not problem.complete:
        return math.nan, "not computed: some agents are in other processes"
    if size > DENSE_SIZE:
        return math.nan, f"not computed: n·p = {size} is more than {DENSE_SIZE}"
    if any(isinstance(agent.A, LinearOperator) for agent in problem.agents):
        return math.nan, "not computed: some A_i is known as an operator only"
    if not math.isfinite(weight):
        return math.nan, "not computed: ρ or L_f is infinite"
    blocks = [as_dense(agent.A) for agent in problem.agents]
    gossip = network.mix(np.eye(problem.n))
    matrix = block_diag(*(A @ A.T for A in blocks))
    matrix += np.kron(weight * (gossip + gossip.T) / 2, np.eye(problem.p))
    values = np.linalg.eigvalsh(matrix)
    if values[0] * MEANINGLESS < values[-1]:
        return 0.0, f"{NOISE}: λ_min(𝐀𝐀ᵀ + ρL_f𝐂) is below {1 / MEANINGLESS:g} of λ_max"
    return float(values[0]), ""
