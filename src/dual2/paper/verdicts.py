"""From stored runs to a verdict: whether one cost lies below another, and by how much."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from dual2.bench.costs import TARGETS, rows_at_gap
from dual2.bench.store import StoredRun
from dual2.solving.report.curves import spent

REPRODUCED, NOT_REPRODUCED, UNDECIDED = "reproduced", "not reproduced", "cannot be decided"
VERDICTS: tuple[str, ...] = (REPRODUCED, NOT_REPRODUCED, UNDECIDED)

AXIS_NAMES = {
    "local": "calls to ∇f and prox_g",
    "coupling": "calls to A, Aᵀ and prox_h*",
    "rounds": "rounds",
    "latency": "exchanges, agreement included",
}
"""What is counted on each axis."""


CLOSE = 1.15
"""Costs nearer to each other than by this factor are not told apart. A trace has a row every 2 % of
the rounds, and the gap of accelerated methods oscillates: a late rise may lie between two rows. On
Experiment I literal iD2A settles 3 to 15 % later than its trace says (``choices.py modes``)."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper beside what was measured."""

    # text, where: what is claimed, and where
    text: str
    where: str
    measured: str  # our numbers
    verdict: str  # "reproduced", "not reproduced" or "cannot be decided"
    reason: str  # why
    group: str  # the runs that it was judged by
    # whether the paper says so of this very setting; else it is one of ours: a variant, an aim
    printed: bool = True
    # the verdict with the inner test at every tenth iteration, if this one is of literal runs
    sparse: str = ""


@dataclass(frozen=True)
class Order:
    """A claim that some runs spend less than others."""

    text: str  # the claim
    # lower, higher: labels of the runs that spend less, and of those that spend more
    lower: tuple[str, ...]
    higher: tuple[str, ...]
    # what is spent; see dual2.solving.report.curves.AXES
    axes: tuple[str, ...] = ("local", "coupling", "rounds")
    factor: float = 1.0  # by how much less, at least
    at_most: float = math.inf  # and at most ("slightly")
    # whether one pair of runs on one axis proves it; otherwise all of them must
    one_is_enough: bool = False
    measure: str = "gap"  # "gap", or "kkt" for the residual
    note: str = ""  # what to know about the measurement


@dataclass(frozen=True)
class Cost:
    """What a run spent until the gap stayed below a target, or more than ``low`` if it never did.

    Examples
    --------
    >>> Cost(10.0, 10.0), Cost(500.0)
    (10, > 500)
    """

    low: float
    high: float = math.inf

    def __repr__(self) -> str:
        number = grouped(self.low)
        return number if self.high == self.low else f"> {number}"


def grouped(value: float) -> str:
    """A whole number, its digits in threes.

    Examples
    --------
    >>> grouped(1234567.0).split()
    ['1', '234', '567']
    """
    return f"{value:,.0f}".replace(",", "\u202f")


def cost(run: StoredRun, axis: str, target: float, measure: str = "gap") -> Cost:
    """Cost of a run on an axis, to the row from which on the gap stays at most ``target``."""
    settled = rows_at_gap(run.trace, target, measure)[1]
    if settled is not None:
        return Cost(spent(settled, axis), spent(settled, axis))
    return Cost(float(spent({name: column[-1] for name, column in run.trace.items()}, axis)))


def less(a: Cost, b: Cost, factor: float = 1.0, at_most: float = math.inf) -> bool | None:
    """Whether a·factor ≤ b ≤ a·at_most (a < b for the factor 1); None if it cannot be told.

    For the factor 1 costs within :data:`CLOSE` of each other cannot be told apart.

    Examples
    --------
    >>> ten, twenty, more_than_15 = Cost(10.0, 10.0), Cost(20.0, 20.0), Cost(15.0)
    >>> less(ten, twenty, 2.0), less(ten, twenty, 3.0), less(twenty, more_than_15)
    (True, False, None)
    """
    below = a.high * factor <= b.low if factor > 1.0 else a.high * CLOSE < b.low
    above = a.low * factor > b.high if factor > 1.0 else a.low > b.high * CLOSE
    if above or b.low > at_most * a.high:
        return False
    return True if below and b.high <= at_most * a.low else None


def judge(order: Order, group: str, where: str, runs: Mapping[str, StoredRun]) -> Claim:
    """The verdict at the smallest target gap at which there is one."""
    absent = {name: _why_absent(runs.get(name)) for name in (*order.lower, *order.higher)}
    told = "; ".join(f"{name}: {why}" for name, why in absent.items() if why)
    if told:
        return Claim(order.text, where, "", UNDECIDED, told, group)
    verdicts = {target: _verdict(order, runs, target) for target in sorted(TARGETS)}
    decided = [target for target, verdict in verdicts.items() if verdict != UNDECIDED]
    target = decided[0] if decided else max(TARGETS)
    verdict = verdicts[target]
    reason = [_reason(order, runs, target, verdict)]
    others = [t for t in decided if verdicts[t] != verdict]
    if others:
        gaps = ", ".join(f"{t:g}" for t in others)
        reason.append(f"At a {_word(order)} of {gaps}: {verdicts[others[0]]}.")
    if order.note:
        reason.append(order.note)
    return Claim(order.text, where, _numbers(order, runs, target), verdict, " ".join(reason), group)


def _why_absent(run: StoredRun | None) -> str:
    """Why a run cannot be compared; empty if it can."""
    if run is None:
        return "not run"
    return "" if len(run.trace.get("rounds", ())) else run.reason or run.status


def _compare(
    order: Order, runs: Mapping[str, StoredRun], target: float
) -> dict[tuple[str, str, str], bool | None]:
    found = {}
    for a, b, axis in product(order.lower, order.higher, order.axes):
        if a != b:
            mine, other = (cost(runs[name], axis, target, order.measure) for name in (a, b))
            found[a, b, axis] = less(mine, other, order.factor, order.at_most)
    return found


def _verdict(order: Order, runs: Mapping[str, StoredRun], target: float) -> str:
    answers = list(_compare(order, runs, target).values())
    settles = order.one_is_enough
    if settles in answers:
        return REPRODUCED if settles else NOT_REPRODUCED
    if None in answers:
        return UNDECIDED
    return NOT_REPRODUCED if settles else REPRODUCED


def _word(order: Order) -> str:
    return "gap" if order.measure == "gap" else "KKT residual"


def _numbers(order: Order, runs: Mapping[str, StoredRun], target: float) -> str:
    """Every cost at the target, by axis."""
    names = dict.fromkeys((*order.lower, *order.higher))
    parts = []
    for axis in order.axes:
        costs = (f"{name} {cost(runs[name], axis, target, order.measure)}" for name in names)
        parts.append(f"{AXIS_NAMES[axis]}: {'; '.join(costs)}")
    return f"{_word(order)} ≤ {target:g}. " + ". ".join(parts)


def _reason(order: Order, runs: Mapping[str, StoredRun], target: float, verdict: str) -> str:
    """The comparison that decided: the closest one of a claim that holds, those that fail."""
    if verdict == UNDECIDED:
        if None in _compare(order, runs, target).values() and _all_settled(order, runs, target):
            return f"Costs within {CLOSE - 1.0:.0%} of each other are not told apart."
        return f"The runs end too early to tell: {_endings(order, runs)}."
    compared = _compare(order, runs, target)
    wanted = verdict == REPRODUCED
    shown = [pair for pair, answer in compared.items() if answer is wanted]
    ratios = {pair: _ratio(order, runs, target, pair) for pair in shown}
    extreme = (max if order.one_is_enough else min)(ratios.values(), key=lambda r: r[0])
    claimed = f"at least {order.factor:g}×" if order.factor > 1 else "more than 1×"
    if math.isfinite(order.at_most):
        claimed += f", at most {order.at_most:g}×"
    kind = "Largest" if order.one_is_enough else "Smallest"
    failing = ""
    if not wanted and not order.one_is_enough and len(compared) > 1:
        failing = f" of the {len(shown)} of {len(compared)} comparisons that fail"
    return f"{kind} ratio{failing}: {extreme[1]} (claimed: {claimed})."


def _all_settled(order: Order, runs: Mapping[str, StoredRun], target: float) -> bool:
    """Whether every run met the target for good."""
    names = {*order.lower, *order.higher}
    return all(rows_at_gap(runs[name].trace, target, order.measure)[1] for name in names)


def _endings(order: Order, runs: Mapping[str, StoredRun]) -> str:
    """How far each run came."""
    names = dict.fromkeys((*order.lower, *order.higher))
    last = {name: f"{runs[name].trace[order.measure][-1]:.1g}" for name in names}
    return ", ".join(f"{name} at a {_word(order)} of {value}" for name, value in last.items())


def _ratio(
    order: Order, runs: Mapping[str, StoredRun], target: float, pair: tuple[str, str, str]
) -> tuple[float, str]:
    """How many times more the second run spends, in numbers and words."""
    a, b, axis = pair
    mine, other = (cost(runs[name], axis, target, order.measure) for name in (a, b))
    mark = ">" if other.high > other.low else "<" if mine.high > mine.low else ""
    value = other.low / mine.low if mine.low > 0 else math.inf
    times = f"{value:.3g}" if value < 1000 else grouped(value)
    return value, f"{b} spends {mark}{times}× the {AXIS_NAMES[axis]} of {a}"
