"""The stopping test: the KKT residual of the original problem, agreed over the network."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dual2.engine.residual_kernel import Bounds, row_steps, worst_row
from dual2.errors import PeerError
from dual2.problem.ingredients import EPS, ROUNDING, coupling_response
from dual2.problem.residual import KKT
from dual2.problem.residual import kkt as evaluate_kkt
from dual2.problem.screening import RowSums, judge_rows
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


_REQUESTS = frozenset(Request)


def _wish(number: float) -> Request:
    """The request that has been agreed on; honest processes ask for nothing else."""
    if number not in _REQUESTS:
        raise PeerError(f"Another process asks for {number:g}; expected 0 … {max(Request)}.")
    return Request(int(number))


_NEARLY = 10.0
"""Sums over agents are formed when the local test is met up to this factor."""
_SURELY = 1.0 - 1e-9
"""Sums in another order, or in the user's units, must not turn the word."""


@dataclass(frozen=True)
class Residual:
    """KKT residual at one iterate."""

    kkt: float  # if not ``full``, only the part that agents can judge by themselves
    met: bool  # whether all parts meet the tolerance
    dual: Array | None = None  # λ̄, the price the residual is of, known if ``full``
    request: Request = Request.NONE  # the largest of all processes
    proof: KKT | None = None  # what the plain definitions say of (x, dual), where they were asked

    @property
    def full(self) -> bool:
        """Whether the sums over all agents were formed."""
        return self.dual is not None


@dataclass
class StoppingTest:
    """Tests iterates against ``tol`` and ``atol``; definitions in :class:`dual2.problem.KKT`.

    The compiled loops judge agents and rows; where both pass, the plain definitions confirm it,
    the products of prices and violations included. Nothing is called solved without them.
    """

    runtime: Runtime
    tol: float
    atol: float
    units: Array | float = 1.0  # atol is in the user's units, see Balance: of prices,
    lengths: Array | float = 1.0  # and of the flat x
    uncounted: bool = False  # whether it serves the observer and the certificate only: uncounted
    tests: int = 0  # evaluations of the stationarity (∇f, prox g, Aᵀ)
    sums: int = 0  # and of the coupling (A, prox h)

    def __post_init__(self) -> None:
        """Lengths of the rows of the A_i, (n, p); what counts as a part of the set-up."""
        self._norms = self.runtime.problem.sizes.rows
        self._weights: Array | None = None
        if not self.uncounted:
            self._weigh()
        offsets, p = self.runtime.block.xptr[:-1], self.runtime.p
        flat = np.broadcast_to(self.lengths, max(1, int(self.runtime.block.xptr[-1])))
        self._atol = self.atol * flat[np.minimum(offsets, len(flat) - 1)]
        self._rows = np.array(np.broadcast_to(self.atol * np.asarray(self.units), p))
        self._rounding = ROUNDING if self.tol > 0 else 0.0  # else what atol forgives, no more
        self._bounds = Bounds(self._norms, self._atol, EPS * self._rounding)
        self._separate = self.runtime.problem.dual_term.separate

    def _weigh(self) -> Array:
        """Σ_i |A_i,j|², agreed once."""
        if self._weights is None:
            self._weights = self.runtime.allreduce_sum(self._norms**2)
        return self._weights

    def test(
        self, x: Array, duals: Array, full: bool = False, request: Request = Request.NONE
    ) -> Residual:
        """The local test with each agent's own λ_i first; the sums only if it nearly passes.

        ``full`` forms the sums in any case. The request of this process travels with the residuals.
        """
        judged = self.runtime.judge(x, duals, self._bounds)
        self.tests += 1
        if not full:
            local, asked = self._agree(judged, request)
            if local > _NEARLY * self.tol:
                return Residual(local, False, request=asked)
        found = self._measure(x, duals, judged, request)
        self.tests += 1
        self.sums += 1
        return self.confirm(found, x) if found.met else found

    def observe(self, x: Array, duals: Array) -> Residual:
        """The residual of agents and rows for the trace: nothing is counted or confirmed."""
        with self.runtime.comm.uncounted():
            return self._measure(x, duals)

    def _agree(self, judged: Array, request: Request) -> tuple[float, Request]:
        """The largest ratio and the largest request."""
        sent = judged.copy()
        sent[:, 1] = request
        worst, asked = self.runtime.allreduce_max(sent)
        return float(worst), _wish(asked)

    def _measure(
        self,
        x: Array,
        duals: Array,
        judged: Array | None = None,
        request: Request = Request.NONE,
    ) -> Residual:
        """The residual of agents and rows at λ̄; what is ``judged``, if known, are the λ_i."""
        rt, weight = self.runtime, self._weigh()
        judged = rt.judge(x, duals, self._bounds) if judged is None else judged
        forces = self._norms * judged[:, 1:]
        total = rt.allreduce_sum(np.concatenate([duals, *rt.loads(x), forces], axis=1)).reshape(
            4, -1
        )
        dual, sums = total[0] / rt.problem.n, total[1:]
        local, asked = self._agree(rt.judge(x, dual, self._bounds), request)
        kkt = max(local, self._coupling(dual, sums, weight))
        return Residual(kkt, kkt <= self.tol, dual, asked)

    def _coupling(self, dual: Array, sums: Array, weight: Array) -> float:
        """The ratio of the worst row, from s, load and forces, as :func:`judge_rows` defines it."""
        h = self.runtime.problem.h
        if not self._separate:
            s, load, forces = sums
            sent = RowSums(s, load, forces, weight)
            return judge_rows(h, dual, sent, self._rows, self._rounding)[0]
        steps = np.empty(len(dual))
        if not row_steps(dual, sums, weight, steps):
            return np.inf
        y = coupling_response(h, sums[0], dual, steps)
        return worst_row(dual, sums, steps, y, self._rows, self._bounds.rounding)

    def confirm(self, found: Residual, x: Array) -> Residual:
        """By the plain definitions; prices that are dust are tried as 0, and then are 0.

        As the certificate of which it is the first look, it is not counted.
        """
        with self.runtime.comm.uncounted():
            return self._by_definition(found, x)

    def _by_definition(self, found: Residual, x: Array) -> Residual:
        problem, dual = self.runtime.problem, found.dual
        assert dual is not None
        parts, best = problem.split(x), None
        for price in self._prices(x, dual):
            known = found.proof if price is dual else None
            proof = known or evaluate_kkt(problem, parts, price, self._atol, self._rows)
            met = proof.kkt <= _SURELY * self.tol
            if best is None or met or proof.kkt < best.kkt:
                best = Residual(proof.kkt, met, price, found.request, proof)
            if met:
                break
        assert best is not None
        return best

    def _prices(self, x: Array, dual: Array) -> list[Array]:
        """The price, without dust or within the domain of h*, and none; none first if idle.

        Which price is taken does not weaken the proof, which is of the pair.
        """
        problem, none, units = self.runtime.problem, np.zeros_like(dual), np.sqrt(self._weigh())
        units = np.where(units > 0, units, 1.0)
        size = units * np.abs(dual)
        dust = size <= _NEARLY * self.tol * size.max(initial=0.0)
        prices = [dual, np.where(dust, 0.0, dual), none] if np.any(dual[dust]) else [dual, none]
        if problem.h.proximable:  # s = 0 shows best what rounding did to the price
            prices.insert(1, dual - coupling_response(problem.h, none, dual, 1.0))
        abs_ATy = (self._norms * np.abs(dual)).sum(axis=1)
        least = _NEARLY * self.tol * self.runtime.judge(x, none, self._bounds)[:, 1]
        matters = problem.anywhere(bool(np.any(abs_ATy > least)))
        return prices if matters else prices[::-1]
