"""Problem builders for the comparison with rivals: classes that people solve, on any network."""

from typing import Annotated, Any

import networkx as nx
import numpy as np

from dual2 import mpc as control
from dual2 import power
from dual2.bench.arguments import Range, Size, Weight
from dual2.errors import ProblemError
from dual2.functions import (
    HingeLoss,
    IndicatorAtMost,
    IndicatorBox,
    L1Norm,
    LogisticLoss,
    Quadratic,
    SquaredNorm,
    Zero,
)
from dual2.paper.problems.constrained_regression import experiment2
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.paper.problems.resource_allocation import experiment3
from dual2.problem import Agent, Problem

LOSSES = {"logistic": LogisticLoss, "hinge": HingeLoss}
"""What ``classifier`` offers."""
PAPER = {1: lambda active: experiment1(), 2: experiment2, 3: experiment3}


def dispatch(seed: int, n: Size = 8, p: Size = 6) -> Problem:
    """n generators with quadratic costs and limits meet a demand in each of p periods.

    ``seed``: of the data; ``n``: generators; ``p``: periods.
    """
    rng = np.random.default_rng([seed, 63])
    units = [
        power.Generator(
            f"G{i}",
            cost=(rng.uniform(0.02, 0.2), rng.uniform(10.0, 40.0)),
            p_min=rng.uniform(0.0, 10.0),
            p_max=rng.uniform(40.0, 100.0),
        )
        for i in range(n)
    ]
    load = sum(unit.p_max for unit in units) * rng.uniform(0.4, 0.85, p)
    names = [unit.name for unit in units]
    graph = nx.path_graph(names) if n > 1 else nx.empty_graph(names)
    return power.Dispatch(units, demand=load, graph=graph).problem


def classifier(
    seed: int,
    n: Size = 8,
    p: Size = 40,
    d: Size = 3,
    loss: Annotated[str, tuple(LOSSES)] = "logistic",
    l1: Weight = 0.0,
    ridge: Weight = 0.01,
) -> Problem:
    """A linear classifier of p samples whose n·d correlated columns n owners hold.

    minimise Σ_i (ridge/2)|x_i|² + l1·|x_i|₁ + (1/p)Σ_j loss(label_j, (Σ_i X_i x_i)_j).

    ``loss``: a key of :data:`LOSSES`; ``l1``, ``ridge``: weights of the penalty.
    """
    rng = np.random.default_rng([seed, 64])
    common = rng.standard_normal((p, 2)) @ rng.standard_normal((2, n * d))
    X = rng.standard_normal((p, n * d)) + common
    truth = rng.standard_normal(n * d) / np.sqrt(n * d)
    labels = np.where(X @ truth + 0.5 * rng.standard_normal(p) >= 0, 1.0, -1.0)
    g = L1Norm(l1) if l1 > 0 else Zero()
    agents = [Agent(block, SquaredNorm(ridge), g) for block in np.split(X, n, axis=1)]
    return Problem(agents, LOSSES[loss](labels, scale=1 / p))


def mpc(seed: int, n: Size = 8, p: Size = 6) -> Problem:
    """n buildings plan p steps of heating with too little heat for all (see :mod:`mpc`)."""
    subsystems, states, weather = control.heated_buildings(n, seed=seed)
    graph = nx.path_graph(n)
    controller = control.Controller(subsystems, horizon=p, limit=10.6 * n, graph=graph)
    return controller.problem(states, weather)


def lp(seed: int, n: Size = 8, p: Size = 4, d: Size = 3) -> Problem:
    """A linear program: n agents with d variables in [0, 1] share p resources.

    minimise Σ_i c_iᵀx_i subject to Σ_i A_i x_i ≤ b, about half of what all would like to use.
    """
    rng = np.random.default_rng([seed, 65])
    A = [rng.uniform(0.1, 1.0, (p, d)) for _ in range(n)]
    gain = [-rng.uniform(0.2, 1.0, d) for _ in range(n)]
    agents = [
        Agent(block, Quadratic(np.zeros(d), c), IndicatorBox(0.0, 1.0))
        for block, c in zip(A, gain, strict=True)
    ]
    return Problem(agents, IndicatorAtMost(0.5 * sum(block.sum(axis=1) for block in A)))


def paper(
    seed: int, n: Size = 8, experiment: Annotated[int, Range(1, 3)] = 1, active: bool = False
) -> Problem:
    """One of the paper's experiments, on a network that is not its own.

    Experiments II and III as printed or, ``active``, with a coupling that binds; nothing depends on
    the seed, and ``n`` must be the experiment's own.
    """
    found = PAPER[experiment](active).problem
    if found.n != n:
        raise ProblemError(f"n = {n} found; Experiment {experiment} has {found.n} agents.")
    return found


MAKERS: dict[str, Any] = {
    "dispatch": dispatch,
    "classifier": classifier,
    "mpc": mpc,
    "lp": lp,
    "paper": paper,
}
"""Each takes the seed and arguments of its own."""
