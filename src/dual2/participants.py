"""Who takes part, by name, and who talks to whom."""

from collections.abc import Sequence
from typing import Any

import networkx as nx

from dual2.errors import NetworkError, ProblemError
from dual2.network import Network


def distinct_names(participants: Sequence[Any], what: str) -> list[str]:
    """Names of the participants; none at all, or one used twice, is an error."""
    if not participants:
        raise ProblemError(f"There are no {what}; expected at least one.")
    names = [participant.name for participant in participants]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ProblemError(f"The name {min(twice)!r} is used twice among the {what}.")
    return names


def read_network(graph: Any, names: Sequence[str], what: str) -> Network:
    """A network over participants: a Network, or anything it accepts, by names or numbers."""
    if not isinstance(graph, Network):
        graph = graph if isinstance(graph, nx.Graph) else nx.Graph(list(graph))
        if len(names) == 1 and not graph:
            graph = nx.empty_graph(1)
        nodes, numbers = set(graph.nodes), {name: i for i, name in enumerate(names)}
        if nodes == set(names):
            graph = nx.relabel_nodes(graph, numbers)
        elif nodes != set(range(len(names))):
            strangers = sorted(map(str, nodes ^ set(names)))
            raise NetworkError(
                f"The graph's nodes are not the {len(names)} {what}; in only one of the two: "
                f"{', '.join(strangers[:5])}. Use their names or the numbers 0 … {len(names) - 1}."
            )
        graph = Network(graph)
    if graph.n != len(names):
        raise NetworkError(f"The network has {graph.n} nodes; there are {len(names)} {what}.")
    return graph
