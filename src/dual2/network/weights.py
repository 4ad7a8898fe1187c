"""Edge weights of the gossip matrix: the named rules, and weights that the caller gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dual2.errors import NetworkError, unknown_name
from dual2.network.reading import Topology, from_edges, from_graph, from_matrix

WEIGHT_RULES = ("laplacian", "metropolis", "weight")
"""Named rules for edge weights, defined in :class:`dual2.network.Network`."""


def read(graph: Any, weights: Any) -> tuple[Topology, NDArray[np.float64]]:
    """Topology and edge weights of any accepted input."""
    if not isinstance(graph, nx.Graph) and is_matrix(graph):
        if not isinstance(weights, str) or weights != "laplacian":
            raise NetworkError("A gossip matrix has its own weights: leave out `weights`.")
        return from_matrix(graph)
    if not isinstance(graph, nx.Graph | Iterable) or isinstance(graph, str | bytes):
        raise NetworkError(
            f"The network is a {type(graph).__name__}: expected a networkx graph, a list of "
            "edges (i, j) or a gossip matrix."
        )
    topology = from_graph(graph) if isinstance(graph, nx.Graph) else from_edges(graph)
    if isinstance(weights, str):
        return topology, rule_weights(topology, graph, weights)
    return topology, given_weights(topology, weights)


def is_matrix(graph: Any) -> bool:
    """Whether the input is a matrix and not an (E, 2) array of edges.

    Two by two integers are edges if none is negative: a gossip matrix has negative weights.
    """
    if sp.issparse(graph):
        return True
    if not isinstance(graph, np.ndarray):
        return False
    pairs = graph.ndim == 2 and graph.shape[1] == 2 and np.issubdtype(graph.dtype, np.integer)
    return not (pairs and (len(graph) != 2 or graph.min() >= 0))


def rule_weights(topology: Topology, graph: Any, rule: str) -> NDArray[np.float64]:
    """Edge weights by one of the named rules."""
    edges, n = topology.edges, len(topology.nodes)
    if rule == "laplacian":
        largest = np.bincount(edges.ravel(), minlength=n).max()
        return np.full(len(edges), 1.0 / (4.0 * (largest + 1.0)))
    if rule == "metropolis":
        degrees = np.bincount(edges.ravel(), minlength=n)
        return 1.0 / (4.0 * (1.0 + degrees[edges].max(axis=1)))
    if rule == "weight":
        a = attribute_weights(topology, graph)
        if not a.size:
            return a
        sums = np.bincount(edges.ravel(), weights=np.repeat(a, 2), minlength=n)
        return a / (4.0 * (sums.max() + a.max()))
    raise NetworkError(unknown_name("weights", rule, WEIGHT_RULES) + " Or pass an array.")


def attribute_weights(topology: Topology, graph: Any) -> NDArray[np.float64]:
    """The edge attribute ``weight``, which must be there, finite and positive."""
    if not isinstance(graph, nx.Graph):
        raise NetworkError(
            "weights='weight' reads edge attributes, but an edge list has none. "
            "Pass a networkx graph, or the weights as an array."
        )
    values = []
    for a, b, value in graph.edges(data="weight"):
        try:
            number = np.nan if value is None else float(value)
        except (TypeError, ValueError):
            number = np.nan
        if not (np.isfinite(number) and number > 0):
            raise NetworkError(
                f"Edge ({a}, {b}) has the attribute weight = {value!r}: "
                "expected a positive finite number."
            )
        values.append(number)
    return np.array(values, dtype=np.float64)[topology.given]


def given_weights(topology: Topology, weights: Any) -> NDArray[np.float64]:
    """Edge weights from a vector over the edges or from a gossip matrix on them."""
    if sp.issparse(weights) or np.ndim(weights) == 2:
        return weights_on_graph(topology, weights)
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (len(topology.edges),):
        raise NetworkError(
            f"The weights have shape {values.shape}: expected one for each of "
            f"{len(topology.edges)} edges or a gossip matrix of {len(topology.nodes)} agents."
        )
    values = values[topology.given]
    bad = np.flatnonzero(~np.isfinite(values) | (values == 0))
    if bad.size:
        a, b = (topology.nodes[k] for k in topology.edges[bad[0]])
        raise NetworkError(
            f"Edge ({a}, {b}) has the weight {values[bad[0]]}: expected a finite number that is "
            "not zero. Remove the edge if it should not be used."
        )
    return values


def weights_on_graph(topology: Topology, matrix: Any) -> NDArray[np.float64]:
    """Edge weights of a gossip matrix that must be nonzero exactly on the edges."""
    n = len(topology.nodes)
    matrix = matrix if sp.issparse(matrix) else np.asarray(matrix)
    if matrix.shape != (n, n):
        raise NetworkError(
            f"The gossip matrix has shape {matrix.shape}, but the graph has {n} nodes."
        )
    found, values = from_matrix(matrix)
    expected = {tuple(e) for e in topology.edges.tolist()}
    actual = {tuple(e) for e in found.edges.tolist()}
    for i, j in sorted(expected ^ actual):
        state = "zero on" if (i, j) in expected else "nonzero off"
        raise NetworkError(
            f"The gossip matrix is {state} the edges of the graph at ({i}, {j}). "
            "It must be nonzero exactly on the edges; or pass the matrix alone as the network."
        )
    return values
