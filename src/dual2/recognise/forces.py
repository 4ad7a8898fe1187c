"""A size for the prices that agents without costs of their own feel.

Residuals are judged beside an agent's own terms. Where its f is zero and its g a set, as in least
squares without a penalty, A_iᵀλ vanishes at the solution and there is nothing to compare with.
Since Σ_i A_i x_i = z, a slope can pass from h to the agents, f_i + <A_iᵀc, ·> and h - <c, ·>,
without a change of the problem; with a subgradient c of h at x = 0 the agents begin with the
gradient at zero as their own, and λ is the price less c.
"""

from dataclasses import replace

import numpy as np

from dual2.functions import Function, IndicatorBox, Stacked, Zero
from dual2.functions.base import Indicator
from dual2.recognise.own import Own
from dual2.recognise.pieces import Piece

_NEAR = 1e-6
"""Step of the prox at whose result the subgradient is taken; 1 from outside the domain."""


def pass_slopes(pieces: list[Piece], owners: list[Own], sets: list[Function]) -> list[Piece]:
    """The pieces of the coupling, slopes passed where an agent has no cost; ``sets``: their g."""
    idle = [
        i
        for i, (owner, g) in enumerate(zip(owners, sets, strict=True))
        if not owner.q.any() and not owner.P.any() and _is_set(g)
    ]
    mine = {v.id for i in idle for v in owners[i].variables}
    return [
        _passed(piece, owners)
        if mine & set(piece.map.matrices)
        and piece.constraint is None
        and not _is_set(piece.function)
        else piece
        for piece in pieces
    ]


def _is_set(function: Function) -> bool:
    if isinstance(function, Stacked):
        return any(map(_is_set, function.functions))
    bounded = function.form is not None and not np.all(
        np.isneginf(function.form.lower) & np.isposinf(function.form.upper)
    )
    return bounded or isinstance(function, Indicator | IndicatorBox | Zero)


def _passed(piece: Piece, owners: list[Own]) -> Piece:
    at = piece.map.offset
    step = _NEAR if np.isfinite(piece.function.value(at)) else 1.0
    slope = (at - piece.function.prox(at, step)) / step
    if not slope.any():
        return piece
    for owner in owners:
        owner.q += owner.matrix(piece.map).T @ slope
    return replace(piece, function=piece.function.tilt(-slope))
