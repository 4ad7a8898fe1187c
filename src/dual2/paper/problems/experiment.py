"""An experiment: what is solved, by whom, and the solution with its proof of being one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dual2.network import Network
from dual2.problem import Problem
from dual2.problem.matrices import as_dense

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Experiment:
    """A problem, the network that solves it and its solution.

    It can be unpacked: ``problem, network, reference = experiment``.

    Attributes
    ----------
    problem, network
        What to solve, and who talks to whom.
    reference : list of ndarray
        x*, one array per agent.
    price : ndarray, shape (p,)
        λ*, the multiplier of the coupling.
    active_rows : int
        Rows of the coupling in which an inequality of h binds.
    """

    problem: Problem
    network: Network
    reference: list[Vector]
    price: Vector
    active_rows: int = 0

    def __iter__(self) -> Iterator[Any]:
        return iter((self.problem, self.network, self.reference))

    @property
    def facts(self) -> dict[str, Any]:
        """What a report says about the solution, about h* and about A = [A_1 … A_n].

        ``kappa_A_joint`` is σ̄²(A)/σ̲²(A). ``kappa_A_rho_at_least`` is n·σ̄²(𝐀)/σ̲²(A): testing
        vectors 1⊗u shows λ_min(𝐀𝐀ᵀ + ρL_f𝐂) ≤ σ̲²(A)/n for every ρ and every network.
        """
        blocks = [as_dense(agent.A) for agent in self.problem.agents]
        values = np.linalg.svd(np.hstack(blocks), compute_uv=False)[: self.problem.p]
        full = len(values) == self.problem.p and values[-1] > values[0] * np.finfo(float).eps
        smallest2 = float(values[-1]) ** 2 if full else 0.0
        sigma2 = float(self.problem.sigma.max2.max())
        conjugate = self.problem.h.conjugate
        return {
            "mu_h*": float(conjugate.mu),
            "L_h*": float(conjugate.L),
            "rank_A": int(np.sum(values > values[0] * np.finfo(float).eps)),
            "kappa_A_joint": float(values[0]) ** 2 / smallest2 if full else np.inf,
            "kappa_A_rho_at_least": self.problem.n * sigma2 / smallest2 if full else np.inf,
            "active_rows": self.active_rows,
            "reference_kkt": self.problem.kkt(self.reference, self.price, 1e-14).kkt,
        }
