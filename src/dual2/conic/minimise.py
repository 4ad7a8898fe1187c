"""The least value of one block by itself: the homogeneous method without a coupling.

The embedding, residuals, factors, directions and the finish on a face are those of the method over
sums (:mod:`dual2.methods.interior_point`); without other agents nothing has to be exchanged. For
problems that have a solution, such as projections: a block without one is not proven to be so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from dual2.conic.block import Block, Direction, Point, dot, dot2, single_block
from dual2.conic.couplings import SparseCoupling
from dual2.conic.face import changes_of_face, face_of, linearise_face, take_face_step
from dual2.conic.linearisation import Linearisation, Outer, linearise
from dual2.conic.schur_pattern import SchurPattern
from dual2.conic.standard_form import StandardForm

Array = np.ndarray
ROUNDS = 4
"""Rounds of equilibration."""
DAMPING = 0.99
"""Part of the longest step that is taken."""
SMALLEST_RHO, RHO_PER_MU = 1e-10, 1e-3
"""The proximal weight follows μ down to a floor."""
FAR = 0.01
"""κ/τ up to which the column of τ is written around the iterate."""
ENOUGH, NEARLY = 1e-12, 1e-5
"""Relative residual at which the iterations end, and that of an iterate whose face is tried."""
MOST_ITERATIONS, MOST_IDLE, MOST_FACES = 100, 6, 10
"""Iterations, those without a better point, and Newton steps on faces."""
SAME = 1e-3
"""How far the point on a face may be from the iterate, relative to its size."""
_NONE = np.zeros(0)


@dataclass(frozen=True)
class Iterate:
    """A point of the embedding: v/τ is the answer, κ the complement of τ."""

    point: Point
    tau: float = 1.0
    kappa: float = 1.0

    def limit(self, d_tau: float, d_kappa: float) -> float:
        """The longest step that keeps τ and κ positive."""
        pairs = ((self.tau, d_tau), (self.kappa, d_kappa))
        return min([-x / d for x, d in pairs if d < 0], default=np.inf)


def minimise(form: StandardForm) -> Array | None:
    """x of least value, or None if the iterations do not come near one.

    Examples
    --------
    The point of x₁ + x₂ = 2, x₁ ≤ 0.5 next to the origin:

    >>> from dual2.conic.blocks import BlockForm, Cone, ConeConstraint
    >>> from dual2.conic.standard_form import standard_form
    >>> sums = ConeConstraint.of(Cone.ZERO, [[1.0, 1.0]], 2.0)
    >>> below = ConeConstraint.of(Cone.NONNEGATIVE, [[1.0, 0.0]], 0.5)
    >>> minimise(standard_form([BlockForm(2, H=np.ones(2), rows=(sums, below))])).round(12).tolist()
    [0.5, 1.5]
    """
    return minimise_block(equilibrated_block(form))


def minimise_block(block: Block) -> Array | None:
    """The same for a block that is equilibrated."""
    v, residual = _iterate(block)
    return block.x(v) if residual <= NEARLY else None


def equilibrated_block(form: StandardForm) -> Block:
    """The block of a form, with rows, columns and costs of size one."""
    none = SparseCoupling(sp.csr_array((form.n, 0)))
    block = single_block(np.zeros(0, np.int64), none, form)
    for _ in range(ROUNDS):
        block = block.equilibrated(_NONE)
    cost = block.extreme_costs()[1]
    return block.final(1.0 / cost if cost > 0 else 1.0, SchurPattern.full(0))


def _iterate(block: Block) -> tuple[Array, float]:
    """The best v and its relative residual; v on its face as soon as that is confirmed."""
    now = before = best = Iterate(block.start())
    least, mu, idle = np.inf, 1.0, 0
    for _ in range(MOST_ITERATIONS):
        rho = max(SMALLEST_RHO, RHO_PER_MU * min(1.0, mu))
        near = now.kappa <= FAR * now.tau
        lin = linearise(block, now.point, Outer(_NONE, now.tau, rho, near))
        mu = _complementarity(block, now)
        residual = _residual(lin, mu)
        idle += 1
        if residual < least:
            best, least, idle = now, residual, 0
        if least <= ENOUGH or idle > MOST_IDLE or not np.isfinite(residual):
            break
        if residual <= NEARLY and (face := _confirmed_face(block, now, before)) is not None:
            return face, residual
        before, now = now, _next(lin, now, mu)
    return best.point.v / best.tau, least


def _complementarity(block: Block, now: Iterate) -> float:
    """μ: the mean of s∘z, t∘y and τκ."""
    point = now.point
    pairs = float((dot2(point.s, point.z) + dot(point.t, point.y))[0])
    return (pairs + now.tau * now.kappa) / (float(block.counts.sum()) + 1.0)


def _next(lin: Linearisation, now: Iterate, mu: float) -> Iterate:
    """The iterate after one predictor–corrector step."""
    block, point, tau, kappa = lin.block, now.point, now.tau, now.kappa
    divisor = tau * kappa + float(lin.divisor(_NONE)[0])
    own = kappa if lin.outer.near else _tau_residual(lin, now)

    # Predictor: how far would a pure Newton step go?
    target = -tau * kappa
    ratio = (target + tau * own + float(lin.scalar(lin.affine)[0])) / divisor
    predictor, d_tau = lin.direction(lin.affine, _NONE, ratio), ratio * tau
    d_kappa = (target - kappa * d_tau) / tau
    affine = min(1.0, float(block.longest(point, predictor)[0]), now.limit(d_tau, d_kappa))

    # Corrector: centring and the second-order term.
    sigma = (1.0 - affine) ** 3
    lin.correct(predictor, mu)
    rhs = lin.target.plus(sigma, lin.centre)
    target += sigma * mu - d_tau * d_kappa
    ratio = (target + (1.0 - sigma) * tau * own + float(lin.scalar(rhs)[0])) / divisor
    step, d_tau = lin.direction(rhs, _NONE, ratio), ratio * tau
    d_kappa = (target - kappa * d_tau) / tau
    return _moved(block, now, step, d_tau, d_kappa)


def _moved(block: Block, now: Iterate, step: Direction, d_tau: float, d_kappa: float) -> Iterate:
    """Almost as far as the step goes inside."""
    limit = min(float(block.longest(now.point, step)[0]), now.limit(d_tau, d_kappa))
    length = min(1.0, DAMPING * limit)
    point = block.move(now.point, step, length)
    return Iterate(point, now.tau + length * d_tau, now.kappa + length * d_kappa)


def _tau_residual(lin: Linearisation, now: Iterate) -> float:
    """That of the embedding's last equation."""
    block, point = lin.block, now.point
    total = dot(point.v, lin.Hv) / now.tau + dot(block.q, point.v) + dot2(block.g, point.z)
    if block.rows is not None:
        total = total + point.y @ block.rows.rhs
    return now.kappa + float(total[0])


def _residual(lin: Linearisation, mu: float) -> float:
    """The largest residual relative to the sizes of what it is the difference of.

    Of complementarity the root, since the distance to the solution is at most that of the gap.
    """
    block, point, tau = lin.block, lin.point, lin.outer.tau
    force = max(_largest(lin.Hv), _largest(point.z), tau)  # in units in which all data are near 1
    size = max(_largest(point.v), tau * _largest(block.g), tau)
    if block.rows is not None:
        size = max(size, tau * _largest(block.rows.rhs))
    missed = max(_largest(lin.rs), _largest(lin.rt)) / size
    return max(_largest(lin.rd) / force, missed, np.sqrt(mu / (force * size)))


def _confirmed_face(block: Block, now: Iterate, before: Iterate) -> Array | None:
    """The minimiser on the face that the iterates indicate; None if its equations are not met."""
    face = face_of(block, now.point, before.point, now.tau)
    nearby, moved = now.point.v / now.tau, True
    for _ in range(MOST_FACES):
        step = linearise_face(block, face, _NONE)
        if not moved and step.missed <= ENOUGH:
            return face.v
        new = take_face_step(block, step, _NONE, _NONE)
        if not _largest(new.v - nearby) <= SAME * max(_largest(nearby), 1.0):
            return None
        face, moved = new, bool(changes_of_face(face, new).any())
    return None


def _largest(a: Array) -> float:
    return float(np.abs(a).max(initial=0.0))
