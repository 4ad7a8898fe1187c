"""``from_linopy``: a linopy model (of PyPSA, for instance) whose blocks have owners."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from dual2.errors import CapabilityError, ProblemError
from dual2.functions import Function
from dual2.models.linopy_owners import label_names, owners_of_labels
from dual2.models.model import Model
from dual2.models.model_answer import ModelAnswer
from dual2.models.partition import OwnedModel, take_apart
from dual2.problem import Agent, Problem
from dual2.solving.result import Result, Status

Array = np.ndarray
_CONDITION = {
    Status.CONVERGED: "optimal",
    Status.STALLED: "other",
    Status.DIVERGED: "internal_solver_error",
    Status.MAX_ROUNDS: "iteration_limit",
    Status.TIME_LIMIT: "time_limit",
    Status.INTERRUPTED: "user_interrupt",
    Status.INFEASIBLE: "infeasible",
    Status.UNBOUNDED: "unbounded",
}
"""What linopy calls the ends of a run."""


class LinopyProblem(Problem):
    """A problem that remembers the linopy model it was read from.

    Attributes
    ----------
    ownership : OwnedModel
        Who owns which variables and constraints; ``ownership.answer(result)`` has them by name.
    names : list of str
        What the agents are called.
    model : linopy.Model
        The model.
    """

    def __init__(self, agents: list[Agent], h: Any, owned: OwnedModel, model: Any) -> None:
        super().__init__(agents, h)
        self.ownership, self.model, self.names = owned, model, owned.owners

    @property
    def summary(self) -> str:
        """What is private, what is linking, and what travels."""
        return self.ownership.summary

    def assign(self, result: Result) -> ModelAnswer:
        """Write the answer into the model, as ``model.solve()`` would.

        Variables get ``solution``, constraints ``dual``, the model its status, termination
        condition and ``objective.value``. Only a CONVERGED answer is written: any other leaves
        solution and duals as they were. For PyPSA, ``n.optimize.assign_solution()`` and
        ``n.optimize.assign_duals()`` carry it into the network.

        Returns
        -------
        ModelAnswer
            The answer by name; of an infeasible model the constraints in conflict.
        """
        from linopy.constants import Result as LinopyResult
        from linopy.constants import Solution
        from linopy.constants import Status as LinopyStatus

        answer = self.ownership.answer(result)
        status = LinopyStatus.from_termination_condition(_CONDITION[answer.status])
        solution = None
        if answer.status == Status.CONVERGED:
            matrices = self.model.matrices
            rows, columns = self.model.shape
            primal, dual = np.full(columns, np.nan), np.full(rows, np.nan)
            primal[matrices.vlabels] = answer.x
            dual[matrices.clabels] = list(answer.duals.values())
            solution = Solution(primal, dual, answer.objective)
        self.model.assign_result(LinopyResult(status, solution, solver_name="dual2"))
        return answer


def from_linopy(
    model: Any, blocks: Any = None, *, rest: str = "shared", relax: bool = False
) -> LinopyProblem:
    """Read a linopy model whose variables have owners.

    Constraints in which variables of several owners meet are the coupling; the others stay with
    their owner as private, sparse constraints, and so do bounds.

    Parameters
    ----------
    model : linopy.Model
        Linear, or with a convex quadratic objective. A PyPSA network has one after
        ``n.optimize.create_model()``.
    blocks : str, mapping or DataArray, optional
        The owners. A dimension (``"zone"``, ``"snapshot"``): one for each of its coordinates. A
        mapping from names of variables to a dimension, to an owner, or to a table (dict, Series,
        DataArray) from coordinates to owners. A DataArray with one dimension: owners of its
        coordinates. Left out: ``model.blocks``.
    rest : str
        Owner of the variables that ``blocks`` does not reach.
    relax : bool
        Read binary and integer variables as continuous ones, instead of refusing the model.

    Returns
    -------
    LinopyProblem
        For :func:`dual2.solve`; its ``assign(result)`` writes the answer into the model.

    Raises
    ------
    CapabilityError
        If linopy is missing or the model has constraints that are not linear.
    ProblemError
        If an owner is missing, or variables must be whole.

    Examples
    --------
    Two zones of two plants each, with a line between them:

    >>> import linopy, pandas as pd, xarray as xr, dual2 as d2
    >>> zones, plants = pd.Index(["north", "south"], name="zone"), pd.RangeIndex(2, name="plant")
    >>> model = linopy.Model()
    >>> power = model.add_variables(lower=0, upper=4, coords=[zones, plants], name="power")
    >>> line = model.add_variables(lower=-2, upper=2, name="line")
    >>> sign = xr.DataArray([-1.0, 1.0], coords=[zones])
    >>> demand = xr.DataArray([1.5, 7.0], coords=[zones])
    >>> balance = model.add_constraints(power.sum("plant") + sign * line == demand, name="balance")
    >>> price = xr.DataArray([[1.0, 2.0], [3.0, 5.0]], coords=[zones, plants])
    >>> _ = model.add_objective((price * power).sum())
    >>> problem = from_linopy(model, "zone", rest="grid")
    >>> problem.names
    ['north', 'south', 'grid']
    >>> answer = problem.assign(d2.solve(problem))
    >>> print(answer, model.constraints["balance"].dual.values.round(6))
    CONVERGED, objective 20.5 [1. 5.]
    """
    parts, h, owned = read_linopy(model, blocks, rest, relax)
    return LinopyProblem(parts, h, owned, model)


def read_linopy(
    model: Any, blocks: Any, rest: str, relax: bool
) -> tuple[list[Agent], Function, OwnedModel]:
    """Agents, h and ownership of a linopy model; the work of :func:`from_linopy`."""
    _check_model(model, relax)
    owners, by_label = owners_of_labels(model, blocks, rest)
    plain = _plain(model)
    return take_apart(plain, owners, by_label[model.matrices.vlabels])


def _check_model(model: Any, relax: bool) -> None:
    try:
        import linopy
    except ImportError as error:
        raise CapabilityError(
            "from_linopy needs linopy, which is not installed: pip install 'dual2[models]'."
        ) from error
    if not isinstance(model, linopy.Model):
        raise ProblemError(f"from_linopy needs a linopy.Model; found {type(model).__name__}.")
    kinds = model.matrices.vtypes
    whole = int(np.isin(kinds, ("B", "I")).sum())
    if whole and not relax:
        names = ", ".join([*model.binaries, *model.integers])
        raise ProblemError(
            f"{whole} variables must be whole ({names}). dual2 solves convex problems; relax=True "
            "drops the demand."
        )
    if (kinds == "S").any():
        raise CapabilityError("Semi-continuous variables are not convex; state them otherwise.")
    if model.matrices.indicator_A is not None:
        raise CapabilityError("Constraints that hold under a condition are not convex.")
    for name, variable in model.variables.items():
        if "sos_type" in getattr(variable, "attrs", {}):
            raise CapabilityError(f"{name} is a special ordered set, which is not convex.")


def _plain(model: Any) -> Model:
    """The model as arrays; variables and constraints are called ``name[coordinates]``."""
    matrices = model.matrices
    n, m = len(matrices.vlabels), len(matrices.clabels)
    rows, columns = model.shape
    variables = label_names(model.variables.items(), columns)
    constraints = label_names(model.constraints.items(), rows)
    sense, b = matrices.sense, np.asarray(matrices.b, dtype=float)
    Q = sp.csc_array((n, n)) if matrices.Q is None else sp.csc_array(matrices.Q)
    return Model(
        name="",
        variables=tuple(variables[k] for k in matrices.vlabels),
        constraints=tuple(constraints[k] for k in matrices.clabels),
        c=np.asarray(matrices.c, dtype=float),
        Q=Q,
        A=sp.csr_array((0, n)) if m == 0 else sp.csr_array(matrices.A),
        row_lower=np.where(sense == "<", -np.inf, b),
        row_upper=np.where(sense == ">", np.inf, b),
        lower=np.asarray(matrices.lb, dtype=float),
        upper=np.asarray(matrices.ub, dtype=float),
        maximise=model.sense == "max",
    )
