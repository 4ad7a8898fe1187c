"""Networks by name, for configs: a name and its arguments in, a network of n agents out."""

import functools
import math
from collections.abc import Callable
from typing import Annotated, Any

import networkx as nx
import numpy as np

from dual2.bench.arguments import Builders, Count, Range, Size
from dual2.bench.imported import call
from dual2.errors import NetworkError
from dual2.network import Network

TRIES = 1000
"""How many seeds a random graph may try until it is connected."""


def grid(n: int, rows: Count = 0) -> nx.Graph:
    """A grid with ``rows`` rows, by default as square as n allows."""
    rows = rows or max(k for k in range(1, math.isqrt(n) + 1) if n % k == 0)
    if n % rows:
        raise NetworkError(f"A grid of {n} agents cannot have {rows} rows: {rows} must divide {n}.")
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, n // rows))


def circulant(n: int, reach: Size = 1) -> nx.Graph:
    """A ring in which everyone also talks to neighbours up to ``reach`` places away."""
    if reach >= n:
        raise NetworkError(f"reach = {reach} found; expected 1 … {n - 1} for {n} agents.")
    return nx.circulant_graph(n, range(1, reach + 1))


def erdos_renyi(
    n: int, p: Annotated[float, Range(0, 1, open=True)] = 0.3, seed: Count = 0
) -> nx.Graph:
    """A random graph with edge probability ``p``: the first connected one from ``seed`` on."""
    least = f"p (log(n)/n = {math.log(n) / n:.2g} is about the least that works)"
    words = f"{n} agents with edge probability {p}", least
    return _connected(lambda own: nx.gnp_random_graph(n, p, seed=own), seed, *words)


def geometric(
    n: int, radius: Annotated[float, Range(0, 2, open=True)] = 0.45, seed: Count = 0
) -> nx.Graph:
    """Random places in the unit square, linked within ``radius``: the first connected graph."""
    words = f"{n} agents within radius {radius}", "radius"
    return _connected(lambda own: nx.random_geometric_graph(n, radius, seed=own), seed, *words)


def _connected(make: Callable[[int], nx.Graph], seed: int, what: str, lever: str) -> nx.Graph:
    """The first connected graph from ``seed`` on."""
    for shift in range(TRIES):
        graph = make(seed + shift)
        if nx.is_connected(graph):
            return graph
    raise NetworkError(f"No connected graph of {what} in {TRIES} tries: raise {lever}.")


def conditioned(n: int, kappa: Annotated[float, Range(1, open=True)] = 10.0) -> np.ndarray:
    """A gossip matrix with a given κ_C for the same n: a path, and everyone to everyone weakly.

    C = L_path + t·L_complete has the eigenvalues μ_k + tn, where μ_k are those of the path; so
    κ_C = (μ_max + tn)/(μ_min + tn) is met by tn = (μ_max - κ_C μ_min)/(κ_C - 1).

    Examples
    --------
    >>> print(f"{Network(conditioned(12, 40.0)).kappa:.6f}")
    40.000000
    """
    path = nx.laplacian_matrix(nx.path_graph(n)).toarray().astype(float)
    low, high = (2 - 2 * math.cos(math.pi * k / n) for k in (1, n - 1))
    if kappa > high / low:
        raise NetworkError(
            f"kappa = {kappa} found; with {n} agents expected 1 < kappa ≤ {high / low:.6g}, the "
            "condition number of the path."
        )
    return path + (high - kappa * low) / (kappa - 1) * (np.eye(n) - 1.0 / n)


TOPOLOGIES: dict[str, Callable[..., Any]] = {
    "path": lambda n: nx.path_graph(n),
    "ring": lambda n: nx.cycle_graph(n),
    "star": lambda n: nx.star_graph(n - 1),
    "complete": lambda n: nx.complete_graph(n),
    "grid": grid,
    "circulant": circulant,
    "erdos_renyi": erdos_renyi,
    "geometric": geometric,
    "conditioned": conditioned,
}
"""Each takes n, then the arguments of its own."""

DENSE = ("complete", "erdos_renyi", "geometric", "conditioned")
"""Networks in which every pair of agents is looked at."""
MOST_PAIRS = 1_000_000
"""Most pairs of agents that a config may ask for: the graph takes some 500 bytes for each."""


def _of_user(make: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function of the user's, which must make a network of n agents."""

    @functools.wraps(make)
    def build(n: int, **options: Any) -> Network:
        found = call(name, make, n, options)
        network = found if isinstance(found, Network) else Network(found)
        if network.n != n:
            raise NetworkError(f"{name} returned a network of {network.n}; expected {n} agents.")
        return network

    return build


NETWORKS = Builders("network", TOPOLOGIES, "n", NetworkError, _of_user)
"""The same with a check of the arguments."""


def build_network(n: int, build: str, **options: Any) -> Network:
    """A network of n agents.

    ``n``: agents; ``build``: a key of :data:`TOPOLOGIES`; ``options``: its arguments.

    Examples
    --------
    >>> build_network(6, "grid").edges.shape, round(build_network(8, "path").kappa, 3)
    ((7, 2), 25.274)
    """
    pairs = n * n if build in DENSE else n * options.get("reach", 1)
    if isinstance(pairs, int) and pairs > MOST_PAIRS:
        raise NetworkError(
            f"n = {n} found; expected fewer agents: {build!r} would look at {pairs} pairs of them, "
            f"more than {MOST_PAIRS}."
        )
    found = NETWORKS.build(build, n, options)
    return found if isinstance(found, Network) else Network(found)
