"""What ``solve`` returns: the answer, what it cost, and how good it is."""

import os
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import Dual2Error, counted

FORMAT = 1
Array = np.ndarray


class Status(StrEnum):
    """How a run ended."""

    CONVERGED = "CONVERGED"
    MAX_ROUNDS = "MAX_ROUNDS"
    TIME_LIMIT = "TIME_LIMIT"
    STALLED = "STALLED"
    DIVERGED = "DIVERGED"
    INFEASIBLE = "INFEASIBLE"
    UNBOUNDED = "UNBOUNDED"
    INTERRUPTED = "INTERRUPTED"


ADVICE = {
    Status.CONVERGED: "The KKT residual meets the tolerance.",
    Status.MAX_ROUNDS: (
        "Loosen tol, or continue with start=result and a larger max_rounds (it counts all rounds)."
    ),
    Status.TIME_LIMIT: (
        "Loosen tol, or continue with start=result and a larger time_limit (it counts all runs)."
    ),
    Status.STALLED: (
        "Neither the residual falls nor the price moves: the rounding errors of these data may be "
        "larger than tol. certificate.agent and certificate.row name the worst; look at the units "
        "of that agent's variables, or loosen tol."
    ),
    Status.DIVERGED: (
        "The iterates grew without bound. If you set rho, step sizes or constants by hand, return "
        "to the defaults; check mu and L of your own functions."
    ),
    Status.INFEASIBLE: (
        "The coupling cannot be met: some direction separates what the agents can produce from "
        "what h accepts (certificate.separator). Relax the bounds or the right-hand side."
    ),
    Status.UNBOUNDED: (
        "The objective falls for ever along a direction (certificate.ray) that keeps every "
        "constraint. Bound the variables that move along it, or check the signs of the costs."
    ),
    Status.INTERRUPTED: "Continue with start=result.",
}
"""What to do about each status."""


class NotSolved(Dual2Error, RuntimeError):
    """Raised with ``throw=True`` when the status is not CONVERGED; carries the result."""

    def __init__(self, result: "Result") -> None:
        super().__init__(f"{result.status}: {ADVICE[result.status]}")
        self.result = result


@dataclass(frozen=True)
class Counts:
    """Calls and messages, counted where they happen."""

    rounds: int = 0  # exchanges of p-vectors with the neighbours, 2·height for an exact sum
    vectors: int = 0  # p-vectors sent to each neighbour by gossip
    agree_rounds: int = 0  # exchanges of scalars for maxima and sums over all agents
    floats: int = 0  # numbers sent in all, by all agents
    grad_f: int = 0  # local oracle calls, the maximum over agents
    prox_g: int = 0
    A: int = 0  # products with A_i and A_iᵀ
    AT: int = 0
    prox_h: int = 0  # prox (or gradient) of h*
    iterations: int = 0  # of the subsolver
    outer: int = 0  # of the outer loop
    sums: int = 0  # exact sums of arrays over the network

    @property
    def latency(self) -> int:
        """What a person waits for: all exchanges, of p-vectors and of scalars."""
        return self.rounds + self.agree_rounds

    @property
    def matvec(self) -> int:
        """Products with A_i and A_iᵀ together."""
        return self.A + self.AT


CALLS = ("grad_f", "prox_g", "A", "AT", "prox_h", "iterations", "outer")
"""Counts that may differ from agent to agent."""


@dataclass(frozen=True)
class Certificate:
    """How good the answer is, evaluated by the plain definitions, not by the compiled loops."""

    kkt: float  # the largest of the next three; ``tol`` bounds it
    stationarity: float  # of the worst agent, see dual2.problem.KKT
    coupling: float  # of the worst row
    objective: float  # of λᵀ(s − y) and of what the price leaves to gain
    agent: int  # the worst agent
    coordinate: int  # its worst variable
    row: int  # the worst row
    consensus: float  # max_i |λ_i - λ̄|, reported, not tested
    gap: float | None  # upper bound of the duality gap, None where it is infinite
    x_error: float | None  # bound of |x - x*|, None where the theory gives none
    reason: str  # where x_error comes from, or why there is none
    separator: list[float] | None = None  # direction that proves infeasibility
    ray: list[list[float]] | None = None  # one per agent, along which the objective falls for ever


@dataclass(frozen=True)
class Result:
    """Answer of :func:`dual2.solve`.

    Attributes
    ----------
    x : list of ndarray
        x_i of each agent.
    y : ndarray
        s = Σ A_i x_i.
    dual : ndarray
        λ̄, the mean of the λ_i: the price of the coupling.
    duals : ndarray, shape (n, p)
        λ_i of each agent.
    objective : float
        Σ f_i(x_i) + g_i(x_i) + h(s). Where s meets the domain of h only up to ``tol``, h is taken
        at prox_{t·h}(s + tλ̄), from which the KKT residual measures the distance of s.
    status : Status
        How the run ended; :attr:`advice` says what to do about it.
    counts : Counts
        What it cost.
    certificate : Certificate
        How good it is.
    trace : dict of str to ndarray
        Columns recorded on a geometric grid of rounds.
    parameters : dict of str to (value, source)
        Every parameter used and where it came from.
    owned : list of int
        Numbers of the agents in ``x`` and ``duals``: all, or those of this process.
    setting : dict
        The method's name, the number ``n`` of agents and ``p`` of rows and, of networks that can be
        drawn, the edges.
    """

    x: list[Array]
    y: Array
    dual: Array
    duals: Array
    objective: float
    status: Status
    counts: Counts
    certificate: Certificate
    trace: dict[str, Array]
    parameters: dict[str, tuple[Any, str]]
    seconds: float = 0.0
    explanation: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict, repr=False)
    owned: list[int] = field(default_factory=list)
    setting: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Result: {self.summary}>"

    @property
    def advice(self) -> str:
        """What to do about the status."""
        return ADVICE[self.status]

    @property
    def summary(self) -> str:
        """How the run ended, what it cost and how good the answer is, in one paragraph."""
        c, n, setting = self.counts, self.certificate, self.setting
        sums = f", {counted(c.sums, 'sum')} in all" if c.sums else ""
        whom = f" by {setting['method']}" if "method" in setting else ""
        if "n" in setting:
            whom += f" for {counted(setting['n'], 'agent')} and {counted(setting['p'], 'row')}"
        bound = "" if n.x_error is None else f", distance to the solution at most {n.x_error:.2g}"
        whose = "Objective" if self.status == Status.CONVERGED else "Objective (of no solution)"
        return (
            f"{self.status} after {counted(c.rounds, 'round')} (+ {c.agree_rounds} of agreement"
            f"{sums}){whom}, {self.seconds:.3g} s; "
            f"{counted(c.floats, 'number')} sent by anybody. {whose} {self.objective:.8g}, "
            f"KKT residual {n.kkt:.2g}{bound}. {self.advice}"
        )

    def explain(self) -> str:
        """A summary in one paragraph; then why it was solved this way, parameters, certificate."""
        c = self.certificate
        gap = "infinite" if c.gap is None else f"≤ {c.gap:.3g}"
        bound = "" if c.x_error is None else f", |x - x*| ≤ {c.x_error:.3g}"
        lines = [self.summary, "", self.explanation, "", "Parameters:"]
        lines += [f"  {k} = {_short(v)}  [{why}]" for k, (v, why) in self.parameters.items()]
        lines += [
            "",
            f"Certificate: KKT residual {c.kkt:.3g} ({c.stationarity:.3g} at agent {c.agent}, "
            f"variable {c.coordinate}, {c.coupling:.3g} at row {c.row}, objective "
            f"{c.objective:.3g}), duality gap {gap}"
            f"{bound}. {c.reason}",
        ]
        return "\n".join(lines)

    def report(
        self, path: str | os.PathLike[str], *, force: bool = False, light: bool = False
    ) -> Path:
        """Write one page for a browser: convergence, network, certificate, counts, prices.

        The page holds everything that it shows and loads nothing; needs ``dual2[plot]``.

        Parameters
        ----------
        path : path
            Where to, for instance ``"run.html"``; written at once or not at all.
        force : bool
            Replace a file that is there.
        light : bool
            Draw the curves with a small script instead of plotly.js: some 40 KB instead of 5 MB,
            without zoom.

        Returns
        -------
        Path
            The file.

        Examples
        --------
        >>> import tempfile, dual2 as d2
        >>> agents = [d2.Agent([[1.0]], d2.SquaredNorm(weight)) for weight in (1.0, 2.0)]
        >>> problem = d2.Problem(agents, d2.IndicatorPoint([3.0]))
        >>> result = d2.solve(problem, d2.Network([(0, 1)]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     "CONVERGED" in result.report(f"{folder}/run.html").read_text(encoding="utf-8")
        True
        """
        from dual2.solving.report import write_report

        return write_report(self, Path(path), force, light)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Convergence figure; see :func:`dual2.solving.plotting.plot_trace`."""
        from dual2.solving.plotting import plot_trace

        return plot_trace(self, path)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: format, status, x, y, dual, objective, counts, certificate, parameters."""
        return {
            "format": FORMAT,
            "status": str(self.status),
            "x": [part.tolist() for part in self.x],
            "y": self.y.tolist(),
            "dual": self.dual.tolist(),
            "objective": float(self.objective),
            "counts": asdict(self.counts),
            "certificate": asdict(self.certificate),
            "parameters": {k: {"value": v, "source": s} for k, (v, s) in self.parameters.items()},
            "seconds": self.seconds,
            "explanation": self.explanation,
            "versions": self.versions,
            "setting": self.setting,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything, including what is needed to continue, atomically to one .npz file."""
        from dual2.solving.storage.answers import save_result

        save_result(self, Path(path))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Result":
        """Read what :meth:`save` wrote; an error names the file and the entry that is wrong."""
        from dual2.solving.storage.answers import load_result

        return load_result(Path(path))


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
