"""Experiment III of the paper: resource allocation between 20 agents, random data."""

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from dual2.functions import IndicatorAtMost, IndicatorBox, Quadratic
from dual2.network import Network
from dual2.paper.problems.experiment import Experiment
from dual2.paper.problems.quadratic_program import Optimum, solve_quadratic
from dual2.problem import Agent, Problem

AGENTS, COUPLING, DIM = 20, 10, 2
"""n, p and d_i."""

EIGENVALUES = (1.0, 1000.0)
"""Range of the eigenvalues of the P_i; the smallest and the largest drawn are set to its ends."""

DATA_SEED = 3
"""First seed for which κ_A of [B_1 … B_n] rounds to the caption's 8 and, as with most seeds, no row
of the coupling binds."""

GRAPH_SEED = 64
"""First seed whose Erdős-Rényi graph is connected with κ_C that rounds to the caption's 99."""

CONNECTIVITY = 0.1
"""Probability of an edge."""

SHRINK = 0.1
"""By which b is multiplied, again and again, until the active variant has a row that binds."""

Array = NDArray[np.float64]


def experiment3(active: bool = False) -> Experiment:
    """Experiment III: problem, network (Erdős-Rényi, 20 agents) and solution.

    minimise Σ_i ½x_iᵀP_i x_i + q_iᵀx_i subject to 0 ≤ x_i ≤ u_i and Σ_i B_i x_i ≤ b.

    The data are drawn as the paper says; to meet its caption the smallest and the largest
    eigenvalue drawn become 1 and 1000 (40 uniform draws would give κ_f of about 100). As printed
    the coupling seldom binds, and with this seed it does not: every agent on its own finds the
    solution. The active variant divides b by ten until a row binds.

    Parameters
    ----------
    active : bool
        Whether b is scaled down until the coupling matters.

    Examples
    --------
    >>> found = experiment3(active=True)
    >>> found.problem.n, found.problem.p, sum(found.problem.dims), found.active_rows
    (20, 10, 40, 4)
    >>> print(f"{found.network.kappa:.2f}")
    99.49
    """
    rng = np.random.default_rng(DATA_SEED)
    P, q, B, upper, b = draw(rng)
    found = allocation(P, q, B, upper, b)
    while active and not found.active[:COUPLING].any():
        b = SHRINK * b
        found = allocation(P, q, B, upper, b)
    agents = [
        Agent(A=B[i], f=Quadratic(P[i], q[i]), g=IndicatorBox(np.zeros(DIM), upper[i]))
        for i in range(AGENTS)
    ]
    graph = nx.gnp_random_graph(AGENTS, CONNECTIVITY, seed=GRAPH_SEED)
    return Experiment(
        Problem(agents, h=IndicatorAtMost(b)),
        Network(graph),
        list(found.x.reshape(AGENTS, DIM)),
        found.price[:COUPLING],
        int(found.active[:COUPLING].sum()),
    )


def draw(rng: np.random.Generator) -> tuple[Array, Array, Array, Array, Array]:
    """P (n, d, d), q (n, d), B (n, p, d), u (n, d) and b (p,) by the paper's recipe."""
    bases = [np.linalg.qr(rng.standard_normal((DIM, DIM)))[0] for _ in range(AGENTS)]
    values = rng.uniform(*EIGENVALUES, size=(AGENTS, DIM))
    values.flat[[values.argmin(), values.argmax()]] = EIGENVALUES
    P = np.stack([(Q * row) @ Q.T for Q, row in zip(bases, values, strict=True)])
    P = (P + P.transpose(0, 2, 1)) / 2
    B = rng.standard_normal((AGENTS, COUPLING, DIM))
    q = rng.standard_normal((AGENTS, DIM))
    upper = np.abs(rng.standard_normal((AGENTS, DIM)))
    return P, q, B, upper, np.abs(rng.standard_normal(COUPLING))


def allocation(P: Array, q: Array, B: Array, upper: Array, b: Array) -> Optimum:
    """The centralised solution; the first p constraints are the coupling."""
    size = AGENTS * DIM
    G = np.vstack([np.hstack(list(B)), np.eye(size), -np.eye(size)])
    d = np.concatenate([b, upper.ravel(), np.zeros(size)])
    return solve_quadratic(block_diag(*P), q.ravel(), G, d)
