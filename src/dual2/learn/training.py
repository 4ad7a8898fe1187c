"""Training: from a model's loss and penalties to its coefficients.

A model minimises

    loss(Σ_i X_i w_i) + Σ_i Σ_j (ridge_ij/2)·w_ij² + l1_ij·|w_ij|.

Newton's method over exact sums, which ``"auto"`` is here, solves it as it is; where it stalls, the
interior-point method starts from zero, and after that iD2A. A loss with a parameter of its own,
Huber's scale, is solved for one value after the other.

The gossip methods need a quadratic in every coefficient. Where ``ridge`` is less than τ times the
loss's curvature along that column, (ε_ij/2)(w_ij - c_ij)² makes up for it, and the centre c moves
to the solution until it no longer does: the proximal point method, whose limit is the model itself.
That the centre rests proves nothing: the model has converged if its own KKT residual says so.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dual2.functions import Function, L1Norm, Quadratic, SquaredNorm, Zero
from dual2.learn.separable_classes import is_endless
from dual2.learn.training_methods import needs_curvature, training_methods
from dual2.methods.method import Method
from dual2.network import Network
from dual2.problem import Agent, Problem
from dual2.solving.result import Result, Status
from dual2.solving.solve import solve_for_all

Array = np.ndarray

_FIRST = 1e-3
"""Tolerance of the first problem."""
_SPAN = 3
"""Solutions over which the speed of the centres is measured."""
_ENOUGH = 0.2
"""A ridge of this share of the wanted one is left as it is."""
_SLOW, _SHRINK, _LEAST = 0.6, 0.1, 1e-8
"""If the centres' steps shrink by less than this factor, τ shrinks by that one, not below."""
_GO_ON = (Status.STALLED, Status.DIVERGED)
"""How a method ends that leaves the rest to another."""
DEPENDENT = 1e-11
"""Singular value, relative to the largest, below which a combination of columns vanishes."""
_MOST = 100
"""Most problems in the sequence."""


@dataclass(frozen=True)
class Loss:
    """The public part of a model."""

    h: Callable[[float], Function]  # h(c) is c times the loss, as a function of the predictions
    curvature: float  # its second derivative, or a typical value
    size: float  # typical length of the vector of predictions
    # the loss to continue with, from the present predictions, if it has parameters of its own
    follow: "Callable[[Array], Loss] | None" = None


@dataclass(frozen=True)
class PartyColumns:
    """One party's columns, dense or sparse, and the weights of its penalties, one per column."""

    X: Any
    ridge: Array
    l1: Array

    @cached_property
    def lengths(self) -> Array:
        """Length of each column; 1 where it is 0."""
        found = np.sqrt(column_squares(self.X))
        return np.where(found > 0, found, 1.0)

    def penalties(self, w: Array) -> Array:
        """Σ_j ridge_j·w_j² and Σ_j l1_j·|w_j|."""
        return np.array([float(self.ridge @ w**2), float(self.l1 @ np.abs(w))])

    @cached_property
    def basis(self) -> Array | None:
        """Orthonormal coefficients of the columns of length one, where dependent ones have none.

        None where the columns are independent, a penalty tells them apart, or they are sparse.
        """
        if sp.issparse(self.X) or np.any(self.ridge) or np.any(self.l1):
            return None
        table = self.over(self.lengths)
        if table.shape[0] > table.shape[1]:
            table = np.linalg.qr(table, mode="r")
        _, values, rows = np.linalg.svd(table, full_matrices=False)
        kept = values > DEPENDENT * values.max(initial=0.0)
        whole = bool(kept.all()) and len(rows) == rows.shape[1]
        return None if whole or not kept.any() else rows[kept].T

    def coefficients(self, x: Array) -> Array:
        """Coefficients of the columns, from the variables of :meth:`agent`."""
        return (x if self.basis is None else self.basis @ x) / self.lengths

    def variables(self, w: Array) -> Array:
        """Variables of :meth:`agent` with the same predictions."""
        x = self.lengths * w
        return x if self.basis is None else self.basis.T @ x

    def agent(self, factor: float) -> Agent:
        """An agent with ``factor`` times the penalties, in columns of length one."""
        root = self.lengths
        if self.basis is not None:
            return Agent(self.over(root) @ self.basis, SquaredNorm(0.0))
        f, g = Quadratic(factor * self.ridge / root**2), _l1(factor * self.l1 / root)
        return Agent(self.over(root), f, g)

    def over(self, root: Array) -> Any:
        """The columns divided by numbers."""
        if sp.issparse(self.X):
            return sp.csr_array(self.X @ sp.diags_array(1.0 / root))
        return self.X / root

    def weights(self, tau: float, curvature: float) -> Array:
        """ridge + ε: τ times the curvature along each column, unless ridge is nearly that much."""
        wanted = tau * curvature * self.lengths**2
        return np.where(self.ridge >= _ENOUGH * wanted, self.ridge, wanted)


@dataclass(frozen=True)
class TrainingSettings:
    """How to train: what :func:`dual2.solve` is told, and the rules of the sequence.

    ``tau`` is the added ridge's share of the curvature for methods that need one, ``gain`` the
    accuracy of a problem relative to the last step of the centres; with ``patient`` τ stays as it
    is.
    """

    tol: float
    max_rounds: int
    method: Any = "auto"
    runtime: str = "stacked"
    tau: float = 3e-3
    gain: float = 0.1
    patient: bool = False


@dataclass(frozen=True)
class TrainingState:
    """Where training stands."""

    w: list[Array]  # coefficients of each party
    duals: Array | None = None  # each party's price λ_i, a subgradient of the loss at the solution
    result: Result | None = None  # of the last problem
    # sums, rounds, vectors, agree_rounds, floats of all problems, and their number, solves
    counts: dict[str, int] = field(default_factory=dict)
    # estimated distance of w from its limit, relative to |w| in the parties' scales; 0 if no ridge
    # was added
    remaining: float = 0.0
    converged: bool = False  # whether it meets the tolerance
    dependent: int = 0  # dimension of the coefficients that predict nothing, if it was looked for


class Scaled(NamedTuple):
    """A problem whose objective is ``factor`` times the model's.

    ``back`` turns each agent's variables into its coefficients, ``old`` is the present point;
    ``moving`` says that the model is only the limit of such problems, ``exact`` that nothing was
    added to it: then its columns are those of every other.
    """

    agents: list[Agent]
    back: list[Callable[[Array], Array]]
    factor: float
    old: list[Array]
    moving: bool
    exact: bool = False


def plain_problem(blocks: Sequence[PartyColumns], loss: Loss) -> Problem:
    """The model's problem in the coefficients themselves."""
    agents = [Agent(b.X, Quadratic(b.ridge), _l1(b.l1)) for b in blocks]
    return Problem(agents, loss.h(1.0))


def train(
    blocks: Sequence[PartyColumns],
    loss: Loss,
    network: Network,
    settings: TrainingSettings,
    start: TrainingState,
) -> TrainingState:
    """The model, from ``start``; a method that follows another one starts from zero.

    Where a method stalls, its coefficients may be far from every solution. Ctrl-C raises
    ``KeyboardInterrupt``.
    """
    model = start = replace(start, counts={})
    plain = plain_problem(blocks, loss)
    for method in training_methods(settings.method, plain, moving=loss.follow is not None):
        start = replace(start, counts=model.counts)
        model = _train_by(method, blocks, loss, network, settings, start)
        if model.result is not None and model.result.status == Status.INTERRUPTED:
            raise KeyboardInterrupt  # as any other Python code: no model comes of it
        if model.result is None or model.result.status not in _GO_ON:
            break
    return model


def _train_by(
    method: Method,
    blocks: Sequence[PartyColumns],
    loss: Loss,
    network: Network,
    settings: TrainingSettings,
    model: TrainingState,
) -> TrainingState:
    """The problem's solution, or problem after problem until the centres rest, from ``model``."""
    tau = settings.tau if needs_curvature(method, plain_problem(blocks, loss)) else 0.0
    steps, tol = [], 0.0
    for _ in range(_MOST):
        if loss.follow is not None:
            loss = loss.follow(predictions(blocks, model.w))
        scaled = _with_ridge(blocks, loss, tau, model.w) if tau else _exact(blocks, loss, model.w)
        moving = scaled.moving or loss.follow is not None
        tol = max(settings.tol, tol or _FIRST if moving else 0.0)
        model, step = _solve_once(scaled, loss, network, settings, method, tol, model)
        if model.result is None or model.result.status != Status.CONVERGED:
            return replace(model, remaining=step if moving else 0.0)
        steps.append(step)
        rate = _rate(steps)
        model = replace(model, remaining=step * max(rate / (1.0 - rate), 0.1) if moving else 0.0)
        if tol <= settings.tol and model.remaining <= 5.0 * settings.tol:
            pairs = zip(blocks, model.w, strict=True)
            penalties = sum((b.penalties(w) for b, w in pairs), np.zeros(2))
            endless = is_endless(loss.h(1.0), predictions(blocks, model.w), penalties)
            met = endless or not scaled.moving or own_residual(blocks, loss, model) <= settings.tol
            if met or tau <= _LEAST:
                rest = 1.0 if endless else model.remaining
                return replace(model, converged=met and not endless, remaining=rest)
            tau, steps = max(_SHRINK * tau, _LEAST), []
        elif not settings.patient and len(steps) > _SPAN and rate > _SLOW:
            tau, steps = max(_SHRINK * tau, _LEAST) if tau else 0.0, [step]
        tol = max(settings.tol, min(tol, settings.gain * step))
    return model


def own_residual(blocks: Sequence[PartyColumns], loss: Loss, model: TrainingState) -> float:
    """The KKT residual of the model itself, without any ridge that was added."""
    assert model.duals is not None, "a problem has been solved"
    scaled = _exact(blocks, loss, model.w)
    problem = Problem(scaled.agents, loss.h(scaled.factor))
    return problem.kkt(scaled.old, scaled.factor * model.duals.mean(axis=0)).kkt


def predictions(blocks: Sequence[PartyColumns], w: Sequence[Array]) -> Array:
    """Σ_i X_i w_i."""
    return sum((b.X @ v for b, v in zip(blocks, w, strict=True)), np.zeros(blocks[0].X.shape[0]))


def column_squares(X: Any, weight: Array | None = None) -> Array:
    """Σ_j weight_j·X_jk² for each column.

    Examples
    --------
    >>> column_squares(np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([1.0, 2.0])).tolist()
    [19.0, 4.0]
    """
    weight = np.ones(X.shape[0]) if weight is None else weight
    if sp.issparse(X):
        return np.asarray(weight @ X.multiply(X)).ravel()
    return np.einsum("i,ij,ij->j", weight, X, X)


def _rate(steps: list[float]) -> float:
    """By which factor a step of the centres is shorter than the one before, on average."""
    span = min(len(steps) - 1, _SPAN)
    if span == 0 or steps[-1 - span] == 0:
        return 0.5
    return min((steps[-1] / steps[-1 - span]) ** (1.0 / span), 0.99)


def _exact(blocks: Sequence[PartyColumns], loss: Loss, w: Sequence[Array]) -> Scaled:
    """The model's own problem: columns of length one, a loss of curvature about one."""
    factor = 1.0 / loss.curvature
    agents = [block.agent(factor) for block in blocks]
    old = [block.variables(own) for block, own in zip(blocks, w, strict=True)]
    back = [block.coefficients for block in blocks]
    return Scaled(agents, back, factor, old, False, exact=True)


def _with_ridge(
    blocks: Sequence[PartyColumns], loss: Loss, tau: float, w: Sequence[Array]
) -> Scaled:
    """The problem with ridges that pull towards ``w``, in coordinates where it is ½|x|².

    The objective is multiplied by τ/curvature, so that gradients are of the size of predictions
    and one absolute tolerance serves both.
    """
    factor = tau / loss.curvature
    weights = [block.weights(tau, loss.curvature) for block in blocks]
    roots = [np.sqrt(factor * weight) for weight in weights]
    old = _products(roots, w)
    shares = [1.0 - block.ridge / own for block, own in zip(blocks, weights, strict=True)]
    agents = [
        Agent(b.over(root), SquaredNorm(1.0, share * x), _l1(factor * b.l1 / root))
        for b, root, share, x in zip(blocks, roots, shares, old, strict=True)
    ]
    back = [partial(_divided, root) for root in roots]
    return Scaled(agents, back, factor, old, any(np.any(share > 0) for share in shares))


def _solve_once(
    scaled: Scaled,
    loss: Loss,
    network: Network,
    settings: TrainingSettings,
    method: Method,
    tol: float,
    model: TrainingState,
) -> tuple[TrainingState, float]:
    """The next model, and the relative step from the one before."""
    problem = Problem(scaled.agents, loss.h(scaled.factor))
    start = _start(scaled, model, problem)
    how: dict[str, Any] = {"method": method, "runtime": settings.runtime, "start": start}
    how |= {"tol": tol, "atol": 0.01 * tol * loss.size if scaled.moving else 1e-12}
    how |= {"max_rounds": settings.max_rounds - model.counts.get("rounds", 0)}
    result = solve_for_all(problem, network, record=False, progress=False, **how)
    moved = math.sqrt(sum(_square(x - c) for x, c in zip(result.x, scaled.old, strict=True)))
    size = math.sqrt(sum(_square(x) for x in result.x))
    w = [back(x) for x, back in zip(result.x, scaled.back, strict=True)]
    counts = _added(model.counts, result, network)
    step = moved / size if size > 0 else 0.0
    return TrainingState(w, result.duals / scaled.factor, result, counts), step


def _start(scaled: Scaled, model: TrainingState, problem: Problem) -> Any:
    """Where a problem begins: at the model, with what the last problem of the same table knew."""
    duals, known = model.duals, model.result if scaled.exact else None
    if duals is None and known is None:
        return None
    price = np.zeros(problem.p) if duals is None else scaled.factor * duals
    return (scaled.old, price) if known is None else (scaled.old, price, known)


def _divided(root: Array, x: Array) -> Array:
    return x / root


def _products(roots: Sequence[Array], w: Sequence[Array]) -> list[Array]:
    return [root * own for root, own in zip(roots, w, strict=True)]


def _added(counts: dict[str, int], result: Result, network: Network) -> dict[str, int]:
    """Counts with those of one more problem, and with the agreement on the step's length."""
    names = ("sums", "rounds", "vectors", "agree_rounds", "floats")
    found = {name: counts.get(name, 0) + getattr(result.counts, name) for name in names}
    found["agree_rounds"] += 2 * network.tree.height
    found["floats"] += 4 * (network.n - 1)
    return found | {"solves": counts.get("solves", 0) + 1}


def _l1(weight: Array) -> Function:
    return L1Norm(weight) if np.any(weight) else Zero()


def _square(x: Array) -> float:
    return float(x @ x)
