"""Steps of all agents of a process, each alone: gradients, proxes, penalised problems; compiled."""

from typing import NamedTuple

import numpy as np

from dual2.compiled import compiled
from dual2.engine.local import FAILED, apply, grad_f, prox_g
from dual2.engine.packed_args import borrowed, keep
from dual2.engine.threads import own_rows
from dual2.methods.local.argmin import local_argmin, penalty_rows
from dual2.methods.local.penalty_newton import QUADRATIC_H, Task, new_scratch
from dual2.methods.local.solver_kind import choose_for_penalties
from dual2.runtime import Runtime

Array = np.ndarray


class ProxData(NamedTuple):
    """What the penalised problems need beside their targets."""

    penalties: Array
    """See :func:`.argmin.penalty_rows`."""
    solver_kind: Array
    """See :func:`.solver_kind.choose_for_penalties`."""
    tried: Array
    """Gradients so far, agent by agent."""


@compiled
def argmin_rows(block, data, x, target, ax, member):
    """x_i = argmin f_i + g_i + (r/2)|A_i x - t_i|² from x_i, and its A_i x_i; 0 or FAILED."""
    block, data, x, target, ax, member = borrowed((block, data, x, target, ax, member))
    first, last = own_rows(member, target.shape[0])
    own_scratch = new_scratch(block)
    scratch = borrowed(own_scratch)
    for i in range(first, last):
        task = Task(x, target, x, 0.0, QUADRATIC_H, data.penalties[i], 1.0)
        tried = local_argmin(block, i, task, data.solver_kind[i], scratch)
        if tried == FAILED or apply(block, i, x[block.xptr[i] : block.xptr[i + 1]], ax[i]):
            return FAILED
        data.tried[i] += tried
    return keep(own_scratch)


@compiled
def gradient_rows(block, x, out, member):
    """The flat ∇f_i(x_i); 0 or FAILED."""
    block, x, out, member = borrowed((block, x, out, member))
    first, last = own_rows(member, block.xptr.shape[0] - 1)
    for i in range(first, last):
        a, b = block.xptr[i], block.xptr[i + 1]
        if grad_f(block, i, x[a:b], out[a:b]):
            return FAILED
    return 0


@compiled
def prox_rows(block, v, step, out, member):
    """The flat prox_{step·g_i}(v_i); 0 or FAILED."""
    block, v, out, member = borrowed((block, v, out, member))
    first, last = own_rows(member, block.xptr.shape[0] - 1)
    work = np.empty(3 * max(1, block.inbox.shape[0]) + 8)
    for i in range(first, last):
        a, b = block.xptr[i], block.xptr[i + 1]
        if prox_g(block, i, step, v[a:b], out[a:b], work):
            return FAILED
    return 0


class LocalSteps:
    """The steps on the rows of a runtime; ``tried`` counts gradients of inner loops.

    Examples
    --------
    >>> import dual2 as d2
    >>> problem = d2.Problem([d2.Agent([[2.0]], d2.SquaredNorm(4.0))] * 2, d2.SquaredLoss([1.0]))
    >>> steps = LocalSteps(Runtime(problem, d2.Network([(0, 1)])))
    >>> x, ax = np.zeros(2), np.zeros((2, 1))
    >>> steps.penalise(1.0)
    >>> steps.argmin(x, np.array([[4.0], [8.0]]), ax)
    >>> x.tolist(), ax.tolist(), steps.gradient(x).tolist()
    ([1.0, 2.0], [[2.0], [4.0]], [4.0, 8.0])
    """

    def __init__(self, runtime: Runtime, tried: Array | None = None) -> None:
        self.runtime, self._data = runtime, None
        self.tried = np.zeros(runtime.n, np.int64) if tried is None else tried

    def penalise(self, r: float) -> None:
        """Set the weight of the penalty of :meth:`argmin`."""
        rt, wide = self.runtime, np.full(self.runtime.p, np.inf)
        rows = penalty_rows(np.full(rt.n, r), -wide, wide)
        self._data = ProxData(rows, choose_for_penalties(rt), self.tried)

    def argmin(self, x: Array, target: Array, ax: Array) -> None:
        """x_i = argmin f_i + g_i + (r/2)|A_i x - t_i|² and A_i x_i, in place."""
        rt = self.runtime
        rt.run(argmin_rows, rt.block, self._data, x, np.ascontiguousarray(target), ax)

    def gradient(self, x: Array) -> Array:
        """The flat ∇f_i(x_i)."""
        out = np.empty_like(x)
        self.runtime.run(gradient_rows, self.runtime.block, x, out)
        return out

    def prox(self, v: Array, step: float) -> Array:
        """The flat prox_{step·g_i}(v_i)."""
        out = np.empty_like(v)
        self.runtime.run(prox_rows, self.runtime.block, v, float(step), out)
        return out
