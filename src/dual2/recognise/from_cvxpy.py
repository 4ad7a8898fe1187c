"""``from_cvxpy``: a cvxpy model whose variables belong to agents, as a :class:`Problem`."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dual2.errors import CapabilityError, ProblemError
from dual2.functions import Stacked, Zero
from dual2.problem import Agent, Problem
from dual2.recognise.affine import zeroed
from dual2.recognise.forces import pass_slopes
from dual2.recognise.model_reader import Part, Reading
from dual2.recognise.model_values import closed_value, parameter_values, violations_of
from dual2.recognise.own import Own
from dual2.recognise.pieces import Piece, by_owner
from dual2.recognise.terms import short
from dual2.solving.result import Result, Status
from dual2.solving.unsolved import check_accept, not_solved

Array = np.ndarray
_KNOWN = {"nonneg", "nonpos", "pos", "neg", "bounds", "symmetric"}
"""Attributes of cvxpy variables that become bounds, or equations of their owner."""
_DENSE = 4096
"""Entries up to which an agent's A is kept dense."""
_OTHER, _OTHER_LEAST = 1e3, 1e-3
"""A converged answer whose KKT residual is now so many times larger, and larger than the second
number, belongs to other values of the parameters."""
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


@dataclass(frozen=True)
class Recognised:
    """A model at some values of its parameters, agent by agent."""

    agents: list[Agent]
    owners: list[Own]
    pieces: list[Piece]
    summary: list[str]
    values: list[Array]  # of the parameters
    known: dict[int, Part]  # what no parameter enters


class CvxpyProblem(Problem):
    """A problem that remembers the cvxpy model it was read from.

    Parameters of the model are read at every solve: parts of the model that they do not enter are
    not read again.

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
        self, recognised: Recognised, names: list[str], groups: list[list[Any]], model: Any
    ) -> None:
        super().__init__(recognised.agents, _stack(recognised.pieces))
        self._recognised, self._groups = recognised, groups
        self.names, self.summary, self.model = names, recognised.summary, model

    def refresh(self) -> None:
        """Read the model again if values of its parameters have changed; :func:`solve` calls it."""
        if not self._is_current():
            known = self._recognised.known
            found = _recognise(self.model, self.names, self._groups, known)
            fresh = CvxpyProblem(found, self.names, self._groups, self.model)
            self.__dict__.clear()
            self.__dict__.update(fresh.__dict__)

    def _is_current(self) -> bool:
        now, then = parameter_values(self.model), self._recognised.values
        return all(np.array_equal(a, b) for a, b in zip(now, then, strict=True))

    def assign(self, result: Result, accept: str | None = None) -> float:
        """Tell the model how it went, as ``model.solve()`` would.

        Its variables get the solution's values, coupling constraints their duals, ``model.status``
        and ``model.value`` what cvxpy calls them. Other constraints have no dual (None), unless
        they became rows of the coupling. An infeasible or unbounded model gets no values (None)
        and an infinity as value. A run that diverged says nothing about the model: its status is
        cvxpy's ``"solver_error"``, and nothing has a value. The same holds, with the status
        ``"user_limit"`` and a warning of what is violated, for a run that ended early, unless
        ``accept="unsolved"``.

        Parameters
        ----------
        result : Result
            Of this problem, with the present values of the model's parameters.
        accept : {None, "unsolved"}
            ``"unsolved"`` also assigns the values of a run that has not converged.

        Returns
        -------
        float
            The model's objective at these values, ``model.value``; nan if it has none.
        """
        from cvxpy.reductions.solution import Solution

        check_accept("assign", accept)
        self._check(result)
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
        for owner, x in zip(self._recognised.owners, result.x, strict=True):
            for variable in owner.variables:
                part = np.asarray(x[owner.slices[variable.id]])
                values[variable.id] = part.reshape(variable.shape, order="F")
        duals = self._duals(result.dual)
        with np.errstate(divide="ignore", invalid="ignore"):  # quad_over_lin at its apex
            self.model.unpack(Solution(status, None, values, duals, {}))
        for constraint in self.model.constraints:
            if constraint.id not in duals:
                for variable in constraint.dual_variables:
                    variable.save_value(None)
        if status == "user_limit" and accept is None:
            self._take_back(result)
            return np.nan
        value = float(np.nan if self.model.value is None else self.model.value)
        if not np.isfinite(value):
            self.model._value = value = closed_value(self.model.objective.expr)
        return value

    def _take_back(self, result: Result) -> None:
        """No value stays of a run that ended early; a warning says what it violates."""
        found = violations_of(self.model)
        self.model._clear_solution()
        self.model._status = _STATUS[Status(result.status)]
        text = not_solved(Status(result.status), found, "objective")
        warnings.warn(
            f'{text} The model has no values; accept="unsolved" assigns them.', stacklevel=3
        )

    def _check(self, result: Result) -> None:
        """Refuse a result of other agents, or of other values of the parameters."""
        if len(result.x) != self.n:
            raise ProblemError(
                f"The result has answers of {len(result.x)} agents; expected {self.n}. Over MPI "
                "use dual2.solve_for_all, which tells every process all of them."
            )
        fits = [len(x) for x in result.x] == list(self.dims) and len(result.dual) == self.p
        same = self._is_current() and fits
        if same and result.status == Status.CONVERGED and self.model.parameters():
            limit = max(_OTHER * result.certificate.kkt, _OTHER_LEAST)
            same = self.kkt(result.x, result.dual).kkt <= limit
        if not same:
            names = ", ".join(parameter.name() for parameter in self.model.parameters())
            raise ProblemError(
                f"The result is not of the model as it is now: parameters ({names}) have other "
                "values than when it was solved. Solve again, then assign."
            )

    def _duals(self, dual: Array) -> dict[int, Array]:
        """Rows of the dual by the constraint they belong to; cvxpy's sign convention is ours."""
        found, start = {}, 0
        for piece in self._recognised.pieces:
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
    found = _recognise(problem, names, groups, {})
    if summary:
        print("\n".join(found.summary))
    return CvxpyProblem(found, names, groups, problem)


def _recognise(
    model: Any, names: list[str], groups: list[list[Any]], known: dict[int, Part]
) -> Recognised:
    """The model at the present values of its parameters."""
    groups = [list(group) for group in groups]
    reading = _read(model, names, groups, known)
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
    shared = pass_slopes(shared, owners, sets)
    pairs = zip(owners, sets, strict=True)
    parts = [Agent(_rows(owner, shared), owner.f(), g) for owner, g in pairs]
    said = list(dict.fromkeys(said))
    return Recognised(parts, owners, shared, said, parameter_values(model), reading.known)


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


def _read(
    problem: Any, names: list[str], groups: list[list[Any]], known: dict[int, Part]
) -> Reading:
    """The model as a minimum; new variables join the groups."""
    from cvxpy import upper_tri

    sign = -1.0 if type(problem.objective).__name__ == "Maximize" else 1.0
    reading = Reading(names, groups, known)
    with zeroed([variable for group in groups for variable in group]):
        reading.objective(problem.objective.expr, sign)
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
