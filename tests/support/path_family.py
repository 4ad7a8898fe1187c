"""The family of problems on a path of eight agents behind the reference counts of the baselines."""

import networkx as nx
import numpy as np

import dual2 as d2

G = {"zero": d2.Zero(), "l1": d2.L1Norm(0.3), "box": d2.IndicatorBox(-1.0, 1.0)}


def path_problem(g: str = "zero", strong: bool = True, seed: int = 3) -> d2.Problem:
    """Σ A_i x_i = b with 5 × 3 matrices, curvatures 1 … 10, or 0, 1, 10 if not strongly convex."""
    rng, agents, b = np.random.default_rng(seed), [], np.zeros(5)
    curvatures = np.array([1.0, 5.5, 10.0] if strong else [0.0, 1.0, 10.0])
    for _ in range(8):
        Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        P = Q @ np.diag(curvatures) @ Q.T
        A = rng.standard_normal((5, 3))
        b += A @ rng.uniform(-0.5, 0.5, 3)
        agents.append(d2.Agent(A, d2.Quadratic((P + P.T) / 2, 3 * rng.standard_normal(3)), G[g]))
    return d2.Problem(agents, d2.IndicatorPoint(b))


def path_network() -> d2.Network:
    """The path."""
    return d2.Network(nx.path_graph(8))


def distance(x: list[np.ndarray], best: list[np.ndarray]) -> float:
    """|x - x*|/|x*|."""
    flat = np.concatenate(best)
    return float(np.linalg.norm(np.concatenate(x) - flat) / np.linalg.norm(flat))
