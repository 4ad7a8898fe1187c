"""What iD2A asks of a subproblem solver, and the constants all of them start from."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dual2.errors import CapabilityError
from dual2.problem.matrices import as_dense, is_small
from dual2.runtime import Runtime
from dual2.theory import Constants, Facts

Array = np.ndarray
NO_MOMENTUM = -1.0
"""What the compiled loops read as momentum k/(k+3)."""
PRINTED_MOMENTUM = -2.0
"""As the paper prints it, one step behind and never restarted: (k-1)/(k+2)."""
LOCAL_STEPS = 20_000
"""With ρ = 0, most local iterations between two looks at the clock."""


@dataclass(frozen=True)
class RowConstants:
    """Constants of min_x max_y f₁ + f₂ + yᵀBx - g₁ - g₂, one entry per row."""

    L_x: Array  # smoothness and strong convexity of f₁
    mu_x: Array
    L_y: Array  # of g₁, with the strong convexity of h* in both even where h* enters by its prox
    mu_y: Array
    mu_gradient: Array  # the part of μ_y that is in the gradient of g₁ (0 with the prox)
    sigma: Array  # largest and smallest singular value of B (0 unless B has full row rank)
    sigma_min: Array


def row_constants(facts: Facts, constants: Constants, lambda_max: float) -> RowConstants:
    """Constants of iD2A's subproblem: per agent if ρ = 0, otherwise common to all."""
    n, rows = facts.n, facts.mu.size
    smooth = constants.mapping == "smooth"
    mu_y = facts.mu_h / n
    L_y = constants.rho * lambda_max + (facts.L_h / n if smooth else mu_y)
    own = constants.rho == 0
    common = lambda values, bound: values if own else np.full(rows, bound)  # noqa: E731
    return RowConstants(
        L_x=common(facts.L, facts.L_f),
        mu_x=common(facts.mu, facts.mu_f),
        L_y=np.full(rows, L_y),
        mu_y=np.full(rows, mu_y),
        mu_gradient=np.full(rows, mu_y if smooth else 0.0),
        sigma=np.sqrt(np.maximum(common(facts.sigma2, facts.sigma2_max), 1e-300)),
        sigma_min=np.sqrt(common(np.nan_to_num(facts.rank2), facts.rank2_min)),
    )


def smallest_singular(A: Any) -> float:
    """σ⁺_min(A), the smallest nonzero singular value: all that a linear g₁ needs.

    Examples
    --------
    >>> smallest_singular(np.diag([3.0, 2.0, 0.0]))
    2.0

    Raises
    ------
    CapabilityError
        If A is an operator, too large to factorise, or zero.
    """
    values = np.linalg.svd(as_dense(A), compute_uv=False) if is_small(A) else np.zeros(1)
    values = values[values > max(A.shape) * np.finfo(float).eps * values[0]]
    if not values.size:
        raise CapabilityError(
            f"APDG and Salim need the smallest nonzero singular value of the matrix, which is "
            f"unknown or does not exist for this one of shape {A.shape}. Use iDAPG or PDPG."
        )
    return float(values[-1])


@dataclass(eq=False, repr=False)
class Subsolver(ABC):
    """A solver for iD2A's subproblem on one block of agents.

    Parameters
    ----------
    runtime : Runtime
        The rows and their exchange.
    facts, constants
        Of the problem at the ρ in use.
    """

    runtime: Runtime
    facts: Facts
    constants: Constants

    name: ClassVar[str]
    layout: ClassVar[type[Any]]
    """The named tuple of arrays that is its state: x (flat), lam, mixed, … ."""
    state: Any = field(init=False)
    """Where it is,"""
    memory: ClassVar[tuple[str, ...]] = ()
    """with these attributes beside it."""
    exact: ClassVar[bool] = False
    """Whether it makes whole outer iterations of iD2A itself, local solutions being exact."""
    restarts = False
    """Whether the solver wants its momentum restarted when it points uphill."""
    floor = 0.0
    """How inaccurate its own inner iterations may be at most."""
    cap = 2_000_000
    """Most iterations on one subproblem: residuals have a floor."""
    dual_step: Array = field(init=False)
    """Step of the dual update, per row; its inverse scales rounding errors of the residual."""
    weight: Array | float = field(init=False, default=0.0)
    """What the residual of x counts in units of that of λ: D_λ + (σ̄/μ)D_x is what Lemma 12 (error
    of a saddle point) divides by μ_φ; 0 where x follows λ exactly enough."""

    @cached_property
    def momentum(self) -> float | None:
        """β of the inner iteration; None stands for k/(k+3) with restarts."""
        return self.constants.inner_momentum

    # -- state --------------------------------------------------------------------------------
    @property
    def x(self) -> Array:
        """Flat primal output."""
        return self.state.x

    @property
    def lam(self) -> Array:
        """λ, shape (n, p)."""
        return self.state.lam

    @property
    def mixed(self) -> Array:
        """𝐂λ, shape (n, p)."""
        return self.state.mixed

    @abstractmethod
    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p); costs one exchange. Compiles what is needed."""

    @abstractmethod
    def begin(self, ahead: float = 0.0) -> None:
        """Begin a new subproblem from where the last one ended.

        A solver that can begin anywhere adds ``ahead`` times the way from the end before that.
        """

    def settle(self) -> None:
        """After local solves: 𝐂λ by one exchange."""
        self.mixed[:] = self.runtime.mix(self.lam)

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        arrays = {name: np.array(state[name]) for name in self.layout._fields}
        self.state = self.layout(**arrays)

    @abstractmethod
    def oracle_calls(self) -> dict[str, int]:
        """Calls so far by name; ``iterations`` among them."""

    # -- iterations ---------------------------------------------------------------------------
    @abstractmethod
    def advance(self, z: Array, steps: int) -> None:
        """That many iterations with an exchange each."""

    @abstractmethod
    def advance_local(self, z: Array, stop: Array, steps: int = LOCAL_STEPS) -> bool:
        """ρ = 0: agents iterate alone until their residual is ≤ ``stop``; True when all are."""

    def restart(self) -> None:
        """Forget the momentum; asked only of solvers with ``restarts``."""
        self.begin()

    # -- how accurate ---------------------------------------------------------------------------
    @abstractmethod
    def residuals(self, z: Array, with_primal: bool = True) -> tuple[Array, Array]:
        """Per agent, sizes of ∂_x and of ∂_λ of the saddle function at the present output.

        Without ``with_primal`` the first may be zero where the solver needs it for nothing.
        """

    def uphill(self) -> Array:
        """Per agent <v-λ, λ-λ_prev>: a positive sum says that the momentum points uphill."""
        return np.zeros(self.runtime.n)

    def local_size(self) -> Array:
        """Per agent, the residual D_λ + ``weight``·D_x at the last test."""
        primal, dual = self.state.residual[:, :2].T
        return dual + self.weight * primal
