"""Regularisation paths with warm starts."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from dual2.errors import ProblemError
from dual2.learn.column_owners import is_matrix_per_party, join_matrices
from dual2.learn.design import make_design
from dual2.learn.regression import VerticalElasticNet
from dual2.learn.vertical_model import VerticalModel

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
    rounds, sums : ndarray, shape (k,)
        Rounds of communication and sums over the network of each model.
    """

    alphas: Array
    coefs: Array
    dual_gaps: Array
    intercepts: Array
    rounds: Array
    sums: Array


class Models(NamedTuple):
    """Fits of one estimator with falling penalties.

    Attributes
    ----------
    strengths : ndarray, shape (k,)
        Values of ``alpha``, falling, or of ``C``, rising.
    coefs, intercepts : ndarray, shape (k, …)
        As the estimator's ``coef_`` and ``intercept_``.
    sums, floats : ndarray, shape (k,)
        Sums over the network and numbers sent by anybody, for each fit.
    """

    strengths: Array
    coefs: Array
    intercepts: Array
    sums: Array
    floats: Array


def regularisation_path(model: VerticalModel, X: Any, y: Any, strengths: Any) -> Models:
    """Fit an estimator with falling penalties, each from where the one before ended.

    Parameters
    ----------
    model : VerticalModel
        Any estimator with ``alpha`` or ``C``; it is not changed.
    X, y
        As for its ``fit``.
    strengths : sequence of float
        Values of ``alpha`` or ``C``; the strongest penalty comes first.

    Returns
    -------
    Models

    Examples
    --------
    >>> from dual2.learn import VerticalLogisticRegression
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> path = regularisation_path(VerticalLogisticRegression(), X, X[:, 0] > 0, [10.0, 0.1, 1.0])
    >>> path.strengths.tolist(), path.coefs.shape
    ([0.1, 1.0, 10.0], (3, 1, 3))
    """
    name = next((n for n in ("alpha", "C") if n in model.get_params()), None)
    values = np.sort(np.asarray(strengths, dtype=np.float64))
    if name is None or values.ndim != 1 or values.size == 0:
        raise ProblemError(
            f"{type(model).__name__} with strengths of shape {values.shape} found; expected an "
            "estimator with alpha or C, and a list of values for it."
        )
    values = values if name == "C" else values[::-1]
    own, rows = clone(model).set_params(warm_start=True), []
    for value in values:
        own.set_params(**{name: float(value)}).fit(X, y)
        counts = own.communication_
        rows.append((own.coef_, own.intercept_, counts["sums"], counts["floats"]))
    return Models(values, *(np.array(column) for column in zip(*rows, strict=True)))


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
        ``alphas, coefs, dual_gaps`` as scikit-learn's ``enet_path`` returns, then ``intercepts``,
        ``rounds`` and ``sums``.

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
        told = (model.n_iter_, model.communication_["sums"])
        rows.append((model.coef_, model.dual_gap_, model.intercept_, *told))
    coefs, gaps, intercepts, *counts = (np.array(column) for column in zip(*rows, strict=True))
    return Path(alphas, coefs.T, gaps, intercepts, *counts)


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
    X = join_matrices(X) if is_matrix_per_party(X) else X
    X = check_array(X, dtype=np.float64, accept_sparse="csr")
    y = column_or_1d(y).astype(np.float64)
    check_consistent_length(X, y)
    y = y - y.mean() if model.fit_intercept else y  # which centres X as well
    how = model.set_params(alpha=1.0)._penalty(), model.standardize, 1
    design = make_design(X, [np.arange(X.shape[1])], np.ones(len(y)), *how)
    pull = np.abs(design.blocks[0].X.T @ y)[: X.shape[1]]
    top = max(float(pull.max()) / (len(y) * l1_ratio), np.finfo(float).resolution)
    return np.geomspace(top, top * eps, count)
