"""Different functions for consecutive blocks of coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from dual2.conic.blocks import BlockForm
from dual2.conic.curvature import stack
from dual2.errors import ProblemError, counted
from dual2.functions.arguments import Array, Entries, Groups, number, store
from dual2.functions.base import Function
from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.functions.user import as_function


@dataclass(frozen=True, eq=False, repr=False)
class Stacked(Function):
    """h(z) = Σ_k h_k(z_k) for consecutive blocks z_k of given sizes.

    Everything works block by block: the prox, the gradient, and h*(w) = Σ_k h_k*(w_k).

    Parameters
    ----------
    functions : sequence of Function
        The h_k.
    sizes : sequence of int
        Length of each block, positive.

    Examples
    --------
    >>> from dual2.functions import IndicatorAtMost, IndicatorPoint
    >>> h = Stacked([IndicatorPoint(1.0), IndicatorAtMost(0.0)], [1, 2])
    >>> h.prox([5.0, 5.0, -5.0], 1.0)
    array([ 1.,  0., -5.])
    """

    functions: Sequence[Function]
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        functions = tuple(map(as_function, self.functions))
        sizes = tuple(number(self, "sizes", size) for size in self.sizes)
        if len(functions) != len(sizes) or not functions:
            raise ProblemError(
                f"Stacked: {counted(len(functions), 'function')} and {counted(len(sizes), 'size')} "
                "given; expected one size per function, and at least one."
            )
        for k, (function, size) in enumerate(zip(functions, sizes, strict=True)):
            if size < 1 or not size.is_integer() or function.dim not in (None, size):
                raise ProblemError(
                    f"Stacked: block {k}, {function!r}, has size {size:g}; expected "
                    f"{'a whole positive size' if function.dim is None else function.dim}."
                )
        store(self, functions=functions, sizes=tuple(map(int, sizes)))

    @property
    def dim(self) -> int:
        """Sum of the sizes."""
        return sum(self.sizes)

    @property
    def mu(self) -> float:
        """The smallest among the blocks."""
        return min(f.mu for f in self.functions)

    @property
    def L(self) -> float:
        """The largest among the blocks."""
        return max(f.L for f in self.functions)

    @property
    def smooth(self) -> bool:
        """Whether every block is."""
        return all(f.smooth for f in self.functions)

    @property
    def proximable(self) -> bool:
        """Whether every block is."""
        return all(f.proximable for f in self.functions)

    @property
    def conjugate_smooth(self) -> bool:
        """Whether every block has it."""
        return all(f.conjugate_smooth for f in self.functions)

    @property
    def conjugate(self) -> Function:
        """The conjugates of the blocks, stacked."""
        return Stacked([f.conjugate for f in self.functions], self.sizes)

    def groups(self, dim: int) -> Groups:
        """Those of the blocks, one after the other."""
        found, used = [], 0
        for function, size in self.parts:
            found.append(used + function.groups(size))
            used = int(found[-1].max()) + 1
        return np.concatenate(found)

    def rescaled(self, units: Array) -> Function | None:
        """Each block in its own units."""
        found = [f.rescaled(part) for f, part in self.split(units)]
        known = [function for function in found if function is not None]
        return Stacked(known, self.sizes) if len(known) == len(found) else None

    def _form(self) -> PiecewiseQuadratic | None:
        forms = [f.form and f.form.broadcast(d) for f, d in self.parts]
        known = [form for form in forms if form is not None]
        if len(known) < len(forms):
            return None
        names = [field.name for field in fields(PiecewiseQuadratic)]
        return PiecewiseQuadratic(
            **{name: np.concatenate([getattr(form, name) for form in known]) for name in names}
        )

    @property
    def parts(self) -> list[tuple[Function, int]]:
        """Each function with its size."""
        return list(zip(self.functions, self.sizes, strict=True))

    def split(self, x: Array) -> list[tuple[Function, Array]]:
        """Each function with its block of x."""
        cuts = np.cumsum(self.sizes)[:-1]
        return list(zip(self.functions, np.split(x, cuts, axis=-1), strict=True))

    def steps(self, step: Entries) -> list[Entries]:
        """The steps of each block, as one number where its function does not separate."""
        parts = self.split(np.broadcast_to(step, (self.dim,)))
        return [t if f.groups(len(t)).any() else float(t[0]) for f, t in parts]

    def _value(self, x: Array) -> Array:
        return np.sum([f._value(part) for f, part in self.split(x)], axis=0)

    def _grad(self, x: Array) -> Array:
        return np.concatenate([f._grad(part) for f, part in self.split(x)], axis=-1)

    @property
    def has_hessian(self) -> bool:
        """Whether every part has one."""
        return all(f.has_hessian for f in self.functions)

    def _hessian(self, x: Array) -> Array | None:
        return stack([f._hessian(part) for f, part in self.split(x)])

    def _prox(self, v: Array, step: Entries) -> Array:
        parts = zip(self.split(v), self.steps(step), strict=True)
        return np.concatenate([f._prox(part, t) for (f, part), t in parts], axis=-1)

    def _conjugate_value(self, w: Array) -> Array:
        return np.sum([f._conjugate_value(part) for f, part in self.split(w)], axis=0)

    def _conjugate_grad(self, w: Array) -> Array:
        return np.concatenate([f._conjugate_grad(part) for f, part in self.split(w)], axis=-1)

    def _conjugate_prox(self, v: Array, step: Entries) -> Array:
        parts = [f._conjugate_prox(part, step) for f, part in self.split(v)]
        return np.concatenate(parts, axis=-1)

    def _domain_support(self, u: Array) -> Array:
        return np.sum([f._domain_support(part) for f, part in self.split(u)], axis=0)

    def _recession(self, u: Array) -> Array:
        return np.sum([f._recession(part) for f, part in self.split(u)], axis=0)

    def _blocks(self, dim: int) -> BlockForm | None:
        found = [f.blocks(size) for f, size in self.parts]
        known = [part for part in found if part is not None]
        return BlockForm.stacked(known) if len(known) == len(found) else None

    def _why_no_blocks(self, dim: int) -> str:
        reasons = [f.why_no_blocks(size) for f, size in self.parts]
        return "; ".join(dict.fromkeys(reason for reason in reasons if reason))

    def _affine(self, scale: float, center: Entries, slope: Entries, curvature: float) -> Function:
        centers, slopes = (np.broadcast_to(entry, (self.dim,)) for entry in (center, slope))
        parts = zip(self.split(centers), self.split(slopes), strict=True)
        changed = [f._affine(scale, a, b, curvature) for (f, a), (_, b) in parts]
        return Stacked(changed, self.sizes)
