"""Standard errors of a model without penalty, from one sum over the parties.

The covariance of the coefficients is the inverse of the information F = XᵀWX, W the second
derivatives of the negative log-likelihood in the margins (times the variance of the residuals for a
squared loss). No party has X. Each draws random mixtures Z_i of its columns, and S = Σ_i X_i Z_i,
as many columns as there are coefficients, is summed once: then everybody knows SᵀWS = ZᵀFZ, and
party i the covariance Z_i(ZᵀFZ)⁻¹Z_iᵀ of its own coefficients.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from dual2.errors import CapabilityError, ProblemError
from dual2.functions import Function, SquaredLoss
from dual2.functions.hessians import hessian
from dual2.learn.design import Design
from dual2.learn.training import predictions
from dual2.methods.subspace.subspace_problem import weigh

Array = np.ndarray
_FLAT = 1e-11
"""Share of the largest eigenvalue of the scaled information below which it is none."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Coefficients with their standard errors.

    Attributes
    ----------
    names : list of str
        Columns, the intercept last (for each class if there are several).
    coef, std_err, statistic, p_value, lower, upper : ndarray
        Estimates, standard errors, t or z values, two-sided p values, 95 % intervals.
    covariance : ndarray
        Of the estimates in this order.
    kind : {"t", "z"}
        Which distribution the p values are from.
    freedom : float
        Degrees of freedom of the residuals; inf for z.
    communication : dict
        What the summary cost beside the fit: ``sums`` and ``floats``.
    """

    names: list[str]
    coef: Array
    covariance: Array
    kind: str
    freedom: float
    communication: dict[str, int]

    @property
    def std_err(self) -> Array:
        """Standard errors."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def statistic(self) -> Array:
        """Coefficients over their standard errors."""
        return self.coef / self.std_err

    @property
    def _law(self) -> Any:
        return stats.t(self.freedom) if self.kind == "t" else stats.norm()

    @property
    def p_value(self) -> Array:
        """Probability of a statistic as large if the coefficient were 0."""
        return 2.0 * self._law.sf(np.abs(self.statistic))

    @property
    def lower(self) -> Array:
        """Lower ends of 95 % intervals."""
        return self.coef - self._law.ppf(0.975) * self.std_err

    @property
    def upper(self) -> Array:
        """Upper ends of 95 % intervals."""
        return self.coef + self._law.ppf(0.975) * self.std_err

    def to_frame(self) -> Any:
        """The table as a pandas frame, one row per coefficient."""
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise CapabilityError(
                "to_frame needs the package pandas: pip install pandas."
            ) from error
        columns = {
            "coef": self.coef,
            "std_err": self.std_err,
            self.kind: self.statistic,
            "p_value": self.p_value,
            "lower": self.lower,
            "upper": self.upper,
        }
        return DataFrame(columns, index=self.names)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Coefficients with their intervals; see :func:`dual2.learn.plot_coefficients`."""
        from dual2.learn.model_figures import plot_coefficients

        return plot_coefficients(self, path)

    def __str__(self) -> str:
        head = ("", "coef", "std err", self.kind, f"P>|{self.kind}|", "[0.025", "0.975]")
        columns = (self.coef, self.std_err, self.statistic, self.p_value, self.lower, self.upper)
        width = max(map(len, ("intercept", *self.names)))
        lines = [f"{head[0]:<{width}}" + "".join(f"{title:>12}" for title in head[1:])]
        for name, *row in zip(self.names, *columns, strict=True):
            lines.append(f"{name:<{width}}" + "".join(f"{value:>12.5g}" for value in row))
        return "\n".join(lines)

    __repr__ = __str__


def summarise(
    design: Design, loss: Function, w: Sequence[Array], values: Array, names: list[str]
) -> Summary:
    """The summary of a model whose negative log-likelihood in the margins is ``loss``.

    ``w`` are the coefficients as they were trained, ``values`` as they are told; the variance of a
    squared loss is estimated from its residuals.
    """
    z = predictions(design.blocks, w)
    G, mixed, floats = _inverse_information(design, loss, z)
    centred = design.penalty.intercept == "centred"
    count = G.shape[0] // design.outputs + centred
    freedom, variance = np.inf, 1.0
    if isinstance(loss, SquaredLoss):
        samples = design.rows
        freedom = float(samples - count)
        if freedom <= 0:
            raise ProblemError(
                f"{samples} samples and {count} coefficients found: no standard errors without "
                "more samples than coefficients. Add samples, or drop columns."
            )
        variance = 2.0 * float(loss.value(z)) / freedom
    covariance = variance * mixed @ G @ mixed.T
    if centred:  # the mean of the target varies alone
        covariance[-1, -1] += variance / float(np.sum(_curvature(loss, z)))
    kind = "t" if np.isfinite(freedom) else "z"
    return Summary(names, values, covariance, kind, freedom, {"sums": 1, "floats": floats})


def _curvature(loss: Function, z: Array) -> Array:
    found = hessian(loss, z)
    assert found is not None, "likelihoods are smooth"
    return np.asarray(found, dtype=float)


def _inverse_information(design: Design, loss: Function, z: Array) -> tuple[Array, Array, int]:
    """(ZᵀFZ)⁻¹, Z in the units of the answer, and how many numbers were sent.

    With several outputs a number that all coefficients of a column share changes nothing: that
    many combinations have no information, and the answer's coefficients sum to zero.
    """
    D = sum(block.X.shape[1] for block in design.blocks)
    S, parts = np.zeros((design.rows, D)), []
    for i, block in enumerate(design.blocks):
        Z = np.random.default_rng(i).standard_normal((block.X.shape[1], D)) / block.lengths[:, None]
        S += block.X @ Z
        parts.append(Z)
    M = weigh(np.ascontiguousarray(S.T), _curvature(loss, z)) @ S
    values, vectors = np.linalg.eigh(0.5 * (M + M.T))
    flat = 0 if design.outputs == 1 else D // design.outputs
    kept = np.arange(D) >= flat
    if not values[kept].min(initial=np.inf) > _FLAT * values[-1]:
        raise ProblemError(
            "The columns are linearly dependent, or a class is separated: there are no standard "
            "errors. Drop a column that others determine, or fit with a penalty."
        )
    G = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    floats = 2 * (len(design.blocks) - 1) * (S.size + D * design.outputs)
    return G, _in_units(design, parts), floats


def _in_units(design: Design, parts: Sequence[Array]) -> Array:
    """The rows of Z that belong to the coefficients and the intercept of the answer."""
    D, K = parts[0].shape[1], design.outputs
    rows = [part.reshape(-1, K, D) for part in parts]
    rows = [part - part.mean(axis=1, keepdims=True) for part in rows] if K > 1 else rows
    constant = np.zeros((K, D))
    if design.penalty.column is not None:
        constant = rows[-1][-1] * design.penalty.column
        rows[-1] = rows[-1][:-1]
    coef = np.empty((len(design.means), K, D))
    coef[np.concatenate(design.groups)] = np.concatenate(rows)
    coef /= design.scales[:, None, None]
    if design.penalty.intercept is None:
        return coef.transpose(1, 0, 2).reshape(-1, D)
    constant = constant - np.tensordot(design.means, coef, axes=1)
    return np.concatenate([coef, constant[None]]).transpose(1, 0, 2).reshape(-1, D)
