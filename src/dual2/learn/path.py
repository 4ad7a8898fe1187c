"""Regularisation paths with warm starts."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from dual2.errors import ProblemError
from dual2.learn.parties import is_matrix_per_party, join_matrices
from dual2.learn.regression import VerticalElasticNet

Array = np.ndarray


class Path(NamedTuple):
    """Models along a path of penalties.

    Attributes
    ----------
    alphas : ndarray, shape (k,)
        Penalties, falling.
    coefs : ndarray, shape (n_features, k)
        Coefficients, one column per penalty.
    dual_gaps : ndarray, shape (k,)
        Upper bounds of the objectives' excess.
    intercepts : ndarray, shape (k,)
        Intercepts.
    rounds : ndarray, shape (k,)
        Rounds of communication of each model.
    """

    alphas: Array
    coefs: Array
    dual_gaps: Array
    intercepts: Array
    rounds: Array


def enet_path(
    X: Any,
    y: Any,
    *,
    l1_ratio: float = 0.5,
    eps: float = 1e-3,
    n_alphas: int = 100,
    alphas: Any = None,
    **parameters: Any,
) -> Path:
    """Elastic nets along falling penalties, each started from the one before.

    Parameters
    ----------
    X, y
        As for :meth:`VerticalElasticNet.fit`.
    l1_ratio : float
        Mix of the penalty.
    eps, n_alphas : float, int
        Smallest over largest penalty and their number, if ``alphas`` is not given. The largest is
        the one from which on all coefficients are zero, max|Xᵀy|/(n·l1_ratio) of centred data,
        a maximum over the parties.
    alphas : sequence of float, optional
        The penalties themselves.
    **parameters
        Other parameters of :class:`VerticalElasticNet`: ``parties``, ``network``, ``tol``, …

    Returns
    -------
    Path
        ``alphas, coefs, dual_gaps`` as scikit-learn's ``enet_path`` returns, then ``intercepts``
        and ``rounds``.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((40, 4))
    >>> path = enet_path(X, X @ [1.0, 0.0, 0.0, 2.0], n_alphas=5)
    >>> path.coefs.shape, (np.abs(path.coefs) > 1e-9).sum(axis=0).tolist()
    ((4, 5), [0, 2, 2, 2, 2])
    """
    model = VerticalElasticNet(l1_ratio=l1_ratio, **parameters).set_params(warm_start=True)
    if alphas is None:
        alphas = _alpha_grid(X, y, l1_ratio, eps, n_alphas, model)
    alphas = np.sort(np.asarray(alphas, dtype=np.float64))[::-1]
    if alphas.ndim != 1 or alphas.size == 0:
        raise ProblemError(f"alphas has shape {alphas.shape}: expected a list of penalties.")
    rows = []
    for alpha in alphas:
        model.set_params(alpha=float(alpha)).fit(X, y)
        rows.append((model.coef_, model.dual_gap_, model.intercept_, model.n_iter_))
    coefs, gaps, intercepts, rounds = (np.array(column) for column in zip(*rows, strict=True))
    return Path(alphas, coefs.T, gaps, intercepts, rounds)


def lasso_path(X: Any, y: Any, **parameters: Any) -> Path:
    """Lassos along falling penalties: :func:`enet_path` with ``l1_ratio=1``."""
    return enet_path(X, y, l1_ratio=1.0, **parameters)


def _alpha_grid(
    X: Any, y: Any, l1_ratio: float, eps: float, count: int, model: VerticalElasticNet
) -> Array:
    """Penalties from where all coefficients vanish down to ``eps`` times that."""
    if l1_ratio == 0:
        raise ProblemError(
            "With l1_ratio = 0 no penalty makes all coefficients zero. Give alphas yourself."
        )
    X = check_array(join_matrices(X) if is_matrix_per_party(X) else X, dtype=np.float64)
    y = column_or_1d(y).astype(np.float64)
    check_consistent_length(X, y)
    centre = model.fit_intercept
    X, y = (X - X.mean(axis=0), y - y.mean()) if centre else (X, y)
    if model.standardize:
        spread = X.std(axis=0)
        X = X / np.where(spread > 0, spread, 1.0)
    top = max(float(np.abs(X.T @ y).max()) / (len(y) * l1_ratio), np.finfo(float).resolution)
    return np.geomspace(top, top * eps, count)
