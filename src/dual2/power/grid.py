"""Who talks to whom in a grid, and limits of flows between its parts."""

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from dual2.errors import NetworkError, ProblemError
from dual2.functions.arguments import entries, store


@dataclass(frozen=True, eq=False)
class Interface:
    """A limit on a flow that is linear in the net injections of the buses.

    lower ≤ Σ_b weights[b]·(generation_b - demand_b) ≤ upper, in every period.

    A zone's export has weight 1 at the zone's buses. Lines with their limits are a :class:`Grid`.

    Parameters
    ----------
    name : str
        For tables and messages.
    weights : mapping from bus to float
        Buses that are left out have weight 0.
    lower, upper : float or vector of length T
        Limits in MW, possibly infinite.

    Examples
    --------
    >>> Interface.export("north", buses=[1, 2], limit=50.0).weights
    {1: 1.0, 2: 1.0}
    """

    name: str
    weights: dict[Any, float]
    lower: Any = -np.inf
    upper: Any = np.inf

    def __post_init__(self) -> None:
        for kind in ("lower", "upper"):
            limit = entries(f"Interface {self.name!r}", kind, getattr(self, kind), finite=False)
            store(self, **{kind: limit})
        if np.any(np.greater(self.lower, self.upper)):
            raise ProblemError(
                f"Interface {self.name!r}: its lower limit {np.max(self.lower):g} exceeds its "
                f"upper limit {np.min(self.upper):g}."
            )

    @staticmethod
    def export(name: str, buses: Iterable[Hashable], limit: Any) -> "Interface":
        """A zone whose net export lies in [-limit, limit]."""
        room = np.asarray(limit, dtype=float)
        return Interface(name, dict.fromkeys(buses, 1.0), -room, room)


def agent_graph(buses: Sequence[Hashable], lines: Iterable[tuple[Any, Any]]) -> nx.Graph:
    """Graph of the units of a grid: unit i sits at ``buses[i]``.

    Every bus without a unit is looked after by the nearest unit (fewest lines, then the first
    in the list); two units talk if they share a bus or if a line joins what they look after.

    Raises
    ------
    NetworkError
        If the units cannot all reach each other through the grid.

    Examples
    --------
    Three units at the ends of a star of four buses:

    >>> sorted(agent_graph([1, 2, 3], [(0, 1), (0, 2), (0, 3)]).edges)
    [(0, 1), (0, 2)]
    """
    grid = nx.Graph(lines)
    grid.add_nodes_from(buses)
    at: dict[Hashable, list[int]] = {}
    for unit, bus in enumerate(buses):
        at.setdefault(bus, []).append(unit)
    keeper = {bus: units[0] for bus, units in at.items()}
    queue = deque(keeper)
    while queue:
        bus = queue.popleft()
        for other in grid[bus]:
            if other not in keeper:
                keeper[other] = keeper[bus]
                queue.append(other)
    graph = nx.Graph()
    graph.add_nodes_from(range(len(buses)))
    for units in at.values():
        graph.add_edges_from((a, b) for k, a in enumerate(units) for b in units[k + 1 :])
    joined = ((keeper.get(a), keeper.get(b)) for a, b in grid.edges)
    graph.add_edges_from((a, b) for a, b in joined if a is not None and a != b)
    _require_connected(graph, buses)
    return graph


def reached(buses: Sequence[Hashable], lines: Iterable[tuple[Any, Any]]) -> set[Hashable]:
    """The buses that lines connect with the given ones, and these themselves."""
    grid = nx.Graph(lines)
    grid.add_nodes_from(buses)
    return set().union(*(nx.node_connected_component(grid, bus) for bus in set(buses)))


def _require_connected(graph: nx.Graph, buses: Sequence[Hashable]) -> None:
    parts = [sorted(part) for part in nx.connected_components(graph)]
    if len(parts) > 1:
        named = [", ".join(str(buses[i]) for i in part[:5]) for part in parts[:2]]
        raise NetworkError(
            f"The grid is not connected: the units at buses {{{named[0]}}} cannot reach those at "
            f"{{{named[1]}}}. Dispatch each part by itself, or give graph= for the communication."
        )
