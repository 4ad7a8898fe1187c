"""The second-order cone, for Euclidean norms below an affine expression."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from dual2.conic.blocks import BlockForm, Cone, ConeConstraint
from dual2.functions.arguments import Array, Entries
from dual2.functions.base import TOLERANCE, Function, Indicator, one_unit


@dataclass(frozen=True, eq=False, repr=False)
class IndicatorSecondOrderCone(Indicator):
    """f(x) = 0 if |(x_1, ..., x_{d-1})|₂ <= x_0, else inf.

    With x = (t, u): the prox is v inside the cone, 0 inside its polar {|u| <= -t}, and
    ½(1 + t/|u|)·(|u|, u) elsewhere (Alizadeh & Goldfarb, 2003); f* = indicator of the polar. Points
    up to 1e-9·max(1, |x_0|) outside count as inside.

    Examples
    --------
    >>> IndicatorSecondOrderCone().prox([0.0, 3.0, 4.0], 1.0)
    array([2.5, 1.5, 2. ])
    """

    def rescaled(self, units: Array) -> Function | None:
        """The same cone; for one unit only."""
        return None if one_unit(units) is None else self

    def _value(self, x: Array) -> Array:
        excess = np.linalg.norm(x[..., 1:], axis=-1) - x[..., 0]
        return np.where(excess > TOLERANCE * np.maximum(1.0, np.abs(x[..., 0])), np.inf, 0.0)

    def _prox(self, v: Array, step: Entries) -> Array:
        t, u = v[..., :1], v[..., 1:]
        length = np.linalg.norm(u, axis=-1, keepdims=True)
        half = 0.5 * (length + t)
        edge = np.concatenate([half, half * (u / np.where(length > 0, length, 1.0))], axis=-1)
        return np.where(length <= t, v, np.where(length <= -t, 0.0, edge))

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        return -self._prox(-v, step)

    def _domain_support(self, u: Array) -> Array:
        return self._value(-u)

    def _conjugate_blocks(self, dim: int) -> BlockForm:
        return BlockForm(dim, rows=(ConeConstraint.of(Cone.SECOND_ORDER, sp.eye_array(dim), 0.0),))

    def _blocks(self, dim: int) -> BlockForm:
        return BlockForm(dim, rows=(ConeConstraint.of(Cone.SECOND_ORDER, -sp.eye_array(dim), 0.0),))
