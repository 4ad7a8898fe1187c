"""The conjugate of h, which is what methods on the dual see of the coupling."""

from __future__ import annotations

from typing import NamedTuple

from dual2.functions import Function
from dual2.problem.ingredients import separates


class DualTerm(NamedTuple):
    """h* and what methods ask of it, found once, with the problem."""

    function: Function
    """h* itself."""
    primal: Function
    """Its conjugate, by which compiled loops form the gradient of h*."""
    mu: float
    """Strong convexity and smoothness of h*."""
    L: float
    L_of_h: float
    """Smoothness of h."""
    prox_of_h: bool
    """Whether h has a prox,"""
    proximable: bool
    """and whether that of h* can be computed, if need be by that of h."""
    smooth: bool
    """Whether h* has a gradient everywhere."""
    separate: bool
    """Whether h judges every row of the coupling by itself."""


def find_dual_term(h: Function, p: int) -> DualTerm:
    """h* of an h on Rᵖ, with what is known of it.

    Examples
    --------
    >>> from dual2.functions import SquaredLoss
    >>> term = find_dual_term(SquaredLoss([1.0, 2.0], scale=4.0), 2)
    >>> term.mu, term.L, term.proximable, term.separate
    (0.25, 0.25, True, True)
    """
    star, own = h.conjugate, h.proximable
    return DualTerm(
        function=star,
        primal=star.conjugate,
        mu=float(star.mu),
        L=float(star.L),
        L_of_h=float((h.form or h).L),
        prox_of_h=own,
        proximable=own or star.proximable,
        smooth=star.smooth,
        separate=separates(h, p),
    )
