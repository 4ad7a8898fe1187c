"""Training: a sequence of decentralised problems whose solutions converge to the model's.

A model minimises

    loss(Σ_i X_i w_i) + Σ_i Σ_j (ridge_ij/2)·w_ij² + l1_ij·|w_ij|.

The solvers need a quadratic in every coefficient. Where ``ridge`` is less than τ times the loss's
curvature along that column, (ε_ij/2)(w_ij - c_ij)² makes up for it, and the centre c moves to the
solution until it no longer does: the proximal point method, whose limit is the model itself. An
unpenalised coefficient, the intercept say, needs nothing else. Each party scales its own columns
so that its quadratic is ½|x|².
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dual2.functions import Function, L1Norm, Quadratic, SquaredNorm, Zero
from dual2.methods.registry import AUTO
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
class Block:
    """One party's columns, and the weights of its penalties, one per column."""

    X: Array
    ridge: Array
    l1: Array

    def weights(self, tau: float, curvature: float) -> Array:
        """ridge + ε: τ times the curvature along each column, unless ridge is nearly that much."""
        squares = np.einsum("ij,ij->j", self.X, self.X)
        wanted = tau * curvature * np.where(squares > 0, squares, 1.0)
        return np.where(self.ridge >= _ENOUGH * wanted, self.ridge, wanted)


@dataclass(frozen=True)
class TrainingSettings:
    """How to train: what :func:`dual2.solve` is told, and the rules of the sequence.

    ``tau`` is the ridge's share of the curvature, ``gain`` the accuracy of a problem relative to
    the last step of the centres; with ``patient`` τ stays as it is.
    """

    tol: float
    max_rounds: int
    method: Any = "auto"
    runtime: str = "stacked"
    tau: float = 3e-3
    gain: float = 0.1
    patient: bool = False


@dataclass(frozen=True)
class Model:
    """Where training stands."""

    w: list[Array]  # coefficients of each party
    duals: Array | None = None  # each party's price λ_i, a subgradient of the loss at the solution
    result: Result | None = None  # of the last problem
    # rounds, vectors, agree_rounds, floats of all problems, and their number, solves
    counts: dict[str, int] = field(default_factory=dict)
    # estimated distance of w from its limit, relative to |w| in the parties' scales; 0 if no ridge
    # was added
    remaining: float = 0.0
    converged: bool = False  # whether it meets the tolerance


def plain_problem(blocks: Sequence[Block], loss: Loss, centre: Sequence[Array]) -> Problem:
    """The problem in the coefficients themselves, with ridges pulling towards ``centre``."""
    tau = TrainingSettings(1.0, 1).tau
    agents = []
    for block, c in zip(blocks, centre, strict=True):
        weights = block.weights(tau, loss.curvature)
        f = Quadratic(weights, -(weights - block.ridge) * c)
        agents.append(Agent(block.X, f, L1Norm(block.l1) if np.any(block.l1) else Zero()))
    return Problem(agents, loss.h(1.0))


def train(
    blocks: Sequence[Block], loss: Loss, network: Network, settings: TrainingSettings, start: Model
) -> Model:
    """Solve problem after problem until the centres rest, from ``start``."""
    tau, steps, model = settings.tau, [], replace(start, counts={})
    moving = loss.follow is not None or any(np.any(s > 0) for s in _shares(blocks, loss, tau))
    tol = max(settings.tol, _FIRST) if moving else settings.tol
    for _ in range(_MOST):
        if loss.follow is not None:
            loss = loss.follow(predictions(blocks, model.w))
        model, step = _solve_once(blocks, loss, network, settings, tau, tol, model)
        if model.result is None or model.result.status != Status.CONVERGED:
            return replace(model, remaining=step if moving else 0.0)
        steps.append(step)
        rate = _rate(steps)
        remaining = step * max(rate / (1.0 - rate), 0.1) if moving else 0.0
        model = replace(model, remaining=remaining)
        if tol <= settings.tol and remaining <= 5.0 * settings.tol:
            return replace(model, converged=True)
        if not settings.patient and len(steps) > _SPAN and rate > _SLOW:
            tau, steps = max(_SHRINK * tau, _LEAST), [step]
        tol = max(settings.tol, min(tol, settings.gain * step))
    return model


def predictions(blocks: Sequence[Block], w: Sequence[Array]) -> Array:
    """Σ_i X_i w_i."""
    return sum((b.X @ v for b, v in zip(blocks, w, strict=True)), np.zeros(len(blocks[0].X)))


def _shares(blocks: Sequence[Block], loss: Loss, tau: float) -> list[Array]:
    """The added ridge's share of each coefficient's quadratic."""
    return [1.0 - block.ridge / block.weights(tau, loss.curvature) for block in blocks]


def _rate(steps: list[float]) -> float:
    """By which factor a step of the centres is shorter than the one before, on average."""
    span = min(len(steps) - 1, _SPAN)
    if span == 0 or steps[-1 - span] == 0:
        return 0.5
    return min((steps[-1] / steps[-1 - span]) ** (1.0 / span), 0.99)


def _solve_once(
    blocks: Sequence[Block],
    loss: Loss,
    network: Network,
    settings: TrainingSettings,
    tau: float,
    tol: float,
    model: Model,
) -> tuple[Model, float]:
    """The next model, and the relative step from the one before.

    The objective is multiplied by τ/curvature, so that gradients are of the size of predictions
    and one absolute tolerance serves both.
    """
    factor = tau / loss.curvature
    weights = [block.weights(tau, loss.curvature) for block in blocks]
    roots = [np.sqrt(factor * weight) for weight in weights]
    old = [root * w for root, w in zip(roots, model.w, strict=True)]
    shares = _shares(blocks, loss, tau)
    agents = [
        Agent(b.X / root, SquaredNorm(1.0, share * x), _l1(factor * b.l1 / root))
        for b, root, share, x in zip(blocks, roots, shares, old, strict=True)
    ]
    start = None if model.duals is None else (old, factor * model.duals)
    moving = any(np.any(share > 0) for share in shares)
    how: dict[str, Any] = {"method": _method(settings), "runtime": settings.runtime}
    how |= {"tol": tol, "atol": 0.01 * tol * loss.size if moving else 1e-12, "start": start}
    how |= {"max_rounds": settings.max_rounds - model.counts.get("rounds", 0)}
    problem = Problem(agents, loss.h(factor))
    result = solve_for_all(problem, network, record=False, progress=False, **how)
    moved = math.sqrt(sum(_square(x - c) for x, c in zip(result.x, old, strict=True)))
    size = math.sqrt(sum(_square(x) for x in result.x))
    w = [x / root for x, root in zip(result.x, roots, strict=True)]
    counts = _added(model.counts, result, network)
    step = moved / size if size > 0 else 0.0
    return Model(w, result.duals / factor, result, counts), step


def _method(settings: TrainingSettings) -> Any:
    """For ``"auto"`` iD2A, whose many cheap rounds suit as many rows as there are samples."""
    automatic = isinstance(settings.method, str) and settings.method.lower() == AUTO
    return "iD2A" if automatic else settings.method


def _added(counts: dict[str, int], result: Result, network: Network) -> dict[str, int]:
    """Counts with those of one more problem, and with the agreement on the step's length."""
    names = ("rounds", "vectors", "agree_rounds", "floats")
    found = {name: counts.get(name, 0) + getattr(result.counts, name) for name in names}
    found["agree_rounds"] += 2 * network.tree.height
    found["floats"] += 4 * (network.n - 1)
    return found | {"solves": counts.get("solves", 0) + 1}


def _l1(weight: Array) -> Function:
    return L1Norm(weight) if np.any(weight) else Zero()


def _square(x: Array) -> float:
    return float(x @ x)
