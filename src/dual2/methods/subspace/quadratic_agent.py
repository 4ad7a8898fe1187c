"""What an agent with a quadratic f computes alone in the primal mode."""

import hashlib
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dual2.functions.hessians import dense, hessian
from dual2.methods.subspace.cholesky import factorise, solve_half, solve_with
from dual2.methods.subspace.subspace_problem import weigh
from dual2.problem import Agent
from dual2.problem.ingredients import norm, step_constant
from dual2.problem.matrices import as_dense
from dual2.problem.screening import Local

Array = np.ndarray
MAX_FULL_VARIABLES = 1000
"""Variables of an agent above which its preconditioner is diagonal."""
RIDGE_RTOL = 1e-12
"""Least curvature of a preconditioner relative to its largest."""
SHARED_RTOL = 1e-9
"""Curvature of a loss in blocks, relative to its largest, that counts as none."""
SEED_NUMBERS = 10_000
"""About so many of an agent's numbers decide on what it draws."""
_SPARSE = 0.5


class QuadraticAgent:
    """½xᵀPx + qᵀx of one agent, the smooth part of its g included, its A, its known directions.

    Whatever enters a sum is computed agent by agent, so that it has the same bits wherever others
    live.

    Parameters
    ----------
    agent : Agent
        f is quadratic, g piecewise quadratic coordinate by coordinate.
    columns : ndarray or None
        Those of a dense A, row by row, if they are at hand.

    Attributes
    ----------
    rank : int
        In how many directions h bends, where it couples rows in blocks, or P is 0 and it bends
        along every row; else all.
    """

    def __init__(self, agent: Agent, columns: Array | None = None) -> None:
        d, self.agent = agent.dim, agent
        hess_product, self.q = hessian(agent.f, np.zeros(d)), agent.f.grad(np.zeros(d))
        form = agent.g.form
        assert hess_product is not None and form is not None, "the plan has asked for it"
        linear, curvature = (np.broadcast_to(v, d) for v in (form.linear, form.curvature))
        self._plain = form.smooth and not (np.any(linear) or np.any(curvature))
        self.q = self.q + linear
        P = np.asarray(hess_product, dtype=float)
        self.P: Array = P + (curvature if P.ndim == 1 else np.diag(curvature))
        dense = as_dense if columns is None else lambda A: columns.T
        self.A: Any = agent.A if sp.issparse(agent.A) else dense(agent.A)
        self.directions: Array = np.zeros((0, d))
        self.diagonal = self._matrix = np.ones(d)
        self._factor: Array | None = None
        self.rank = d
        self._metric: Array | None = None
        self._weights: Array | None = None
        self._parts: Array | None = None
        self._table: Array | None = None
        self._ATy: tuple[Array, Array] | None = None

    def hess_product(self, x: Array) -> Array:
        """P x, or the same of each row."""
        return x * self.P if self.P.ndim == 1 else x @ self.P

    def along(self, c: Array) -> Array:
        """Σ_k c_k q_k, the directions with these coefficients."""
        return c @ self.directions

    def keep(self, new: Array) -> None:
        """More directions."""
        self.directions = np.vstack([self.directions, new])

    def replace_directions(self, directions: Array) -> None:
        """Other directions, whose products the method knows."""
        self.directions = directions

    def products(self, rows: Array, out: Array) -> None:
        """A times each row, into the rows of ``out``."""
        if self._table is not None:
            size = self.A.shape[1] // self._table.shape[1]
            by_class = rows.reshape(len(rows), -1, size)
            np.matmul(self._table, by_class, out=out.reshape(len(rows), -1, size))
        elif sp.issparse(self.A):
            out[:] = (self.A @ rows.T).T
        else:
            np.matmul(rows, self.A.T, out=out)

    def ATy(self, lam: Array) -> Array:
        """Aᵀλ, computed once for a multiplier."""
        if self._ATy is None or self._ATy[0] is not lam:
            self._ATy = lam, self._adjoint(lam)
        return self._ATy[1]

    def _adjoint(self, lam: Array) -> Array:
        if self._table is None:
            return self.A.T @ lam
        return (self._table.T @ lam.reshape(len(self._table), -1)).ravel()

    def gradient(self, x: Array, lam: Array) -> Array:
        """P x + q + Aᵀλ."""
        return self.hess_product(x) + self.q + self.ATy(lam)

    def local(self, x: Array, lam: Array) -> Local:
        """What the agent knows of its own optimality."""
        agent, ATy = self.agent, self.ATy(lam)
        gradient = self.hess_product(x) + self.q if self._plain else agent.f.grad(x)
        L = step_constant(agent, x, gradient, ATy)
        if self._plain:
            residual = norm(gradient + ATy)
        else:
            residual = L * norm(x - agent.g.prox(x - (gradient + ATy) / L, 1.0 / L))
        residual = residual if np.isfinite(residual) else np.inf
        return Local(residual, norm(gradient), norm(ATy), norm(x), L)

    # -- the preconditioner -----------------------------------------------------------------------
    def precondition(self, W: Array, metric: bool) -> None:
        """Take B = P + AᵀWA for directions, and as their ``metric`` if that is asked."""
        if self._weights is None or not np.array_equal(W, self._weights):
            B, self._weights = self._curvature(W), W
            diagonal = B if B.ndim == 1 else np.diag(B)
            top = float(diagonal.max(initial=0.0)) or 1.0
            B = B + (RIDGE_RTOL * top if B.ndim == 1 else RIDGE_RTOL * top * np.eye(len(B)))
            self._matrix, self.diagonal = B, B if B.ndim == 1 else np.diag(B)
            self._factor = B if B.ndim == 1 else _factor_of(B)
        if metric:
            self._metric = self._matrix
            everywhere = not np.any(self.P) and W.ndim == 1 and bool(np.all(W > 0))
            if (W.ndim == 3 or everywhere) and self._matrix.ndim == 2:
                eigenvalues = np.linalg.eigvalsh(self._matrix - dense(self.P))
                self.rank = int(np.sum(eigenvalues > SHARED_RTOL * eigenvalues[-1]))

    def _curvature(self, W: Array) -> Array:
        """P + AᵀWA, its diagonal alone where there are many variables."""
        if W.ndim == 3:
            if len(self.q) <= MAX_FULL_VARIABLES:
                return dense(self.P) + self._between_blocks(W)
            W = np.einsum("mkk->mk", W).ravel()
        if len(self.q) > MAX_FULL_VARIABLES:
            own = self.P if self.P.ndim == 1 else np.diag(self.P)
            squares = self.A.multiply(self.A) if sp.issparse(self.A) else self.A**2
            return own + squares.T @ W
        if sp.issparse(self.A):
            scaled = sp.diags_array(np.sqrt(W)) @ self.A
            return dense(self.P) + np.asarray((scaled.T @ scaled).todense())
        used = np.flatnonzero(W)
        few = len(used) < _SPARSE * len(W)
        part = (self.A[used] if few else self.A) * np.sqrt(W[used] if few else W)[:, None]
        return dense(self.P) + part.T @ part

    def _between_blocks(self, W: Array) -> Array:
        """AᵀWA for blocks W on the diagonal."""
        count, size = W.shape[:2]
        parts = self._class_tables(count, size)
        if parts is not None:
            width = parts.shape[2]
            out = np.empty((width, size, width, size))
            for k, m in zip(*np.tril_indices(size), strict=True):
                out[:, k, :, m] = (parts[k] * W[:, k, m, None]).T @ parts[m]
                out[:, m, :, k] = out[:, k, :, m].T
            found = out.reshape(self.A.shape[1], -1)
        elif sp.issparse(self.A):
            blocks = sp.bsr_array((W, np.arange(count), np.arange(count + 1)))
            found = np.asarray((self.A.T @ (blocks @ self.A)).todense())
        else:
            found = self.A.T @ (W @ self.A.reshape(count, size, -1)).reshape(self.A.shape)
        return 0.5 * (found + found.T)

    def _class_tables(self, count: int, size: int) -> Array | None:
        """The parts of a sparse A that act on one row of each block, if nothing else is in it.

        (size, count, columns): so is a table whose columns have a coefficient for each class.
        """
        if not sp.issparse(self.A) or self.A.shape[1] % size:
            return None
        if self._parts is None:
            A = sp.coo_array(self.A)
            (row, own), (column, other) = divmod(A.row, size), divmod(A.col, size)
            apart = np.array_equal(own, other)
            parts = np.zeros((size, count, A.shape[1] // size) if apart else 0)
            if apart:
                parts[own, row, column] = A.data
            if apart and np.all(parts == parts[0]):  # A = X ⊗ I
                self._table = table = np.array(parts[0])
                parts = np.broadcast_to(table, parts.shape)
            self._parts = parts
        return self._parts if self._parts.size else None

    def solve(self, v: Array) -> Array:
        """B⁻¹v."""
        assert self._factor is not None, "precondition comes first"
        one = self._factor.ndim == 1
        return (v.T / self._factor).T if one else solve_with(self._factor, v)

    def generator(self, *turn: int) -> np.random.Generator:
        """Random numbers that follow from what the agent alone knows: nobody else can draw them."""
        return np.random.default_rng([self._secret, *turn])

    @cached_property
    def _secret(self) -> int:
        A, q = self.A, np.ascontiguousarray(self.q)
        numbers = np.asarray(A.data) if sp.issparse(A) else A
        every = max(1, numbers.size // SEED_NUMBERS)
        some = numbers[np.unravel_index(np.arange(0, numbers.size, every), numbers.shape)]
        digest = hashlib.blake2b(some.tobytes() + q.tobytes(), digest_size=16).digest()
        return int.from_bytes(digest, "big")

    def sample(self, rng: np.random.Generator, count: int) -> Array:
        """Random rows whose covariance is B⁻¹: of all directions alike, as B measures them.

        Some directions may have no curvature but that of P: what all classes of a multinomial loss
        share, or combinations of dependent columns. No gradient has a part in them, nor have these
        rows: B⁻¹AᵀWv, or B⁻¹AᵀW^½v.
        """
        W = self._weights
        if W is not None and (W.ndim == 3 or self.rank < len(self.q)):
            v = rng.standard_normal((count, self.A.shape[0]))
            rows = weigh(v, W if W.ndim == 3 else np.sqrt(W))
            return self.solve(self.A.T @ rows.T).T
        v = rng.standard_normal((count, len(self.q)))
        assert self._factor is not None, "precondition comes first"
        if self._factor.ndim == 1:
            return v / np.sqrt(self._factor)
        return solve_half(self._factor, v.T).T

    def solve_on(self, free: Array, v: Array) -> Array:
        """B⁻¹v with B restricted to the ``free`` coordinates; 0 on the others."""
        out = np.zeros_like(v)
        if self._matrix.ndim == 1:
            out[free] = v[free] / self._matrix[free]
        elif free.any():
            out[free] = solve_with(_factor_of(self._matrix[np.ix_(free, free)]), v[free])
        return out

    def metric_product(self, x: Array) -> Array:
        """The metric times x, or times each row."""
        assert self._metric is not None, "precondition comes first"
        return x * self._metric if self._metric.ndim == 1 else x @ self._metric


def _factor_of(matrix: Array) -> Array:
    """Cholesky's factor of a matrix that has one by construction."""
    factor = factorise(matrix)
    if factor is None:
        raise np.linalg.LinAlgError("A preconditioner is not positive definite.")
    return factor
