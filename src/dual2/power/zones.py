"""Zones as agents: an area's operator answers for all of its units."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from dual2.errors import ProblemError
from dual2.functions import Stacked
from dual2.functions.arguments import Array
from dual2.power.unit_agents import compact
from dual2.problem import Agent

if TYPE_CHECKING:
    from dual2.power.answer import Answer


class Zones:
    """Which units each zone has, in the order in which zones are first met.

    ``of_bus``: the zone of every bus with a unit, and maybe of others; ``units``: who takes part.

    Examples
    --------
    >>> from dual2.power import Generator
    >>> units = [Generator(name, (0.0, 1.0), 1.0, bus=bus) for name, bus in zip("abc", (1, 2, 3))]
    >>> zones = Zones({1: "north", 2: "south", 3: "north"}, units)
    >>> zones.names, zones.members
    (['north', 'south'], [[0, 2], [1]])
    """

    def __init__(self, of_bus: Mapping[Any, Hashable], units: Sequence[Any]) -> None:
        self.of_bus = dict(of_bus)
        found: dict[Hashable, list[int]] = {}
        for k, unit in enumerate(units):
            if unit.bus not in self.of_bus:
                raise ProblemError(
                    f"Dispatch: zones has no entry for bus {unit.bus!r}, where {unit.name!r} is. "
                    "Give the zone of every bus with a unit."
                )
            found.setdefault(self.of_bus[unit.bus], []).append(k)
        self.names = [str(zone) for zone in found]
        self.labels = list(found)
        self.members = list(found.values())

    def join(self, agents: Sequence[Agent]) -> list[Agent]:
        """One agent for each zone, from those of the units."""
        return [_together([agents[k] for k in own]) for own in self.members]

    def split(self, x: Sequence[Array], sizes: Sequence[int]) -> list[Array]:
        """The units' variables, from those of the zones."""
        found: list[Array] = [np.zeros(0)] * len(sizes)
        for own, values in zip(self.members, x, strict=True):
            cuts = np.cumsum([sizes[k] for k in own])[:-1]
            for k, part in zip(own, np.split(np.asarray(values), cuts), strict=True):
                found[k] = part
        return found

    def graph(self, units: nx.Graph) -> nx.Graph:
        """Zones talk where their units do."""
        zone = {k: i for i, own in enumerate(self.members) for k in own}
        found = nx.empty_graph(len(self.members))
        found.add_edges_from((zone[a], zone[b]) for a, b in units.edges if zone[a] != zone[b])
        return found


def _together(agents: list[Agent]) -> Agent:
    if len(agents) == 1:
        return agents[0]
    sizes = [agent.dim for agent in agents]
    f, g = (Stacked([getattr(agent, name) for agent in agents], sizes) for name in ("f", "g"))
    A = sp.hstack([sp.csr_array(agent.A) for agent in agents], format="csr")
    return Agent(compact(A), f, g)


def zone_table(answer: "Answer") -> list[dict[str, Any]]:
    """One dict per zone: generation, demand, export, mean price by demand; lists over the periods.

    ``export`` = generation - demand. A zone without demand has the mean price of its buses. Zones
    without units are listed, too.
    """
    case, T = answer.case, answer.case.periods
    if case.zones is None:
        return []
    of_bus = case.zones.of_bus
    found = []
    for zone in dict.fromkeys([*case.zones.labels, *of_bus.values()]):
        buses = [bus for bus in case.buses if of_bus.get(bus) == zone]
        taken = np.array([case.demand.get(bus, np.zeros(T)) for bus in buses]).reshape(-1, T)
        prices = np.array([answer.bus_price(bus) for bus in buses]).reshape(-1, T)
        made = sum((answer.fed_in(bus) for bus in buses), np.zeros(T))
        total = taken.sum(axis=0)
        known = np.where(total > 0, total, 1.0)
        share = np.where(total > 0, taken / known, 1.0 / max(len(taken), 1))
        row = {"generation": made, "demand": total, "export": made - total}
        row["price"] = (share * prices).sum(axis=0)
        found.append({"zone": zone} | {name: value.tolist() for name, value in row.items()})
    return found
