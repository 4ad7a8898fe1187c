"""A model taken apart by owners: private parts, and the rows in which several owners meet."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from dual2.errors import ProblemError, counted
from dual2.functions import (
    Function,
    IndicatorAtMost,
    IndicatorBox,
    IndicatorPoint,
    IndicatorPolyhedron,
    Quadratic,
    Stacked,
    Zero,
)
from dual2.functions.polyhedron import EmptySet
from dual2.models.model import Model
from dual2.models.model_answer import ModelAnswer, conflict_of, read_answer
from dual2.models.owners import check_products, owner_numbers
from dual2.network import Network
from dual2.problem import Agent, Problem
from dual2.solving.result import Result

Array = np.ndarray
DENSE_ENTRIES = 4096
"""Entries up to which an agent's A is kept dense."""

NAMED = 8
"""Linking constraints that a summary names one by one."""

DENSE_SHARE = 0.25
"""Share of entries that are not 0 from which on it is dense too."""


@dataclass(frozen=True, eq=False, repr=False)
class OwnedModel:
    """Who owns which variables and constraints of a model; reads results back.

    Attributes
    ----------
    model : Model
        The model.
    owners : list of str
        Names of the agents, in the order of the problem.
    columns : list of ndarray
        Variables of each owner, as numbers of the model.
    private : list of ndarray
        Constraints of each owner alone.
    coupling : ndarray
        Constraints in which several owners meet, in the order of the coupling's rows.
    """

    model: Model
    owners: list[str]
    columns: list[Array]
    private: list[Array]
    coupling: Array

    def __repr__(self) -> str:
        n, p = counted(len(self.owners), "owner"), counted(len(self.coupling), "row")
        return f"<OwnedModel: {n}, {p} of coupling>"

    @property
    def summary(self) -> str:
        """What is private, what is linking, and what travels."""
        lines = [
            f"{name}: {counted(len(columns), 'variable')}, "
            f"{counted(len(rows), 'private constraint')}"
            for name, columns, rows in zip(self.owners, self.columns, self.private, strict=True)
        ]
        shown, p = _shown([self.model.constraints[k] for k in self.coupling]), len(self.coupling)
        lines.append(f"linking: {counted(p, 'constraint')}{f': {shown}' if p else ''}")
        lines.append(
            f"travels: what each owner adds to these rows, vectors of {counted(p, 'number')} and, "
            f"by methods that send matrices, {p} × {p}; summed along a tree, where a neighbour "
            "sees the sum of its subtree"
        )
        return "\n".join(lines)

    @property
    def table(self) -> list[dict[str, Any]]:
        """One dict per owner: its variables, private constraints, and linking ones it is part of.

        The last number is how many entries of the vectors that travel the owner adds to.
        """
        linking = sp.csc_array(self.model.A[self.coupling]) if len(self.coupling) else None
        return [
            {
                "owner": name,
                "variables": len(columns),
                "private constraints": len(rows),
                "linking constraints": 0
                if linking is None
                else len(np.unique(linking[:, columns].indices)),
            }
            for name, columns, rows in zip(self.owners, self.columns, self.private, strict=True)
        ]

    def network(self, kind: str = "star") -> Network:
        """A network of the owners: ``"star"``, ``"path"`` or ``"complete"``."""
        n = len(self.owners)
        kinds: Mapping[str, Callable[[], Any]] = {
            "star": lambda: nx.star_graph(n - 1),
            "path": lambda: nx.path_graph(n),
            "complete": lambda: nx.complete_graph(n),
        }
        if kind not in kinds:
            raise ProblemError(f"kind is {kind!r}; expected one of {', '.join(kinds)}.")
        return Network(kinds[kind]())

    def answer(self, result: Result) -> ModelAnswer:
        """The result in the names and the sense of the model.

        Parameters
        ----------
        result : Result
            Of :func:`dual2.solve` on this problem; all agents' answers are needed.
        """
        return read_answer(self, result)

    def conflict(self, weights: Any, most: int = 10) -> dict[str, float]:
        """Constraints with the largest weights in a certificate of infeasibility.

        Parameters
        ----------
        weights : array_like
            ``result.certificate.separator``.
        most : int
            At most so many constraints.
        """
        return conflict_of(self, weights, most)


def _shown(names: list[str]) -> str:
    """A few names, or how many there are of each kind: what comes before the coordinates."""
    if len(names) <= NAMED:
        return ", ".join(names)
    kinds = Counter(name.split("[")[0] for name in names)
    if len(kinds) > NAMED:
        return ", ".join(names[:NAMED]) + ", …"
    return ", ".join(f"{kind} ({count})" for kind, count in kinds.items())


def partition(
    model: Model, owners: Any, agents: int | None, seed: int, private_rows: bool
) -> tuple[Problem, OwnedModel]:
    """The work of :meth:`Model.to_problem`."""
    names, owner = owner_numbers(model, owners, agents, seed)
    parts, h, owned = take_apart(model, names, owner, private_rows)
    return Problem(parts, h), owned


def take_apart(
    model: Model, names: list[str], owner: Array, private_rows: bool = True
) -> tuple[list[Agent], Function, OwnedModel]:
    """The agents, h and who owns what, where ``owner`` is the number of each variable's owner."""
    _check_bounds(model)
    check_products(model, names, owner)
    columns = [np.flatnonzero(owner == k) for k in range(len(names))]
    private, coupling = _sort_rows(model, owner, len(names), private_rows)
    coupling, h = _coupling_function(model, coupling)
    owned = OwnedModel(model, names, columns, private, coupling)
    linking = sp.csc_array(model.A[coupling]) if len(coupling) else sp.csc_array((1, len(owner)))
    parts = [
        Agent(_linking_part(linking[:, mine]), _costs(model, mine), _own_set(owned, k))
        for k, mine in enumerate(columns)
    ]
    return parts, h, owned


def _check_bounds(model: Model) -> None:
    """Refuse bounds that exclude each other."""
    for kind, names, low, up in (
        ("Variable", model.variables, model.lower, model.upper),
        ("Constraint", model.constraints, model.row_lower, model.row_upper),
    ):
        for k in np.flatnonzero((low > up) | (low == np.inf) | (up == -np.inf)):
            raise ProblemError(
                f"{kind} {names[k]!r} has the lower bound {low[k]:g} and the upper bound "
                f"{up[k]:g}: nothing meets both. Relax one of them."
            )


def _sort_rows(model: Model, owner: Array, n: int, private_rows: bool) -> tuple[list[Array], Array]:
    """Rows of each owner alone, and rows of several; those without bounds in neither."""
    bounded = np.isfinite(model.row_lower) | np.isfinite(model.row_upper)
    entries = sp.coo_array(model.A)
    first = np.full(len(model.constraints), n)
    last = np.full(len(model.constraints), -1)
    np.minimum.at(first, entries.coords[0], owner[entries.coords[1]])
    np.maximum.at(last, entries.coords[0], owner[entries.coords[1]])
    alone = bounded & (first == last) & private_rows
    private = [np.flatnonzero(alone & (first == k)) for k in range(n)]
    return private, np.flatnonzero(bounded & ~alone)


def _coupling_function(model: Model, rows: Array) -> tuple[Array, Function]:
    """Rows sorted into equations, upper bounds and the rest, and h of them."""
    if not len(rows):
        return rows, Zero()
    low, up = model.row_lower[rows], model.row_upper[rows]
    kinds = np.where(low == up, 0, np.where(np.isneginf(low), 1, 2))
    rows = rows[np.argsort(kinds, kind="stable")]
    low, up, kinds = model.row_lower[rows], model.row_upper[rows], np.sort(kinds)
    makers = (lambda a, b: IndicatorPoint(a), lambda a, b: IndicatorAtMost(b), IndicatorBox)
    present = [(k, kinds == k) for k in np.unique(kinds)]
    functions = [makers[k](low[here], up[here]) for k, here in present]
    if len(functions) == 1:
        return rows, functions[0]
    return rows, Stacked(functions, [int(here.sum()) for _, here in present])


def _linking_part(A: sp.csc_array) -> Any:
    """The agent's columns of the coupling, dense where that is small or nearly full."""
    size = A.shape[0] * A.shape[1]
    return A.toarray() if size <= DENSE_ENTRIES or A.nnz > DENSE_SHARE * size else A


def _costs(model: Model, mine: Array) -> Function:
    """½xᵀQx + cᵀx of an owner, as a minimum."""
    sign = -1.0 if model.maximise else 1.0
    Q = sign * model.Q[:, mine][mine]
    diagonal = Q.diagonal()
    off = sp.coo_array(Q)
    if (off.coords[0] == off.coords[1]).all():
        if (diagonal < 0).any():
            worst = model.variables[mine[int(diagonal.argmin())]]
            word = "concave" if model.maximise else "convex"
            raise ProblemError(f"The objective is not {word}: see the square of {worst!r}.")
        return Quadratic(diagonal, sign * model.c[mine])
    return Quadratic(Q.toarray(), sign * model.c[mine])


def _own_set(owned: OwnedModel, k: int) -> Function:
    """Bounds of an owner's variables, and its private constraints."""
    model, mine, rows = owned.model, owned.columns[k], owned.private[k]
    lower, upper = model.lower[mine], model.upper[mine]
    if not len(rows):
        free = not (np.isfinite(lower).any() or np.isfinite(upper).any())
        return Zero() if free else IndicatorBox(lower, upper)
    boxed = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
    M = sp.vstack([model.A[rows][:, mine], sp.eye_array(len(mine), format="csr")[boxed]])
    try:
        return IndicatorPolyhedron(
            sp.csr_array(M) if M.shape[0] * M.shape[1] > DENSE_ENTRIES else M.toarray(),
            np.concatenate([model.row_lower[rows], lower[boxed]]),
            np.concatenate([model.row_upper[rows], upper[boxed]]),
        )
    except EmptySet as error:
        raise ProblemError(
            f"Infeasible: constraints of {owned.owners[k]} contradict each other: "
            f"{_names_of(owned, k, boxed, error)}. Relax one of them."
        ) from error


def _names_of(owned: OwnedModel, k: int, boxed: Array, error: EmptySet) -> str:
    """What the user calls rows of a private set that is empty."""
    model, rows = owned.model, owned.private[k]
    names = [
        model.constraints[rows[j]]
        if j < len(rows)
        else f"bounds of {model.variables[owned.columns[k][boxed[j - len(rows)]]]}"
        for j in error.rows
    ]
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
