"""One controlled system: dynamics, limits, costs, and what it takes from the shared resources."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_discrete_are

from dual2.errors import ProblemError
from dual2.functions.arguments import Array, entries, matrix, number, store

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Subsystem:
    """x⁺ = A x + B u + w with limits on x and u, and a quadratic cost.

    Over a horizon of K steps it costs

        Σ_{k<K} (x_k - x_ref)ᵀQ(x_k - x_ref) + (u_k - u_ref)ᵀR(u_k - u_ref)
        + (x_K - x_ref)ᵀP(x_K - x_ref).

    Parameters
    ----------
    name : str
        For messages and figures.
    A, B : matrix (n_x, n_x), matrix (n_x, n_u)
        Dynamics; every mode that does not decay must be within reach of the inputs.
    Q, R : matrix
        Stage costs, Q positive semidefinite, R positive definite; a number stands for a multiple
        of the identity, a vector for a diagonal.
    terminal : matrix, optional
        P, positive semidefinite; by default the cost of the unconstrained optimal controller from
        there on (the solution of the discrete Riccati equation).
    x_min, x_max, u_min, u_max : float or vector
        Limits, possibly infinite.
    u_rate : float or vector
        Most by which an input may change from one step to the next, possibly infinite.
    C, y_min, y_max : matrix (n_y, n_x), float or vector, optional
        Outputs y = C x, and their limits.
    resource : matrix (n_r, n_u), optional
        What the inputs take from the shared resources; none by default.
    x_ref, u_ref : float or vector
        Where the state and the input should be.
    soft : (float, float), optional
        Makes the limits of states and outputs soft: an excess of s costs
        ``soft[0]``·s² + ``soft[1]``·s at each step. With ``soft[0]`` = 0 the penalty is exact: a
        ``soft[1]`` above the price of the limits leaves every plan as it is that can meet them. By
        default they are hard.

    Examples
    --------
    >>> room = Subsystem("room", A=[[0.9]], B=[[0.5]], Q=1.0, R=0.1, u_min=0.0, u_max=1.0,
    ...                  resource=[[1.0]])
    >>> room.n_x, room.n_u, room.terminal.round(4).tolist()
    (1, 1, [[1.2452]])
    """

    name: str
    A: Any
    B: Any
    Q: Any
    R: Any
    terminal: Any = None
    x_min: Any = -np.inf
    x_max: Any = np.inf
    u_min: Any = -np.inf
    u_max: Any = np.inf
    resource: Any = None
    x_ref: Any = 0.0
    u_ref: Any = 0.0
    soft: tuple[float, float] | None = None
    u_rate: Any = np.inf
    C: Any = None
    y_min: Any = -np.inf
    y_max: Any = np.inf

    def __post_init__(self) -> None:
        self._read_dynamics()
        self._read_vectors()
        store(self, Q=self._weight("Q", self.Q, self.n_x), R=self._weight("R", self.R, self.n_u))
        least = float(np.linalg.eigvalsh(self.R).min())
        if least <= _EPS * self.n_u * np.abs(self.R).max():
            raise ProblemError(
                f"{self!s}: R is not positive definite (smallest eigenvalue {least:.3g}); every "
                "input needs a cost."
            )
        resource = np.zeros((0, self.n_u)) if self.resource is None else self.resource
        resource = matrix(str(self), "resource", resource)
        store(self, resource=resource)
        if resource.shape[1] != self.n_u:
            raise ProblemError(
                f"{self!s}: resource has shape {resource.shape}; expected {self.n_u} columns, "
                "one per input."
            )
        if self.soft is not None:
            if np.shape(self.soft) != (2,):
                raise ProblemError(
                    f"{self!s}: soft = {self.soft!r}; expected the two weights of s² and s, for "
                    "instance (10.0, 5.0)."
                )
            square, slope = (
                number(str(self), f"soft[{k}]", self.soft[k], least=0.0) for k in (0, 1)
            )
            if square == slope == 0:
                raise ProblemError(
                    f"{self!s}: soft = (0, 0) makes an excess free; expected a positive weight."
                )
            store(self, soft=(square, slope))
        self._require_reach()
        given = self.terminal is not None
        own = self._weight("terminal", self.terminal, self.n_x) if given else self._riccati()
        store(self, terminal=own)

    def __str__(self) -> str:
        return f"Subsystem {self.name!r}"

    @property
    def n_x(self) -> int:
        """Number of states."""
        return len(self.A)

    @property
    def n_u(self) -> int:
        """Number of inputs."""
        return self.B.shape[1]

    @property
    def n_y(self) -> int:
        """Number of outputs."""
        return len(self.C)

    @property
    def radius(self) -> float:
        """Spectral radius of A; above 1 the system is unstable by itself."""
        return float(np.abs(np.linalg.eigvals(self.A)).max())

    @cached_property
    def gain(self) -> Array:
        """K of the unconstrained controller u = u_ref - K(x - x_ref)."""
        P, B = self.terminal, self.B
        return np.linalg.solve(self.R + B.T @ P @ B, B.T @ P @ self.A)

    def stage_cost(self, x: Array, u: Array, reference: Array | None = None) -> float:
        """Cost of one step, with another reference than ``x_ref`` if one is given."""
        dx, du = x - (self.x_ref if reference is None else reference), u - self.u_ref
        return float(dx @ self.Q @ dx + du @ self.R @ du)

    def step(self, x: Array, u: Array, w: Array | float = 0.0) -> Array:
        """The next state."""
        return self.A @ x + self.B @ u + w

    def path(self, start: Array, inputs: Array, disturbance: Array) -> Array:
        """The states from a first one on, one for each input and one more."""
        states = [start]
        for u, w in zip(inputs, disturbance, strict=True):
            states.append(self.step(states[-1], u, w))
        return np.array(states)

    # -- reading ------------------------------------------------------------------------------

    def _read_dynamics(self) -> None:
        A, B = matrix(str(self), "A", self.A), matrix(str(self), "B", self.B)
        if A.shape[0] != A.shape[1] or B.shape[0] != len(A) or 0 in B.shape:
            raise ProblemError(
                f"{self!s}: A has shape {A.shape} and B has shape {B.shape}; expected a square A "
                "and one row of B per state."
            )
        outputs = [
            entries(str(self), y, getattr(self, y), finite=False) for y in ("y_min", "y_max")
        ]
        if self.C is None and np.isfinite(np.hstack(outputs)).any():
            raise ProblemError(
                f"{self!s}: y_min or y_max is given and C is not; expected the matrix C of the "
                "outputs y = C x that they limit."
            )
        C = matrix(str(self), "C", np.zeros((0, len(A))) if self.C is None else self.C)
        if C.shape[1] != len(A):
            raise ProblemError(
                f"{self!s}: C has shape {C.shape}; expected {len(A)} columns, one per state."
            )
        store(self, A=A, B=B, C=C)

    def _read_vectors(self) -> None:
        sizes = {"x": self.n_x, "u": self.n_u, "y": self.n_y}
        names = [f"{kind}_{end}" for kind in sizes for end in ("min", "max")]
        for name in (*names, "x_ref", "u_ref", "u_rate"):
            size = sizes[name[0]]
            finite = name.endswith("ref")
            value = entries(str(self), name, getattr(self, name), finite=finite)
            if np.ndim(value) and len(np.atleast_1d(value)) != size:
                raise ProblemError(
                    f"{self!s}: {name} has {np.size(value)} entries; expected {size} or one number."
                )
            store(self, **{name: np.array(np.broadcast_to(value, (size,)))})
        for j in np.flatnonzero(self.u_rate < 0):
            raise ProblemError(
                f"{self!s}: u_rate[{j}] = {self.u_rate[j]:g}; expected a number at least 0."
            )
        for kind in sizes:
            low, high = getattr(self, f"{kind}_min"), getattr(self, f"{kind}_max")
            for j in np.flatnonzero(low > high):
                raise ProblemError(
                    f"{self!s}: {kind}_min[{j}] = {low[j]:g} exceeds {kind}_max[{j}] = {high[j]:g}."
                )

    def _weight(self, name: str, value: Any, size: int) -> Array:
        """A symmetric positive semidefinite matrix from a number, a diagonal or a matrix."""
        if np.ndim(value) < 2:
            diagonal = entries(str(self), name, value)
            value = np.diag(np.full(size, diagonal) if np.ndim(diagonal) == 0 else diagonal)
        W = matrix(str(self), name, value)
        if W.shape != (size, size):
            raise ProblemError(
                f"{self!s}: {name} has shape {W.shape}; expected ({size}, {size}), a diagonal of "
                f"{size} entries, or a number."
            )
        if np.abs(W - W.T).max() > 1e-9 * np.abs(W).max():
            raise ProblemError(f"{self!s}: {name} is not symmetric; expected a symmetric matrix.")
        least = float(np.linalg.eigvalsh(W).min())
        if least < -1e-12 * np.abs(W).max():
            raise ProblemError(
                f"{self!s}: {name} is not positive semidefinite (smallest eigenvalue {least:.3g})."
            )
        return W

    def _require_reach(self) -> None:
        """Every eigenvalue with |λ| ≥ 1 must be controllable: [A - λI, B] of full row rank."""
        for mode in np.linalg.eigvals(self.A):
            if abs(mode) < 1:
                continue
            pencil = np.hstack([self.A - mode * np.eye(self.n_x), self.B])
            sizes = np.linalg.svd(pencil, compute_uv=False)
            if sizes[-1] <= 1e-10 * sizes[0]:
                raise ProblemError(
                    f"{self!s}: it cannot be stabilised: the mode with eigenvalue {mode:.4g} does "
                    "not decay and no input reaches it. Change B, or leave that mode out."
                )

    def _riccati(self) -> Array:
        try:
            P = solve_discrete_are(self.A, self.B, self.Q, self.R)
        except (ValueError, np.linalg.LinAlgError) as error:
            raise ProblemError(
                f"{self!s}: no optimal controller for an infinite horizon exists ({error}). Give "
                "a terminal cost, or a Q that sees every mode on the unit circle."
            ) from error
        return 0.5 * (P + P.T)
