"""Benchmarks from Python: own methods, problems and networks as objects."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dual2.bench.bands import bands_figure
from dual2.bench.builders import describe
from dual2.bench.case import Case, Setting
from dual2.bench.imported import call, method_called
from dual2.bench.latex import latex_table
from dual2.bench.run_case import machine_of, run_case
from dual2.bench.store import StoredRun
from dual2.bench.summary import SummaryLine, summarise, summary_csv
from dual2.errors import Dual2Error, ProblemError
from dual2.files import write_atomically
from dual2.methods.method import Method
from dual2.network import Network
from dual2.problem import Problem
from dual2.solving.plotting import write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AnyProblem = Problem | Callable[[int], Problem]
"""A problem, or a function that makes one from a seed."""

AnyNetwork = Any
"""A network, whatever :class:`dual2.Network` accepts, or a function that makes it from n."""

AnyMethod = str | Method | Mapping[str, Any]
"""A name, a method, or ``{"method": …, and arguments of dual2.solve}``."""


@dataclass(frozen=True, eq=False)
class Benchmark:
    """What came out of :func:`benchmark`."""

    runs: list[StoredRun]
    """One for each problem, network, method and seed."""
    lines: list[SummaryLine]
    """One for each problem, network and method: medians over the seeds."""

    def csv(self) -> str:
        """Medians as CSV."""
        return summary_csv(self.lines)

    def latex(self) -> str:
        """Medians as a table for LaTeX with ``booktabs``."""
        return latex_table(self.lines, f"dual2 {self.runs[0].versions.get('dual2', '')}".rstrip())

    def figure(self, title: str = "") -> "Figure":
        """One panel for each problem and network, a band over the seeds for each method."""
        return bands_figure(self.runs, title)

    def write(self, folder: str | Path) -> None:
        """Write ``summary.csv``, ``summary.tex``, ``curves.pdf`` and ``curves.png``."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        write_atomically(place / "summary.csv", self.csv())
        write_atomically(place / "summary.tex", self.latex())
        for suffix in ("pdf", "png"):
            write_figure(self.figure(), place / f"curves.{suffix}")


def benchmark(
    problems: Mapping[str, AnyProblem],
    networks: Mapping[str, AnyNetwork],
    methods: Sequence[str | Method] | Mapping[str, AnyMethod],
    seeds: Sequence[int] = (0,),
    **common: Any,
) -> Benchmark:
    """Run problems × networks × methods × seeds in this process, one run at a time.

    Parameters
    ----------
    problems : mapping from name to Problem or function
        A function takes a seed and returns a problem.
    networks : mapping from name to network or function
        A function takes the number of agents and returns a network.
    methods : sequence or mapping from label to method
        Names (also ``"auto"``), ``Method`` objects, or tables of arguments of ``dual2.solve``.
    seeds : sequence of int
        Of the data and of the methods.
    **common
        Arguments of ``dual2.solve`` for every run, such as ``tol`` and ``max_rounds``.

    Returns
    -------
    Benchmark
        The runs, their medians, a CSV and a LaTeX table, a figure with bands.

    Examples
    --------
    >>> import networkx as nx
    >>> import dual2 as d2
    >>> def ridge(seed):
    ...     agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0 + k + seed)) for k in range(3)]
    ...     return d2.Problem(agents, d2.SquaredLoss([1.0]))
    >>> found = benchmark({"ridge": ridge}, {"path": nx.path_graph}, ["iD2A", "auto"], [0, 1])
    >>> [(line.method, line.statuses) for line in found.lines]
    [('iD2A', {'CONVERGED': 2}), ('auto', {'CONVERGED': 2})]
    """
    chosen = _methods(methods)
    for what, given in (
        ("problem", problems),
        ("network", networks),
        ("method", chosen),
        ("seed", seeds),
    ):
        if not given:
            raise Dual2Error(f"No {what} found; expected at least one.")
    machine, runs = machine_of(1), []
    for problem, place in ((problem, place) for problem in problems for place in networks):
        for label, (method, options) in chosen.items():
            name = method if isinstance(method, str) else method.name
            for seed in seeds:
                solve = {"method": name, **common, **options}
                notes = {"problem": problem, "network": place}
                case = Case(f"{problem} on {place}", label, problem, {}, solve, seed, notes)
                make = partial(_setting, problems, networks)
                own = method if isinstance(method, Method) else None
                runs.append(run_case(case, machine, build=make, method=own))
    return Benchmark(runs, summarise(runs))


def _setting(
    problems: Mapping[str, AnyProblem], networks: Mapping[str, AnyNetwork], case: Case
) -> Setting:
    """The objects that a case names."""
    name = case.problem
    made = problems[name]
    problem = made if isinstance(made, Problem) else call(name, made, case.seed, {})
    if not isinstance(problem, Problem):
        raise ProblemError(f"{name} returned a {type(problem).__name__}; expected a dual2.Problem.")
    place = case.notes["network"]
    found = networks[place]
    if callable(found) and not isinstance(found, Network):
        found = call(place, found, problem.n, {})
    network = found if isinstance(found, Network) else Network(found)
    return Setting(problem, network, None, describe(problem, network))


def _methods(
    given: Sequence[str | Method] | Mapping[str, AnyMethod],
) -> dict[str, tuple[Method | str, dict[str, Any]]]:
    """Label → method and its options; names are looked up before anything runs."""
    if not isinstance(given, Mapping):
        labels = [one if isinstance(one, str) else one.name for one in given]
        twice = [label for label in labels if labels.count(label) > 1]
        if twice:
            raise Dual2Error(f"{twice[0]!r} found twice; give a mapping from label to method.")
        given = dict(zip(labels, given, strict=True))
    found = {}
    for label, one in given.items():
        options = dict(one) if isinstance(one, Mapping) else {"method": one}
        if "method" not in options:
            raise Dual2Error(f"{label}: method is missing; expected a name or a Method.")
        method = options.pop("method")
        found[label] = (method_called(method) if isinstance(method, str) else method, options)
    return found
