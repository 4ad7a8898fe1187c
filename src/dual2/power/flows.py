"""Flows in a grid: the linear (DC) model, its power transfer factors and its limits."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU, splu

from dual2.errors import ProblemError
from dual2.functions.arguments import Array


@dataclass(frozen=True)
class Line:
    """A line or transformer: flow = susceptance·(θ_start - θ_end - shift), lossless.

    Parameters
    ----------
    start, end : hashable
        The buses it joins; the flow counts from the first to the second.
    susceptance : float
        In MW per radian, baseMVA/x for a reactance x per unit; not 0, may be negative.
    rating : float
        Largest flow in either direction, in MW.
    shift : float
        Phase shift in radians.
    angles : (float, float)
        Limits of θ_start - θ_end, in radians.
    name : str
        For tables and messages; made of the buses unless given.

    Examples
    --------
    >>> Line("a", "b", susceptance=1000.0, rating=80.0, angles=(-0.05, 0.1)).limits
    (-50.0, 80.0)
    """

    start: Any
    end: Any
    susceptance: float
    rating: float = np.inf
    shift: float = 0.0
    angles: tuple[float, float] = (-np.inf, np.inf)
    name: str = ""

    def __post_init__(self) -> None:
        name = self.name or f"line {self.start}-{self.end}"
        object.__setattr__(self, "name", name)
        if not (np.isfinite(self.susceptance) and self.susceptance != 0):
            raise ProblemError(
                f"{name!r}: its susceptance is {self.susceptance:g}; expected a finite number "
                "other than 0. Join its buses to one, or give it a reactance."
            )
        if not np.isfinite(self.shift) or not self.rating >= 0:
            raise ProblemError(
                f"{name!r}: shift = {self.shift:g}, rating = {self.rating:g}; expected a finite "
                "angle and a rating ≥ 0."
            )
        if not self.limits[0] <= self.limits[1]:
            raise ProblemError(
                f"{name!r}: its rating and angles allow no flow: at least {self.limits[0]:g} and "
                f"at most {self.limits[1]:g} MW."
            )

    @property
    def by_angle(self) -> tuple[float, float]:
        """Limits of the flow that those of the angles imply; a negative susceptance swaps them."""
        ends = sorted(self.susceptance * (angle - self.shift) for angle in self.angles)
        return ends[0], ends[1]

    @property
    def limits(self) -> tuple[float, float]:
        """The tighter of rating and angles, in MW."""
        low, high = self.by_angle
        return max(-self.rating, low), min(self.rating, high)


class Grid:
    """Lines between buses: how flows follow from injections.

    With the incidence matrix C, susceptances b and shifts s, the angles solve
    C'·b·C·θ = injections + C'(b∘s), and the flows are b∘(Cθ - s). The power transfer factors H
    are the flows of one MW from a bus to the first bus.

    Parameters
    ----------
    lines : iterable of Line
        They must connect all buses.
    nodes : mapping from bus to node, optional
        Buses that are one electrically share a node; the ends of lines are nodes. Each node is a
        bus of that name unless given.
    model : str
        What the susceptances were made with, for the reader of the answer.

    Examples
    --------
    A triangle of equal lines: two thirds take the direct way.

    >>> grid = Grid([Line("c", "b", 1.0), Line("b", "a", 1.0), Line("c", "a", 1.0)])
    >>> grid.factors(["a", "b"]).round(4)
    array([[-0.3333, -0.6667],
           [-0.3333,  0.3333],
           [-0.6667, -0.3333]])
    """

    def __init__(
        self, lines: Iterable[Line], nodes: Mapping[Any, Any] | None = None, model: str = ""
    ) -> None:
        self.lines, self.model = tuple(lines), model
        ends = dict.fromkeys(end for line in self.lines for end in (line.start, line.end))
        nodes = {end: end for end in ends} if nodes is None else nodes
        place = {node: k for k, node in enumerate(dict.fromkeys([*ends, *nodes.values()]))}
        self.place: dict[Hashable, int] = {bus: place[node] for bus, node in nodes.items()}
        self.size = len(place)
        self._pairs = [(place[line.start], place[line.end]) for line in self.lines]
        self._check(place)
        count = len(self.lines)
        signs, rows = np.tile([1.0, -1.0], count), np.repeat(np.arange(count), 2)
        nodes_of = np.array(self._pairs, dtype=int).ravel()
        self.incidence = sp.csr_array((signs, (rows, nodes_of)), shape=(count, self.size))
        self.b = np.array([line.susceptance for line in self.lines])
        self.shifts = self.b * np.array([line.shift for line in self.lines])

    def __repr__(self) -> str:
        return f"Grid({len(self.place)} buses, {len(self.lines)} lines)"

    @property
    def pairs(self) -> list[tuple[Any, Any]]:
        """Buses that lines join; buses at one node are joined as well."""
        at: dict[int, list[Any]] = {k: [] for k in range(self.size)}
        for bus, node in self.place.items():
            at[node].append(bus)
        names = [buses[0] if buses else ("node", k) for k, buses in at.items()]
        same = [pair for buses in at.values() for pair in pairwise(buses)]
        return same + [(names[a], names[b]) for a, b in self._pairs]

    def _check(self, place: Mapping[Any, int]) -> None:
        names = [line.name for line in self.lines]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ProblemError(f"Grid: the name {twice!r} is used twice among the lines.")
        graph = nx.Graph(self._pairs)
        graph.add_nodes_from(range(self.size))
        parts = list(nx.connected_components(graph))
        if len(parts) > 1:
            buses = list(place)
            apart = [buses[min(part)] for part in parts[:2]]
            raise ProblemError(
                f"Grid: no line leads from bus {apart[0]!r} to bus {apart[1]!r}. Dispatch each "
                "part by itself, or take one out."
            )

    @cached_property
    def _solver(self) -> SuperLU:
        """Factors of C'·b·C without the first bus."""
        nodal = (self.incidence.T @ (self.b[:, None] * self.incidence)).tocsc()
        try:
            return splu(nodal[1:, 1:].tocsc())
        except RuntimeError as error:
            raise ProblemError(
                "Grid: the susceptance matrix is singular: negative reactances cancel others. "
                "Correct or remove them."
            ) from error

    def _potentials(self, injections: Array) -> Array:
        """θ for injections (nodes, k), the first node at 0."""
        found = np.zeros(injections.shape)
        if self.size > 1:
            found[1:] = self._solver.solve(np.ascontiguousarray(injections[1:]))
        return found

    def factors(self, buses: Sequence[Any]) -> Array:
        """H for these buses: MW on each line per MW injected there, (lines, buses)."""
        places = [self.place[bus] for bus in buses]
        unique, back = np.unique(places, return_inverse=True)
        unit = np.zeros((self.size, len(unique)))
        unit[unique, np.arange(len(unique))] = 1.0
        flows = self.b[:, None] * (self.incidence @ self._potentials(unit))
        return flows[:, back]

    def rows(self, lines: Sequence[int]) -> Array:
        """H of these lines for every node, (lines, nodes)."""
        drops = self.b[list(lines), None] * self.incidence[list(lines)].toarray()
        return self._potentials(drops.T).T

    def gather(self, powers: Iterable[tuple[Any, Array]], periods: int) -> Array:
        """Powers at buses, added up by node: (nodes, periods)."""
        total = np.zeros((self.size, periods))
        for bus, power in powers:
            total[self.place[bus]] += power
        return total

    def angles(self, injections: Array) -> Array:
        """θ of every node in radians, the first at 0, for net injections (nodes, periods)."""
        return self._potentials(injections + (self.incidence.T @ self.shifts)[:, None])

    def flows(self, injections: Array) -> Array:
        """Flows (lines, periods) for net injections (nodes, periods)."""
        drops = self.incidence @ self.angles(injections)
        return self.b[:, None] * drops - self.shifts[:, None]
