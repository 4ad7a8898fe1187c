"""Small problems for the tests of clusters, at module level so that other processes import them."""

import os
from pathlib import Path

import networkx as nx
import numpy as np

import dual2 as d2

NETWORK = d2.Network(nx.path_graph(6))


def elastic_net(seed=0):
    """Six agents with four columns each."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 24))
    y = X[:, :3].sum(axis=1)
    agents = [d2.Agent(b, d2.SquaredNorm(0.1), d2.L1Norm(0.05)) for b in np.hsplit(X, 6)]
    return d2.Problem(agents, d2.SquaredLoss(y, scale=1 / 40))


def slow_problem():
    """Each gradient takes a while, so that a run can be disturbed."""
    import time

    def grad(x):
        time.sleep(0.002)
        return x - 1.0

    agents = [d2.Agent(np.eye(2), d2.Smooth(grad, 1.0, 1.0)) for _ in range(6)]
    return d2.Problem(agents, d2.IndicatorPoint([1.0, 2.0]))


class FolderOfAgents:
    """Loads agents where they are needed, and notes which process read which."""

    def __init__(self, folder, problem):
        self.folder = Path(folder)
        for i, agent in enumerate(problem.agents):
            np.save(self.folder / f"{i}.npy", np.asarray(agent.A))

    def __call__(self, i):
        with (self.folder / "readers.txt").open("a") as file:
            file.write(f"{i} {os.getpid()}\n")
        A = np.load(self.folder / f"{i}.npy")
        return d2.Agent(A, d2.SquaredNorm(0.1), d2.L1Norm(0.05))

    def save(self, i, x):
        np.save(self.folder / f"answer{i}.npy", x)

    def readers(self):
        lines = (self.folder / "readers.txt").read_text().split("\n")[:-1]
        return [tuple(map(int, line.split())) for line in lines]
