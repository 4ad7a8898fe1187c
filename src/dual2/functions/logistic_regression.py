"""Logistic regression on local data."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from dual2.functions.arguments import Array, Entries, Labels, Matrix, NonnegativeNumber, check_rows
from dual2.functions.base import Function, one_unit, support_of_all


@dataclass(frozen=True, eq=False, repr=False)
class LogisticRegression(Function):
    """f(x) = Σ_j log(1 + exp(-y_j·(Mx)_j)) + (ridge/2)|x|² for labels y_j = ±1.

    prox and conjugate by Newton's method with a line search: both minimise
    t·f(x) + (σ/2)|x|² - <v, x> for some t > 0, σ >= 0.

    Parameters
    ----------
    M : matrix (m, d)
        Local data.
    labels : float or vector (m,)
        Entries -1 or 1.
    ridge : float, default 0
        At least 0.

    Examples
    --------
    >>> f = LogisticRegression([[1.0], [2.0]], [1.0, -1.0], ridge=0.5)
    >>> f.mu, f.L
    (0.5, 1.75)
    >>> f.grad([0.0])
    array([0.5])
    """

    M: Matrix
    labels: Labels
    ridge: NonnegativeNumber = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rows(self, "labels", self.labels, self.M)

    @property
    def dim(self) -> int | None:
        """Number of columns of M."""
        return self.M.shape[1]

    @property
    def mu(self) -> float:
        """The ridge."""
        return self.ridge

    @property
    def L(self) -> float:
        """|M|²/4 + ridge."""
        return 0.25 * self._norm**2 + self.ridge

    @cached_property
    def _norm(self) -> float:
        return float(np.linalg.norm(self.M, 2))

    def rescaled(self, units: Array) -> Function | None:
        """Columns over the units; with a ridge for one unit only."""
        unit = one_unit(units)
        if self.ridge and unit is None:
            return None
        return LogisticRegression(
            self.M / units, self.labels, self.ridge / unit**2 if unit else 0.0
        )

    def _value(self, x: Array) -> Array:
        losses = np.logaddexp(0.0, -self.labels * (x @ self.M.T)).sum(axis=-1)
        return losses + 0.5 * self.ridge * np.square(x).sum(axis=-1)

    def _grad(self, x: Array) -> Array:
        return -(self.labels * expit(-self.labels * (x @ self.M.T))) @ self.M + self.ridge * x

    def _hessian(self, x: Array) -> Array:
        probability = expit(self.labels * (self.M @ x))
        weight = probability * (1.0 - probability)
        return (self.M.T * weight) @ self.M + self.ridge * np.eye(len(x))

    def _prox(self, v: Array, step: Entries) -> Array:
        return self._each_row(v, float(step), 1.0)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        x = self._prox(v / step, 1.0 / step)
        return v - step * x if step < self.L else self._grad(x)

    def _conjugate_grad(self, w: Array) -> Array:
        if self.ridge == 0:
            self._lack("no gradient of its conjugate: ridge is 0", "pass a positive ridge")
        return self._each_row(w, 1.0, 0.0)

    def _conjugate_value(self, w: Array) -> Array:
        x = self._conjugate_grad(w)
        return (w * x).sum(axis=-1) - self._value(x)

    def _recession(self, u: Array) -> Array:
        if self.ridge > 0:
            return support_of_all(u)
        return np.maximum(-self.labels * (u @ self.M.T), 0.0).sum(axis=-1)

    def _each_row(self, v: Array, step: float, sigma: float) -> Array:
        if v.ndim == 1:
            return self._minimise(v, step, sigma)
        return np.array([self._minimise(row, step, sigma) for row in v]).reshape(v.shape)

    def _minimise(self, v: Array, step: float, sigma: float) -> Array:
        """argmin_x step·f(x) + (sigma/2)|x|² - <v, x>, by Newton's method.

        Steps are halved until the slope along them has not turned upwards by more than a tenth
        of what it was.
        """
        M, weight = np.reshape(self.labels, (-1, 1)) * self.M, sigma + step * self.ridge

        def slope(x: Array) -> Array:
            return weight * x - step * (expit(-M @ x) @ M) - v

        x = v / weight
        for _ in range(100):
            down, margins = slope(x), M @ x
            hessian = step * (M.T * (expit(margins) * expit(-margins))) @ M
            curvatures, V = np.linalg.eigh(hessian)
            move = -V @ ((down @ V) / (np.maximum(curvatures, 0.0) + weight))
            length = 1.0
            while slope(x + length * move) @ move > -0.1 * (down @ move) and length > 1e-9:
                length *= 0.5
            x = x + length * move
            if np.linalg.norm(move) <= 1e-9 * np.linalg.norm(x) + 1e-14:
                break
        return x
