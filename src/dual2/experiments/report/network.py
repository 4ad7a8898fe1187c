"""A picture of a network as SVG."""

from collections.abc import Sequence

import networkx as nx
import numpy as np
from numpy.typing import NDArray

WIDTH = 320.0
"""Of the picture, in its own units; the page scales it."""

MOST = 120
"""Agents of the largest network that is drawn; beyond, a picture shows nothing."""

MARGIN, RADIUS = 18.0, 11.0

FLAT = 0.05
"""Height over width below which a picture is a line, its height rounding of the layout."""


def network_svg(n: int, edges: Sequence[Sequence[int]]) -> str:
    """The graph with numbered agents, its longest extent lying flat.

    Parameters
    ----------
    n : int
        Agents 0, …, n−1.
    edges : list of [i, j]
        Who talks to whom.

    Returns
    -------
    str
        An ``<svg>`` element coloured by the page's style sheet, or nothing if n is too large.

    Examples
    --------
    >>> network_svg(2, [[0, 1]]).count("<circle")
    2
    """
    if n > MOST:
        return ""
    places, height = _places(n, edges)
    radius = max(3.5, RADIUS * min(1.0, 3.2 / np.sqrt(n)))
    lines = (
        '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>'.format(*places[i], *places[j])
        for i, j in edges
    )
    agents = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>'
        f'<text x="{x:.1f}" y="{y:.1f}" dy="0.35em" font-size="{0.9 * radius:.1f}">{agent}</text>'
        for agent, (x, y) in enumerate(places)
    )
    title = f"Network of {n} agents with {len(edges)} edges"
    return (
        f'<svg class="network" viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" '
        f'aria-label="{title}"><title>{title}</title>{"".join(lines)}{"".join(agents)}</svg>'
    )


def _places(n: int, edges: Sequence[Sequence[int]]) -> tuple[NDArray[np.float64], float]:
    """Where the agents are drawn, and the height of the picture."""
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
    return (points - middle) * (unit if extent[0] > 1e-9 else 0.0) + centre, height + 2 * MARGIN
