"""Checks of a function against its own definition."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dual2.errors import CapabilityError
from dual2.functions.arguments import Array
from dual2.functions.base import Function
from dual2.functions.jacobians import prox_jacobian
from dual2.functions.kernels import conjugate_grad_separable, prox_block
from dual2.functions.lowering import KernelKind, prox_blocks, smooth_form
from dual2.functions.separable import separable_form

STEPS = (1e-3, 0.1, 1.0, 7.0, 1e3)


def check_function(
    f: Function, dim: int, rng: np.random.Generator | None = None, points: int = 20
) -> None:
    """Check that f and its conjugate mean what they say; raise ``AssertionError`` if not.

    The prox must minimise its own objective, against steps of every size along every coordinate
    (both sides of every kink) and against other points of the domain, and in one dimension
    against a grid; the conjugate must meet Fenchel-Young with equality at gradient and prox pairs
    and as an inequality elsewhere; gradients must match differences; mu, L and the domain's
    support must hold on random points; rows must equal a loop; compiled kernels must equal NumPy
    and their derivatives differences.
    The conjugate then passes the same checks as a function of its own.

    Parameters
    ----------
    f : Function
        What to check; without values only the checks that need none are made.
    dim : int
        Length of the vectors.
    rng : numpy.random.Generator, optional
        Source of the points; seed 0 by default.
    points : int, default 20
        Number of random points.

    Examples
    --------
    >>> from dual2.functions import HuberLoss
    >>> check_function(HuberLoss([0.0, 1.0], delta=0.5), dim=2)
    """
    rng = np.random.default_rng(0) if rng is None else rng
    for function in (f, f.conjugate):
        sample = _sample(function, dim, rng, points)
        for check in CHECKS:
            check(sample)


@dataclass(frozen=True)
class Sample:
    """Points at which a function is checked."""

    f: Function
    v: Array  # points of several magnitudes, in rows, some with equal or zero entries
    # rows x of the domain and subgradients w of f at x: from proxes, gradients, and gradients of
    # the conjugate
    pairs: list[tuple[Array, Array]]
    rng: np.random.Generator  # for directions

    @property
    def has_values(self) -> bool:
        """Whether f can be evaluated."""
        return _available(lambda: self.f.value(self.v[0]))

    @property
    def has_conjugate_values(self) -> bool:
        """Whether f* can be evaluated."""
        return _available(lambda: self.f.conjugate_value(self.v[0]))


def _sample(f: Function, dim: int, rng: np.random.Generator, points: int) -> Sample:
    magnitudes = np.resize([0.3, 1.0, 3.0, 10.0], points)[:, None]
    v = magnitudes * rng.standard_normal((points, dim))
    v[: points // 4] = np.round(v[: points // 4])
    v[0] = 0.0
    pairs = []
    if f.proximable:
        for step in STEPS:
            x = f.prox(v, step)
            pairs.append((x, (v - x) / step))
    if f.smooth:
        pairs.append((v, f.grad(v)))
    if f.conjugate_smooth:
        pairs.append((f.conjugate_grad(v), v))
    return Sample(f, v, pairs, rng)


def check_prox(sample: Sample) -> None:
    """φ(u) = step·f(u) + ½|u - v|² must satisfy φ(u) >= φ(x) + ½|u - x|² at x = prox(v, step)."""
    f, v = sample.f, sample.v
    if not f.proximable:
        return
    others = np.concatenate([x for x, _ in sample.pairs])
    known = f.value(others) if sample.has_values else np.zeros(0)
    for step in STEPS:
        x = f.prox(v, step)
        inner = np.sum((x[1:] - x[:-1]) * (v[1:] - v[:-1] - x[1:] + x[:-1]), axis=1)
        size = np.square(v[1:]).sum(axis=1) + np.square(v[:-1]).sum(axis=1) + 1.0
        expect(f, np.all(inner >= -1e-10 * size), f"prox(., {step:g}) is not firmly nonexpansive")
        if not sample.has_values:
            continue
        near = np.array([_neighbours(row, sample.rng) for row in x])
        values = f.value(near.reshape(-1, v.shape[1])).reshape(near.shape[:2])
        for j, value in enumerate(f.value(x)):
            candidates = np.concatenate([near[j], others])
            there = np.concatenate([values[j], known])
            _check_minimal(f, (v[j], step), (x[j], value), (candidates, there))


def _neighbours(x: Array, rng: np.random.Generator) -> Array:
    """Points around x: along each coordinate, both ways, at distances 1e-5 to 10; in 1-D a grid."""
    moves = [sign * 10.0**k * np.eye(len(x)) for sign in (1, -1) for k in (-5, -3, -1, 0, 1)]
    cloud = [10.0**k * rng.standard_normal((4, len(x))) for k in (-4, -2, 0)]
    grid = [np.linspace(-20.0, 20.0, 801)[:, None]] if len(x) == 1 else []
    return x + np.concatenate(moves + cloud + grid)


def _check_minimal(
    f: Function, asked: tuple[Array, float], found: tuple[Array, float], others: tuple[Array, Array]
) -> None:
    """The prox ``asked`` for, (v, step), is no worse at (x, f(x)) as at others (u, f(u))."""
    (v, step), (x, value), (candidates, values) = asked, found, others
    best = step * value + 0.5 * np.square(x - v).sum()
    if not np.isfinite(best):
        expect(f, False, f"prox({v}, {step:g}) = {x} has the value {best}")
    growth = 0.5 * np.square(candidates - x).sum(axis=1)
    there = step * values + 0.5 * np.square(candidates - v).sum(axis=-1)
    finite = np.where(np.isfinite(there), there, 0.0)
    # Indicators forgive 1e-9: a candidate may be better by that much times the slope, |v - x|.
    band = 4e-9 * (1.0 + np.abs(x).max()) * (np.abs(v - x).sum() + np.sqrt(growth))
    slack = 1e-10 * (1.0 + abs(best) + np.abs(finite) + np.abs(v).max() ** 2) + band
    better = there < best + growth - slack
    if better.any():
        where = int(np.argmax(better))
        told = f"{there[where]} where at least {best + growth[where]} was expected"
        better_there = f"{candidates[where]} gives {told}"
        expect(f, False, f"prox({v}, {step:g}) = {x} is not the minimiser: {better_there}")


def check_fenchel_young(sample: Sample) -> None:
    """f(x) + f*(w) >= <w, x>, with equality where w is a subgradient at x."""
    f = sample.f
    if not (sample.has_values and sample.has_conjugate_values and sample.pairs):
        return
    xs = np.concatenate([x for x, _ in sample.pairs])
    ws = np.concatenate([w for _, w in sample.pairs])
    for x, w in ((xs, ws), (xs, ws[sample.rng.permutation(len(ws))])):
        product = (x * w).sum(axis=1)
        for conjugate in (f.conjugate_value(w), f.conjugate.value(w)):
            value = f.value(x)
            size = 1.0 + np.abs(product) + np.abs(np.where(np.isfinite(value), value, 0.0))
            gap = (value + conjugate - product) / size
            rounding = 2e-9 * (1.0 + np.abs(x).sum(axis=1) + np.abs(w).sum(axis=1)) / size + 1e-9
            expect(f, np.all(gap >= -rounding), f"f(x) + f*(w) - <w, x> falls to {gap.min():.3g}")
            if w is ws:
                worst = float(np.abs(gap).max())
                expect(f, np.all(np.abs(gap) <= rounding), f"f(x) + f*(w) - <w, x> is {worst:.3g}")


def check_conjugate_grad(sample: Sample) -> None:
    """The gradient of f* leads from a subgradient back to its point."""
    f = sample.f
    if not f.conjugate_smooth:
        return
    expect(f, f.conjugate.smooth, "conjugate_smooth holds but the conjugate is not smooth")
    for x, w in sample.pairs:
        scale = 1.0 + np.abs(x).max() + np.abs(w).max() * min(1.0, f.conjugate.L)
        close(f, f.conjugate_grad(w), x, 1e-7 * scale, "grad f*(w)", "x")
        close(f, f.conjugate.grad(w), x, 1e-7 * scale, "conjugate.grad(w)", "x")


def check_grad(sample: Sample) -> None:
    """The gradient matches central differences of the value."""
    f, rng = sample.f, sample.rng
    if not (f.smooth and sample.has_values):
        return
    x = np.clip(sample.v, -8.0, 8.0)
    directions = rng.standard_normal(x.shape)
    h = 1e-5 * (1.0 + np.abs(x).max(axis=1, keepdims=True))
    slope = (f.value(x + h * directions) - f.value(x - h * directions)) / (2.0 * h[:, 0])
    claimed = (f.grad(x) * directions).sum(axis=1)
    # Where the curvature jumps (Huber), central differences err by L·h per unit length.
    jump = min(f.L, 1e3) * (h * np.square(directions)).sum(axis=1)
    size = 1.0 + np.abs(claimed) + np.abs(f.value(x))
    close(f, claimed, slope, 1e-5 * size + jump, "<grad, d>", "differences")


def check_moduli(sample: Sample) -> None:
    """mu and L bound the monotonicity of the subgradients."""
    f = sample.f
    expect(f, 0.0 <= f.mu <= f.L, f"mu = {f.mu} and L = {f.L} are not 0 <= mu <= L")
    for x, w in sample.pairs:
        order = sample.rng.permutation(len(x))
        dx, dw = x - x[order], w - w[order]
        square = np.square(dx).sum(axis=1)
        inner = (dx * dw).sum(axis=1)
        size = 1e-9 * (1.0 + np.abs(x).max() ** 2 + np.abs(x).max() * np.abs(w).max())
        lowest = f.mu * square if np.isfinite(f.mu) else np.where(square > 1e-18, np.inf, 0.0)
        expect(f, np.all(inner >= lowest - size), f"it is not {f.mu}-strongly convex")
        if f.smooth and np.isfinite(f.L):
            lengths = np.linalg.norm(dw, axis=1)
            bound = f.L * np.sqrt(square) + 1e-9 * (1.0 + np.abs(w).max())
            expect(f, np.all(lengths <= bound), f"its gradient is not {f.L}-Lipschitz")


def check_domain(sample: Sample) -> None:
    """<u, x> never exceeds the support of the domain."""
    f = sample.f
    directions = np.concatenate([sample.v, np.eye(sample.v.shape[1]), -np.eye(sample.v.shape[1])])
    support = f.domain_support(directions)
    expect(f, f.domain_support(0.0 * sample.v[0]) == 0.0, "domain_support(0) is not 0")
    for x, _ in sample.pairs:
        inner = directions @ x.T
        slack = 1e-7 * (1.0 + np.abs(inner))
        expect(f, np.all(inner <= support[:, None] + slack), "a point lies beyond domain_support")


def check_rows(sample: Sample) -> None:
    """Rows give what a loop over vectors gives."""
    f, v = sample.f, sample.v[:6]
    oracles: list[tuple[str, Callable[[Array], Array]]] = [("domain_support", f.domain_support)]
    if f.proximable:
        oracles.append(("prox", lambda x: f.prox(x, 0.7)))
    if f.smooth:
        oracles.append(("grad", f.grad))
    if sample.has_values:
        oracles.append(("value", f.value))
    if sample.has_conjugate_values:
        oracles.append(("conjugate_value", f.conjugate_value))
    for name, oracle in oracles:
        single = np.array([oracle(row) for row in v])
        same = np.allclose(oracle(v), single, rtol=1e-12, atol=1e-12)
        expect(f, same, f"{name} of rows differs from a loop")


def check_kernels(sample: Sample) -> None:
    """Compiled proxes and gradients agree with NumPy."""
    f, v = sample.f, sample.v
    dim = v.shape[1]
    if f.proximable:
        for step in (*STEPS, 1e-9, 1e9):
            expected = f.prox(v, step)
            scale = 1e-12 * (1.0 + np.abs(v).max() + np.abs(expected).max())
            close(f, compiled_prox(f, v, step), expected, scale, "the compiled prox", "NumPy")
    form = separable_form(f, dim)
    if form is not None and form.mu > 0:
        params, out = prox_blocks(f, dim)[0].params, np.empty(dim)
        for row in v:
            conjugate_grad_separable(row.copy(), out, params)
            scale = 1e-12 * (1.0 + np.abs(out).max())
            close(f, out, f.conjugate_grad(row), scale, "conjugate_grad_separable", "NumPy")
    lowered = smooth_form(f, dim) if f.smooth else None
    if lowered is not None:
        grad = v * lowered.diagonal + lowered.linear
        if lowered.dense is not None:
            grad = grad + v @ lowered.dense
        if lowered.M is not None:
            margins = v @ lowered.M.T + lowered.offset
            grad = grad - (lowered.weight / (1.0 + np.exp(margins))) @ lowered.M
        scale = 1e-10 * (1.0 + np.abs(grad).max())
        close(f, grad, f.grad(v), scale, "the lowered gradient", "NumPy")


def compiled_prox(f: Function, v: Array, step: float) -> Array:
    """prox of f at a vector or at rows, by the compiled kernels (callbacks by f itself)."""
    rows = np.atleast_2d(v)
    out, start = np.empty(rows.shape), 0
    for block in prox_blocks(f, rows.shape[1]):
        place, into = slice(start, start + block.size), np.empty(block.size)
        work = np.empty(3 * block.size + 8)
        for row, target in zip(rows, out, strict=True):
            part = np.array(row[place])
            if block.kind == KernelKind.CALLBACK:
                into = block.function.prox(part, step)
            else:
                prox_block(int(block.kind), block.flags, step, part, into, block.params, work)
            target[place] = into
        start += block.size
    return out.reshape(np.shape(v))


def check_jacobian(sample: Sample) -> None:
    """The compiled derivative of the prox matches central differences where no kink is near."""
    f, v, h = sample.f, sample.v[:10], 1e-6
    dim = v.shape[1]
    if not f.proximable or any(b.kind == KernelKind.CALLBACK for b in prox_blocks(f, dim)):
        return
    for step in (0.1, 1.0, 7.0):
        for row in v:
            moves = row + h * np.concatenate([np.eye(dim), -np.eye(dim), np.zeros((1, dim))])
            near = compiled_prox(f, moves, step).T
            ahead, behind, middle = near[:, :dim], near[:, dim:-1], near[:, -1:]
            if np.abs(ahead + behind - 2.0 * middle).max() <= 1e-9:
                found = compiled_jacobian(f, row, step)
                slack = 1e-7 * (1.0 + np.abs(row).max())
                close(f, found, (ahead - behind) / (2.0 * h), slack, "D prox", "differences")


def compiled_jacobian(f: Function, v: Array, step: float) -> Array:
    """The derivative of prox_{step·f} at a vector through the compiled kernels."""
    out, start = np.zeros((len(v), len(v))), 0
    for block in prox_blocks(f, len(v)):
        part, work = np.array(v[start : start + block.size]), np.empty(block.size)
        prox_jacobian(int(block.kind), block.flags, step, part, out, start, block.params, work)
        start += block.size
    return out


CHECKS: tuple[Callable[[Sample], None], ...] = (
    check_prox,
    check_fenchel_young,
    check_conjugate_grad,
    check_grad,
    check_moduli,
    check_domain,
    check_rows,
    check_kernels,
    check_jacobian,
)


def _available(call: Callable[[], object]) -> bool:
    try:
        call()
    except CapabilityError:
        return False
    return True


def expect(f: object, holds: object, message: str) -> None:
    """Raise AssertionError with the name of what was checked unless ``holds``."""
    if not holds:
        raise AssertionError(f"{f!r}: {message}.")


def close(f: object, found: Array, expected: Array, slack: Any, left: str, right: str) -> None:
    """Expect two arrays to differ by at most ``slack``."""
    error = np.abs(np.asarray(found) - np.asarray(expected))
    worst = float(np.max(error, initial=0.0))
    expect(f, np.all(error <= slack), f"{left} and {right} differ by {worst:.3g}")
