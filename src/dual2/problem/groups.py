"""Agents in groups: what is computed for many agents at once, one row each.

Agents go together if they have as many variables, functions of the same kind and matrices of the
same kind, see :mod:`dual2.problem.alike`. So a definition is written once, for rows, and costs
little Python however many the agents are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from dual2.functions import Function
from dual2.problem.alike import Dense, Each, Forms, Shared, Sparse

if TYPE_CHECKING:
    from dual2.problem.agent import Agent

Array = NDArray[np.float64]
Key = tuple[int, Hashable, bool, bool]
LARGE = 20_000
"""Entries of a matrix from which its agent is a group of its own, unless others share it."""
SOME = 2_000_000
"""Numbers in an array of a group; more agents make several groups."""


@dataclass(frozen=True, eq=False)
class Group:
    """Agents that are alike.

    Attributes
    ----------
    at : ndarray of int64
        Their places among the agents of this process, ascending.
    dim : int
        d, of each.
    f, g : Forms or Each
        Their functions, row by row.
    A : Shared, Dense or Sparse
        Their matrices.
    """

    at: NDArray[np.int64]
    dim: int
    f: Forms | Each
    g: Forms | Each
    A: Shared | Dense | Sparse

    def take(self, x: Sequence[Array]) -> Array:
        """The parts of its agents, one row each."""
        return np.array([x[i] for i in self.at.tolist()])

    @property
    def plain(self) -> bool:
        """Whether f and g split by coordinate and A is a matrix."""
        return self.A.known and isinstance(self.f, Forms) and isinstance(self.g, Forms)


def find_groups(agents: Sequence[Agent]) -> list[Group]:
    """All agents in groups.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0]], d2.SquaredNorm(w)) for w in (1.0, 2.0, 3.0)]
    >>> [group.at.tolist() for group in find_groups(agents)]
    [[0, 1, 2]]
    """
    shared = Counter(id(agent.A) for agent in agents)
    found: dict[Key, list[int]] = defaultdict(list)
    for i, agent in enumerate(agents):
        kind = _matrix_kind(agent.A, shared[id(agent.A)])
        found[agent.dim, kind, agent.f.form is None, agent.g.form is None].append(i)
    groups = []
    for (d, kind, *_), members in found.items():
        entries = d * agents[0].p if kind == "dense" else max(d, agents[0].p)
        groups += [_group(agents, part, kind) for part in _cut(members, SOME // entries + 1)]
    return groups


def _matrix_kind(A: Any, owners: int) -> Hashable:
    """``dense``, ``sparse``, or a number of its own."""
    if owners > 1 or isinstance(A, LinearOperator):
        return id(A)
    entries = A.nnz if sp.issparse(A) else A.size
    return id(A) if entries > LARGE else "sparse" if sp.issparse(A) else "dense"


def _cut(members: list[int], most: int) -> Iterator[list[int]]:
    return (members[first : first + most] for first in range(0, len(members), most))


def _group(agents: Sequence[Agent], members: list[int], kind: Hashable) -> Group:
    own = [agents[i] for i in members]
    if len(own) == 1 or kind not in ("dense", "sparse"):
        A: Shared | Dense | Sparse = Shared(own[0])
    else:
        A = (Dense if kind == "dense" else Sparse)([agent.A for agent in own])
    d, places = own[0].dim, np.array(members, dtype=np.int64)
    f, g = _together([agent.f for agent in own], d), _together([agent.g for agent in own], d)
    return Group(places, d, f, g, A)


def _together(functions: Sequence[Function], d: int) -> Forms | Each:
    forms = [f.form for f in functions if f.form is not None]
    return Forms(forms, d) if len(forms) == len(functions) else Each(functions)
