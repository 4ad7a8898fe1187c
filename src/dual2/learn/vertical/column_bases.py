"""Numbers as bins, as weights of evidence of bins, and as cubic splines."""

from itertools import pairwise

import numpy as np
from scipy.interpolate import BSpline

Array = np.ndarray
DEGREE = 3
"""Of splines."""


def quantile_edges(values: Array, count: int) -> Array:
    """Inner edges of ``count`` bins with about as many values each; fewer where values repeat.

    Examples
    --------
    >>> quantile_edges(np.array([1.0, 2.0, 3.0, 4.0]), 2).tolist()
    [2.5]
    """
    edges = np.unique(np.quantile(values, np.arange(1, count) / count))
    return edges[(edges > values.min()) & (edges <= values.max())]


def bin_of(values: Array, edges: Array) -> Array:
    """Number of the bin of each value: bin k is edges[k-1] ≤ value < edges[k].

    Examples
    --------
    >>> bin_of(np.array([1.0, 2.5, 9.0]), np.array([2.5])).tolist()
    [0, 1, 1]
    """
    return np.searchsorted(edges, values, side="right")


def bin_names(name: str, edges: Array) -> list[str]:
    """What the columns of bins are called.

    Examples
    --------
    >>> bin_names("age", np.array([40.0, 60.0]))
    ['age < 40', 'age in [40, 60)', 'age >= 60']
    """
    if not len(edges):
        return [f"{name} known"]
    shown = [f"{edge:.6g}" for edge in edges]
    inner = [f"{name} in [{a}, {b})" for a, b in pairwise(shown)]
    return [f"{name} < {shown[0]}", *inner, f"{name} >= {shown[-1]}"]


def weights_of_evidence(bins: Array, hits: Array, count: int) -> tuple[Array, float]:
    """ln(share of the hits in a bin / share of the others), and the information value of all.

    Half a row of each class is added to every bin, so that a bin without one class stays finite.

    Examples
    --------
    >>> codes, value = weights_of_evidence(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]), 2)
    >>> codes.round(2).tolist(), round(value, 2)
    ([-1.61, 1.61], 2.15)
    """
    good = np.bincount(bins, hits, count) + 0.5
    bad = np.bincount(bins, 1.0 - hits, count) + 0.5
    good, bad = good / good.sum(), bad / bad.sum()
    codes = np.log(good / bad)
    return codes, float(np.sum((good - bad) * codes))


def spline_knots(values: Array, count: int) -> Array:
    """Quantiles of the values from the least to the largest; fewer where values repeat."""
    return np.unique(np.quantile(values, np.linspace(0.0, 1.0, count)))


def spline_columns(values: Array, knots: Array) -> Array:
    """Cubic B-splines on some knots, all but the last: with it they would add up to one.

    Beyond the first and last knot they are constant. The same columns as scikit-learn's
    ``SplineTransformer(knots=…, extrapolation="constant", include_bias=False)``.

    Examples
    --------
    >>> spline_columns(np.array([0.0, 1.0, 5.0]), np.array([0.0, 1.0])).round(3).tolist()
    [[0.167, 0.667, 0.167], [0.0, 0.167, 0.667], [0.0, 0.167, 0.667]]
    """
    inside = np.clip(values, knots[0], knots[-1])
    return BSpline.design_matrix(inside, _padded(knots), DEGREE).toarray()[:, :-1]


def spline_names(name: str, knots: Array) -> list[str]:
    """What the columns of splines are called: by where they are not zero.

    Examples
    --------
    >>> spline_names("age", np.array([40.0, 60.0]))[0]
    'age spline [-20, 60]'
    """
    whole = _padded(knots)
    pairs = zip(whole, whole[DEGREE + 1 :], strict=False)
    return [f"{name} spline [{a:.6g}, {b:.6g}]" for a, b in pairs][:-1]


def _padded(knots: Array) -> Array:
    """Knots with ``DEGREE`` more at both ends, as far apart as the first two and the last two."""
    steps = np.arange(1, DEGREE + 1)
    before = knots[0] - (knots[1] - knots[0]) * steps[::-1]
    return np.concatenate([before, knots, knots[-1] + (knots[-1] - knots[-2]) * steps])
