"""Which cvxpy atoms and constraints are known, as functions of dual2 behind an affine map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dual2.functions import (
    Function,
    HuberLoss,
    IndicatorAtMost,
    IndicatorBall,
    IndicatorBox,
    IndicatorPoint,
    L2Norm,
    LogisticLoss,
    PoissonLoss,
    SquaredHingeLoss,
    Stacked,
)
from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.functions.separable import separable_form
from dual2.recognise.affine import AffineMap, Term, affine_map, terms

Array = np.ndarray
Reader = Callable[[Any, Array], tuple[Function, AffineMap]]
"""From an atom and its weights to a function behind an affine map."""


class Unknown(Exception):
    """A piece of the model that is not recognised; the text says why."""


@dataclass(frozen=True)
class Piece:
    """function(z), z the affine map of the variables."""

    function: Function  # of z, the map's offset included in z
    map: AffineMap  # from the variables to z
    text: str  # the piece as the model states it
    # the cvxpy constraint it comes from, or None for a part of the objective
    constraint: Any = None

    @property
    def shifted(self) -> Function:
        """The same as a function of z without the offset."""
        offset = self.map.offset
        return self.function.shift(-offset) if np.any(offset) else self.function


def by_owner(piece: Piece, owner: dict[int, int]) -> list[Piece]:
    """A separable piece of the objective, cut into the rows of each owner alone and the rest.

    A constraint stays whole, for its dual.

    ``piece``: what to cut; ``owner``: who owns which variable, by the variable's id.
    """
    form = separable_form(piece.function, piece.map.size)
    if form is None or piece.constraint is not None:
        return [piece]
    enters: dict[int, Array] = {}
    for key, matrix in piece.map.matrices.items():
        rows = enters.setdefault(owner[key], np.zeros(piece.map.size, dtype=bool))
        rows |= np.diff(matrix.indptr) > 0
    alone = np.sum(list(enters.values()), axis=0) == 1
    parts = [part for part in [*(rows & alone for rows in enters.values()), ~alone] if part.any()]
    if len(parts) == 1:
        return [piece]
    return [
        Piece(
            PiecewiseQuadratic(**{f.name: getattr(form, f.name)[part] for f in fields(form)}),
            piece.map.rows(part),
            piece.text,
        )
        for part in parts
    ]


def short(thing: Any) -> str:
    """The model's text of a piece, on one line and not too long."""
    text = " ".join(str(thing).split())
    return text if len(text) <= 70 else text[:67] + "…"


# -- atoms of the objective ------------------------------------------------------------------------


def objective_piece(term: Term) -> Piece:
    """One atom of the objective with its weights."""
    name = type(term.atom).__name__.removesuffix("Approx")
    read = ATOMS.get(name)
    if read is None:
        raise Unknown(f"the atom {name} is not among {', '.join(sorted(ATOMS))}")
    function, argument = read(term.atom, term.weight)
    return Piece(function, argument, short(term.atom))


def _inner(expression: Any) -> AffineMap:
    if not expression.is_affine():
        raise Unknown(f"its argument {short(expression)} is not affine")
    return finite_map(expression)


def finite_map(expression: Any) -> AffineMap:
    """An affine expression, whose numbers must be finite."""
    found = affine_map(expression)
    for part in (found.offset, *(matrix.data for matrix in found.matrices.values())):
        if not np.isfinite(part).all():
            raise Unknown("some of its numbers are not finite; a bound that is infinite is none")
    return found


def _positive(weight: Array) -> Array:
    if np.any(weight < 0):
        raise Unknown(f"it enters with the negative weight {float(np.min(weight)):g}")
    return np.ravel(weight, order="F")


def _uniform(build: Callable[[float], Function], weights: Array) -> Function:
    """One function for equal weights, else a block for each run of equal ones."""
    cuts = np.flatnonzero(np.diff(weights)) + 1
    runs = np.split(weights, cuts)
    if len(runs) == 1:
        return build(float(weights[0]))
    return Stacked([build(float(run[0])) for run in runs], [run.size for run in runs])


def _squares(atom: Any, weight: Array) -> tuple[Function, AffineMap]:
    """quad_over_lin(X, c) = |X|²/c."""
    divisor = atom.args[1]
    if not divisor.is_constant() or atom.axis is not None:
        raise Unknown("only a constant divisor and the sum over all entries are known")
    w = float(_positive(weight)[0]) / float(np.asarray(divisor.value).ravel()[0])
    return _square(atom.args[0], np.full(atom.args[0].size, w))


def _power(atom: Any, weight: Array) -> tuple[Function, AffineMap]:
    """x² elementwise."""
    exponent = float(getattr(atom.p, "value", atom.p))
    if exponent != 2.0:
        raise Unknown(f"of the powers only the square is known, not {exponent:g}")
    return _square(atom.args[0], _positive(weight))


def _square(argument: Any, w: Array) -> tuple[Function, AffineMap]:
    """Σ w_j z_j², or Σ w_j max(z_j, 0)²: a squared hinge of the label -1 at z - 1."""
    side = _one_side(argument)
    if side is None:
        return PiecewiseQuadratic(curvature=2.0 * w), _inner(argument)
    w, inner = _kept(w, side)
    return SquaredHingeLoss(-1.0, w), AffineMap(inner.matrices, inner.offset - 1.0)


def _one_side(expression: Any) -> Any:
    """X where the expression is max(X, 0) or -min(-X, 0), else None."""
    negated = type(expression).__name__ == "NegExpression"
    atom = expression.args[0] if negated else expression
    if type(atom).__name__ != ("minimum" if negated else "maximum") or len(atom.args) != 2:
        return None
    for part, other in (atom.args, atom.args[::-1]):
        if other.is_constant() and not np.any(other.value) and part.shape == atom.shape:
            return -part if negated else part
    return None


def _quadratic_form(atom: Any, weight: Array) -> tuple[Function, AffineMap]:
    """xᵀPx = |Rx|² with a root R of P."""
    given = atom.args[1].value
    P = np.asarray(given.toarray() if hasattr(given, "toarray") else given, dtype=np.float64)
    values, vectors = np.linalg.eigh((P + P.T) / 2)
    sign = -1.0 if np.all(weight < 0) else 1.0
    values = sign * values
    top = float(np.abs(values).max(initial=0.0))
    if values.min(initial=0.0) < -1e-10 * top:
        raise Unknown(f"its matrix has the eigenvalue {sign * values.min():g}, so it is not convex")
    kept = values > 1e-14 * top
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    if not kept.any():
        root = np.zeros((1, P.shape[0]))
    w = float(_positive(sign * np.asarray(weight))[0])
    return PiecewiseQuadratic(curvature=2.0 * w), _inner(atom.args[0]).after(root)


def _kink(left: float, right: float) -> Reader:
    """left·z for z < 0, right·z above, elementwise or summed."""

    def read(atom: Any, weight: Array) -> tuple[Function, AffineMap]:
        w = np.broadcast_to(_positive(weight), (atom.args[0].size,))
        function = PiecewiseQuadratic(slope_left=left * w, slope_right=right * w)
        return function, _inner(atom.args[0])

    return read


def _maximum(atom: Any, weight: Array) -> tuple[Function, AffineMap]:
    """max(X, c) = c + max(X - c, 0); for the minimum the same with signs."""
    sign = 1.0 if type(atom).__name__ == "maximum" else -1.0
    constant = [part.is_constant() for part in atom.args]
    if len(atom.args) != 2 or not any(constant):
        raise Unknown("only the maximum of two affine expressions is known")
    bound, part = atom.args if constant[0] else atom.args[::-1]
    w = _positive(sign * np.asarray(weight))
    inner = _inner(part)
    if inner.size != w.size:
        raise Unknown("its two arguments have different shapes")
    level = np.broadcast_to(np.asarray(bound.value, float), np.shape(weight)).ravel(order="F")
    function = PiecewiseQuadratic(slope_right=w, kink=sign * level, offset=w * sign * level)
    return function, inner if sign > 0 else -inner


def _norm(atom: Any, weight: Array) -> tuple[Function, AffineMap]:
    if float(np.asarray(getattr(atom.p, "value", atom.p))) != 2.0 or atom.axis is not None:
        raise Unknown("of the p-norms only 1 and 2 of a whole vector are known")
    return L2Norm(float(_positive(weight)[0])), _inner(atom.args[0])


def _kept(weight: Array, argument: Any) -> tuple[Array, AffineMap]:
    """Weights and rows of an elementwise function, without those of weight zero."""
    inner = _inner(argument)
    w = np.broadcast_to(_positive(weight), (inner.size,))
    return w[w > 0], inner.rows(w > 0)


def _elementwise(build: Callable[[Any, float], Function]) -> Reader:
    """A loss of every entry, from the atom and a weight."""

    def read(atom: Any, weight: Array) -> tuple[Function, AffineMap]:
        w, inner = _kept(weight, atom.args[0])
        return _uniform(lambda scale: build(atom, scale), w), inner

    return read


ATOMS: dict[str, Reader] = {
    "quad_over_lin": _squares,
    "power": _power,
    "Power": _power,
    "QuadForm": _quadratic_form,
    "norm1": _kink(-1.0, 1.0),
    "abs": _kink(-1.0, 1.0),
    "maximum": _maximum,
    "minimum": _maximum,
    "Pnorm": _norm,
    "huber": _elementwise(lambda atom, w: HuberLoss(0.0, float(atom.M.value), 2.0 * w)),
    "logistic": _elementwise(lambda atom, w: LogisticLoss(-1.0, w)),
    "exp": _elementwise(lambda atom, w: PoissonLoss(0.0, w)),
}
"""Readers of the atoms that are known, by the name of their class; cvxpy's Huber is twice ours."""


# -- constraints -----------------------------------------------------------------------------------


def constraint_piece(constraint: Any) -> Piece:
    """One constraint as the indicator of a set."""
    kind, args = type(constraint).__name__, constraint.args
    if kind in ("Equality", "Zero"):
        expression = args[0] - args[1] if len(args) == 2 else args[0]
        function, inner = IndicatorPoint(0.0), _inner(expression)
    elif kind == "Inequality":
        function, inner = _at_most(args[0] - args[1])
    elif kind in ("NonPos", "NonNeg"):
        function, inner = _at_most(args[0] if kind == "NonPos" else -args[0])
    elif kind == "SOC" and args[0].is_constant() and args[1].ndim <= 1:
        radius = float(np.asarray(args[0].value).ravel()[0])
        function, inner = IndicatorBall(radius), _inner(args[1])
    else:
        raise Unknown(f"constraints of type {kind} are not known")
    return Piece(function, inner, short(constraint), constraint)


def _at_most(expression: Any) -> tuple[Function, AffineMap]:
    """expression ≤ 0: affine, or a norm, square or absolute value against a constant."""
    if expression.is_affine():
        return IndicatorAtMost(0.0), finite_map(expression)
    parts = list(terms(expression))
    curved = [part for part in parts if not part.atom.is_affine()]
    flat = [part for part in parts if part.atom.is_affine()]
    if len(curved) != 1 or not all(part.atom.is_constant() for part in flat):
        raise Unknown("it is neither affine nor a norm against a constant")
    atom, weight = curved[0].atom, _positive(curved[0].weight)
    limit = -sum((part.weight * part.atom.value for part in flat), np.zeros(expression.shape))
    bound = np.ravel(limit, order="F") / weight
    name = type(atom).__name__.removesuffix("Approx")
    return _level_set(name, atom, bound)


def _level_set(name: str, atom: Any, bound: Array) -> tuple[Function, AffineMap]:
    if np.any(bound < 0):
        raise Unknown(f"its bound {float(bound.min()):g} is negative: no point satisfies it")
    if name == "Pnorm" and float(np.asarray(getattr(atom.p, "value", atom.p))) == 2.0:
        return IndicatorBall(float(bound[0])), _inner(atom.args[0])
    if name == "quad_over_lin" and atom.args[1].is_constant():
        radius = np.sqrt(float(bound[0]) * float(np.asarray(atom.args[1].value).ravel()[0]))
        return IndicatorBall(radius), _inner(atom.args[0])
    if name in ("abs", "norm_inf"):
        return IndicatorBox(-bound, bound) if name == "abs" else IndicatorBox(
            -float(bound[0]), float(bound[0])
        ), _inner(atom.args[0])
    raise Unknown(f"a bound on {name} is not known")
