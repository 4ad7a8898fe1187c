"""Theorems 2 and 3 beside a run: the distance of each outer iterate, and what they allow.

The run is literal: printed constants, the printed schedule, its test at every inner iteration. The
bounds take the same numbers, among them F_ρ(y⁰) - F_ρ(y*) by Remark 13: nothing is fitted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dual2.errors import CapabilityError
from dual2.methods.gossip.accuracy import PrintedLinear
from dual2.methods.gossip.id2a import ID2A, plan_id2a
from dual2.methods.parameters import Settings
from dual2.network import Network
from dual2.problem import Problem
from dual2.solving.plotting import new_panels
from dual2.theory import complexity_factor, linear_bound, linear_schedule, primal_bound

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_OUTER = 5000
"""Outer iterations after which a run ends that has not met its target."""

SLACK = 1e-9
"""Relative amount by which rounding may lift a distance above its bound."""


@dataclass(frozen=True, eq=False)
class BoundedRun:
    """Squared distances |x^{k+1} - x*|² for k = 1, 2, …, and two bounds of each.

    Attributes
    ----------
    method : str
        What was run.
    measured, theorem_2, theorem_3 : ndarray
        Distances and bounds.
    """

    method: str
    measured: np.ndarray
    theorem_2: np.ndarray
    theorem_3: np.ndarray

    @property
    def violations(self) -> tuple[int, int]:
        """At how many iterations the distance exceeds the bound of Theorem 2, and of Theorem 3."""
        bounds = self.theorem_2, self.theorem_3
        second, third = (np.sum(self.measured > (1.0 + SLACK) * bound) for bound in bounds)
        return int(second), int(third)

    def __str__(self) -> str:
        last = math.log10(self.theorem_2[-1] / self.measured[-1])
        second, third = self.violations
        return (
            f"{self.method}: {len(self.measured)} outer iterations; the bound of Theorem 2 is "
            f"exceeded at {second}, that of Theorem 3 at {third}. At the last one Theorem 2 allows "
            f"10^{last:.1f} times the squared distance."
        )


def bounded_run(
    problem: Problem,
    network: Network,
    reference: Sequence[np.ndarray],
    method: str = "iD2A",
    *,
    subsolver: str = "iDAPG",
    c: float = 1.5,
    target: float = 1e-8,
) -> BoundedRun:
    """A literal run of iD2A or MiD2A with ρ*, and the bounds of Theorems 2 and 3.

    Parameters
    ----------
    problem, network
        Of Case 1, 2 or 3: these theorems need a strongly convex F_ρ.
    reference : sequence of ndarray
        x*, one array per agent.
    method, subsolver : str
        ``"iD2A"`` or ``"MiD2A"``, and what solves its subproblems.
    c : float
        Of the printed schedule.
    target : float
        The run ends at |x - x*| ≤ target·|x*|.

    Examples
    --------
    >>> import networkx as nx, numpy as np, dual2 as d2
    >>> agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0)) for _ in range(3)]
    >>> problem = d2.Problem(agents, d2.SquaredLoss([1.0]))
    >>> run = bounded_run(problem, d2.Network(nx.path_graph(3)), [np.array([0.25])] * 3)
    >>> run.violations
    (0, 0)
    """
    settings = Settings(method, subsolver, "auto", "paper", "literal", {"c": c})
    algorithm = plan_id2a(problem, network, settings).algorithm
    assert isinstance(algorithm, ID2A)
    solution = np.concatenate([np.ravel(part) for part in reference])
    algorithm.start(np.zeros(solution.size), np.zeros((problem.n, problem.p)))
    rule = algorithm.oracle.rule
    if not isinstance(rule, PrintedLinear) or rule.value_gap is None:
        raise CapabilityError(
            "Theorems 2 and 3 need a strongly convex F_ρ (Case 1, 2 or 3 of the paper); this "
            "problem is of the general convex case. Its Theorem 1 bounds F_ρ(y) - F_ρ*, not x: see "
            "dual2.theory.convex_bound."
        )
    measured = np.array(_distances(algorithm, solution, target))
    schedule = linear_schedule(rule.constants, rule.facts, rule.lambda_max, rule.value_gap, rule.c)
    steps = range(len(measured) + 1)
    dual = np.array([schedule.dual_error(k) for k in steps])
    primal = np.array([schedule.primal_error(k) for k in steps]) ** 2
    errors = math.sqrt(rule.lambda_max) * dual
    gaps = np.concatenate([[rule.value_gap], linear_bound(rule.constants, rule.value_gap, errors)])
    second = primal_bound(rule.constants, rule.facts, rule.lambda_max, gaps[:-1], primal[1:])
    factor = complexity_factor(rule.constants, rule.lambda_max, schedule)
    third = factor * primal[0] * schedule.theta ** np.arange(1, len(measured) + 1)
    return BoundedRun(f"{method}-{subsolver}", measured, second, third)


def _distances(algorithm: ID2A, solution: np.ndarray, target: float) -> list[float]:
    """|x^{k+1} - x*|² for k = 1, 2, …: the first subproblem's answer is x¹, k = 0."""
    found: list[float] = []
    done, goal = 0, (target * float(np.linalg.norm(solution))) ** 2
    while done < MOST_OUTER:
        algorithm.advance(algorithm.rounds + 1, 10.0)
        outer = algorithm.oracle_calls()["outer"]
        if outer == done:
            continue
        done = outer
        if done > 1:
            found.append(float(np.sum((algorithm.x - solution) ** 2)))
            if found[-1] <= goal:
                break
    return found


def bounds_figure(runs: Sequence[BoundedRun], title: str = "") -> "Figure":
    """One panel per run: the distance and both bounds over the outer iterations."""
    figure = new_panels(1, len(runs), (4.6 * len(runs), 3.6), sharey=True)
    for run, panel in zip(runs, figure.axes, strict=True):
        k = np.arange(1, len(run.measured) + 1)
        panel.semilogy(k, run.measured, color="#0072b2", label="measured")
        panel.semilogy(k, run.theorem_2, color="#d55e00", linestyle="dashed", label="Theorem 2")
        panel.semilogy(k, run.theorem_3, color="#009e73", linestyle="dashdot", label="Theorem 3")
        panel.set(xlabel="outer iterations k", title=run.method)
    figure.axes[0].set_ylabel("|x$^{k+1}$ − x*|²")
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
    if title:
        figure.suptitle(title)
    return figure
