"""By which methods a model is trained, one after the other where one stalls."""

from functools import cache
from typing import Any

import numpy as np

from dual2.functions import SquaredLoss, SquaredNorm
from dual2.methods.method import Method
from dual2.methods.newton import MAX_DUAL_ROWS
from dual2.methods.registry import AUTO, METHODS, find_method
from dual2.problem import Agent, Problem

_SUMS = 150
"""Most sums of Newton's method, of which some tens are usual, or twice the number of columns,
before another method goes on."""


def training_methods(method: Any, problem: Problem, moving: bool = False) -> list[Method]:
    """The method by name; for ``"auto"`` Newton, and what starts from zero where that stalls.

    Its primal mode, by sums of vectors with one number per sample, is for tables with more rows
    than columns; for others it chooses its mode itself, and is left out where that needs a penalty
    on the squares of all coefficients. Where samples are few and the loss is not ``moving`` with a
    parameter of its own, the interior-point method is next: its sums hold a matrix with a number
    for each pair of samples.

    Examples
    --------
    >>> tall = [Agent(np.ones((9, 2)), SquaredNorm(1.0)) for _ in range(2)]
    >>> found = training_methods("auto", Problem(tall, SquaredLoss(np.ones(9))))
    >>> [(one.name, dict(one.parameters)) for one in found]
    [('Newton', {'mode': 'primal', 'max_sums': 150}), ('interior-point', {}), ('iD2A', {})]
    """
    if not (isinstance(method, str) and method.lower() == AUTO):
        return [find_method(method)]
    columns = sum(problem.dims)
    mode, interior = "primal" if columns < problem.p else "auto", METHODS["interior-point"]
    newton = METHODS["Newton"](mode=mode, max_sums=max(_SUMS, 2 * columns))
    found = [] if newton.lack(problem) else [newton]
    wanted = not (moving and found)
    if problem.p <= MAX_DUAL_ROWS and wanted and not interior.lack(problem):
        found.append(interior)
    return [*found, METHODS["iD2A"]]


def needs_curvature(method: Method, problem: Problem | None = None) -> bool:
    """Whether a method needs a quadratic in every coefficient, of a given problem or always.

    Examples
    --------
    >>> needs_curvature(METHODS["Newton"]), needs_curvature(METHODS["iD2A"])
    (False, True)
    """
    if method.needs.lack(_flat_problem()):
        return True
    return problem is not None and bool(method.further_lack(problem, method.parameters))


@cache
def _flat_problem() -> Problem:
    """One without curvature but that of its loss."""
    return Problem([Agent(np.ones((1, 1)), SquaredNorm(0.0))], SquaredLoss(np.ones(1)))


def sums_matter(method: Any) -> bool:
    """Whether a method, by name, works by exact sums over the network: "auto" does."""
    if isinstance(method, str) and method.lower() == AUTO:
        return True
    return find_method(method).name == "Newton"
