"""The loss of multinomial logistic regression: one block of margins for each sample."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp, softmax, wrightomega, xlogy

from dual2.conic.blocks import BlockForm, Cone, ConeConstraint, smooth_term
from dual2.conic.curvature import View
from dual2.errors import ProblemError
from dual2.functions.arguments import Array, Entries, Groups, Positive, entries, number, refuse
from dual2.functions.base import TOLERANCE, Function

_STEPS = 60
"""Most steps of Newton's method for the level of a prox; ten are usual."""


def count(owner: Any, name: str, value: Any) -> int:
    """A whole number of at least two classes."""
    found = number(owner, name, value, least=2.0)
    refuse(owner, name, found, lambda v: v != np.floor(v), "that is whole")
    return int(found)


def classes(owner: Any, name: str, value: Any) -> Array:
    """One whole number of at least 0 for each sample."""
    found = np.atleast_1d(np.asarray(entries(owner, name, value, least=0.0)))
    refuse(owner, name, found, lambda v: v != np.floor(v), "that is whole: the class, from 0 on")
    return found


@dataclass(frozen=True, eq=False, repr=False)
class SoftmaxLoss(Function):
    """h(z) = Σ_j scale_j·(log Σ_k exp(z_jk) - z_j,y_j), z the margins of K classes, row by row.

    z is one vector: the K margins of the first sample, then those of the second. With
    q_j = w_j/scale_j + e_{y_j}: h*(w) = Σ_j scale_j·Σ_k q_jk·log(q_jk) if every q_j is a
    probability vector, else inf. The prox of one sample, with κ = t·scale and v' = v + κ·e_y, is
    u = v' - κ·p, κ·p_k = ω(v'_k - ℓ + log κ) with Wright's ω and the level ℓ at which Σ_k p_k = 1.

    Parameters
    ----------
    labels : vector
        The class of each sample, a whole number from 0 to ``classes`` - 1.
    classes : int
        How many classes there are, K.
    scale : float or vector, default 1
        Positive factor, one for each sample.

    Examples
    --------
    >>> h = SoftmaxLoss([0, 2], classes=3)
    >>> round(h.value(np.zeros(6)), 6), h.grad(np.zeros(6)).round(2).tolist()
    (2.197225, [-0.67, 0.33, 0.33, 0.33, 0.33, -0.67])
    """

    labels: Annotated[Array, classes]
    classes: Annotated[int, count]
    scale: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels.max() >= self.classes:
            j = int(np.argmax(self.labels))
            raise ProblemError(
                f"SoftmaxLoss: labels[{j}] is {self.labels[j]:g} and there are {self.classes} "
                f"classes; expected whole numbers from 0 to {self.classes - 1}."
            )

    @property
    def dim(self) -> int:
        """Samples times classes."""
        return len(self.labels) * self.classes

    @property
    def L(self) -> float:
        """scale/2, the largest if they differ."""
        return 0.5 * float(np.max(self.scale))

    def groups(self, dim: int) -> Groups:
        """One number for the margins of each sample."""
        return np.arange(dim, dtype=np.int64) // self.classes

    def rescaled(self, units: Array) -> Function | None:
        """Not at hand: all margins of a sample have one unit, which is that of exp."""
        return self if np.all(units == 1.0) else None

    def _hessian(self, x: Array) -> Array:
        return self._view(x).bend()

    def _view(self, x: Array) -> View:
        """All from the same exponentials."""
        margins, samples = self._by_sample(x), np.arange(len(self.labels))
        across = np.ascontiguousarray(margins.T)  # sums over classes go along memory
        top = across.max(axis=0)
        e = np.exp(across - top)
        total = e.sum(axis=0)
        own = margins[samples, self.labels.astype(int)]
        value = float(self._weights[:, 0] @ (np.log(total) + top - own))
        p = np.ascontiguousarray((e / total).T)
        gradient = (self._weights * self._away(p)).ravel()
        return View(value, gradient, lambda: self.hessian_blocks(p))

    def hessian_blocks(self, p: Array) -> Array:
        """Second derivatives, (samples, K, K): scale·(diag(p) - p·pᵀ) for probabilities p."""
        scaled = self._weights * p
        found = np.multiply(-scaled[:, :, None], p[:, None, :])
        # p - p² of a sure class would be rounding; it is what the others take away
        others = p @ (1.0 - np.eye(self.classes))
        np.einsum("jkk->jk", found)[:] = scaled * others
        return found

    def _by_sample(self, z: Array) -> Array:
        return z.reshape(*z.shape[:-1], len(self.labels), self.classes)

    @property
    def _weights(self) -> Array:
        """The scale as one column."""
        return np.broadcast_to(self.scale, self.labels.shape)[:, None]

    @property
    def _marks(self) -> Array:
        """1 where a class is that of its sample."""
        return np.equal.outer(self.labels, np.arange(self.classes)).astype(float)

    def _steps(self, step: Entries) -> Array:
        """Steps as a column, one for each sample."""
        return np.broadcast_to(step, (self.dim,)).reshape(len(self.labels), -1)[:, :1]

    def _value(self, x: Array) -> Array:
        z = self._by_sample(x)
        own = (z * self._marks).sum(axis=-1)
        return (self._weights[:, 0] * (logsumexp(z, axis=-1) - own)).sum(axis=-1)

    def _grad(self, x: Array) -> Array:
        return (self._weights * self._away(softmax(self._by_sample(x), axis=-1))).reshape(x.shape)

    def _away(self, p: Array) -> Array:
        """p - e_y, without the cancellation where p_y is nearly 1."""
        samples, own = np.arange(len(self.labels)), self.labels.astype(int)
        away = p.copy()
        away[..., samples, own] = 0.0
        away[..., samples, own] = -(away @ np.ones(self.classes))
        return away

    def _prox(self, v: Array, step: Entries) -> Array:
        kappa = self._steps(step) * self._weights
        return self._root(kappa, self._by_sample(v))[0].reshape(v.shape)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        steps = self._steps(step)
        _, p = self._root(self._weights / steps, self._by_sample(v) / steps)
        return (self._weights * self._away(p)).reshape(v.shape)

    def _root(self, kappa: Array, v: Array) -> tuple[Array, Array]:
        """u = v + κ·(e_y - p) with p = softmax(u), and p.

        Σ_k ω(v'_k + log κ - ℓ) - κ falls with ℓ and is convex, so that Newton's method from the
        left, where ℓ = log Σ exp(v') - κ is, goes up to its root.
        """
        height = v + kappa * self._marks + np.log(kappa)
        level = logsumexp(height, axis=-1, keepdims=True) - np.log(kappa) - kappa
        done = np.zeros(level.shape, dtype=bool)  # every sample ends by itself, beside any others
        for _ in range(_STEPS):
            omega = np.real(wrightomega(height - level))
            off = omega.sum(axis=-1, keepdims=True) - kappa
            slope = (omega / (1.0 + omega)).sum(axis=-1, keepdims=True)
            move = np.where(done, 0.0, off / slope)
            level = level + move
            done = done | (np.abs(move) <= 1e-15 * (1.0 + np.abs(level) + kappa / slope))
            if done.all():
                break
        omega = np.real(wrightomega(height - level))
        p = omega / omega.sum(axis=-1, keepdims=True)
        return v - kappa * self._away(p), p

    def _conjugate_value(self, w: Array) -> Array:
        q = self._by_sample(w) / self._weights + self._marks
        slack = TOLERANCE * np.maximum(1.0, 1.0 / self._weights[:, 0])
        outside = (q.min(axis=-1) < -slack) | (np.abs(q.sum(axis=-1) - 1.0) > slack)
        q = np.clip(q, 0.0, 1.0)
        entropy = self._weights[:, 0] * xlogy(q, q).sum(axis=-1)
        return np.where(outside, np.inf, entropy).sum(axis=-1)

    def _conjugate_blocks(self, dim: int) -> BlockForm:
        """The entropy of q, with Σ_k w_jk = 0 for each sample and q > 0."""

        def view(w: Array) -> View:
            q = self._by_sample(w) / self._weights + self._marks
            slope = (np.log(q) + 1.0).ravel()
            value = float((self._weights * q * np.log(q)).sum())
            return View(value, slope, lambda: (1.0 / (self._weights * q)).ravel())

        samples, lower = len(self.labels), (-self._weights * self._marks).ravel()
        start = (self._weights * (1.0 / self.classes - self._marks)).ravel()
        sums = sp.kron(sp.eye_array(samples), np.ones((1, self.classes)))
        term = smooth_term(view, dim, lower=lower, start=start)
        return BlockForm(dim, smooth=(term,), rows=(ConeConstraint.of(Cone.ZERO, sums, 0.0),))

    def _recession(self, u: Array) -> Array:
        z = self._by_sample(u)
        rise = z.max(axis=-1) - (z * self._marks).sum(axis=-1)
        return (self._weights[:, 0] * rise).sum(axis=-1)
