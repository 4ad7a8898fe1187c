"""Flows in a grid: the linear (DC) model, its power transfer factors and its limits."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import SuperLU, splu

from dual2.errors import ProblemError
from dual2.functions.arguments import Array, entries, store


@dataclass(frozen=True)
class Line:
    """A line or transformer: flow = susceptance·(θ_start - θ_end - shift), lossless.

    Parameters
    ----------
    start, end : hashable
        The buses it joins; the flow counts from the first to the second.
    susceptance : float
        In MW per radian, baseMVA/x for a reactance x per unit; not 0, may be negative.
    rating : float or vector of length T
        Largest flow in either direction, in MW.
    shift : float
        Phase shift in radians.
    angles : (float, float)
        Limits of θ_start - θ_end, in radians.
    name : str
        For tables and messages; made of the buses unless given.
    emergency : float or vector of length T, optional
        Rating after an outage of another line; the same unless given.

    Examples
    --------
    >>> Line("a", "b", susceptance=1000.0, rating=80.0, angles=(-0.05, 0.1)).limits
    (-50.0, 80.0)
    """

    start: Any
    end: Any
    susceptance: float
    rating: Any = np.inf
    shift: float = 0.0
    angles: tuple[float, float] = (-np.inf, np.inf)
    name: str = ""
    emergency: Any = None

    def __post_init__(self) -> None:
        name = self.name or f"line {self.start}-{self.end}"
        object.__setattr__(self, "name", name)
        if not (np.isfinite(self.susceptance) and self.susceptance != 0):
            raise ProblemError(
                f"{name!r}: its susceptance is {self.susceptance:g}; expected a finite number "
                "other than 0. Join its buses to one, or give it a reactance."
            )
        for kind in ("rating", "emergency"):
            if getattr(self, kind) is not None:
                store(self, **{kind: entries(f"{name!r}", kind, getattr(self, kind), finite=False)})
        if not np.isfinite(self.shift) or not np.all(np.greater_equal(self.rating, 0)):
            raise ProblemError(
                f"{name!r}: shift = {self.shift:g}, rating = {self.rating}; expected a finite "
                "angle and a rating ≥ 0."
            )
        low, high = self.limits
        if np.any(np.greater(low, high)):
            raise ProblemError(
                f"{name!r}: its rating and angles allow no flow: at least {np.max(low):g} and "
                f"at most {np.min(high):g} MW."
            )

    @property
    def by_angle(self) -> tuple[float, float]:
        """Limits of the flow that those of the angles imply; a negative susceptance swaps them."""
        ends = sorted(self.susceptance * (angle - self.shift) for angle in self.angles)
        return ends[0], ends[1]

    @property
    def limits(self) -> tuple[Any, Any]:
        """The tighter of rating and angles, in MW; vectors where the rating is one."""
        return self._within(self.rating)

    @property
    def emergency_limits(self) -> tuple[Any, Any]:
        """The same after an outage of another line."""
        return self._within(self.rating if self.emergency is None else self.emergency)

    def _within(self, rating: Any) -> tuple[Any, Any]:
        low, high = self.by_angle
        if np.ndim(rating):
            return np.maximum(-rating, low), np.minimum(rating, high)
        return max(-rating, low), min(rating, high)


class Grid:
    """Lines between buses: how flows follow from injections.

    With the incidence matrix C, susceptances b and shifts s, the angles solve
    C'·b·C·θ = injections + C'(b∘s), and the flows are b∘(Cθ - s). The power transfer factors H
    are the flows of one MW from a bus to the first bus of its island.

    Parameters
    ----------
    lines : iterable of Line
        Buses that they do not connect are islands, each with a balance of its own.
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
        self.lines, self.model, self._given = tuple(lines), model, nodes
        ends = dict.fromkeys(end for line in self.lines for end in (line.start, line.end))
        nodes = {end: end for end in ends} if nodes is None else nodes
        place = {node: k for k, node in enumerate(dict.fromkeys([*ends, *nodes.values()]))}
        self._nodes = place
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

    def over(self, periods: slice) -> "Grid":
        """The same grid in some periods: ratings by period are cut."""
        lines = [
            replace(line, **{
                name: value[periods]
                for name in ("rating", "emergency")
                if np.ndim(value := getattr(line, name))
            })
            for line in self.lines
        ]  # fmt: skip
        return Grid(lines, self._given, self.model)

    def place_of(self, node: Any) -> int:
        """The number of a node, as the ends of lines name them."""
        return self._nodes[node]

    @cached_property
    def island(self) -> NDArray[np.intp]:
        """The number of the island of each node, in the order of their first nodes."""
        adjacency = abs(self.incidence.T) @ abs(self.incidence)
        return connected_components(adjacency, directed=False)[1]

    @cached_property
    def references(self) -> NDArray[np.intp]:
        """The first node of each island, whose angle is 0."""
        return np.unique(self.island, return_index=True)[1]

    @cached_property
    def _others(self) -> NDArray[np.intp]:
        return np.setdiff1d(np.arange(self.size), self.references)

    @cached_property
    def _solver(self) -> SuperLU:
        """Factors of C'·b·C without the first bus of each island."""
        nodal = (self.incidence.T @ (self.b[:, None] * self.incidence)).tocsc()
        try:
            return splu(nodal[self._others][:, self._others].tocsc())
        except RuntimeError as error:
            raise ProblemError(
                "Grid: the susceptance matrix is singular: negative reactances cancel others. "
                "Correct or remove them."
            ) from error

    def _potentials(self, injections: Array) -> Array:
        """θ for injections (nodes, k), the first node of each island at 0."""
        found, rest = np.zeros(injections.shape), self._others
        if len(rest):
            found[rest] = self._solver.solve(np.ascontiguousarray(injections[rest]))
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

    def transfer(self, lines: Sequence[int]) -> Array:
        """Flow on each line per MW sent from one end of these lines to the other, (lines, k)."""
        sent = self.incidence[list(lines)].toarray().T
        return self.b[:, None] * (self.incidence @ self._potentials(sent))

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
