"""Reading a model piece by piece: known atoms directly, others through cones.

An atom whose prox is not known is replaced, as cvxpy's own solvers do it, by a new variable above
it and constraints that tie the two: affine ones and second-order cones. The new variables belong to
the owner of the atom's variables; if there are several, to the first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dual2.errors import CapabilityError
from dual2.recognise.atoms import Unknown, finite_map, read_atom
from dual2.recognise.pieces import Piece, constraint_piece
from dual2.recognise.terms import Term, short, terms

Array = np.ndarray
_CONES = {"Equality", "Zero", "Inequality", "NonPos", "NonNeg", "SOC"}
"""Types of constraints that a replacement may use."""


@dataclass(frozen=True)
class Part:
    """What one constraint, or the objective, adds; without parameters it stays what it is."""

    pieces: list[Piece]
    slopes: dict[int, Array]
    owned: list[tuple[int, Any]]  # new variables, and who owns them


class Reading:
    """What a model says, as a minimum.

    ``names``: what the agents are called; ``groups``: their variables, to which new ones are added;
    ``known``: parts of an earlier reading that no parameter enters, by their id.
    """

    def __init__(
        self, names: list[str], groups: list[list[Any]], known: dict[int, Part] | None = None
    ) -> None:
        self.names, self.groups = names, groups
        self.known: dict[int, Part] = dict(known or {})
        self.home = {v.id: i for i, group in enumerate(groups) for v in group}
        self.slopes = {v.id: np.zeros(v.size) for group in groups for v in group}
        self.pieces: list[Piece] = []
        self.unknown: list[str] = []

    def objective(self, expression: Any, sign: float) -> None:
        """Take in ``sign`` times an expression, which is minimised."""

        def read() -> None:
            for term in terms(sign * expression):
                self._attempt(lambda term=term: self._term(term, short(term.atom)), term.atom)

        self._take(expression, read)

    def constraint(self, constraint: Any) -> None:
        """Take in one constraint."""

        def read() -> None:
            self._attempt(lambda: self._limit(constraint, short(constraint)), constraint)

        self._take(constraint, read)

    def _take(self, thing: Any, read: Callable[[], None]) -> None:
        """Read, or take what is known of a part that no parameter enters."""
        known = self.known.get(thing.id if hasattr(thing, "id") else id(thing))
        if known is not None:
            self._replay(known)
            return
        pieces, slopes = len(self.pieces), {k: v.copy() for k, v in self.slopes.items()}
        before = set(self.home)
        read()
        if thing.parameters():
            return
        owned = [(i, v) for i, group in enumerate(self.groups) for v in group if v.id not in before]
        moved = {
            key: value - slopes.get(key, 0.0) for key, value in self.slopes.items() if value.any()
        }
        key = thing.id if hasattr(thing, "id") else id(thing)
        self.known[key] = Part(self.pieces[pieces:], moved, owned)

    def _replay(self, part: Part) -> None:
        for owner, variable in part.owned:
            self.home[variable.id] = owner
            self.groups[owner].append(variable)
            self.slopes[variable.id] = np.zeros(variable.size)
        self.pieces += part.pieces
        for key, value in part.slopes.items():
            self.slopes[key] = self.slopes[key] + value

    def close(self) -> None:
        """Refuse the model if some pieces were not recognised."""
        if self.unknown:
            raise CapabilityError(
                "Not recognised: " + "; ".join(dict.fromkeys(self.unknown)) + ". Rewrite these "
                "pieces, or state them with dual2.Proximable or dual2.Smooth in a Problem of your "
                "own."
            )

    def owners(self, variables: list[Any]) -> list[int]:
        """Who owns some variables, in the order of the agents."""
        return sorted({self.home[v.id] for v in variables if v.id in self.home})

    def _attempt(self, read: Callable[[], None], thing: Any) -> None:
        try:
            read()
        except Unknown as reason:
            names = [self.names[i] for i in self.owners(thing.variables())]
            whose = f" of {'agent' if len(names) == 1 else 'agents'} {', '.join(names)}"
            self.unknown.append(f"{short(thing)}{whose if names else ''} ({reason})")

    # -- the objective -------------------------------------------------------------------------

    def _term(self, term: Term, text: str) -> None:
        if not np.any(term.weight):
            return
        if term.atom.is_affine():
            for key, matrix in finite_map(term.atom).matrices.items():
                self.slopes[key] += matrix.T @ np.ravel(term.weight, order="F")
            return
        again = REWRITTEN.get(type(term.atom).__name__)
        if again is not None:
            import cvxpy as cp

            changed = again(cp, term.atom)
            self._own(changed, term.atom)
            for part in terms(changed, term.weight):
                self._term(part, text)
            return
        try:
            self._atom(term, text)
        except Unknown as reason:
            changed = self._by_cones(term.atom, reason, text)
            self._term(Term(term.weight, changed), text)

    def _atom(self, term: Term, text: str) -> None:
        """A known atom; arguments that are not affine are replaced first."""
        try:
            function, inner = read_atom(term.atom, term.weight)
        except Unknown as reason:
            if all(part.is_affine() for part in term.atom.args):
                raise
            args = [
                part if part.is_affine() else self._by_cones(part, reason, text)
                for part in term.atom.args
            ]
            function, inner = read_atom(term.atom.copy(args), term.weight)
        self.pieces.append(Piece(function, inner, text))

    # -- constraints ---------------------------------------------------------------------------

    def _limit(self, constraint: Any, text: str) -> None:
        try:
            self.pieces.append(constraint_piece(constraint, text))
        except Unknown as reason:
            if all(part.is_affine() for part in constraint.args):
                raise
            changed = self._by_cones(constraint, reason, text)
            piece = constraint_piece(changed, text)
            self.pieces.append(Piece(piece.function, piece.map, text, constraint))

    # -- new variables -------------------------------------------------------------------------

    def _by_cones(self, thing: Any, reason: Unknown, text: str) -> Any:
        """The expression or constraint over new variables, what ties them taken in."""
        from cvxpy.reductions.dcp2cone.dcp2cone import Dcp2Cone

        changed, ties = Dcp2Cone(quad_obj=False).canonicalize_tree(thing, True)
        strange = sorted({type(tie).__name__ for tie in ties} - _CONES)
        if strange:
            raise Unknown(f"{reason}, and to replace it needs constraints of type {strange[0]}")
        for part in (changed, *ties):
            self._own(part, thing)
        for tie in ties:
            piece = constraint_piece(tie, text)
            self.pieces.append(Piece(piece.function, piece.map, text))
        return changed

    def _own(self, part: Any, thing: Any) -> None:
        """Give the new variables among those of ``part`` to the owner of ``thing``."""
        owner = (self.owners(thing.variables()) or [0])[0]
        for variable in part.variables():
            if variable.id not in self.home:
                variable.save_value(np.zeros(variable.shape))
                self.home[variable.id] = owner
                self.groups[owner].append(variable)
                self.slopes[variable.id] = np.zeros(variable.size)


def _log_sum_exp(cp: Any, atom: Any) -> Any:
    """min_t t - 1 + Σ exp(z - t), along the atom's axis."""
    z = atom.args[0]
    if atom.axis is not None and z.ndim != 2:
        raise Unknown("log_sum_exp along an axis is known of matrices only")
    top = cp.Variable(atom.shape, name="log_sum_exp")
    if atom.axis is None:
        return top - 1 + cp.reshape(cp.sum(cp.exp(z - cp.sum(top))), atom.shape, order="F")
    shape = (1, z.shape[1]) if atom.axis == 0 else (z.shape[0], 1)
    spread = cp.reshape(top, shape, order="F") + np.zeros(z.shape)
    total = cp.sum(cp.exp(z - spread), axis=atom.axis)
    return top - 1 + cp.reshape(total, atom.shape, order="F")


REWRITTEN: dict[str, Callable[[Any, Any], Any]] = {
    "log_sum_exp": _log_sum_exp,
    "log1p": lambda cp, atom: cp.log(1 + atom.args[0]),
    "kl_div": lambda cp, atom: cp.rel_entr(*atom.args) - atom.args[0] + atom.args[1],
}
"""Atoms that are others in disguise, from cvxpy and the atom; the minimum over new variables."""
