"""Where the report draws the agents of a network."""

from collections.abc import Sequence

import networkx as nx
import numpy as np

WIDTH, MARGIN = 320.0, 18.0
"""Of the picture, in its own units; the page scales it."""

MOST = 120
"""Agents of the largest network that is drawn; beyond, a picture shows nothing."""

FLAT = 0.05
"""Height over width below which a picture is a line, its height rounding of the layout."""


def network_places(n: int, edges: Sequence[Sequence[int]]) -> tuple[list[list[float]], float]:
    """Places of the agents 0, …, n−1 with the longest extent lying flat, and the picture's height.

    Examples
    --------
    >>> network_places(2, [[0, 1]])
    ([[18.0, 30.0], [302.0, 30.0]], 60.0)
    """
    if n > MOST:
        return [], 0.0
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((i, j) for i, j in edges)
    if n > 1 and nx.is_connected(graph):
        found = nx.kamada_kawai_layout(graph)
    else:
        found = nx.circular_layout(graph)
    points = np.array([found[agent] for agent in range(n)], dtype=float)
    points -= points.mean(axis=0)
    _, _, axes = np.linalg.svd(points, full_matrices=True)
    points = points @ axes.T
    points *= np.where(points[0] > 0, -1.0, 1.0)
    extent = np.ptp(points, axis=0)
    if extent[1] < FLAT * extent[0]:
        points[:, 1] = extent[1] = 0.0
    unit = (WIDTH - 2 * MARGIN) / max(extent[0], 1e-9)
    height = max(extent[1] * unit, 24.0)
    middle = (points.max(axis=0) + points.min(axis=0)) / 2
    centre = np.array([WIDTH / 2, MARGIN + height / 2])
    places = (points - middle) * (unit if extent[0] > 1e-9 else 0.0) + centre
    return places.tolist(), height + 2 * MARGIN
