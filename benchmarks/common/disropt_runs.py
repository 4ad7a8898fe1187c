"""disropt (Farina, Camisa, Testa, Notarnicola & Notarstefano, 2020) on problems of this library.

It takes problems with quadratic or linear costs, linear constraints of the agents and a coupling
Σ A_i x_i <= b; an equation is two of these. Its own agents run its own algorithms, one thread
each, and exchange through a :class:`Hall` that counts, where it would use MPI.
"""

import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import dual2 as d2

Array = np.ndarray
FIXED = 1e-9
"""Relative difference of a gradient from a linear function that is rounding."""


class Unfit(Exception):
    """What disropt has no form for."""


@dataclass
class Part:
    """An agent: min xᵀPx + <q, x>, Gx <= c, and its part Ax - b of the coupling."""

    P: Array
    q: Array
    G: Array
    c: Array
    A: Array
    b: Array


def parts_of(problem: d2.Problem) -> tuple[list[Part], Array]:
    """The agents in disropt's form, and the matrix that makes λ of its multipliers."""
    b, back = _coupling(problem.h, problem.p)
    share = b / problem.n
    return [_part(agent, share, back.T) for agent in problem.agents], back


def _coupling(h: Any, p: int) -> tuple[Array, Array]:
    if isinstance(h, d2.Stacked) and len(h.functions) == 1:
        h = h.functions[0]
    eye = np.eye(p)
    if isinstance(h, d2.IndicatorAtMost):
        return np.broadcast_to(h.b, p).astype(float), eye
    if isinstance(h, d2.IndicatorPoint):
        b = np.broadcast_to(h.b, p).astype(float)
        return np.concatenate([b, -b]), np.hstack([eye, -eye])
    raise Unfit("h is neither an equation nor an upper bound")


def _part(agent: d2.Agent, share: Array, rows: Array) -> Part:
    d, zero = agent.dim, np.zeros(agent.dim)
    q = agent.f.grad(zero)
    P = 0.5 * np.array([agent.f.grad(e) - q for e in np.eye(d)])
    x = np.random.default_rng(0).uniform(0.5, 2.0, d)
    off = np.abs(agent.f.grad(x) - (2.0 * P @ x + q)).max()
    if off > FIXED * max(np.abs(q).max(), np.abs(2.0 * P @ x).max()):
        raise Unfit("f is not quadratic")
    A = np.asarray(agent.A.toarray() if hasattr(agent.A, "toarray") else agent.A, dtype=float)
    G, c = _limits(agent.g, d)
    return Part(0.5 * (P + P.T), q, G, c, rows @ A, share)


def _limits(g: Any, d: int) -> tuple[Array, Array]:
    if isinstance(g, d2.IndicatorBox):
        M = np.eye(d)
    elif isinstance(g, d2.IndicatorPolyhedron):
        M = np.asarray(g.M.toarray() if hasattr(g.M, "toarray") else g.M, dtype=float)
    else:
        raise Unfit("g is no box and no polyhedron")
    lower, upper = (np.broadcast_to(side, len(M)).astype(float) for side in (g.lower, g.upper))
    some, most = np.isfinite(upper), np.isfinite(lower)
    return np.vstack([M[some], -M[most]]), np.concatenate([upper[some], -lower[most]])


# -- its agents, in threads ------------------------------------------------------------------------
class Hall:
    """Where the threads meet: everybody puts an array down, then takes those of its neighbours."""

    def __init__(self, network: d2.Network) -> None:
        self.table: dict[int, Array] = {}
        self.meeting = threading.Barrier(network.n)
        self.rounds = self.floats = 0
        self.degrees = np.bincount(np.asarray(network.edges).ravel(), minlength=network.n)

    def exchange(self, me: int, what: Array, around: list[int]) -> dict[int, Array]:
        """One round for one agent."""
        self.table[me] = np.array(what)
        self.meeting.wait()
        heard = {other: self.table[other] for other in around}
        if self.meeting.wait() == 0:
            self.rounds += 1
            self.floats += int(self.degrees.sum()) * what.size
        return heard


def metropolis(network: d2.Network) -> dict[int, dict[int, float]]:
    """Weights 1/(1 + larger degree) of each agent's neighbours."""
    edges = np.asarray(network.edges)
    degrees = np.bincount(edges.ravel(), minlength=network.n)
    weights: dict[int, dict[int, float]] = {i: {} for i in range(network.n)}
    for i, j in edges.tolist():
        weights[i][j] = weights[j][i] = 1.0 / (1.0 + max(degrees[i], degrees[j]))
    return weights


@dataclass
class Found:
    """How a run ended: residual of the optimality conditions, and what it took.

    The residual is infinite where a solver of local problems gave up, which ends its run.
    """

    kkt: float
    rounds: int
    floats: int
    seconds: float


ALGORITHMS = ("DualSubgradientMethod", "PrimalDecomposition")


def run(
    name: str, problem: d2.Problem, network: d2.Network, iterations: int, step: float, most: float
) -> Found:
    """One run of so many iterations, or seconds, with the step lengths step/(k + 1).

    The paper of each asks for lengths that are square summable but not summable.
    """
    parts, back = parts_of(problem)
    hall, weights = Hall(network), metropolis(network)
    own = [_make(name, k, part, hall, weights[k]) for k, part in enumerate(parts)]
    begun, busy, failed = time.monotonic(), time.process_time(), []
    late = [False]

    def watch(k: int) -> None:
        if hall.meeting.wait() == 0:
            late[0] = time.monotonic() - begun > most
        hall.meeting.wait()
        if late[0]:
            raise _Late

    def work(algorithm: Any) -> None:
        try:
            lengths = lambda k: step / (k + 1.0)  # noqa: E731
            algorithm.run(iterations=iterations, stepsize=lengths, callback_iter=watch)
        except _Late:
            return
        except Exception as error:
            failed.append(error)
            hall.meeting.abort()

    threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in own]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = [error for error in failed if not isinstance(error, threading.BrokenBarrierError)]
    if first and isinstance(first[0], ValueError):  # its word for a local problem left unsolved
        return Found(np.inf, hall.rounds, hall.floats, time.process_time() - busy)
    if first:
        raise first[0]
    answers = [_answer(one) for one in own]
    x = [part.reshape(-1) for part, _ in answers]
    price = back @ np.mean([m.reshape(-1) for _, m in answers], axis=0)
    kkt = problem.kkt(x, price).kkt
    return Found(kkt, hall.rounds, hall.floats, time.process_time() - busy)


class _Late(Exception):
    """The time is over."""


def _make(name: str, me: int, part: Part, hall: Hall, weights: dict[int, float]) -> Any:
    """One of its agents with one of its algorithms."""
    from disropt.agents import Agent
    from disropt.algorithms.dual_subgradient import DualSubgradientMethod
    from disropt.algorithms.primal_decomp import PrimalDecomposition
    from disropt.communicators import Communicator
    from disropt.functions import AffineForm, QuadraticForm, Variable
    from disropt.problems.constraint_coupled_problem import ConstraintCoupledProblem

    if not hasattr(np, "asscalar"):  # which NumPy 1.23 removed and its primal decomposition calls
        np.asscalar = lambda array: array.item()  # pyright: ignore[reportAttributeAccessIssue]

    class Here(Communicator):
        def __init__(self) -> None:
            self.rank, self.size = me, hall.meeting.parties

        def neighbors_exchange(self, send_obj: Any, in_neighbors: Any, *_: Any) -> Any:
            return hall.exchange(me, send_obj, list(in_neighbors))

    class Told(PrimalDecomposition):
        def _update_local_solution(self, x: Array, mu: Array, *rest: Any, **more: Any) -> None:
            self.multipliers = mu
            super()._update_local_solution(x, mu, *rest, **more)

    agent, x = Agent(list(weights), list(weights), Here(), dict(weights)), Variable(len(part.q))
    q, limit, share = (v.reshape(-1, 1) for v in (part.q, -part.c, -part.b))
    linear = AffineForm(x, q, np.zeros((1, 1)))
    cost = QuadraticForm(x, part.P, q) if part.P.any() else linear
    own = [AffineForm(x, part.G.T, limit) <= 0]
    agent.set_problem(ConstraintCoupledProblem(cost, own, AffineForm(x, part.A.T, share)))
    kind = DualSubgradientMethod if name == ALGORITHMS[0] else Told
    return kind(agent, np.zeros((len(part.b), 1)))


def _answer(algorithm: Any) -> tuple[Array, Array]:
    """x and the multipliers: what each of them calls its result."""
    if hasattr(algorithm, "x_hat"):
        return algorithm.x_hat, algorithm.x
    return algorithm.x, algorithm.multipliers


def best_run(
    name: str, problem: d2.Problem, network: d2.Network, iterations: int, most: float
) -> Found:
    """A run with the best of some step lengths, two per decade, by a tenth of its iterations each.

    The middle is the ratio of a price to a row, |∇f_i(0)|/|A_i|² (its inverse where the algorithm
    steps from prices to rows); while the best is at an end, the search goes on there.
    """
    agents = problem.agents
    forces = [np.linalg.norm(a.f.grad(np.zeros(a.dim))) for a in agents]
    rows = [np.linalg.norm(part.A) ** 2 for part in parts_of(problem)[0]]
    middle = float(np.mean(forces)) / float(np.mean(rows)) or 1.0
    middle = middle if name == ALGORITHMS[0] else 1.0 / middle
    tried: dict[int, float] = {}

    def attempt(k: int) -> float:
        if k not in tried:
            step = middle * 10.0 ** (0.5 * k)
            tried[k] = run(name, problem, network, max(5, iterations // 10), step, most / 10).kkt
        return tried[k]

    best = min(range(-3, 4), key=attempt)
    while best in (min(tried), max(tried)) and len(tried) < 15:
        attempt(best + (1 if best == max(tried) else -1))
        best = min(tried, key=lambda k: tried[k])
    return run(name, problem, network, iterations, middle * 10.0 ** (0.5 * best), most)


def load(folder: str | None) -> bool:
    """Whether disropt can be imported, with a folder of further packages."""
    if folder:
        sys.path.append(folder)
    try:
        import disropt.agents  # noqa: F401
    except ImportError:
        return False
    return True
