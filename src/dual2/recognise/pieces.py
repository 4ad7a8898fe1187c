"""Pieces of a model: a function of dual2 behind an affine map, from a term or a constraint."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from dual2.functions import (
    Function,
    IndicatorAtMost,
    IndicatorBall,
    IndicatorBox,
    IndicatorL1Ball,
    IndicatorPoint,
    IndicatorSecondOrderCone,
    Stacked,
)
from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.functions.separable import separable_form
from dual2.recognise.affine import AffineMap, stacked_maps
from dual2.recognise.atoms import (
    Read,
    Unknown,
    atom_name,
    exponent,
    finite_map,
    inner_map,
    positive,
    quadratic_root,
)
from dual2.recognise.terms import Term, terms

Array = np.ndarray


@dataclass(frozen=True)
class Piece:
    """function(z), z the affine map of the variables."""

    function: Function  # of z, the map's offset included in z
    map: AffineMap  # from the variables to z
    text: str  # the piece as the model states it
    # the cvxpy constraint whose dual its rows carry, or None
    constraint: Any = None

    @property
    def shifted(self) -> Function:
        """The same as a function of z without the offset."""
        offset = self.map.offset
        return self.function.shift(-offset) if np.any(offset) else self.function


def by_owner(piece: Piece, owner: dict[int, int]) -> list[Piece]:
    """A piece of the objective, cut into the rows of each owner alone and the rest.

    Rows that the function does not separate stay together; a constraint stays whole, for its dual.

    ``piece``: what to cut; ``owner``: who owns which variable, by the variable's id.
    """
    groups = piece.function.groups(piece.map.size)
    if piece.constraint is not None or not groups.any():
        return [piece]
    enters: dict[int, Array] = {}
    for key, matrix in piece.map.matrices.items():
        found = enters.setdefault(owner[key], np.zeros(groups.max() + 1, dtype=bool))
        found[groups[np.diff(matrix.indptr) > 0]] = True
    alone = np.sum(list(enters.values()), axis=0) == 1
    cuts = [own[groups] for own in [*(found & alone for found in enters.values()), ~alone]]
    parts = [part for part in cuts if part.any()]
    if len(parts) == 1:
        return [piece]
    return [
        Piece(_restricted(piece.function, part), piece.map.rows(part), piece.text) for part in parts
    ]


def _restricted(function: Function, rows: Array) -> Function:
    """The function of some coordinates (whole groups), the others left out."""
    if isinstance(function, Stacked):
        cuts = np.split(rows, np.cumsum(function.sizes)[:-1])
        pairs = [(f, cut) for f, cut in zip(function.functions, cuts, strict=True) if cut.any()]
        functions = [_restricted(f, cut) for f, cut in pairs]
        return Stacked(functions, [int(cut.sum()) for _, cut in pairs])
    form = separable_form(function, len(rows))
    if form is not None:
        return PiecewiseQuadratic(**{f.name: getattr(form, f.name)[rows] for f in fields(form)})
    own: Any = function
    vectors = {f.name: getattr(own, f.name) for f in fields(own) if np.ndim(getattr(own, f.name))}
    return replace(own, **{name: value[rows] for name, value in vectors.items()})


# -- constraints -----------------------------------------------------------------------------------


def constraint_piece(constraint: Any, text: str) -> Piece:
    """One constraint as the indicator of a set."""
    kind, args = type(constraint).__name__, constraint.args
    if kind in ("Equality", "Zero"):
        expression = args[0] - args[1] if len(args) == 2 else args[0]
        function, inner = IndicatorPoint(0.0), inner_map(expression)
    elif kind == "Inequality":
        function, inner = _at_most(args[0] - args[1])
    elif kind in ("NonPos", "NonNeg"):
        function, inner = _at_most(args[0] if kind == "NonPos" else -args[0])
    elif kind == "SOC":
        function, inner = _cones(constraint)
    else:
        raise Unknown(f"constraints of type {kind} are not known")
    affine = kind != "SOC" and all(part.is_affine() for part in args)
    return Piece(function, inner, text, constraint if affine else None)


def _cones(constraint: Any) -> Read:
    """|X_k| ≤ t_k for each column (or row) X_k of X; a ball if there is one and t is constant."""
    top, whole = constraint.args
    if top.is_constant() and whole.ndim <= 1:
        return _ball(float(np.asarray(top.value).ravel()[0]), inner_map(whole))
    heads, count = inner_map(top), top.size
    numbers = count + np.arange(whole.size).reshape(whole.shape, order="F")
    members = numbers.reshape(-1, 1) if whole.ndim <= 1 else numbers
    members = members.T if whole.ndim <= 1 or constraint.axis == 0 else members
    groups = np.column_stack([np.arange(count), members])
    inner = stacked_maps([heads, inner_map(whole)]).rows(groups.ravel())
    cone = IndicatorSecondOrderCone()
    return cone if count == 1 else Stacked([cone] * count, [groups.shape[1]] * count), inner


def _ball(radius: float, inner: AffineMap) -> Read:
    if radius < 0:
        raise Unknown(f"its bound {radius:g} is negative: no point satisfies it")
    return IndicatorBall(radius), inner


def _at_most(expression: Any) -> Read:
    """expression ≤ 0: affine, or one known atom against a constant."""
    if expression.is_affine():
        return IndicatorAtMost(0.0), finite_map(expression)
    parts = list(terms(expression))
    curved = [part for part in parts if not part.atom.is_affine()]
    flat = [part for part in parts if part.atom.is_affine()]
    if not all(part.atom.is_constant() for part in flat):
        raise Unknown("it is neither affine nor one known function against a constant")
    limit = np.zeros(expression.size)
    for part in flat:
        limit -= np.ravel(part.weight * part.atom.value, order="F")
    if len(curved) > 1 and all(atom_name(part.atom) == "norm1" for part in curved):
        return _l1_ball(curved, limit)
    if len(curved) != 1 or np.shape(curved[0].weight) != expression.shape:
        raise Unknown("it is neither affine nor one known function against a constant")
    atom, weight = curved[0].atom, np.ravel(curved[0].weight, order="F")
    if np.any(weight == 0):
        raise Unknown("some of its rows have the weight 0")
    return _level_set(atom, weight, limit / weight)


def _l1_ball(norms: list[Term], limit: Array) -> Read:
    """Σ_k w_k|x_k|₁ ≤ limit: one ball around all w_k x_k."""
    if any(part.atom.axis is not None for part in norms) or limit[0] < 0:
        raise Unknown("it is a sum of norms along an axis, or below a negative bound")
    maps = []
    for part in norms:
        inner = inner_map(part.atom.args[0])
        maps.append(inner.after(float(positive(part.weight)[0]) * sp.eye_array(inner.size)))
    return IndicatorL1Ball(float(limit[0])), stacked_maps(maps)


def _level_set(atom: Any, weight: Array, bound: Array) -> Read:
    """{weight·atom ≤ weight·bound}."""
    name, argument = atom_name(atom), atom.args[0]
    if name == "log" and np.all(weight < 0):
        return IndicatorBox(np.exp(bound), np.inf), inner_map(argument)
    positive(weight)
    if getattr(atom, "axis", None) is not None:
        raise Unknown(f"a bound on {name} along an axis is not known")
    if name == "max":
        return IndicatorAtMost(bound[0]), inner_map(argument)
    if np.any(bound < 0):
        raise Unknown(f"its bound {float(bound.min()):g} is negative: no point satisfies it")
    if name == "norm1":
        return IndicatorL1Ball(float(bound[0])), inner_map(argument)
    if name == "Pnorm" and exponent(atom) == 2.0:
        return _ball(float(bound[0]), inner_map(argument))
    if name == "quad_over_lin" and atom.args[1].is_constant():
        divisor = float(np.asarray(atom.args[1].value).ravel()[0])
        return _ball(float(np.sqrt(bound[0] * divisor)), inner_map(argument))
    if name == "QuadForm":
        root = quadratic_root(np.asarray(atom.args[1].value, dtype=np.float64), 1.0)
        return _ball(float(np.sqrt(bound[0])), inner_map(argument).after(root))
    if name in ("abs", "norm_inf"):
        width = bound if name == "abs" else float(bound[0])
        return IndicatorBox(-width, width), inner_map(argument)
    if name == "exp" and np.all(bound > 0):
        return IndicatorAtMost(np.log(bound)), inner_map(argument)
    raise Unknown(f"a bound on {name} is not known")
