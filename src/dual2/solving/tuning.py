"""Search for the parameters that no theory gives: penalties over three decades, then finer.

Every trial has the same budget in rounds, so a method is not favoured by the time its iterations
take, and the record of all trials comes with the answer. A trial ends as soon as it has taken as
many rounds as the best one so far needed: it could not win any more.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dual2.errors import CapabilityError
from dual2.methods.method import Method
from dual2.methods.parameters import Sourced, positive
from dual2.methods.registry import find_method
from dual2.network import AnyNetwork
from dual2.problem import Problem
from dual2.solving.result import Result, Status
from dual2.solving.solve import solve

DECADES = 3
"""The search spans at least this many powers of ten around the method's own rule."""

BLIND, LONGER = 0.5, 10
"""Residual above which the best of a search has not begun to solve the problem, so that all its
trials look alike; then the search is made once more with so many times the budget."""

SEARCHED = {
    "Tracking-ADMM": ("c",),
    "NECPD": ("rho",),
    "DC-ADMM": ("c",),
    "IDC-ADMM": ("c",),
    "DPMM": ("gamma",),
    "Sharing-ADMM": ("rho",),
    "Sharing-ADMM-AA": ("rho",),
}
"""What is searched for unless the caller says otherwise: the penalty."""


@dataclass(frozen=True)
class Trial:
    """One run of a search.

    Attributes
    ----------
    parameters : dict
        What was tried.
    rounds : int
        Exchanges until the tolerance was met, or all of the budget, or as many as the best trial
        before it needed.
    kkt : float
        Residual at the end.
    status : Status
        How the run ended.
    """

    parameters: dict[str, float]
    rounds: int
    kkt: float
    status: Status

    @property
    def score(self) -> tuple[float, float]:
        """Smaller is better: rounds if converged, otherwise the residual after the budget."""
        if self.status == Status.CONVERGED:
            return 0.0, float(self.rounds)
        return 1.0, self.kkt if math.isfinite(self.kkt) else math.inf


@dataclass(frozen=True, eq=False)
class Tuned(Mapping[str, Sourced]):
    """The best parameters, as a mapping for ``solve(…, **tuned)``, with the record of the search.

    Each value knows that it was tuned, so that ``result.parameters`` says so.

    Attributes
    ----------
    method : str
        The method's name.
    best : Trial
        The winner.
    trials : tuple of Trial
        All runs, in order.
    budget : int
        Rounds that each was allowed.
    tol : float
        The tolerance that each aimed at.
    """

    method: str
    best: Trial
    trials: tuple[Trial, ...]
    budget: int
    tol: float

    def __getitem__(self, name: str) -> Sourced:
        return Sourced(self.best.parameters[name], self.summary)

    def __iter__(self) -> Iterator[str]:
        return iter(self.best.parameters)

    def __len__(self) -> int:
        return len(self.best.parameters)

    @property
    def summary(self) -> str:
        """The search in one phrase."""
        return f"tuned: best of {len(self.trials)} trials of {self.budget} rounds at most"


def tune(
    problem: Problem,
    network: AnyNetwork,
    method: str | Method,
    budget: int = 2000,
    parameters: Mapping[str, Sequence[float]] | Sequence[str] | None = None,
    seed: int = 0,
    *,
    tol: float = 1e-8,
    **fixed: Any,
) -> Tuned:
    """Search for the parameters with which a method is fastest on one problem.

    One parameter after the other: a grid with two points per decade over at least three decades
    around the method's own rule, extended while the best value lies at its end, then bisection of
    the logarithm between the best value and its neighbours, twice. With several parameters the
    sweep is made twice. Of a parameter with values given only these are tried, beside the rule's.
    Where no trial comes below a residual of one half, all is repeated once with ten times the
    budget.

    Parameters
    ----------
    problem, network
        As for :func:`dual2.solve`.
    method : str or Method
        Which method.
    budget : int
        Rounds for each trial.
    parameters : mapping or sequence of str, optional
        Which parameters to search, a mapping with the values to try; by default the method's
        penalty.
    seed : int
        Handed to each run.
    tol : float
        Tolerance that a trial aims at: fewer rounds to it are better, else a smaller residual.
    **fixed
        Other arguments of ``solve`` for every trial.

    Returns
    -------
    Tuned
        Use it as ``solve(problem, network, method=method, **tuned)``.

    Examples
    --------
    >>> import dual2 as d2
    >>> agents = [d2.Agent([[1.0]], d2.SquaredNorm(w)) for w in (1.0, 2.0)]
    >>> problem, network = d2.Problem(agents, d2.IndicatorPoint([3.0])), d2.Network([(0, 1)])
    >>> found = tune(problem, network, "DC-ADMM", budget=200)
    >>> result = d2.solve(problem, network, method="DC-ADMM", **found)
    >>> print(result.status, result.parameters["c"][1].split(":")[0], len(found.trials) >= 7)
    CONVERGED tuned True
    """
    chosen = find_method(method)
    names, grids = _searched(chosen.name, parameters)
    budget = math.ceil(positive("budget", budget))
    if "max_rounds" in fixed:
        raise CapabilityError("max_rounds found; the rounds of each trial are its budget.")
    fixed |= {"tol": tol, "seed": seed}
    found: list[Trial] = []
    for rounds in (budget, LONGER * budget):
        search = _Search(problem, network, chosen, fixed | {"max_rounds": rounds})
        search.look(names, grids)
        found += search.trials
        if search.best.status == Status.CONVERGED or search.best.kkt < BLIND:
            break
    return Tuned(chosen.name, search.best, tuple(found), rounds, tol)


def _searched(
    method: str, parameters: Mapping[str, Sequence[float]] | Sequence[str] | None
) -> tuple[list[str], dict[str, list[float]]]:
    if parameters is None:
        if method not in SEARCHED:
            raise CapabilityError(
                f"{method} takes its parameters from theory: there is nothing to tune by default. "
                "Name the parameters to search, for instance parameters=['eta']."
            )
        parameters = SEARCHED[method]
    listed = isinstance(parameters, Mapping | Sequence) and not isinstance(parameters, str)
    if not listed or not parameters:
        raise CapabilityError(f"parameters = {parameters!r} found; expected names or a mapping.")
    given = parameters if isinstance(parameters, Mapping) else {}
    return list(parameters), {name: _values(name, values) for name, values in given.items()}


def _values(name: str, values: Any) -> list[float]:
    """The numbers to try for one parameter."""
    if isinstance(values, str) or not np.iterable(values) or not (numbers := list(values)):
        raise CapabilityError(f"{name}: {values!r} found; expected a list of numbers to try.")
    return [positive(name, number) for number in numbers]


def _value(result: Result, name: str, method: str) -> float:
    entry = result.parameters.get(name, (None, ""))[0]
    if isinstance(entry, bool) or not isinstance(entry, int | float) or not entry > 0:
        raise CapabilityError(
            f"{method} has no positive number {name!r} to search for; found {entry!r}. Its "
            f"parameters: {', '.join(result.parameters)}."
        )
    return float(entry)


def _trial(parameters: dict[str, float], result: Result) -> Trial:
    return Trial(
        parameters, result.counts.rounds, float(result.certificate.kkt), Status(result.status)
    )


class _Search:
    """The runs made so far and the best of them."""

    best: Trial

    def __init__(
        self, problem: Problem, network: AnyNetwork, method: Method, fixed: dict[str, Any]
    ) -> None:
        self.problem, self.network, self.method, self.fixed = problem, network, method, fixed
        self.trials: list[Trial] = []
        self.most = int(fixed["max_rounds"])  # rounds within which a trial may still be the best

    def look(self, names: list[str], grids: dict[str, list[float]]) -> None:
        """The whole search."""
        first = self.run({})
        start = {name: _value(first, name, self.method.name) for name in names}
        self.best = _trial(start, first)
        self.note(self.best)
        for _ in range(2 if len(names) > 1 else 1):
            for name in names:
                self.sweep(name, grids.get(name))

    def note(self, trial: Trial) -> None:
        """Keep a trial; none after it need take more rounds than the fastest."""
        self.trials.append(trial)
        if trial.status == Status.CONVERGED:
            self.most = max(1, min(self.most, trial.rounds))

    def run(self, parameters: dict[str, float]) -> Result:
        """One run within the budget; Ctrl-C ends the search with it."""
        quiet = {"record": False, "progress": False}
        limit = {"max_rounds": self.most}
        result = solve(
            self.problem,
            self.network,
            method=self.method,
            **{**quiet, **self.fixed, **limit, **parameters},  # pyright: ignore[reportArgumentType]
        )
        if result.status == Status.INTERRUPTED and "callback" not in self.fixed:
            raise KeyboardInterrupt
        return result

    def attempt(self, name: str, value: float) -> Trial:
        """The best parameters so far with one of them changed; a repetition costs nothing."""
        wanted = {**self.best.parameters, name: value}
        for trial in self.trials:
            if trial.parameters == wanted:
                return trial
        trial = _trial(wanted, self.run(wanted))
        self.note(trial)
        return trial

    def sweep(self, name: str, values: list[float] | None) -> None:
        """Search along one parameter."""
        center, ratio = self.best.parameters[name], math.sqrt(10.0)
        steps = DECADES + DECADES % 2
        grid = values or [center * ratio**k for k in range(-steps, steps + 1)]
        nearest = sorted(grid, key=lambda value: abs(math.log(value / center)))
        found = {value: self.attempt(name, value) for value in nearest}  # good ones early
        trials = [found[value] for value in sorted(grid)]
        if values is None:
            trials = self._extend(name, trials, ratio)
        winner = min(trials, key=lambda trial: trial.score)
        if values is None:
            winner = self._refine(name, winner, ratio)
        self.best = min((self.best, winner), key=lambda trial: trial.score)

    def _extend(self, name: str, trials: list[Trial], ratio: float) -> list[Trial]:
        """More points while the best is at an end of the grid, at most three decades."""
        for _ in range(2 * DECADES):
            best = min(trials, key=lambda trial: trial.score)
            if best is trials[0] and math.isfinite(best.score[1]):
                trials = [self.attempt(name, best.parameters[name] / ratio), *trials]
            elif best is trials[-1] and math.isfinite(best.score[1]):
                trials = [*trials, self.attempt(name, best.parameters[name] * ratio)]
            else:
                break
        return trials

    def _refine(self, name: str, winner: Trial, ratio: float) -> Trial:
        """Halve the logarithmic distance to both neighbours, twice."""
        for factor in (math.sqrt(ratio), ratio**0.25):
            value = winner.parameters[name]
            near = [winner, *(self.attempt(name, value * q) for q in (1.0 / factor, factor))]
            winner = min(near, key=lambda trial: trial.score)
        return winner
