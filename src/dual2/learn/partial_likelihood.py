"""Cox's partial likelihood: value, gradient and second derivative, with ties and strata.

Sort rows by time. For each time with deaths let S₀ = Σ w_i·exp(z_i) over the rows at risk, and S₁
the same with x_i. The negative log-likelihood sums m·log S₀ less w·z over the deaths. With d tied
deaths Efron's method takes d terms, the l-th without the share l/d of the deaths themselves;
Breslow's takes all of them at once.
"""

from dataclasses import dataclass

import numpy as np

from dual2.errors import ProblemError
from dual2.learn.smooth_newton import Evaluation

Array = np.ndarray
EFRON, BRESLOW = "efron", "breslow"
TIES = (EFRON, BRESLOW)
_PAIRS = 4_000_000
"""Pairs of rows that are compared at a time."""


@dataclass(frozen=True)
class Survival:
    """Times, whether the event was seen then, and the stratum of each row, as codes."""

    time: Array
    event: Array
    strata: Array

    def some(self, rows: Array) -> "Survival":
        """The data of some rows."""
        return Survival(self.time[rows], self.event[rows], self.strata[rows])


def read_survival(y: Array) -> Survival:
    """Columns time, event and, if there is a third one, stratum.

    Examples
    --------
    >>> read_survival(np.array([[2.0, 1.0], [3.0, 0.0]])).strata.tolist()
    [0, 0]
    """
    y = np.asarray(y, dtype=np.float64)
    if y.ndim != 2 or y.shape[1] not in (2, 3):
        raise ProblemError(
            f"y of shape {y.shape} found; expected two columns, time and event (1 or 0), and "
            "perhaps a third one, the stratum."
        )
    if not np.all(np.isin(y[:, 1], (0.0, 1.0))):
        raise ProblemError("y: the second column must be 1 (event) or 0 (censored).")
    if not np.all(y[:, 0] > 0) or not np.all(np.isfinite(y)):
        raise ProblemError("y: times must be finite numbers above 0.")
    if not y[:, 1].any():
        raise ProblemError("y: no row has an event, so that nothing can be fitted.")
    strata = np.zeros(len(y)) if y.shape[1] == 2 else y[:, 2]
    codes = np.unique(strata, return_inverse=True)[1]
    return Survival(y[:, 0], y[:, 1] > 0, codes.ravel())


@dataclass(frozen=True)
class RiskSets:
    """Terms of the likelihood; rows are sorted by stratum, then by falling time."""

    order: Array  # rows in that order
    first: Array  # of each term: where its stratum begins
    last: Array  # of each term: the last row at risk
    group: Array  # of each term: which tied set of deaths
    share: Array  # of each term: l/d
    mass: Array  # of each term: m
    death_group: Array  # of each row in order: its tied set if it is a death, else -1
    weight: Array  # of each row in order
    event: Array  # of each row in order
    time: Array  # of each tied set
    stratum: Array  # of each tied set


def risk_sets(data: Survival, weight: Array, ties: str = EFRON) -> RiskSets:
    """The terms of the likelihood, which depend on times alone."""
    order = np.lexsort((-data.time, data.strata))
    time, event, strata = data.time[order], data.event[order], data.strata[order]
    own = weight[order]
    starts = np.flatnonzero(np.r_[True, np.diff(strata) != 0])
    begin = starts[np.searchsorted(starts, np.arange(len(order)), side="right") - 1]
    new = np.r_[True, (np.diff(strata) != 0) | (np.diff(time) != 0)]
    tied = np.cumsum(new) - 1
    ends = np.r_[np.flatnonzero(new)[1:] - 1, len(order) - 1]
    deaths = np.bincount(tied, event & (own > 0)).astype(int)
    dying = np.bincount(tied, own * event)
    with_deaths = np.flatnonzero(deaths)
    number = np.full(len(deaths), -1)
    number[with_deaths] = np.arange(len(with_deaths))
    counts = deaths[with_deaths] if ties == EFRON else np.ones(len(with_deaths), int)
    group = np.repeat(np.arange(len(with_deaths)), counts)
    place = np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)
    return RiskSets(
        order,
        begin[ends[with_deaths]][group],
        ends[with_deaths][group],
        group,
        place / counts[group],
        (dying[with_deaths] / counts)[group],
        np.where(event, number[tied], -1),
        own,
        event,
        time[ends[with_deaths]],
        strata[ends[with_deaths]],
    )


def cox_evaluation(X: Array, sets: RiskSets, w: Array) -> Evaluation:
    """The negative log partial likelihood of X w; ``X`` has its rows in the order of ``sets``."""
    z = X @ w
    shift = z.max(initial=0.0)
    e = sets.weight * np.exp(z - shift)
    S0, pieces = _at_risk(e[:, None], sets)[:, 0], _at_risk(e[:, None] * X, sets)
    means, rates = pieces / S0[:, None], sets.mass / S0
    a = e * cumulative_rates(sets, rates)
    died = sets.weight * sets.event
    value = float(sets.mass @ (np.log(S0) + shift) - died @ z)
    hessian = X.T @ (X * a[:, None]) - (means * sets.mass[:, None]).T @ means
    gradient, sizes = X.T @ (a - died), np.abs(X).T @ (a + died)
    return Evaluation(value, gradient, 0.5 * (hessian + hessian.T), sizes)


def _at_risk(parts: Array, sets: RiskSets) -> Array:
    """Sums over the rows at risk of every term, less its share of the tied deaths."""
    total = np.vstack([np.zeros((1, parts.shape[1])), np.cumsum(parts, axis=0)])
    whole = total[sets.last + 1] - total[sets.first]
    dead = np.zeros((len(sets.time), parts.shape[1]))
    rows = sets.death_group >= 0
    np.add.at(dead, sets.death_group[rows], parts[rows])
    return whole - sets.share[:, None] * dead[sets.group]


def cumulative_rates(sets: RiskSets, rates: Array) -> Array:
    """For each row the sum of the rates of the terms in which it is at risk, as far as it is."""
    marks = np.zeros(len(sets.order) + 1)
    np.add.at(marks, sets.last, rates)  # rows up to the last of a term, from where it begins
    backward = np.cumsum(marks[::-1])[::-1][:-1]
    before = np.zeros(len(sets.order) + 1)
    np.add.at(before, sets.first, rates)
    later = np.cumsum(before[::-1])[::-1][1:]  # terms of later strata do not count
    found = backward - later
    shares = np.bincount(sets.group, rates * sets.share, minlength=len(sets.time))
    rows = sets.death_group >= 0
    found[rows] -= shares[sets.death_group[rows]]
    return found


def baseline_hazard(sets: RiskSets, X: Array, w: Array) -> dict[int, tuple[Array, Array]]:
    """For each stratum the times of events and the cumulative hazard there of a row with z = 0."""
    e = sets.weight * np.exp(X @ w)
    S0 = _at_risk(e[:, None], sets)[:, 0]
    jumps = np.bincount(sets.group, sets.mass / S0, minlength=len(sets.time))
    found = {}
    for stratum in np.unique(sets.stratum):
        here = np.flatnonzero(sets.stratum == stratum)[::-1]  # times rise
        found[int(stratum)] = (sets.time[here], np.cumsum(jumps[here]))
    return found


def concordance(data: Survival, risk: Array) -> float:
    """Harrell's C: the share of comparable pairs of a stratum whose order the risk predicts.

    Examples
    --------
    >>> data = read_survival(np.array([[1.0, 1.0], [2.0, 1.0], [3.0, 0.0]]))
    >>> concordance(data, np.array([3.0, 1.0, 2.0]))
    0.6666666666666666
    """
    right, pairs = 0.0, 0
    for i in np.array_split(np.flatnonzero(data.event), 1 + len(risk) ** 2 // _PAIRS):
        later = (data.time > data.time[i, None]) | ((data.time == data.time[i, None]) & ~data.event)
        later &= data.strata == data.strata[i, None]
        right += float(np.sum(later & (risk[i, None] > risk)))
        right += 0.5 * float(np.sum(later & (risk[i, None] == risk)))
        pairs += int(later.sum())
    return right / pairs if pairs else float("nan")
