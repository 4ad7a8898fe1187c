"""Read what people have (networkx graph, edge list, gossip matrix) into one checked form.

Every reader returns a :class:`Topology`: the node labels in agent order and the undirected edges
as index pairs i < j, sorted, each with the weight the input gave it. Edge weights follow from it by
one of the named rules, or are the caller's.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from dual2.errors import NetworkError, unknown_name

SHOWN_LABELS = 6
"""How many members of a set an error message names."""

MATRIX_TOLERANCE = 1e-9
"""Asymmetry and row sums of a gossip matrix may reach this fraction of its largest entry."""


@dataclass(frozen=True)
class Topology:
    """Nodes and edges of a connected simple graph.

    Attributes
    ----------
    nodes : tuple
        Labels; position in the tuple = number of the agent.
    edges : ndarray, shape (E, 2), int64
        Index pairs i < j in lexicographic order.
    given : ndarray, shape (E,), int64
        For each edge, its position in the order in which the input listed the edges.
    """

    nodes: tuple[Hashable, ...]
    edges: NDArray[np.int64]
    given: NDArray[np.int64]


def from_graph(graph: nx.Graph) -> Topology:
    """Topology of an undirected simple connected networkx graph."""
    if graph.is_directed():
        raise NetworkError(
            "The graph is directed, but gossip goes both ways along every edge. "
            "Pass graph.to_undirected()."
        )
    if graph.is_multigraph():
        raise NetworkError(
            "The graph is a multigraph: parallel edges have no agreed weight. "
            "Pass networkx.Graph(graph), which merges them."
        )
    nodes = ordered_labels(graph.nodes)
    if not nodes:
        raise NetworkError("The graph has no nodes. A network needs at least one agent.")
    index = {label: i for i, label in enumerate(nodes)}
    pairs = np.array([(index[a], index[b]) for a, b in graph.edges], dtype=np.int64).reshape(-1, 2)
    return checked_topology(nodes, pairs)


def from_edges(pairs: Iterable[Sequence[Any]]) -> Topology:
    """Topology of an edge list; (i, j) and (j, i) are the same edge and may both be listed."""
    index: dict[Hashable, int] = {}
    listed: dict[tuple[int, int], None] = {}
    for k, pair in enumerate(pairs):
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise NetworkError(
                f"Entry {k} of the edge list is {pair!r}: expected a pair (i, j) of node labels. "
                "Give a gossip matrix as an array."
            )
        a, b = (v.item() if isinstance(v, np.generic) else v for v in pair)
        try:
            i, j = sorted((index.setdefault(a, len(index)), index.setdefault(b, len(index))))
        except TypeError as error:
            raise NetworkError(
                f"Entry {k} of the edge list is {pair!r}: expected labels of nodes, for instance "
                f"numbers or text ({error})."
            ) from error
        listed[i, j] = None
    if not index:
        raise NetworkError(
            "The edge list is empty. For a single agent pass networkx.empty_graph(1)."
        )
    nodes = ordered_labels(index)
    position = {label: i for i, label in enumerate(nodes)}
    agent = np.array([position[label] for label in index], dtype=np.int64)
    return checked_topology(nodes, agent[np.array(list(listed), dtype=np.int64)])


def from_matrix(matrix: Any) -> tuple[Topology, NDArray[np.float64]]:
    """Topology and edge weights w_ij = -C_ij of a gossip matrix C (dense or sparse)."""
    C = sp.coo_array(matrix)
    if C.ndim != 2 or C.shape[0] != C.shape[1] or C.shape[0] == 0:
        raise NetworkError(f"A gossip matrix is square and not empty, this one is {C.shape}.")
    if np.iscomplexobj(C.data):
        raise NetworkError("A gossip matrix is real, this one has complex entries.")
    C = sp.csr_array(C, dtype=np.float64)
    check_gossip_entries(C)
    upper = sp.coo_array(sp.triu((C + C.T) / 2, k=1))
    kept = upper.data != 0
    pairs = np.column_stack([upper.row[kept], upper.col[kept]]).astype(np.int64)
    topology = checked_topology(tuple(range(C.shape[0])), pairs)
    return topology, -upper.data[kept][topology.given]


def check_gossip_entries(C: sp.csr_array) -> None:
    """Finite, symmetric, rows summing to zero (positive semidefiniteness: see the spectrum)."""
    coo = C.tocoo()
    bad = np.flatnonzero(~np.isfinite(coo.data))
    if bad.size:
        i, j = coo.row[bad[0]], coo.col[bad[0]]
        raise NetworkError(f"Entry ({i}, {j}) of the gossip matrix is {coo.data[bad[0]]}.")
    allowed = MATRIX_TOLERANCE * (np.abs(coo.data).max() if coo.nnz else 0.0)
    difference = sp.coo_array(C - C.T)
    worst = int(np.argmax(np.abs(difference.data))) if difference.nnz else -1
    if worst >= 0 and abs(difference.data[worst]) > allowed:
        i, j = sorted((int(difference.row[worst]), int(difference.col[worst])))
        raise NetworkError(
            f"The gossip matrix is not symmetric: entry ({i}, {j}) is {C[i, j]:.6g} but "
            f"({j}, {i}) is {C[j, i]:.6g}. Both ends of an edge must use the same weight."
        )
    sums = np.asarray(C.sum(axis=1)).ravel()
    row = int(np.argmax(np.abs(sums)))
    if abs(sums[row]) > allowed * C.shape[0]:
        advice = (
            "This looks like a mixing matrix W; pass (I - W)/2."
            if np.allclose(sums, 1.0)
            else "Pass a Laplacian-like matrix: the diagonal is minus the sum of the other entries."
        )
        raise NetworkError(
            f"Row {row} of the gossip matrix sums to {sums[row]:.6g}, expected 0. {advice}"
        )


def checked_topology(nodes: tuple[Hashable, ...], pairs: NDArray[np.int64]) -> Topology:
    """Sort the edges and check that there are no self-loops and one connected part."""
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if loops.size:
        names = short_set([nodes[k] for k in pairs[loops, 0]])
        raise NetworkError(
            f"Self-loops at {names}: an edge must join two different agents. Remove the loops."
        )
    edges = np.sort(pairs, axis=1)
    given = np.lexsort((edges[:, 1], edges[:, 0]))
    edges = np.ascontiguousarray(edges[given])
    check_connected(nodes, edges)
    return Topology(nodes, edges, given.astype(np.int64))


def check_connected(nodes: tuple[Hashable, ...], edges: NDArray[np.int64]) -> None:
    """Raise an error that names the parts if the graph falls apart."""
    n = len(nodes)
    ones = np.ones(len(edges))
    adjacency = sp.csr_array((ones, (edges[:, 0], edges[:, 1])), shape=(n, n))
    count, part = connected_components(adjacency, directed=False)
    if count == 1:
        return
    sets = [short_set([nodes[i] for i in np.flatnonzero(part == k)]) for k in range(min(count, 4))]
    others = ", ".join(sets[1:]) + (f" and {count - 4} more parts" if count > 4 else "")
    raise NetworkError(
        f"The graph is not connected: agents {sets[0]} cannot reach {others}. "
        "Add an edge or solve the parts separately."
    )


def ordered_labels(labels: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Labels in agent order: 0…n-1 if they are exactly these integers, else as iterated."""
    found = tuple(labels)
    integers = all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in found)
    if integers and set(found) == set(range(len(found))):
        return tuple(range(len(found)))
    return found


def short_set(labels: Sequence[Hashable]) -> str:
    """``{0, 1, 2}``, long sets abbreviated with their size."""
    shown = ", ".join(str(v) for v in labels[:SHOWN_LABELS])
    rest = f", … ({len(labels)} in all)" if len(labels) > SHOWN_LABELS else ""
    return f"{{{shown}{rest}}}"


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
