"""The network of a solve that was given none."""

import networkx as nx

from dual2.errors import NetworkError
from dual2.network import AnyNetwork, Network
from dual2.problem import Problem

MAX_COMPLETE = 1000
"""Most agents that get a complete graph by default; it has n(n-1)/2 edges."""


def network_or_default(problem: Problem, network: AnyNetwork | None) -> tuple[AnyNetwork, str]:
    """The network, or the complete graph, and a sentence for the explanation if it was chosen here.

    Examples
    --------
    >>> import dual2 as d2
    >>> problem = d2.Problem([d2.Agent([[1.0]], d2.SquaredNorm(1.0))] * 3, d2.IndicatorPoint([3.0]))
    >>> network_or_default(problem, None)
    (Network(3 agents, 3 edges), 'No network was given: every agent talks to every other one.')
    """
    if network is not None:
        return network, ""
    if problem.n > MAX_COMPLETE:
        edges = problem.n * (problem.n - 1) // 2
        raise NetworkError(
            f"No network was given, and a complete graph of {problem.n} agents has {edges} edges. "
            "Give one, for instance Network(networkx.star_graph(n - 1))."
        )
    chosen = Network(nx.complete_graph(problem.n))
    return chosen, "No network was given: every agent talks to every other one."
