"""A linear or quadratic program with the names of its file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from dual2.errors import ProblemError, counted

if TYPE_CHECKING:
    from dual2.models.partition import OwnedModel
    from dual2.problem import Problem

Array = np.ndarray
INFINITE = 1e20 * (1 - 1e-9)
"""Bounds of this size and beyond mean that there is none, as in most solvers; files round 1e20."""


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """minimise ½xᵀQx + cᵀx + constant subject to row_lower ≤ Ax ≤ row_upper, lower ≤ x ≤ upper.

    Parameters
    ----------
    name : str
        What the file calls it.
    variables, constraints : tuple of str
        Names of the columns and rows of A.
    c : ndarray (n,)
        Linear costs.
    Q : sparse array (n, n)
        Symmetric; both triangles are stored.
    A : sparse array (m, n)
        Left-hand sides of the constraints.
    row_lower, row_upper, lower, upper : ndarray
        Bounds of constraints and variables, possibly infinite.
    constant : float
        Constant of the objective.
    maximise : bool
        Whether the objective is maximised.
    notes : tuple of str
        What the reader left out or changed, in words.

    Examples
    --------
    >>> model = Model.from_arrays(c=[1.0, 2.0], A=[[1.0, 1.0]], row_lower=[1.0])
    >>> model
    <Model: 2 variables, 1 constraint, linear>
    >>> model.objective([0.5, 0.5])
    1.5
    """

    name: str
    variables: tuple[str, ...]
    constraints: tuple[str, ...]
    c: Array
    Q: sp.csc_array
    A: sp.csr_array
    row_lower: Array
    row_upper: Array
    lower: Array
    upper: Array
    constant: float = 0.0
    maximise: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def from_arrays(
        cls,
        c: ArrayLike,
        A: Any = None,
        row_lower: ArrayLike | None = None,
        row_upper: ArrayLike | None = None,
        *,
        Q: Any = None,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        **names: Any,
    ) -> "Model":
        """A model from arrays; names are x0, x1, … and r0, r1, … unless given.

        Parameters
        ----------
        c, A, row_lower, row_upper, Q, lower, upper : array_like
            As in the class; bounds that are left out are infinite, but variables are at least 0.
        **names
            Any other field of the class.

        Examples
        --------
        >>> Model.from_arrays([1.0], lower=-1.0, variables=("power",)).variables
        ('power',)
        """
        c = np.atleast_1d(np.asarray(c, float))
        n = len(c)
        rows = sp.csr_array((0, n)) if A is None else sp.csr_array(A, dtype=float)
        m = rows.shape[0]
        ends = [
            np.full(m, far) if end is None else np.broadcast_to(np.asarray(end, float), (m,)).copy()
            for end, far in ((row_lower, -np.inf), (row_upper, np.inf))
        ]
        box = [np.broadcast_to(np.asarray(end, float), (n,)).copy() for end in (lower, upper)]
        square = sp.csc_array((n, n)) if Q is None else sp.csc_array(Q, dtype=float)
        given = {
            "name": "",
            "variables": tuple(f"x{k}" for k in range(n)),
            "constraints": tuple(f"r{k}" for k in range(m)),
        }
        return cls(c=c, Q=square, A=rows, row_lower=ends[0], row_upper=ends[1],
                   lower=box[0], upper=box[1], **(given | names))  # fmt: skip

    def __post_init__(self) -> None:
        n, m = len(self.variables), len(self.constraints)
        shapes = {
            "c": (n,), "Q": (n, n), "A": (m, n), "row_lower": (m,), "row_upper": (m,),
            "lower": (n,), "upper": (n,),
        }  # fmt: skip
        for field, shape in shapes.items():
            found = getattr(self, field).shape
            if found != shape:
                raise ProblemError(
                    f"Model: {field} has shape {found}; expected {shape} for "
                    f"{counted(n, 'variable')} and {counted(m, 'constraint')}."
                )
        for kind, names in (("variable", self.variables), ("constraint", self.constraints)):
            if len(set(names)) < len(names):
                twice = next(name for k, name in enumerate(names) if name in names[:k])
                raise ProblemError(f"Model: two {kind}s are called {twice!r}; names are unique.")

    def __repr__(self) -> str:
        kind = "quadratic" if self.Q.nnz else "linear"
        name = f" {self.name}" if self.name else ""
        n, m = (
            counted(len(self.variables), "variable"),
            counted(len(self.constraints), "constraint"),
        )
        return f"<Model{name}: {n}, {m}, {kind}{', maximised' if self.maximise else ''}>"

    def objective(self, x: ArrayLike) -> float:
        """½xᵀQx + cᵀx + constant, in the sense of the file."""
        x = np.asarray(x, float)
        return float(0.5 * x @ (self.Q @ x) + self.c @ x + self.constant)

    def violation(self, x: ArrayLike) -> float:
        """Largest violation of a constraint or bound, relative to max(1, |its terms|)."""
        x = np.asarray(x, float)
        rows = self.A @ x
        sizes = np.maximum(1.0, abs(self.A) @ np.abs(x))
        low, up = self.row_lower - rows, rows - self.row_upper
        own = np.maximum(self.lower - x, x - self.upper) / np.maximum(1.0, np.abs(x))
        return float(np.concatenate([low / sizes, up / sizes, own, [0.0]]).max())

    def to_problem(
        self,
        owners: "Mapping[str, Any] | Callable[[str], Any] | str | None" = None,
        *,
        agents: int | None = None,
        seed: int = 0,
        private_rows: bool = True,
    ) -> "tuple[Problem, OwnedModel]":
        """The model as a :class:`~dual2.Problem` whose agents own its variables.

        Constraints in which variables of several owners meet are the coupling. Those of a single
        owner stay with it, as private constraints; bounds of variables always do.

        Parameters
        ----------
        owners : mapping, callable or path, optional
            The owner of each variable: a mapping from its name, a function of its name, or a file
            with lines ``variable,owner``.
        agents : int, optional
            Instead of owners: deal the variables at random to this many agents. Variables that Q
            joins stay together.
        seed : int
            Of the random deal.
        private_rows : bool
            False: constraints of a single owner are rows of the coupling too.

        Returns
        -------
        problem : Problem
            For :func:`dual2.solve`.
        owned : OwnedModel
            Who owns what; its ``answer(result)`` speaks in the names of the model.

        Raises
        ------
        ProblemError
            If owners are missing, if Q joins two owners, or if the constraints of one owner
            contradict each other.

        Examples
        --------
        >>> import dual2 as d2
        >>> model = Model.from_arrays([1.0, 2.0], [[1.0, 1.0]], [1.0], Q=[[1.0, 0.0], [0.0, 1.0]])
        >>> problem, owned = model.to_problem(agents=2)
        >>> answer = owned.answer(d2.solve(problem, owned.network()))
        >>> answer.variables, answer.duals
        ({'x0': 1.0, 'x1': 0.0}, {'r0': 2.0})
        """
        from dual2.models.partition import partition

        return partition(self, owners, agents, seed, private_rows)
