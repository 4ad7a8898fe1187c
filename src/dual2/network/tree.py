"""Spanning tree for agreements (a maximum or a sum over all agents)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, dijkstra

SWEEPS = 8
"""Most landmarks that the search for a centre adds."""


@dataclass(frozen=True, eq=False)
class Tree:
    """Breadth-first spanning tree rooted near the centre of the graph.

    A sum or maximum travels from the deepest level to the root and back: 2·height exchanges.

    Attributes
    ----------
    root : int
        The root agent.
    parent : ndarray, shape (n,), int64
        Parent of each agent, -1 for the root.
    levels : list of ndarray
        Agents by depth, deepest level first; the root itself is in none.
    height : int
        Largest depth = number of levels.
    """

    root: int
    parent: NDArray[np.int64]
    levels: list[NDArray[np.int64]]
    height: int


def spanning_tree(n: int, edges: NDArray[np.int64]) -> Tree:
    """Breadth-first tree from an approximate centre of the graph.

    Examples
    --------
    >>> import numpy as np
    >>> tree = spanning_tree(5, np.array([[0, 1], [1, 2], [2, 3], [3, 4]]))
    >>> tree.root, tree.height, [level.tolist() for level in tree.levels]
    (2, 2, [[0, 4], [1, 3]])
    """
    adjacency = sp.csr_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    adjacency = sp.csr_array(adjacency + adjacency.T)
    root = approximate_centre(adjacency)
    depth = distances(adjacency, root)
    _, predecessor = breadth_first_order(adjacency, root, directed=False)
    parent = np.where(predecessor < 0, -1, predecessor).astype(np.int64)
    height = int(depth.max())
    levels = [np.flatnonzero(depth == k).astype(np.int64) for k in range(height, 0, -1)]
    return Tree(root, parent, levels, height)


def approximate_centre(adjacency: sp.csr_array) -> int:
    """Node whose largest distance to a few mutually distant landmarks is smallest.

    The first landmarks are the ends of a double sweep; each further one is the node farthest from
    the centre so far. The search stops when no node is farther away than the landmarks.
    """
    far = int(np.argmax(distances(adjacency, 0)))
    radius = distances(adjacency, far)
    far, centre = int(np.argmax(radius)), 0
    for _ in range(SWEEPS):
        radius = np.maximum(radius, distances(adjacency, far))
        centre = int(np.argmin(radius))
        away = distances(adjacency, centre)
        far = int(np.argmax(away))
        if away[far] <= radius[centre]:
            break
    return centre


def distances(adjacency: sp.csr_array, node: int) -> NDArray[np.int64]:
    """Number of hops from one node to every node."""
    return dijkstra(adjacency, indices=node, unweighted=True).astype(np.int64)
