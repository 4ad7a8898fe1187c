"""Compiled projection onto a chain: bounds of each coordinate and of consecutive differences.

    minimise Σ_t (w_t/2)(x_t - u_t)²   subject to   lower_t ≤ x_t ≤ upper_t,
                                                    -down_t ≤ x_t - x_{t-1} ≤ up_t

by dynamic programming on the derivative of the least cost of the first t coordinates as a function
of x_t, as Johnson (2013, *J. Comput. Graph. Stat.* 22) does for the fused lasso. It is piecewise
linear and grows; a step to t + 1 moves what is below its zero m_t down by ``down`` and what is
above up by ``up``, with 0 between. Knots on either side of the zero are two stacks with one offset
each, so that all steps together cost O(T). Backwards, x_t is m_t as far as x_{t+1} allows.
"""

import math

import numpy as np

from dual2.compiled import compiled

POSITION, SLOPE, JUMP = range(3)
"""A knot: where it is (less the offset of its stack), what slope and value change by there."""
LEFT, RIGHT = range(2)
ROWS = 9
"""Vectors of the workspace: zeros, weights of the groups, and the knots of both stacks, which begin
at ``KNOTS``."""
ZEROS, SPARE, KNOTS = 0, 1, 2


@compiled
def project_chain(u, w, chain, x, weights, workspace):
    """x = the minimiser; weights_t = 1/Σ w over the group that ends at t, 0 elsewhere.

    ``chain`` has the rows lower, upper, down, up; the first entries of the latter two mean nothing.
    Coordinates that differ by exactly their limit form a group and move together; a group that
    touches a bound does not move, all its weights are 0. So with the sums e_g of the unit vectors
    of the groups the derivative of x with respect to -(gradient) is Σ_g weights_g e_g e_gᵀ.
    ``workspace`` is (ROWS, 2T + 2); ``weights`` also says where groups end: it is negative inside.
    """
    T = u.shape[0]
    zeros, pinned = workspace[ZEROS], workspace[SPARE]
    low, high = chain[0, 0], chain[1, 0]
    slope, value = w[0], -w[0] * u[0]  # the piece of the derivative that is looked at
    shift, size = np.zeros(2), np.zeros(2, np.int64)
    ends = np.zeros(4)
    for t in range(T):
        if t > 0:
            low, high = _widen(zeros[t - 1], chain, t, low, high, ends, shift, size, workspace)
            slope, value = w[t], -w[t] * u[t]
        zeros[t], pinned[t] = _find_zero(slope, value, low, high, ends, shift, size, workspace)
    x[T - 1], weights[T - 1] = zeros[T - 1], 1.0 - pinned[T - 1]
    for t in range(T - 1, 0, -1):
        least, most = x[t] - chain[3, t], x[t] + chain[2, t]
        x[t - 1] = min(max(zeros[t - 1], least), most)
        weights[t - 1] = -1.0 if x[t - 1] != zeros[t - 1] else 1.0 - pinned[t - 1]
    _polish(u, w, chain, x, weights)


@compiled
def _widen(zero, chain, t, low, high, ends, shift, size, workspace):
    """The derivative as a function of x_t: 0 around the last zero, knots at either end of that.

    ``ends`` has value and slope of the derivative below the zero, and above it.
    """
    down, up = chain[2, t], chain[3, t]
    shift[LEFT] -= down
    shift[RIGHT] += up
    if zero > low and down < math.inf:
        _push_knot(LEFT, zero - down, -ends[1], -ends[0], shift, size, workspace)
    else:
        size[LEFT], shift[LEFT] = 0, 0.0
    if zero < high and up < math.inf:
        _push_knot(RIGHT, zero + up, ends[3], ends[2], shift, size, workspace)
    else:
        size[RIGHT], shift[RIGHT] = 0, 0.0
    return max(low - down, chain[0, t]), min(high + up, chain[1, t])


@compiled
def _push_knot(side, position, slope, jump, shift, size, workspace):
    rows, k = workspace[KNOTS + 3 * side : KNOTS + 3 * side + 3], size[side]
    rows[POSITION, k] = position - shift[side]
    rows[SLOPE, k], rows[JUMP, k] = slope, jump
    size[side] += 1


@compiled
def _find_zero(slope, value, low, high, ends, shift, size, workspace):
    """Where slope·x + value, continued over the knots, is 0 in [low, high]; 1 if held there.

    ``ends`` gets value and slope on both sides.
    """
    left, right = workspace[KNOTS : KNOTS + 3], workspace[KNOTS + 3 : KNOTS + 6]
    while True:
        a, b = size[LEFT] - 1, size[RIGHT] - 1
        before = left[POSITION, a] + shift[LEFT] if a >= 0 else -math.inf
        after = right[POSITION, b] + shift[RIGHT] if b >= 0 else math.inf
        target = min(max(-value / slope, low), high)
        if target < before:
            here = slope * before + value
            there = here - left[JUMP, a]
            size[LEFT] -= 1
            if there <= 0.0 and before <= high:
                ends[0], ends[1] = there, slope - left[SLOPE, a]
                ends[2], ends[3] = here, slope
                return before, 1.0
            _push_knot(RIGHT, before, left[SLOPE, a], left[JUMP, a], shift, size, workspace)
            slope -= left[SLOPE, a]
            value = there - slope * before
        elif target > after:
            here = slope * after + value
            there = here + right[JUMP, b]
            size[RIGHT] -= 1
            if there >= 0.0 and after >= low:
                ends[0], ends[1] = here, slope
                ends[2], ends[3] = there, slope + right[SLOPE, b]
                return after, 1.0
            _push_knot(LEFT, after, right[SLOPE, b], right[JUMP, b], shift, size, workspace)
            slope += right[SLOPE, b]
            value = there - slope * after
        else:
            held = target == low or target == high
            here = slope * target + value if held else 0.0
            ends[0], ends[1] = min(here, 0.0), slope
            ends[2], ends[3] = max(here, 0.0), slope
            return target, 1.0 if held else 0.0


@compiled
def _polish(u, w, chain, x, weights):
    """Free groups at the mean of their own data, to rounding; weights from marks to numbers."""
    T = u.shape[0]
    end = T - 1
    while end >= 0:
        first = end
        while first > 0 and weights[first - 1] < 0.0:
            first -= 1
        if weights[end] > 0.0:
            total, mass = 0.0, 0.0
            for t in range(first, end + 1):
                total += w[t] * (u[t] + (x[end] - x[t]))
                mass += w[t]
            move = total / mass - x[end]
            for t in range(first, end + 1):
                x[t] = min(max(x[t] + move, chain[0, t]), chain[1, t])
            weights[end] = 1.0 / mass
        end = first - 1
