"""The one family behind every separable function without transcendental parts.

Boxes, points, l1 norms, elastic nets, squared, absolute, quantile and hinge losses, with all
their scalings, shifts, tilts and sums with a quadratic, are members: one class computes for all.
"""

import math
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from dual2.conic.blocks import BlockForm, Pieces
from dual2.conic.curvature import View
from dual2.functions.arguments import Array, Entries
from dual2.functions.base import TOLERANCE, Function


@dataclass(frozen=True, eq=False, repr=False)
class PiecewiseQuadratic(Function):
    """A parabola plus a line with one kink on an interval, summed over the coordinates.

    Per coordinate, for lower <= x <= upper (inf elsewhere),

        f(x) = ½·curvature·(x - center)² + slope·x + offset + s(x)·(x - kink)

    with s(x) = slope_left for x < kink and slope_right above. With κ = 1 + t·curvature and
    u = (v + t·(curvature·center - slope))/κ the prox is the median

        min(max(kink, u - t·slope_right/κ), u - t·slope_left/κ), then clipped to the interval.

    Points up to 1e-9·max(1, |bound|) outside the interval count as inside. Most members have
    their conjugate in the family (``closed_conjugate``). A kink that makes no difference is
    folded into ``slope`` on construction.

    Parameters
    ----------
    curvature, center, slope, offset : float or vector
        The parabola (curvature >= 0), the line and a constant per coordinate.
    slope_left, slope_right, kink : float or vector
        Slopes added on either side of the kink, slope_left <= slope_right.
    lower, upper : float or vector
        Bounds, lower <= upper, possibly infinite.

    Examples
    --------
    >>> f = PiecewiseQuadratic(curvature=1.0, slope_left=-1.0, slope_right=1.0, upper=1.0)
    >>> f.prox([4.0, 2.0, 0.5, -3.0], 1.0)
    array([ 1. ,  0.5,  0. , -1. ])
    """

    curvature: Entries = 0.0
    center: Entries = 0.0
    slope: Entries = 0.0
    offset: Entries = 0.0
    slope_left: Entries = 0.0
    slope_right: Entries = 0.0
    kink: Entries = 0.0
    lower: Entries = -np.inf
    upper: Entries = np.inf

    def __post_init__(self) -> None:
        folded = {} if self._kinkless else self._folded()
        for field in _NAMES:
            value = folded.get(field, getattr(self, field))
            if type(value) is not float:
                value = np.asarray(value, dtype=np.float64)
                object.__setattr__(self, field, float(value) if value.ndim == 0 else value)

    @property
    def _kinkless(self) -> bool:
        """Whether it is known at once that nothing has to be folded."""
        slopes = self.slope_left, self.slope_right, self.kink, self.center
        return all(type(value) is float and value == 0.0 for value in slopes)

    def _folded(self) -> dict[str, Entries]:
        left, right, kink = self.slope_left, self.slope_right, self.kink
        above = np.less_equal(kink, self.lower)
        idle = np.equal(left, right) | above | np.greater_equal(kink, self.upper)
        extra = np.where(idle, np.where(above, right, left), 0.0)
        return {
            "slope": self.slope + extra,
            "offset": self.offset - extra * kink,
            "slope_left": np.where(idle, 0.0, left),
            "slope_right": np.where(idle, 0.0, right),
            "kink": np.where(idle, 0.0, kink),
            "center": np.where(np.equal(self.curvature, 0.0), 0.0, self.center),
        }

    @property
    def form(self) -> "PiecewiseQuadratic":  # pyright: ignore[reportIncompatibleVariableOverride]
        """The function itself."""
        return self

    @property
    def dim(self) -> int | None:
        """The common length of the parameters that are vectors."""
        return self._length

    @property
    def linear(self) -> Entries:
        """Coefficient of x once the parabola is written as ½·curvature·x²."""
        return self.slope - self.curvature * self.center

    @property
    def columns(self) -> tuple[Entries, ...]:
        """What its prox depends on, in the order in which kernels read it."""
        slopes = self.slope_left, self.slope_right, self.kink
        return self.curvature, self.linear, *slopes, self.lower, self.upper

    def parameters(self, dim: int) -> Array:
        """The columns on R^dim, one after the other.

        Examples
        --------
        >>> PiecewiseQuadratic(curvature=2.0, lower=0.0).parameters(1).tolist()
        [2.0, 0.0, 0.0, 0.0, 0.0, 0.0, inf]
        """
        return np.concatenate([np.broadcast_to(part, (dim,)) for part in self.columns])

    @cached_property
    def kinked(self) -> bool:
        """Whether some coordinate has a kink."""
        left, right = self.slope_left, self.slope_right
        if type(left) is float and type(right) is float:  # many times faster
            return left != right
        return bool(np.any(np.not_equal(left, right)))

    @cached_property
    def mu(self) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Smallest curvature; inf for coordinates that are fixed."""
        return float(np.min(np.where(np.equal(self.lower, self.upper), np.inf, self.curvature)))

    @cached_property
    def L(self) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Largest curvature if there is neither kink nor bound."""
        return float(np.max(self.curvature)) if self.smooth else np.inf

    @cached_property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Whether there is neither kink nor bound."""
        lower, upper = self.lower, self.upper
        if type(lower) is float and type(upper) is float:
            return not (self.kinked or math.isfinite(lower) or math.isfinite(upper))
        bounded = np.any(np.isfinite(lower)) or np.any(np.isfinite(upper))
        return not (self.kinked or bounded)

    @property
    def conjugate_smooth(self) -> bool:
        """Whether every coordinate is strongly convex or fixed."""
        return self.mu > 0

    def broadcast(self, dim: int) -> "PiecewiseQuadratic":
        """The same function with every parameter a vector of length ``dim``."""
        full = {f.name: np.broadcast_to(getattr(self, f.name), (dim,)) for f in fields(self)}
        return PiecewiseQuadratic(**full)

    def rescaled(self, units: Array) -> "PiecewiseQuadratic":
        """Lengths times the units, slopes over them, curvatures over their squares."""
        f = self.broadcast(len(units))
        return PiecewiseQuadratic(
            curvature=f.curvature / units**2,
            center=f.center * units,
            slope=f.slope / units,
            offset=f.offset,
            slope_left=f.slope_left / units,
            slope_right=f.slope_right / units,
            kink=f.kink * units,
            lower=f.lower * units,
            upper=f.upper * units,
        )

    def _value(self, x: Array) -> Array:
        below = TOLERANCE * np.maximum(1.0, np.abs(self.lower))
        above = TOLERANCE * np.maximum(1.0, np.abs(self.upper))
        outside = (self.lower - x > below) | (x - self.upper > above)
        return np.where(outside, np.inf, self._formula(x)).sum(axis=-1)

    def _formula(self, x: Array) -> Array:
        side = np.where(x < self.kink, self.slope_left, self.slope_right)
        parabola = 0.5 * self.curvature * (x - self.center) ** 2
        return parabola + self.slope * x + self.offset + side * (x - self.kink)

    def _grad(self, x: Array) -> Array:
        if not self.smooth:
            self._lack("no gradient: it has kinks or bounds", "use its prox (as g or h)")
        return self.curvature * (x - self.center) + self.slope

    def _prox(self, v: Array, step: Entries) -> Array:
        kappa = 1.0 + step * self.curvature
        return self._fold((v - step * self.linear) / kappa, step / kappa)

    def _fold(self, u: Array, weight: Entries) -> Array:
        """Minimiser of the parabola (at u) once kink and bounds are added."""
        right, left = u - weight * self.slope_right, u - weight * self.slope_left
        median = np.minimum(np.maximum(self.kink, right), left) if self.kinked else u
        return np.clip(median, self.lower, self.upper)

    def _conjugate_grad(self, w: Array) -> Array:
        if not self.conjugate_smooth:
            self._lack(
                "no gradient of its conjugate: it is not strongly convex",
                "add a quadratic (plus_quadratic) or use the prox of the conjugate",
            )
        return self._maximiser(w)

    def _maximiser(self, w: Array) -> Array:
        """argmax_x w·x - f(x) for coordinates with curvature or without width."""
        curvature = np.where(np.equal(self.curvature, 0.0), 1.0, self.curvature)
        return self._fold((w - self.linear) / curvature, 1.0 / curvature)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        weight = 1.0 / (step + np.asarray(self.curvature))
        return v - step * self._fold((v - self.linear) * weight, weight)

    def _conjugate_value(self, w: Array) -> Array:
        x = self._maximiser(w)
        curved = w * x - self._formula(x)
        return np.where(np.greater(self.curvature, 0.0), curved, self._linear_conjugate(w)).sum(-1)

    def _linear_conjugate(self, w: Array) -> Array:
        """sup_x w·x - f(x) where f has no curvature: from the kink outwards to the bounds."""
        middle = np.clip(self.kink, self.lower, self.upper)
        steepest, flattest = self.slope + self.slope_right, self.slope + self.slope_left
        right = _climb(w - steepest, self.upper - middle, steepest)
        left = _climb(flattest - w, middle - self.lower, flattest)
        return w * middle - self._formula(middle) + right + left

    def _domain_support(self, u: Array) -> Array:
        right = _climb(u, self.upper, 0.0)
        left = _climb(-u, -np.asarray(self.lower), 0.0)
        return np.where(u > 0, right, left).sum(axis=-1)

    def _recession(self, u: Array) -> Array:
        curved = np.greater(self.curvature, 0.0)
        up = np.where(curved | np.isfinite(self.upper), np.inf, self.slope + self.slope_right)
        down = np.where(curved | np.isfinite(self.lower), -np.inf, self.slope + self.slope_left)
        return np.where(u > 0, _climb(u, up, 0.0), _climb(-u, -down, 0.0)).sum(axis=-1)

    def closed_conjugate(self) -> "PiecewiseQuadratic | None":
        """The conjugate if it lies in the family, else None.

        It does for coordinates that are fixed; that are a plain parabola; and that have no
        curvature and not both a kink and two bounds. Write l, u for the bounds, k for the kink
        (any feasible point if there is none), s <= S for the slopes beside it: without curvature
        f* runs with slope l up to s, k up to S, u beyond, and ends at s if l = -inf, at S if
        u = inf.
        """
        if self.smooth and np.all(np.greater(self.curvature, 0.0)):
            offset = -self.center * self.slope - self.offset
            return PiecewiseQuadratic(1.0 / self.curvature, self.slope, self.center, offset)
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        fixed, curved = np.equal(lower, upper), np.greater(self.curvature, 0.0)
        kinked = np.not_equal(self.slope_left, self.slope_right)
        below, above = np.isfinite(lower), np.isfinite(upper)
        if np.any(np.where(curved, kinked | below | above, kinked & below & above) & ~fixed):
            return None
        end = np.where(kinked, self.kink, np.where(below, lower, np.where(above, upper, 0.0)))
        level = self._formula(end)
        first, last = self.slope + self.slope_left, self.slope + self.slope_right
        turn = np.where(fixed, 0.0, np.where(below, first, last))
        curve = curved & ~fixed
        return PiecewiseQuadratic(
            curvature=np.where(curve, 1.0 / np.where(curve, self.curvature, 1.0), 0.0),
            center=np.where(curve, self.slope, 0.0),
            slope=np.where(curve, self.center, np.where(fixed, end, 0.0)),
            offset=np.where(curve, -self.center * self.slope - self.offset, turn * end - level),
            slope_left=np.where(curve | fixed, 0.0, np.where(below, lower, end)),
            slope_right=np.where(curve | fixed, 0.0, np.where(above, upper, end)),
            kink=np.where(curve, 0.0, turn),
            lower=np.where(curve | fixed | below, -np.inf, first),
            upper=np.where(curve | fixed | above, np.inf, last),
        )

    def _affine(
        self, scale: float, center: Entries, slope: Entries, curvature: float
    ) -> "PiecewiseQuadratic":
        own, middle = scale * np.asarray(self.curvature), self.center + center
        total = own + curvature
        share = own / np.where(total == 0.0, 1.0, total)
        return PiecewiseQuadratic(
            curvature=total,
            center=share * middle,
            slope=scale * self.slope + slope,
            offset=scale * (self.offset - self.slope * center)
            + 0.5 * curvature * share * middle**2,
            slope_left=scale * self.slope_left,
            slope_right=scale * self.slope_right,
            kink=self.kink + center,
            lower=self.lower + center,
            upper=self.upper + center,
        )

    def _view(self, x: Array) -> View:
        assert self.smooth, "without kinks and bounds"
        way = x - self.center
        bent = self.curvature * way
        value = 0.5 * float(bent @ way) + float(np.sum(self.slope * x + self.offset))
        return View(value, bent + self.slope, lambda: np.broadcast_to(self.curvature, x.shape))

    def _blocks(self, dim: int) -> BlockForm:
        if not self.smooth:
            return self.pieces(dim)
        f = self.broadcast(dim)
        constant = float(np.sum(f._formula(np.zeros(dim))))
        H, q = _unless_zero(f.curvature), _unless_zero(f.linear)
        return BlockForm(dim, H=H, q=q, constant=constant)

    def pieces(self, dim: int) -> BlockForm:
        """The block form without H and q, one or two pieces for each coordinate.

        Examples
        --------
        >>> PiecewiseQuadratic(curvature=2.0, center=1.0).pieces(1).pieces.slope.tolist()
        [-2.0]
        """
        f = self.broadcast(dim)
        lower, upper = np.asarray(f.lower), np.asarray(f.upper)
        kinked = np.not_equal(f.slope_left, f.slope_right)
        start = np.where(kinked, f.kink, np.clip(0.0, lower, upper))
        slope, to_upper = f.curvature * start + f.linear, upper - start
        left = lower - start, np.where(kinked, 0.0, to_upper), f.curvature, slope + f.slope_left
        right = 0.0, np.where(kinked, to_upper, 0.0), f.curvature, slope + f.slope_right
        pieces = Pieces.from_table(start, [left, right])
        return BlockForm(dim, pieces=pieces, constant=float(np.sum(f._formula(start))))

    def stretched(self, scale: float) -> "PiecewiseQuadratic":
        """scale·f(x/scale), the conjugate of scale·f*."""
        return PiecewiseQuadratic(
            self.curvature / scale,
            self.center * scale,
            self.slope,
            self.offset * scale,
            self.slope_left,
            self.slope_right,
            self.kink * scale,
            self.lower * scale,
            self.upper * scale,
        )


_NAMES = tuple(field.name for field in fields(PiecewiseQuadratic))


def _unless_zero(vector: Entries) -> Array | None:
    return np.asarray(vector) if np.any(vector) else None


def _climb(gain: Array, width: Entries, level: Entries) -> Array:
    """max(gain, 0)·width, where an infinite width forgives a gain at rounding level."""
    slack = TOLERANCE * np.maximum(1.0, np.abs(level))
    unbounded = np.isinf(width)
    bounded = np.maximum(gain, 0.0) * np.where(unbounded, 0.0, width)
    return np.where(unbounded & (gain > slack), np.inf, bounded)
