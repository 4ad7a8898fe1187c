"""Chebyshev acceleration: K exchanges that act like one product with a well-conditioned matrix."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dual2.errors import NetworkError, counted
from dual2.network.spectrum import Spectral

if TYPE_CHECKING:
    from dual2.network.gossip import Network, Tree

SpectrumKind = Literal["exact", "bounded"]

PERFECT = 1.0 + 1e-12
"""κ_C up to here counts as one: C is a multiple of the projection, one round is exact."""


class ChebyshevNetwork:
    r"""The network with gossip matrix P_K(C) instead of C, computed in K rounds.

    With κ = κ_C, c₂ = (κ+1)/(κ−1), c₃ = 2/(λ_max + λ_min⁺) and Chebyshev polynomials T_K,

        P_K(t) = 1 − T_K(c₂(1 − c₃t)) / T_K(c₂),

    which maps [λ_min⁺, λ_max] into [1 − ε, 1 + ε], ε = 1/T_K(c₂) = 2c₁ᴷ/(1 + c₁²ᴷ),
    c₁ = (√κ − 1)/(√κ + 1), and 0 to 0. Products run on the residual r_k, which is C times
    something at every k, so that column sums vanish to rounding error:

        r₀ = 0,  r₁ = c₃CV,  r_{k+1} = α_k (r_k + c₃C(V − r_k)) − β_k r_{k−1},  P_K(C)V = r_K,

    with α_k = 2c₂q_{k+1}, β_k = q_k q_{k+1}, q₁ = 1/c₂, q_{k+1} = 1/(2c₂ − q_k)
    (q_k = T_{k−1}(c₂)/T_k(c₂), which never overflows). If κ_C = 1, P = C/λ_max and K = 1.

    Parameters
    ----------
    base : Network
        The network that is accelerated.
    degree : int, optional
        K ≥ 1; default ⌊√κ_C⌋, for which κ(P_K(C)) ≤ 4.
    spectrum : {"exact", "bounded"}
        Whether ``lambda_min`` and ``lambda_max`` are the extreme eigenvalues of P_K(C) or the
        bounds 1 ∓ ε. λ_min⁺ always maps to 1 − ε and, if K is odd, λ_max to 1 + ε, so that the
        two agree; if K is even and the network is too large for all its eigenvalues, the bounds
        are used.

    Attributes
    ----------
    n, nodes, edges, weights
        Those of the base network.
    spectrum : {"exact", "bounded"}
        What was used.
    scaling : float
        c₃.
    recurrence : ndarray, shape (K-1, 2)
        Rows (α_k, β_k), k = 1…K-1.
    rounds, degree : int
        K.
    duration : str
        K rounds, in words.

    References
    ----------
    K. Scaman, F. Bach, S. Bubeck, Y. T. Lee, L. Massoulié, "Optimal algorithms for smooth and
    strongly convex distributed optimization in networks", ICML 2017.

    Examples
    --------
    >>> import networkx as nx
    >>> from dual2.network import Network
    >>> fast = Network(nx.path_graph(8)).chebyshev()
    >>> fast.rounds, round(fast.kappa, 5), fast.spectrum
    (5, 1.70904, 'exact')
    """

    def __init__(
        self, base: Network, degree: int | None = None, spectrum: SpectrumKind = "exact"
    ) -> None:
        if spectrum not in ("exact", "bounded"):
            raise NetworkError(f"Unknown spectrum {spectrum!r}: choose 'exact' or 'bounded'.")
        if degree is not None and (int(degree) != degree or degree < 1):
            raise NetworkError(f"The Chebyshev degree is {degree}: expected an integer ≥ 1.")
        self.base, self.n, self.nodes = base, base.n, base.nodes
        self.edges, self.weights = base.edges, base.weights
        perfect = base.kappa <= PERFECT
        default = int(np.sqrt(base.kappa) * PERFECT)
        self.degree = self.rounds = 1 if perfect else int(default if degree is None else degree)
        self.duration = counted(self.rounds, "round")
        total = base.lambda_max + base.lambda_min
        self.scaling = 2.0 / total if total > 0 else 1.0
        self.recurrence: NDArray[np.float64] = recurrence_coefficients(base.kappa, self.degree)
        self.recurrence.setflags(write=False)
        known = self.degree % 2 == 1 or base.eigenvalues is not None
        self.spectrum: SpectrumKind = "exact" if spectrum == "exact" and known else "bounded"

    def __repr__(self) -> str:
        return f"ChebyshevNetwork({self.base!r}, degree {self.degree})"

    @property
    def neighbours(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """CSR arrays of the base network."""
        return self.base.neighbours

    @property
    def tree(self) -> Tree:
        """Spanning tree of the base network."""
        return self.base.tree

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        base = self.base
        if base.n == 1:
            return 0.0, 0.0
        if base.kappa <= PERFECT:
            return 1.0, 1.0
        if self.spectrum == "exact" and base.eigenvalues is not None:
            values = self.polynomial(base.eigenvalues)
            return float(values.min()), float(values.max())
        ripple = 1.0 / np.cosh(self.degree * np.arccosh(centre(base.kappa)))
        return float(1.0 - ripple), float(1.0 + ripple)

    @property
    def lambda_min(self) -> float:
        """Smallest nonzero eigenvalue of P_K(C), or its lower bound."""
        return self._extremes[0]

    @property
    def lambda_max(self) -> float:
        """Largest eigenvalue of P_K(C), or its upper bound."""
        return self._extremes[1]

    @cached_property
    def spectral(self) -> Spectral:
        """Extreme eigenvalues of P_K(C) or their bounds, their ratio, and λ_max for every agent."""
        least, most = self._extremes
        kappa = most / least if self.n > 1 else 1.0
        return Spectral(least, most, kappa, np.full(self.n, most))

    @property
    def majorant(self) -> NDArray[np.float64]:
        """m with P_K(C) ≤ diag(m): λ_max for every agent."""
        return self.spectral.majorant

    @property
    def kappa(self) -> float:
        """Condition number λ_max/λ_min⁺ of P_K(C), or its bound."""
        return self.spectral.kappa

    def polynomial(self, t: ArrayLike) -> NDArray[np.float64]:
        """P_K(t), by the same recurrence as :meth:`mix`."""
        t = np.asarray(t, dtype=np.float64)
        previous, r = np.zeros_like(t), self.scaling * t
        for alpha, beta in self.recurrence:
            previous, r = r, alpha * (r + self.scaling * t * (1.0 - r)) - beta * previous
        return r

    def mix(self, V: ArrayLike) -> NDArray[np.float64]:
        """P_K(C) V in K rounds, in difference form; V has one row per agent."""
        base, c = self.base, self.scaling
        V = base.rows(V)
        previous, r = np.zeros_like(V), c * base.mix(V)
        for alpha, beta in self.recurrence:
            previous, r = r, alpha * (r + c * base.mix(V - r)) - beta * previous
        return r


def centre(kappa: float) -> float:
    """c₂ = (κ + 1)/(κ − 1)."""
    return (kappa + 1.0) / (kappa - 1.0)


def recurrence_coefficients(kappa: float, degree: int) -> NDArray[np.float64]:
    """Rows (α_k, β_k), k = 1…K-1, of the residual recurrence.

    Examples
    --------
    >>> recurrence_coefficients(9.0, 3).round(4).tolist()
    [[1.4706, 0.4706], [1.3077, 0.3077]]
    """
    rows = np.empty((degree - 1, 2))
    if degree == 1:
        return rows
    c = centre(kappa)
    q = 1.0 / c
    for k in range(degree - 1):
        following = 1.0 / (2.0 * c - q)
        rows[k] = 2.0 * c * following, q * following
        q = following
    return rows
