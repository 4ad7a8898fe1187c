"""The gossip matrix of a network, who talks to whom and with which weight; its spanning tree."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import breadth_first_order, dijkstra

from dual2.errors import NetworkError, counted
from dual2.network.chebyshev import ChebyshevNetwork, SpectrumKind
from dual2.network.spectrum import Spectral, extreme_eigenvalues
from dual2.network.topology import read

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

    @cached_property
    def upwards(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All but the root, the deepest first, and their parents: the order of a sum.

        Examples
        --------
        >>> tree = spanning_tree(4, np.array([[0, 1], [1, 2], [1, 3]]))
        >>> [part.tolist() for part in tree.upwards]
        [[0, 2, 3], [1, 1, 1]]
        """
        children = np.concatenate([np.empty(0, np.int64), *self.levels])
        return children, self.parent[children]

    @cached_property
    def walk(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Agents from the root down, every subtree in one piece, and how deep each is.

        Children come in the order of their numbers. In this order a sum needs no more than one
        partial result for each depth.

        Examples
        --------
        >>> tree = spanning_tree(4, np.array([[0, 1], [1, 2], [1, 3]]))
        >>> [part.tolist() for part in tree.walk]
        [[1, 0, 2, 3], [0, 1, 1, 1]]
        """
        n = len(self.parent)
        size, place, depth = (np.full(n, value, dtype=np.int64) for value in (1, 0, 0))
        for children in self.levels:
            np.add.at(size, self.parent[children], size[children])
        for level, children in enumerate(reversed(self.levels), start=1):
            family = children[np.argsort(self.parent[children], kind="stable")]
            parents = self.parent[family]
            before = np.cumsum(size[family]) - size[family]
            first = np.concatenate([[True], parents[1:] != parents[:-1]])
            others = np.maximum.accumulate(np.where(first, before, 0))  # of families before
            place[family] = place[parents] + 1 + before - others
            depth[children] = level
        order = np.empty(n, dtype=np.int64)
        order[place] = np.arange(n)
        return order, depth[order]


def spanning_tree(n: int, edges: NDArray[np.int64]) -> Tree:
    """Breadth-first tree from an approximate centre of the graph.

    Examples
    --------
    >>> import numpy as np
    >>> tree = spanning_tree(5, np.array([[0, 1], [1, 2], [2, 3], [3, 4]]))
    >>> tree.root, tree.height, [level.tolist() for level in tree.levels]
    (2, 2, [[0, 4], [1, 3]])
    """
    adjacency = adjacency_of(n, edges)
    root = approximate_centre(adjacency)
    depth = distances(adjacency, root)
    _, predecessor = breadth_first_order(adjacency, root, directed=False)
    parent = np.where(predecessor < 0, -1, predecessor).astype(np.int64)
    height, order = int(depth.max()), np.argsort(depth, kind="stable").astype(np.int64)
    above = np.cumsum(np.bincount(depth))[:-1]
    levels = np.split(order, above)[:0:-1]
    return Tree(root, parent, levels, height)


def adjacency_of(n: int, edges: NDArray[np.int64]) -> sp.csr_array:
    """The symmetric matrix with 1 where two agents are neighbours."""
    half = sp.csr_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    return sp.csr_array(half + half.T)


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


DENSE_LIMIT = 300
"""Number of agents up to which all eigenvalues are computed, by a dense solver."""
SINGULAR = 1e-13
"""λ_min⁺ at or below this fraction of λ_max counts as zero."""


class Network:
    r"""A connected undirected network of n agents with a gossip matrix C.

    C is symmetric positive semidefinite with null space span(1), c_ij ≠ 0 on edges only:

        (C V)_i = Σ_{j ~ i} w_ij (v_i − v_j),        w_ij = −c_ij,

    v_i the row of agent i. Products are formed in this difference form only, so that the column
    sums of C V vanish to rounding error, however often they are accumulated.

    Parameters
    ----------
    graph : networkx.Graph, edge list or gossip matrix
        An undirected simple graph; or an iterable of pairs (i, j), where (i, j) and (j, i) are the
        same edge (an integer array of shape (E, 2) counts as such unless it is square); or a
        square array or scipy.sparse matrix C. If the node labels are exactly 0…n-1, node i is
        agent i; otherwise agents are numbered in iteration order.
    weights : {"laplacian", "metropolis", "weight"} or array_like
        Rule for the w_ij, with d_i the degree of agent i:

        - ``"laplacian"``: C = L/(4(d_max + 1)), L the graph Laplacian;
        - ``"metropolis"``: C = (I − W')/4 with the Metropolis-Hastings matrix W', that is
          w_ij = 1/(4(1 + max(d_i, d_j)));
        - ``"weight"``: C = L_a/(4(s_max + a_max)), L_a the Laplacian of the positive edge
          attributes ``weight`` = a_ij, s_max the largest sum of them at one node, a_max the
          largest of them (units cancel; equals ``"laplacian"`` if all are equal);
        - a vector of length E: the w_ij themselves, in the order of ``graph.edges`` or of the
          edge list;
        - an (n, n) array or sparse matrix: C itself, nonzero exactly on the edges of the graph.

        A gossip matrix as ``graph`` brings its own weights; leave the default then.

    Attributes
    ----------
    n : int
        Number of agents.
    nodes : tuple
        Labels; ``nodes[i]`` is agent i.
    edges : ndarray, shape (E, 2), int64
        Pairs i < j in lexicographic order.
    weights : ndarray, shape (E,)
        w_ij of each edge (nonzero; positive unless a given matrix says otherwise).
    degree, rounds : int
        Degree of C as a polynomial in itself and exchanges per product: both 1.
    duration : str
        The latter in words.
    scaling, recurrence : float, ndarray of shape (0, 2)
        Trivial Chebyshev recurrence, see :class:`ChebyshevNetwork`.

    Examples
    --------
    >>> import networkx as nx
    >>> network = Network(nx.path_graph(8))
    >>> network.n, round(network.kappa, 4)
    (8, 25.2741)
    >>> Network([(0, 1), (1, 2)]).mix([1.0, 0.0, 0.0]).round(4).tolist()
    [0.0833, -0.0833, 0.0]
    """

    degree = 1
    rounds = 1
    duration = "1 round"
    scaling = 1.0

    def __init__(
        self, graph: nx.Graph | Iterable[Any] | Any, weights: str | ArrayLike = "laplacian"
    ) -> None:
        topology, values = read(graph, weights)
        self.nodes: tuple[Hashable, ...] = topology.nodes
        self.n = len(topology.nodes)
        self.edges: NDArray[np.int64] = topology.edges
        self.weights: NDArray[np.float64] = values
        self.recurrence: NDArray[np.float64] = np.empty((0, 2))
        for array in (self.edges, self.weights, self.recurrence):
            array.setflags(write=False)
        if np.any(values < 0):
            self._check_semidefinite()

    def __repr__(self) -> str:
        return f"Network({counted(self.n, 'agent')}, {counted(len(self.edges), 'edge')})"

    def _check_semidefinite(self) -> None:
        if self.lambda_min <= SINGULAR * abs(self.lambda_max):
            raise NetworkError(
                f"The gossip matrix has the eigenvalue {self.lambda_min:.3g} besides the zero of "
                "the consensus direction: it must be positive semidefinite with null space "
                "span(1). Reduce its negative edge weights."
            )

    # -- spectrum ---------------------------------------------------------------------------

    @cached_property
    def eigenvalues(self) -> NDArray[np.float64] | None:
        """All nonzero eigenvalues of C, ascending; None for more than a few hundred agents."""
        if self.n > DENSE_LIMIT:
            return None
        ones = np.full((self.n, self.n), 1.0 / self.n)  # moves the zero to the upper end
        shift = 2.0 * np.abs(self.matrix).sum(axis=1).max()
        return np.linalg.eigvalsh(self.matrix.toarray() + shift * ones)[:-1].astype(np.float64)

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        if self.n == 1:
            return 0.0, 0.0
        if self.eigenvalues is not None:
            return float(self.eigenvalues[0]), float(self.eigenvalues[-1])
        return extreme_eigenvalues(self.matrix, self.edges, self.weights)

    @property
    def lambda_min(self) -> float:
        """Smallest nonzero eigenvalue λ_min⁺ of C (0 for a single agent)."""
        return self._extremes[0]

    @property
    def lambda_max(self) -> float:
        """Largest eigenvalue of C (0 for a single agent)."""
        return self._extremes[1]

    @cached_property
    def spectral(self) -> Spectral:
        """Extreme eigenvalues, condition number and majorant of C.

        m_i = 2Σ_j max(c_ij, 0), because (a-b)² ≤ 2a² + 2b²; it is λ_max for all where that is
        smaller for each of them.
        """
        least, most = self._extremes
        weights = np.repeat(np.maximum(self.weights, 0.0), 2)
        sums = np.bincount(self.edges.ravel(), weights=weights, minlength=self.n)
        twice = np.asarray(2.0 * sums, dtype=np.float64)
        majorant = np.minimum(twice, most) if twice.min() >= most else twice
        return Spectral(least, most, most / least if self.n > 1 else 1.0, majorant)

    @property
    def majorant(self) -> NDArray[np.float64]:
        """m with C ≤ diag(m), see :attr:`spectral`."""
        return self.spectral.majorant

    @property
    def kappa(self) -> float:
        """Condition number κ_C = λ_max/λ_min⁺ (1 for a single agent)."""
        return self.spectral.kappa

    # -- matrices and products --------------------------------------------------------------

    @cached_property
    def neighbours(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """CSR arrays (indptr, indices, data) of the w_ij, columns sorted within each row."""
        i, j = self.edges.T
        off = sp.csr_array(
            (np.tile(self.weights, 2), (np.concatenate([i, j]), np.concatenate([j, i]))),
            shape=(self.n, self.n),
        )
        off.sort_indices()
        return off.indptr.astype(np.int64), off.indices.astype(np.int64), off.data

    @cached_property
    def matrix(self) -> sp.csr_array:
        """The gossip matrix C, for inspection; products go through :meth:`mix`."""
        indptr, indices, data = self.neighbours
        off = sp.csr_array((data, indices, indptr), shape=(self.n, self.n))
        return sp.csr_array(sp.diags_array(np.asarray(off.sum(axis=1)).ravel()) - off)

    @property
    def W(self) -> sp.csr_array:
        """Mixing matrix W = I − 2C (rows sum to one), so that C = (I − W)/2."""
        return sp.csr_array(sp.eye_array(self.n) - 2.0 * self.matrix)

    @cached_property
    def _incidence(self) -> sp.csr_array:
        """B (n × E): +1 at the first end of each edge, -1 at the second."""
        count = len(self.edges)
        rows, columns = self.edges.T.ravel(), np.tile(np.arange(count), 2)
        return sp.csr_array((np.repeat([1.0, -1.0], count), (rows, columns)), (self.n, count))

    def mix(self, V: ArrayLike) -> NDArray[np.float64]:
        """C V = B (w ∘ BᵀV), B the incidence matrix: differences first, then their sums.

        Parameters
        ----------
        V : array_like, shape (n,) or (n, p)
            One row per agent.

        Returns
        -------
        ndarray
            Same shape as V; one round of communication.
        """
        V = self.rows(V)
        first, second = self.edges.T
        differences = V[first] - V[second]
        return self._incidence @ (differences.T * self.weights).T

    def rows(self, V: ArrayLike) -> NDArray[np.float64]:
        """V as a float array, checked to have one row per agent."""
        V = np.asarray(V, dtype=np.float64)
        if V.ndim not in (1, 2) or len(V) != self.n:
            raise NetworkError(
                f"The array has shape {V.shape}: expected one row for each of {self.n} agents."
            )
        return V

    # -- derived ----------------------------------------------------------------------------

    @cached_property
    def tree(self) -> Tree:
        """Spanning tree over which maxima and sums are agreed."""
        return spanning_tree(self.n, self.edges)

    def chebyshev(
        self, degree: int | None = None, spectrum: SpectrumKind = "exact"
    ) -> ChebyshevNetwork:
        """Network with the gossip matrix P_K(C), see :class:`ChebyshevNetwork`."""
        return ChebyshevNetwork(self, degree, spectrum)
