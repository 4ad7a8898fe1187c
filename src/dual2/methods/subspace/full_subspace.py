"""The mode of :mod:`.active_set` where the products of all directions fit into one sum.

The first sum brings the products S of as many random directions R as there are variables, each of
all agents together. They are made orthonormal in a diagonal metric M: R M Rᵀ = I, so that any
vector v is Rᵀu with u = R M v, a sum of one number for each direction, and its product A v = Sᵀu is
known without another. From then on no sum has anything with the length of p. On a face, the
directions restricted to it have the products E = R M F Rᵀ among each other, F the projection on the
face. E is a projection too, and its eigenvectors with eigenvalue one are an orthonormal basis of
the face: the problem on it is solved as a whole, not in some directions. Far from the solution that
overshoots, most where f is flat and columns are alike. A term (ρ/2)|x - x̄|² in the metric M, with
x̄ the present point, holds it back (Levenberg, 1944; Marquardt, 1963); ρ falls with every new
lowest objective, is left out where no face changes any more, and grows where a step does not pay.
Products stay as they were sent; what has become of the directions is a matrix beside them.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.methods.message import REQUESTS, split_at, symmetric, triangle_size
from dual2.methods.subspace.active_set import (
    KAPPA_INCREASE,
    MAX_WORSE_POINTS,
    POINT_SCALARS,
    ActiveSetState,
    ActiveSetSubspace,
)
from dual2.methods.subspace.subspace_method import GROWING, SubspacePhase
from dual2.methods.subspace.subspace_problem import Gram, SubspaceProblem
from dual2.runtime import Runtime

Array = np.ndarray
MAX_VARIABLES, MAX_PRODUCT_NUMBERS = 300, 6_000_000
"""Most variables, and most numbers of the products."""
INITIAL_RHO, RHO_GROWTH, RHO_DECREASE, MIN_RHO = 0.1, 5.0, 0.3, 1e-5
"""ρ at the start, its growth where a step does not pay, its fall where one does, and where it is
left out; after that it grows from ten times the last."""


def fits(variables: int, p: int) -> bool:
    """Whether the products of all directions can be sent at once.

    Examples
    --------
    >>> fits(30, 569), fits(30, 10**6), fits(1000, 2000)
    (True, False, False)
    """
    return variables <= MAX_VARIABLES and variables * p <= MAX_PRODUCT_NUMBERS


@dataclass(frozen=True)
class FullSubspaceState(ActiveSetState):
    """Also products of all directions, ρ, the last value and the number of changed faces.

    The orthonormal directions have the products turn·span, those on the faces mix·span.
    """

    span: Array = field(default_factory=lambda: np.zeros((0, 0)))
    turn: Array = field(default_factory=lambda: np.zeros((0, 0)))
    mix: Array = field(default_factory=lambda: np.zeros((0, 0)))
    rho: float = INITIAL_RHO
    last: float = np.inf
    changed: int = 0


class FullSubspace(ActiveSetSubspace[FullSubspaceState]):
    """The method on one block of agents, where all products have been sent.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.
    max_sums : int
        Most sums.
    variables : int
        Of all agents.
    """

    state_type = FullSubspaceState
    growing = GROWING | {"span": (0,), "turn": (0, 1), "mix": (0, 1)}

    def __init__(self, runtime: Runtime, max_sums: int, variables: int) -> None:
        self.variables = variables
        super().__init__(runtime, max_sums)
        self._constant_curvature = isinstance(self.h, PiecewiseQuadratic) and self.h.smooth

    # -- start, save, restore ---------------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from the point of the domain that is nearest to x (flat), and λ (n, p)."""
        super().start(x, lam)
        self._sample()

    def _sample(self) -> None:
        """Every agent's part of the random directions."""
        self._update(phase=SubspacePhase.POINT, span=np.zeros((0, self.runtime.p)))
        self.gram = Gram()
        self._update(mix=np.zeros((0, 0)))
        self.metrics = [part.diagonal.copy() for part in self.parts]
        self.bases = [
            part.generator().standard_normal((self.variables, len(metric))) / np.sqrt(metric)
            for part, metric in zip(self.parts, self.metrics, strict=True)
        ]

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        own = {"bases": np.hstack(self.bases), "metrics": np.concatenate(self.metrics)}
        return super().state() | own

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        super().restore(state)
        cuts = self.runtime.block.xptr[1:-1]
        self.metrics = np.split(np.array(state["metrics"]), cuts)
        bases = np.split(np.array(state["bases"]), cuts, axis=1)
        self.bases = [basis.copy() for basis in bases]

    # -- the sum ----------------------------------------------------------------------------------
    def _sizes(self) -> list[int]:
        """Lengths of a message's parts.

        Numbers of the point, whether the face has changed; u of point and base, Rᵀ(force); halves
        of E and of the quadratic part; half of the directions' products with each other, and those
        with A, unless they are known.
        """
        count, half, phase = self.variables, triangle_size(self.variables), self.current.phase
        asked = [0 if phase == SubspacePhase.DIRECTION else half]
        asked += [count * self.runtime.p if phase == SubspacePhase.POINT else 0]
        return [POINT_SCALARS + 1, *3 * [count], half, half, *asked]

    def _sum_point(self) -> Array:
        """One sum: nothing is longer than the number of variables, but for the first."""
        changed = self._choose()
        xs, ratios, phase = self._split(self.x), self._ratios(), self.current.phase
        lower, cuts = np.tril_indices(self.variables), np.cumsum(self._sizes())

        def fill(rows: Array, out: Array) -> None:
            for e, i in enumerate(rows):
                part, x, R, M = self.parts[i], xs[i], self.bases[i], self.metrics[i]
                Q = R * part.free
                numbers, point, base, force, E, H, G, products, asked = split_at(out[e], cuts)
                numbers[:] = *part.objective(x), ratios[i], ratios[i] > self.tol, changed[i]
                point[:], base[:], force[:] = (
                    R @ (M * x),
                    R @ (M * part.base),
                    Q @ part.base_gradient(),
                )
                E[:], H[:] = ((Q * M) @ Q.T)[lower], (part.hess_product(Q) @ Q.T)[lower]
                if phase != SubspacePhase.DIRECTION:
                    G[:] = ((R * M) @ R.T)[lower]
                if phase == SubspacePhase.POINT:
                    part.products(R, products.reshape(self.variables, -1))
                asked[:] = 0.0
                if i == 0 and self.request:
                    asked[self.request - 1] = 1.0

        self.products += self.variables if phase == SubspacePhase.POINT else 0
        return self.runtime.allreduce_filled(int(cuts[-1]) + REQUESTS, fill, least=1)

    def _read_sum(self, total: Array) -> tuple[Array, Array]:
        """Numbers of the point, product of the base; products and quadratic part on the faces."""
        count = self.variables
        cuts = np.cumsum(self._sizes())
        numbers, point, base, force, E, H, G, products = split_at(total[: cuts[-1]], cuts[:-1])
        E, H = symmetric(E, count), symmetric(H, count)
        if self.current.phase == SubspacePhase.POINT:
            self._update(span=products.reshape(count, self.runtime.p), turn=np.eye(count))
        if self.current.phase != SubspacePhase.DIRECTION:
            point, base, force, E, H = self._orthonormalise(
                symmetric(G, count), point, base, force, E, H
            )
            self._update(
                phase=SubspacePhase.REORTHONORMALISE
                if self.current.phase == SubspacePhase.POINT
                else SubspacePhase.DIRECTION
            )
        self._update(
            at=(point @ self.current.turn) @ self.current.span,
            changed=round(float(numbers[POINT_SCALARS])),
        )
        values, vectors = np.linalg.eigh(E)
        U = vectors[:, values > 0.5].T
        self._update(mix=U @ self.current.turn, H=U @ H @ U.T, b=U @ force)
        if not self._constant_curvature:
            self._update(products=self.current.mix @ self.current.span)
            self.gram.reset()
        for part, R in zip(self.parts, self.bases, strict=True):
            part.replace_directions((U @ R) * part.free)
        return numbers, (base @ self.current.turn) @ self.current.span

    def _problem(self, H: Array, base: Array) -> SubspaceProblem:
        """Without products on the faces where the second derivatives of h are always the same.

        The Gram matrix of all products then serves on every face.
        """
        if not (self._constant_curvature and len(self.current.span)):
            return super()._problem(H, base)
        return SubspaceProblem(H, self.current.b, self.current.span, base, self.current.mix)

    def _count(self) -> int:
        return len(self.current.mix)

    def _squares(self) -> Array | None:
        """Squared lengths of the products, rows in units of the second derivatives."""
        mix, square = self.current.mix, self.gram.matrix
        known = self._constant_curvature and len(square) == mix.shape[1]
        return np.einsum("kj,kj->k", mix @ square, mix) if known else None

    def _orthonormalise(self, G: Array, *vectors_of: Array) -> list[Array]:
        """Make the directions with products G orthonormal, and what was told in terms of them."""
        low = np.linalg.cholesky(G)

        def turn(rows: Array) -> Array:
            return np.ascontiguousarray(solve_triangular(low, rows, lower=True))

        self._update(turn=turn(self.current.turn))
        self.bases = [turn(R) for R in self.bases]
        turned = [turn(v) for v in vectors_of]
        return [v if v.ndim == 1 else turn(v.T).T for v in turned]

    # -- decisions --------------------------------------------------------------------------------
    def _bend(self) -> Array:
        return self.current.H + self.current.rho * np.eye(len(self.current.H))

    def _on_new_best(self) -> None:
        self._update(
            rho=RHO_DECREASE * self.current.rho
            if self.current.changed and RHO_DECREASE * self.current.rho >= MIN_RHO
            else 0.0
        )

    def _tolerate_worse(self, value: float, slack: float) -> bool:
        """Only where h has kinks, and something still happens, may points become worse."""
        smooth = self.gram.is_smooth(self.h, self.runtime.p)
        idle = abs(value - self.current.last) <= slack
        self._update(last=value)
        if self.current.worse_points < MAX_WORSE_POINTS and not (
            idle or smooth or self.current.guarded
        ):
            return True
        if not (smooth or self.current.guarded):
            self._update(kappa=self.current.kappa * (KAPPA_INCREASE))
        self._update(guarded=True)
        self._shorten(value, slack)
        self._update(rho=max(RHO_GROWTH * self.current.rho, 10.0 * MIN_RHO))
        return False
