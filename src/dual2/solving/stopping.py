"""The stopping test: the KKT residual of the original problem, agreed over the network."""

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dual2.errors import PeerError
from dual2.problem.residual import coupling_response, coupling_step
from dual2.runtime import Runtime

Array = np.ndarray


class Request(IntEnum):
    """What a process asks for beside the test; the largest of all processes' requests counts."""

    NONE = 0
    SAVE = 1
    """A checkpoint is due."""
    HOLD = 2
    """The last checkpoint could not be written: nobody must save, that the older ones stay."""
    TIME = 3
    INTERRUPT = 4
    BROKEN = 5
    """Its iterates are no longer finite."""


def _wish(number: float) -> Request:
    """The request that has been agreed on; honest processes ask for nothing else."""
    if number not in list(Request):
        raise PeerError(f"Another process asks for {number:g}; expected 0 … {max(Request)}.")
    return Request(int(number))


_NEARLY = 10.0
"""Sums over agents are formed when the local test is met up to this factor."""


@dataclass(frozen=True)
class Residual:
    """KKT residual at one iterate."""

    kkt: float  # if not ``full``, only the part that agents can judge by themselves
    met: bool  # whether both parts meet the tolerance
    dual: Array | None = None  # the price the residual is of, known if ``full``: λ̄, or 0
    request: Request = Request.NONE  # the largest of all processes

    @property
    def full(self) -> bool:
        """Whether the sums over all agents were formed."""
        return self.dual is not None


@dataclass
class StoppingTest:
    """Tests iterates against ``tol`` and ``atol``; definitions in :meth:`Problem.kkt`."""

    runtime: Runtime
    tol: float
    atol: float
    tests: int = 0  # evaluations of the stationarity (∇f, prox g, Aᵀ),
    sums: int = 0  # of the coupling (A, prox h),
    again: int = 0  # and of prox h alone

    def test(
        self, x: Array, duals: Array, full: bool = False, request: Request = Request.NONE
    ) -> Residual:
        """The local test with each agent's own λ_i first; the sums only if it nearly passes.

        ``full`` forms the sums in any case. The request of this process travels with the residuals.
        """
        if not full:
            local = self._agree(x, duals, request)
            self.tests += 1
            ratio, met = self._ratio(local[0], max(local[1], local[2]), _NEARLY)
            if not met:
                return Residual(ratio, False, request=_wish(local[3]))
        found, again = self._measure(x, duals, request)
        self.tests += 1 + again
        self.sums += 1
        self.again += again
        return found

    def observe(self, x: Array, duals: Array) -> Residual:
        """The same residual for the trace: nothing is counted."""
        with self.runtime.agreement.uncounted():
            return self._measure(x, duals)[0]

    def _sums(self, x: Array, duals: Array) -> tuple[Array, Array]:
        """λ̄ and s."""
        rt = self.runtime
        total = rt.total(np.hstack([duals, rt.products(x)]))
        return total[: rt.p] / rt.problem.n, total[rt.p :]

    def _agree(self, x: Array, dual: Array, request: Request = Request.NONE) -> Array:
        """Largest residual, |∇f_i|, |A_iᵀλ| and request."""
        rows = self.runtime.stationarity(x, dual)
        return self.runtime.largest(np.column_stack([rows, np.full(len(rows), float(request))]))

    def _measure(
        self, x: Array, duals: Array, request: Request = Request.NONE
    ) -> tuple[Residual, bool]:
        """The residual at λ̄, and whether it took a second look.

        Where the coupling is idle, methods approach the price 0 but never reach it, and the
        direction of what is left of λ̄ means nothing. So a price whose pull on the agents is
        below ``tol`` of their own forces is tried as 0.
        """
        dual, s = self._sums(x, duals)
        local = self._agree(x, dual, request)
        found = self._residual(dual, s, local)
        weak = local[2] <= self.tol * local[1]
        if found.met or not (weak and dual.any()):
            return found, False
        none = np.zeros_like(dual)
        without = self._residual(none, s, self._agree(x, none, request))
        return (without if without.met else found), True

    def _residual(self, dual: Array, s: Array, local: Array) -> Residual:
        one, one_met = self._ratio(local[0], max(local[1], local[2]))
        h = self.runtime.problem.h
        y = coupling_response(h, s, dual, coupling_step(s, dual))
        norm = np.linalg.norm
        two, two_met = self._ratio(float(norm(s - y)), float(max(norm(s), norm(y))))
        return Residual(max(one, two), one_met and two_met, dual, _wish(local[3]))

    def _ratio(self, residual: float, scale: float, factor: float = 1.0) -> tuple[float, bool]:
        if not (math.isfinite(residual) and math.isfinite(scale)):
            return math.inf, False
        met = residual <= factor * (self.tol * scale + self.atol)
        if residual == 0:
            return 0.0, bool(met)
        return float(residual / scale) if scale > 0 else math.inf, bool(met)
