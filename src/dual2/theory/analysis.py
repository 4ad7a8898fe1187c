"""Which case of the theory holds for a problem on a network, and why."""

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Problem
from dual2.theory.constants import Constants, constants_for, optimal_rho, read_rho
from dual2.theory.facts import Facts, gather_facts

_RANK_LIMIT = 2000


def analyse(
    problem: Problem, network: Network | ChebyshevNetwork, rho: float | str = "auto",
    constants: str = "tight", mapping: str = "auto", facts: Facts | None = None,
) -> Constants:  # fmt: skip
    """Case, constants and step sizes of iD2A for one problem, network and ρ.

    Parameters
    ----------
    problem : Problem
        The agents and h.
    network : Network or ChebyshevNetwork
        With a Chebyshev network the constants are those of MiD2A.
    rho : float or "auto"
        Augmentation; ``"auto"`` is ρ*.
    constants : {"tight", "paper"}
        Which constants of F_ρ.
    mapping : {"auto", "prox", "smooth"}
        How h* enters the subproblem.
    facts : Facts, optional
        The problem's scalars, if known already.

    Examples
    --------
    >>> import numpy as np, dual2 as d2
    >>> agents = [d2.Agent(np.ones((2, 1)), d2.SquaredNorm(1.0)) for _ in range(2)]
    >>> problem = d2.Problem(agents, d2.SquaredLoss(np.ones(2)))
    >>> found = analyse(problem, d2.Network([(0, 1)]))
    >>> print(found.case.name, found.case.reason)
    1 h* is 1-strongly convex and 1-smooth
    """
    facts = facts or gather_facts(problem)
    value = _choose_rho(rho, facts, network.lambda_max, constants)
    return constants_for(
        facts, network.lambda_max, network.lambda_min, value, constants, mapping,
        full_row_rank(problem),
    )  # fmt: skip


def full_row_rank(problem: Problem) -> bool | None:
    """Whether [A_1 … A_n] has full row rank; None if too large, not known entrywise or not here.

    This looks at all A_i at once, so it serves explanations only: no parameter depends on it.
    """
    p = problem.p
    if (
        not problem.complete
        or p > _RANK_LIMIT
        or any(isinstance(a.A, LinearOperator) for a in problem.agents)
    ):
        return None
    if sum(problem.dims) < p:
        return False
    gram = np.zeros((p, p))
    for agent in problem.agents:
        product = agent.A @ agent.A.T
        gram += product.toarray() if issparse(product) else product
    values = np.linalg.eigvalsh(gram)
    return bool(values[0] > p * np.finfo(float).eps * values[-1])


def _choose_rho(rho: float | str, facts: Facts, lambda_max: float, kind: str) -> float:
    if rho == "auto":
        return optimal_rho(facts, lambda_max, kind)
    value = read_rho(rho)
    return value if facts.n > 1 else 0.0
