"""Sums of cvxpy atoms as lists of terms, and expressions as their authors would write them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dual2.recognise.affine import affine_map, zeroed

Array = np.ndarray
_PROMOTED = re.compile(r"Promote\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*), \([\d, ]*\)\)")
_PLAIN = (("Approx(", "("), (", None, False)", ")"), ("Pnorm(", "norm("), ("Power(", "power("))
_RESHAPED = re.compile(r"reshape\((\w+), \([\d, ]*\), [CF]\)")
_DIAGONAL = re.compile(r"diag_(?:vec|mat)\(((?:[^()]|\([^()]*\))*), 0\)")
_LENGTH = 70


def short(thing: Any) -> str:
    """A piece of the model on one line, without cvxpy's own bookkeeping, and not too long."""
    text = " ".join(str(thing).split())
    while (plain := _PROMOTED.sub(r"\1", text)) != text:
        text = plain
    text = _DIAGONAL.sub(r"diag(\1)", _RESHAPED.sub(r"\1", text))
    for old, new in (*_PLAIN, ("Sum(", "sum("), ("+ -", "- "), ("QuadForm(", "quad_form(")):
        text = text.replace(old, new)
    return text if len(text) <= _LENGTH else text[: _LENGTH - 3] + "…"


@dataclass(frozen=True)
class Term:
    """Σ_j weight_j · atom_j, the weights in the atom's shape."""

    weight: Array
    atom: Any


def terms(expression: Any, weight: Array | None = None) -> Iterator[Term]:
    """Take a weighted sum of atoms apart.

    Affine parts come out whole, everything else atom by atom; max(a, b) as b + max(a - b, 0).
    """
    from cvxpy.atoms.affine.affine_atom import AffAtom

    w = np.ones(expression.shape) if weight is None else weight
    kind, args = type(expression).__name__, expression.args
    if expression.is_affine():
        yield Term(w, expression)
    elif isinstance(expression, AffAtom):
        yield from _linear(expression, w)
    elif kind == "norm1" and not args[0].is_affine() and args[0].is_nonneg():
        yield from terms(args[0], along_axis(expression, w))
    elif kind in ("maximum", "minimum") and _are_affine(args):
        first, second = (widened(part, expression.shape) for part in args)
        yield from terms(second, w)
        yield Term(w, type(expression)(first - second, 0.0))
    else:
        yield Term(w, expression)


def _linear(expression: Any, w: Array) -> Iterator[Term]:
    """Weights of the arguments of a linear atom: its matrix, transposed, times its own weights."""
    import cvxpy as cp

    stand = [part if part.is_constant() else cp.Variable(part.shape) for part in expression.args]
    free = [new for new in stand if not new.is_constant()]
    with zeroed(free):
        map = affine_map(expression.copy(stand))
    flat = np.ravel(w, order="F")
    if np.any(map.offset):
        yield Term(flat, cp.Constant(map.offset))
    for new, part in zip(stand, expression.args, strict=True):
        if not part.is_constant() and new.id in map.matrices:
            yield from terms(part, np.reshape(map.matrices[new.id].T @ flat, part.shape, order="F"))


def along_axis(atom: Any, weight: Array) -> Array:
    """Weights of a reduction as weights of the entries it reduces."""
    shape = atom.args[0].shape
    if atom.axis is None:
        return np.full(shape, float(np.sum(weight)))
    kept = np.reshape(weight, np.sum(np.zeros(shape), axis=atom.axis, keepdims=True).shape)
    return np.broadcast_to(kept, shape)


def widened(part: Any, shape: tuple[int, ...]) -> Any:
    """An expression broadcast to a shape."""
    return part if part.shape == shape else part + np.zeros(shape)


def _are_affine(args: list[Any]) -> bool:
    """Whether there are two affine expressions, neither of them constant."""
    return len(args) == 2 and all(part.is_affine() and not part.is_constant() for part in args)
