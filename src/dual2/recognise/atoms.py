"""Which cvxpy atoms are known, as functions of dual2 behind an affine map."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dual2.functions import (
    Entropy,
    Function,
    HuberLoss,
    L2Norm,
    LInfNorm,
    LogisticLoss,
    Max,
    NegativeLog,
    PoissonLoss,
    SquaredHingeLoss,
    Stacked,
    SumLargest,
)
from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.recognise.affine import AffineMap, affine_map, dense, stacked_maps
from dual2.recognise.terms import along_axis, short, widened

Array = np.ndarray
Read = tuple[Function, AffineMap]
Reader = Callable[[Any, Array], Read]
"""From an atom and its weights to a function behind an affine map."""


class Unknown(Exception):
    """A piece of the model that is not recognised; the text says why."""


def read_atom(atom: Any, weight: Array) -> Read:
    """One atom of the objective with its weights."""
    name = atom_name(atom)
    if name not in ATOMS:
        raise Unknown(f"the atom {name} is not known")
    return ATOMS[name](atom, weight)


def atom_name(atom: Any) -> str:
    """The name of the atom's class, the same in all versions of cvxpy."""
    name = type(atom).__name__.removesuffix("Approx")
    return {"Power": "power"}.get(name, name)


def exponent(atom: Any) -> float:
    """p of a power or a p-norm."""
    return float(np.asarray(getattr(atom.p, "value", atom.p)))


def inner_map(expression: Any) -> AffineMap:
    """The affine argument of an atom."""
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


def positive(weight: Array) -> Array:
    """Weights as a vector, none of them negative."""
    if np.any(weight < 0):
        raise Unknown(f"it enters with the negative weight {float(np.min(weight)):g}")
    return np.ravel(weight, order="F")


# -- squares -----------------------------------------------------------------------------------


def _squares(atom: Any, weight: Array) -> Read:
    """quad_over_lin(X, c) = |X|²/c."""
    if not atom.args[1].is_constant():
        raise Unknown("its divisor is not constant")
    divisor = float(np.asarray(dense(atom.args[1].value)).ravel()[0])
    return _square(atom.args[0], positive(along_axis(atom, weight)) / divisor)


def _power(atom: Any, weight: Array) -> Read:
    """x² elementwise."""
    if exponent(atom) != 2.0:
        raise Unknown(f"the power {exponent(atom):g} is not known")
    return _square(atom.args[0], positive(weight))


def _square(argument: Any, w: Array) -> Read:
    """Σ w_j z_j², or Σ w_j max(z_j, 0)²: a squared hinge of the label -1 at z - 1."""
    if atom_name(argument) == "Pnorm" and exponent(argument) == 2.0 and argument.axis is None:
        return _square(argument.args[0], np.full(argument.args[0].size, w[0]))
    side = _one_side(argument)
    if side is None:
        return PiecewiseQuadratic(curvature=2.0 * w), inner_map(argument)
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


def quadratic_root(P: Array, sign: float) -> Array:
    """R with sign·P = RᵀR, in rows that mix as few entries as they can.

    Blocks of entries that P does not connect get rows of their own, and within a block the smallest
    eigenvalue is split off as rows of single entries, which their owners keep.
    """
    from scipy.sparse.csgraph import connected_components

    P, rows = sign * 0.5 * (P + P.T), []
    for block in range((found := connected_components(P != 0, directed=False))[0]):
        own = np.flatnonzero(found[1] == block)
        values, vectors = np.linalg.eigh(P[np.ix_(own, own)])
        least, top = float(values[0]), float(np.abs(values).max())
        if least < -1e-10 * top:
            raise Unknown(f"its matrix has the eigenvalue {sign * least:g}, so it is not convex")
        single = least if least > 1e-10 * top else 0.0
        kept = values - single > 1e-14 * top
        mixed = np.sqrt(values[kept] - single)[:, None] * vectors[:, kept].T
        parts = [np.sqrt(single) * np.eye(len(own))] * (single > 0) + [mixed]
        wide = np.zeros((sum(map(len, parts)), len(P)))
        wide[:, own] = np.vstack(parts)
        rows.append(wide)
    root = np.vstack(rows)
    return root if len(root) else np.zeros((1, len(P)))


def _quadratic_form(atom: Any, weight: Array) -> Read:
    """xᵀPx = |Rx|² with a root R of P."""
    sign = -1.0 if np.all(weight < 0) else 1.0
    root = quadratic_root(np.asarray(dense(atom.args[1].value), dtype=np.float64), sign)
    w = float(positive(sign * np.asarray(weight))[0])
    return PiecewiseQuadratic(curvature=2.0 * w), inner_map(atom.args[0]).after(root)


# -- kinks -------------------------------------------------------------------------------------


def _absolute(atom: Any, weight: Array) -> Read:
    """|z|, elementwise or summed."""
    w = positive(along_axis(atom, weight) if atom_name(atom) == "norm1" else weight)
    return PiecewiseQuadratic(slope_left=-w, slope_right=w), inner_map(atom.args[0])


def _maximum(atom: Any, weight: Array) -> Read:
    """max(X, c) = c + max(X - c, 0), else the largest of each entry; the minimum with signs."""
    sign = 1.0 if type(atom).__name__ == "maximum" else -1.0
    w = positive(sign * np.asarray(weight))
    constant = [part.is_constant() for part in atom.args]
    if len(atom.args) != 2 or not any(constant):
        maps = [inner_map(widened(part, atom.shape)) for part in atom.args]
        whole = stacked_maps(maps if sign > 0 else [-map for map in maps])
        groups = np.arange(whole.size).reshape(len(maps), -1).T
        return _grouped(Max, w, whole, groups)
    bound, part = atom.args if constant[0] else atom.args[::-1]
    inner = inner_map(widened(part, atom.shape))
    level = np.broadcast_to(np.asarray(dense(bound.value), float), atom.shape).ravel(order="F")
    function = PiecewiseQuadratic(slope_right=w, kink=sign * level, offset=w * sign * level)
    return function, inner if sign > 0 else -inner


# -- functions of groups of entries ------------------------------------------------------------


def entry_groups(atom: Any) -> Array:
    """Entries (column by column) that a reduction takes together, one row for each result."""
    shape = atom.args[0].shape
    numbers = np.arange(int(np.prod(shape))).reshape(shape, order="F")
    if atom.axis is None:
        return numbers.ravel(order="F")[None]
    axes = np.atleast_1d(atom.axis)
    moved = np.moveaxis(numbers, axes, np.arange(-len(axes), 0))
    width = int(np.prod([shape[axis] for axis in axes]))
    return moved.reshape((-1, width), order="F")


def _grouped(build: Callable[[float], Function], w: Array, map: AffineMap, groups: Array) -> Read:
    """A function of each group of rows, those of weight zero left out."""
    groups, w = groups[w > 0], w[w > 0]
    functions = [build(float(one)) for one in w]
    inner = map.rows(groups.ravel())
    if len(functions) == 1:
        return functions[0], inner
    return Stacked(functions, [groups.shape[1]] * len(functions)), inner


def _reduction(build: Callable[[Any, float], Function], sign: float = 1.0) -> Reader:
    """A function of all entries, or of those along an axis, from the atom and a weight."""

    def read(atom: Any, weight: Array) -> Read:
        w, inner = positive(sign * np.asarray(weight)), inner_map(atom.args[0])
        whole = inner if sign > 0 else -inner
        return _grouped(lambda scale: build(atom, scale), w, whole, entry_groups(atom))

    return read


def _norm(atom: Any, weight: Array) -> Read:
    if exponent(atom) != 2.0:
        raise Unknown(f"the {exponent(atom):g}-norm is not known")
    return _reduction(lambda atom, w: L2Norm(w))(atom, weight)


def _sum_largest(atom: Any, w: float) -> Function:
    count = float(np.asarray(getattr(atom.k, "value", atom.k)))
    return SumLargest(min(count, float(entry_groups(atom).shape[1])), w)


# -- functions of single entries ---------------------------------------------------------------


def _kept(weight: Array, argument: Any) -> tuple[Array, AffineMap]:
    """Weights and rows of an elementwise function, without those of weight zero."""
    inner = inner_map(argument)
    w = np.broadcast_to(positive(weight), (inner.size,))
    return w[w > 0], inner.rows(w > 0)


def _elementwise(build: Callable[[Any, Array], Function], sign: float = 1.0) -> Reader:
    """A function of every entry, from the atom and the weights."""

    def read(atom: Any, weight: Array) -> Read:
        w, inner = _kept(sign * np.asarray(weight), atom.args[0])
        return build(atom, w), inner

    return read


def _relative_entropy(atom: Any, weight: Array) -> Read:
    """x·log(x/c)."""
    if not atom.args[1].is_constant():
        raise Unknown("its second argument is not constant")
    given = np.broadcast_to(dense(atom.args[1].value), atom.shape).ravel(order="F")
    if np.any(given <= 0):
        raise Unknown(f"its second argument {float(given.min()):g} is not positive")
    w, inner = _kept(weight, widened(atom.args[0], atom.shape))
    return Entropy(given[np.ravel(weight, order="F") > 0], w), inner


ATOMS: dict[str, Reader] = {
    "quad_over_lin": _squares,
    "power": _power,
    "QuadForm": _quadratic_form,
    "norm1": _absolute,
    "abs": _absolute,
    "maximum": _maximum,
    "minimum": _maximum,
    "Pnorm": _norm,
    "norm_inf": _reduction(lambda atom, w: LInfNorm(w)),
    "max": _reduction(lambda atom, w: Max(w)),
    "min": _reduction(lambda atom, w: Max(w), sign=-1.0),
    "sum_largest": _reduction(_sum_largest),
    "huber": _elementwise(lambda atom, w: HuberLoss(0.0, float(atom.M.value), 2.0 * w)),
    "logistic": _elementwise(lambda atom, w: LogisticLoss(-1.0, w)),
    "exp": _elementwise(lambda atom, w: PoissonLoss(0.0, w)),
    "log": _elementwise(lambda atom, w: NegativeLog(w), sign=-1.0),
    "entr": _elementwise(lambda atom, w: Entropy(1.0, w), sign=-1.0),
    "rel_entr": _relative_entropy,
}
"""Readers of the atoms that are known, by the name of their class; cvxpy's Huber is twice ours."""
