"""``from_cvxpy``: a cvxpy model whose variables belong to agents, as a :class:`Problem`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dual2.errors import CapabilityError, ProblemError
from dual2.functions import Stacked, Zero
from dual2.problem import Agent, Problem
from dual2.recognise.affine import zeroed
from dual2.recognise.forces import pass_slopes
from dual2.recognise.own import Own
from dual2.recognise.pieces import Piece, by_owner
from dual2.recognise.reading import Reading
from dual2.recognise.terms import short
from dual2.solving.result import Result, Status

Array = np.ndarray
_KNOWN = {"nonneg", "nonpos", "pos", "neg", "bounds", "symmetric"}
"""Attributes of cvxpy variables that become bounds, or equations of their owner."""
_DENSE = 4096
"""Entries up to which an agent's A is kept dense."""
_STATUS = {
    Status.CONVERGED: "optimal",
    Status.STALLED: "user_limit",
    Status.MAX_ROUNDS: "user_limit",
    Status.TIME_LIMIT: "user_limit",
    Status.INTERRUPTED: "user_limit",
    Status.INFEASIBLE: "infeasible",
    Status.UNBOUNDED: "unbounded",
    Status.DIVERGED: "solver_error",
}
"""What cvxpy calls the ends of a run; numbers that ran away prove nothing about the model."""


class CvxpyProblem(Problem):
    """A problem that remembers the cvxpy model it was read from.

    Attributes
    ----------
    names : list of str
        What the agents are called: the keys of ``agents``, or their numbers.
    summary : list of str
        One line for each piece of the model: where it went.
    model : cvxpy.Problem
        The model; its constant terms are not part of this problem's objective.
    """

    def __init__(
        self,
        agents: list[Agent],
        owners: list[Own],
        pieces: list[Piece],
        names: list[str],
        summary: list[str],
        model: Any,
    ) -> None:
        super().__init__(agents, _stack(pieces))
        self._owners, self._pieces = owners, pieces
        self.names, self.summary, self.model = names, summary, model

    def assign(self, result: Result) -> float:
        """Tell the model how it went, as ``model.solve()`` would.

        Its variables get the solution's values, coupling constraints their duals, ``model.status``
        and ``model.value`` what cvxpy calls them. An infeasible or unbounded model gets no values
        (None) and an infinity as value. A run that diverged says nothing about the model: its
        status is cvxpy's ``"solver_error"``, and nothing has a value. Duals of constraints within
        one agent stay as they were unless they became rows of the coupling.

        Returns
        -------
        float
            The model's objective at these values, ``model.value``; nan if it has none.
        """
        from cvxpy.reductions.solution import Solution

        if len(result.x) != self.n:
            raise ProblemError(
                f"The result has answers of {len(result.x)} agents; expected {self.n}. Over MPI "
                "use dual2.solve_for_all, which tells every process all of them."
            )
        status = _STATUS[Status(result.status)]
        if status == "solver_error":
            self.model._clear_solution()
            self.model._status = status
            return np.nan
        if status in ("infeasible", "unbounded"):
            least = type(self.model.objective).__name__ == "Minimize"
            worst = np.inf if (status == "infeasible") == least else -np.inf
            self.model.unpack(Solution(status, worst, {}, {}, {}))
            return worst
        values = {}
        for owner, x in zip(self._owners, result.x, strict=True):
            for variable in owner.variables:
                part = np.asarray(x[owner.slices[variable.id]])
                values[variable.id] = part.reshape(variable.shape, order="F")
        self.model.unpack(Solution(status, None, values, self._duals(result.dual), {}))
        return float(self.model.value)

    def _duals(self, dual: Array) -> dict[int, Array]:
        """Rows of the dual by the constraint they belong to; cvxpy's sign convention is ours."""
        found, start = {}, 0
        for piece in self._pieces:
            rows = dual[start : start + piece.map.size]
            start += piece.map.size
            if piece.constraint is not None:
                shape = piece.constraint.dual_variables[0].shape
                found[piece.constraint.id] = rows.reshape(shape, order="F")
        return found


def from_cvxpy(
    problem: Any, agents: Mapping[str, Any] | Sequence[Any], *, summary: bool = False
) -> CvxpyProblem:
    """Recognise a cvxpy problem whose variables are assigned to agents.

    The model must be separable up to affine coupling,

        minimise Σ_i c_i(x_i) + Σ_k φ_k(Σ_i M_ki x_i + m_k)

    with c_i and φ_k made of quadratics, norms, maxima, sums of the largest, logarithms, entropies,
    Huber, logistic and exponential functions, of equations, inequalities, boxes, balls, simplices
    and second-order cones, and of what these can express with new variables. Quadratic pieces of
    one agent become its f_i, bounds, norms and simple sets its g_i. Pieces in which several agents
    meet become rows of the coupling with h = Σ φ_k; so do pieces of one agent that fit neither f_i
    nor g_i: rows that only this agent enters.

    Parameters
    ----------
    problem : cvxpy.Problem
        Convex by cvxpy's rules, its parameters with values.
    agents : sequence or mapping
        For each agent its variable, or its variables.
    summary : bool
        Print where each piece went.

    Raises
    ------
    CapabilityError
        Names every piece that is not recognised, and why.
    ProblemError
        If variables are missing, assigned twice, or discrete.

    Examples
    --------
    >>> import cvxpy as cp, dual2 as d2
    >>> x, y = cp.Variable(name="x"), cp.Variable(name="y", nonneg=True)
    >>> model = cp.Problem(cp.Minimize(x**2 + 2 * y**2), [x + y == 3])
    >>> result = d2.solve(problem := d2.from_cvxpy(model, [x, y]), d2.Network([(0, 1)]))
    >>> print(f"{problem.assign(result):.4f} {x.value:.4f} {y.value:.4f}")
    6.0000 2.0000 1.0000
    """
    names, groups = _owners(problem, agents)
    reading = _read(problem, names, groups)
    owners = [Own(name, group) for name, group in zip(names, groups, strict=True)]
    _own_bounds(owners)
    for owner in owners:
        owner.add_linear(reading.slopes)
    shared, said = [], []
    for piece in (part for whole in reading.pieces for part in by_owner(whole, reading.home)):
        who = sorted({reading.home[key] for key in piece.map.matrices})
        if len(who) == 1:
            owners[who[0]].add(piece)
        elif who:
            shared.append(piece)
            said.append(f"{piece.text}: coupling of agents {', '.join(names[i] for i in who)}")
        elif not piece.shifted.value(np.zeros(piece.map.size)) < np.inf:
            raise ProblemError(f"The constraint {piece.text} has no variables and is violated.")
    sets = [owner.g() for owner in owners]
    for owner, name in zip(owners, names, strict=True):
        shared += owner.rest
        said += [
            f"{piece.text}: rows of the coupling of agent {name} alone" for piece in owner.rest
        ]
    said = list(dict.fromkeys(said))
    if summary:
        print("\n".join(said))
    shared = pass_slopes(shared, owners, sets)
    pairs = zip(owners, sets, strict=True)
    parts = [Agent(_rows(owner, shared), owner.f(), g) for owner, g in pairs]
    return CvxpyProblem(parts, owners, shared, names, said, problem)


def _owners(problem: Any, agents: Any) -> tuple[list[str], list[list[Any]]]:
    """Who owns which variables; every variable exactly once."""
    try:
        import cvxpy as cp
    except ImportError as error:
        raise CapabilityError(
            "from_cvxpy needs cvxpy, which is not installed: pip install 'dual2[reference]'."
        ) from error
    if not isinstance(problem, cp.Problem):
        raise ProblemError(f"from_cvxpy needs a cvxpy.Problem; found {type(problem).__name__}.")
    named = agents if isinstance(agents, Mapping) else dict(enumerate(agents))
    groups = {
        str(name): list(group) if isinstance(group, list | tuple) else [group]
        for name, group in named.items()
    }
    owner: dict[int, str] = {}
    for name, group in groups.items():
        for variable in group:
            _check_variable(cp, name, variable)
            if variable.id in owner:
                raise ProblemError(
                    f"Variable {variable.name()} belongs to agent {owner[variable.id]} and to "
                    f"agent {name}; expected one owner."
                )
            owner[variable.id] = name
    missing = [v.name() for v in problem.variables() if v.id not in owner]
    if missing or not all(groups.values()) or not groups:
        what = f"variables without an agent: {', '.join(missing)}" if missing else "an empty agent"
        raise ProblemError(f"Found {what}. Assign every variable of the model to one agent.")
    if not problem.is_dcp():
        raise ProblemError(
            f"The model is not convex by cvxpy's rules: {_curved(problem)}. State it so that "
            "problem.is_dcp() is True (parameters need their sign: cp.Parameter(nonneg=True))."
        )
    unset = [p.name() for p in problem.parameters() if p.value is None]
    if unset:
        raise ProblemError(f"Parameters without a value: {', '.join(unset)}. Set .value first.")
    return list(groups), list(groups.values())


def _curved(problem: Any) -> str:
    """The parts of a model that break cvxpy's rules."""
    least = type(problem.objective).__name__ == "Minimize"
    expression = problem.objective.expr
    summed = type(expression).__name__ == "AddExpression"
    parts = [
        part
        for part in (expression.args if summed else [expression])
        if not (part.is_convex() if least else part.is_concave())
    ]
    parts += [constraint for constraint in problem.constraints if not constraint.is_dcp()]
    return ", ".join(short(part) for part in parts)


def _check_variable(cp: Any, name: str, variable: Any) -> None:
    if not isinstance(variable, cp.Variable):
        raise ProblemError(
            f"Agent {name} owns a {type(variable).__name__}; expected cvxpy variables."
        )
    given = {k: v for k, v in variable.attributes.items() if v is not None and v is not False}
    marked = [k for k in given if k not in _KNOWN]
    if marked:
        raise ProblemError(
            f"Variable {variable.name()} is declared {', '.join(marked)}; expected a real "
            "variable, at most symmetric, with bounds or a sign."
        )


def _read(problem: Any, names: list[str], groups: list[list[Any]]) -> Reading:
    """The model as a minimum; new variables join the groups."""
    from cvxpy import upper_tri

    sign = -1.0 if type(problem.objective).__name__ == "Maximize" else 1.0
    reading = Reading(names, groups)
    with zeroed([variable for group in groups for variable in group]):
        reading.objective(sign * problem.objective.expr)
        for constraint in problem.constraints:
            reading.constraint(constraint)
        for variable in (v for group in groups for v in group):
            if variable.attributes["symmetric"] and variable.size > 1:
                reading.constraint(upper_tri(variable) == upper_tri(variable.T))
    reading.close()
    return reading


def _own_bounds(owners: Iterable[Own]) -> None:
    """Signs and bounds that are attributes of the variables."""
    for owner in owners:
        for variable in owner.variables:
            marks = variable.attributes
            if marks["nonneg"] or marks["pos"]:
                owner.bound(variable.id, 0.0, np.inf)
            if marks["nonpos"] or marks["neg"]:
                owner.bound(variable.id, -np.inf, 0.0)
            if marks["bounds"]:
                ends = zip(marks["bounds"], (-np.inf, np.inf), strict=True)
                given = (far if end is None else end for end, far in ends)
                wide = (np.broadcast_to(end, variable.shape).ravel(order="F") for end in given)
                owner.bound(variable.id, *wide)


def _stack(pieces: list[Piece]) -> Any:
    if not pieces:
        return Zero()
    functions = [piece.shifted for piece in pieces]
    return functions[0] if len(pieces) == 1 else Stacked(functions, [p.map.size for p in pieces])


def _rows(owner: Own, pieces: list[Piece]) -> Any:
    """The agent's A: its part of every coupling piece; one zero row if there is none."""
    if not pieces:
        return np.zeros((1, owner.dim))
    A = sp.vstack([owner.matrix(piece.map) for piece in pieces], format="csc")
    return A.toarray() if A.shape[0] * A.shape[1] <= _DENSE or A.nnz * 4 > np.prod(A.shape) else A
