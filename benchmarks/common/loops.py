"""A method that is stepped by hand: the one place where these scripts reach below ``solve``.

What is used is what the driver asks of every algorithm (``docs/howto_algorithm.md``): plan, start,
advance, x, duals, counts.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import dual2 as d2
from dual2.methods import Settings, find_method
from dual2.methods.dual_newton.dual_agents import DualAgents, ProximalTerms, Query
from dual2.methods.message import Layout
from dual2.runtime import Communicator, Runtime, Transport, find_transport, local_problem

FOR_EVER = 1e9
ONE_SUBPROBLEM = {"check": 10**8}
"""Parameters with which iD2A stays at its first subproblem: an iteration is one of its solver."""


class Loop:
    """A planned method, started and ready to iterate.

    Parameters
    ----------
    problem, network, method
        As for :func:`dual2.solve`.
    x : ndarray, optional
        Flat start; zero by default, as is the dual one.
    threads : int
        Threads of the compiled loop.
    runtime : str
        ``"mpi"``: this process is one of a job and has its own agents only.
    **wishes
        ``subsolver``, ``rho``, ``accuracy``, ``constants``, parameters of the method.

    Attributes
    ----------
    parameters : dict
        The parameters in use.
    owned : ndarray
        Numbers of the agents of this process.
    """

    def __init__(
        self,
        problem: d2.Problem,
        network: d2.Network,
        method: str,
        *,
        x: np.ndarray | None = None,
        threads: int = 1,
        runtime: str = "stacked",
        **wishes: Any,
    ) -> None:
        names = ("subsolver", "rho", "accuracy", "constants")
        settings = {name: wishes.pop(name) for name in names if name in wishes}
        share = local_problem(problem, Communicator(network, find_transport(runtime)))
        with _threads(threads):
            plan = find_method(method).plan(
                share, network, Settings(method, **settings, parameters=wishes)
            )
        self.parameters = {name: value for name, (value, _) in plan.parameters.items()}
        self.owned, self._algorithm = np.asarray(share.owned), plan.algorithm
        start = np.zeros(sum(share.dims)) if x is None else x.copy()
        self._algorithm.start(start, np.zeros((len(share.agents), share.p)))

    @property
    def x(self) -> np.ndarray:
        """Flat primal iterate."""
        return self._algorithm.x

    @property
    def duals(self) -> np.ndarray:
        """λ, one row per agent."""
        return self._algorithm.duals

    def run(self, iterations: int) -> None:
        """That many iterations."""
        algorithm = self._algorithm
        algorithm.advance(algorithm.rounds + iterations * algorithm.stride, FOR_EVER)

    def count(self, name: str) -> int:
        """Calls of an oracle so far, by the names of :class:`dual2.Counts`."""
        return self._algorithm.oracle_calls()[name]


class OneSum:
    """One sum of Newton's dual mode, ready to be repeated: prices answered by all agents, added up.

    Parameters
    ----------
    problem, network
        As for :func:`dual2.solve`.
    trials, jacobians : int
        Prices that are tried at once, and how many of them come with Σ A_i J_i A_iᵀ.
    threads : int
        Threads of the agents' work.
    runtime : str or Transport
        Where the agents are.
    """

    def __init__(
        self,
        problem: d2.Problem,
        network: d2.Network,
        trials: int,
        jacobians: int,
        threads: int = 1,
        runtime: str | Transport = "stacked",
    ) -> None:
        share = local_problem(problem, Communicator(network, find_transport(runtime)))
        with _threads(threads):
            place = Runtime(share, network)
            self._agents = DualAgents(place)
        p = share.p
        prices = np.random.default_rng(0).standard_normal((trials, p)) / np.sqrt(p)
        layout = Layout(p, trials, jacobians)
        self._query = Query(layout, prices, np.zeros((0, p)), np.zeros(p))
        self._prox, self._x = ProximalTerms.none(place), np.zeros(sum(share.dims))

    def run(self) -> np.ndarray:
        """The sum."""
        return self._agents.reduce(self._query, self._prox, self._x, 1e-8)


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Threads of what is planned inside."""
    before = os.environ.get("DUAL2_THREADS")
    os.environ["DUAL2_THREADS"] = str(number)
    try:
        yield
    finally:
        del os.environ["DUAL2_THREADS"]
        if before is not None:
            os.environ["DUAL2_THREADS"] = before


def best_times(contestants: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Smallest seconds of each; they take turns."""
    best = [np.inf] * len(contestants)
    for _ in range(repeats):
        for k, run in enumerate(contestants):
            begun = time.perf_counter()
            run()
            best[k] = min(best[k], time.perf_counter() - begun)
    return best


def steps_for(run: Callable[[int], object], seconds: float) -> int:
    """An even number of iterations that takes about ``seconds``."""
    run(2)
    count = 2
    while True:
        (took,) = best_times([lambda c=count: run(c)], 1)
        if took > seconds / 4:
            return max(2, 2 * round(count * seconds / took / 2))
        count *= 4
