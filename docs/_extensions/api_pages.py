"""The reference: a table of everything that a package exports, and a page for each name."""

from importlib import import_module
from typing import NamedTuple

import dual2

FOLDER = "api"


class Part(NamedTuple):
    """One table of a page: a heading, a sentence, and the names or the package that has them."""

    heading: str
    words: str
    package: str
    names: tuple[str, ...] = ()


RESULT = ("solve", "tune", "solve_for_all", "Result", "Status", "Certificate", "Counts")
TUNED = ("Tuned", "Trial", "NotSolved")
ERRORS = ("Dual2Error", "ProblemError", "NetworkError", "CapabilityError")
BASES = ("regression.VerticalRegressor", "classification.VerticalClassifier")
FIGURES = ("plot_trace",)
CHOICE = ("Costs", "Subsolver", "admissible_subsolvers", "predict", "select_subsolver")

PAGES: dict[str, tuple[Part, ...]] = {
    "functions": (
        Part(
            "Functions",
            "Every function has `value`, `grad` and/or `prox`, `conjugate`, `mu` and `L`, for one "
            "vector or for rows. Each may serve as $f$, $g$ or $h$ where it makes sense.",
            "dual2.functions",
        ),
    ),
    "problem": (
        Part("Problem", "Who owns what, and what couples them.", "dual2.problem"),
        Part("Models of other packages", "See [the guide](../cvxpy.md) too.", "dual2.recognise"),
    ),
    "network": (Part("Network", "Who talks to whom.", "dual2.network"),),
    "solve": (
        Part("Solve and result", "The one driver, and what it returns.", "dual2", RESULT + TUNED),
        Part("Methods", "The table of methods, see [](../methods/index.md).", "dual2", ("Method",)),
        Part("Errors", "What was found, what was expected, what to do.", "dual2", ERRORS),
        Part(
            "Figures",
            "Convergence of one run or several.",
            "dual2.solving.plotting",
            FIGURES,
        ),
    ),
    "theory": (
        Part(
            "Theory",
            "Which case holds, and the constants and parameters that follow from it.",
            "dual2.theory",
        ),
        Part(
            "Solvers of the subproblem",
            "Which can solve it, and which does so at the least predicted cost.",
            "dual2.methods.subsolvers",
            CHOICE,
        ),
    ),
    "learn": (
        Part(
            "Learn",
            "Vertical federated learning as scikit-learn estimators; see [the guide](../learn.md).",
            "dual2.learn",
        ),
        Part("What estimators share", "Fitting and predicting.", "dual2.learn", BASES),
    ),
    "applications": (
        Part("Dispatch", "See [the guide](../dispatch.md).", "dual2.power"),
        Part("Model predictive control", "See [the guide](../mpc.md).", "dual2.mpc"),
    ),
    "models": (Part("Models", "See [the guide](../models.md).", "dual2.models"),),
    "experiments": (
        Part("Benchmarks", "Of your own, see [](../bench.md).", "dual2.bench"),
        Part("Experiments", "Those of the paper, see [](../reproduction.md).", "dual2.paper"),
    ),
}


def pages() -> dict[str, str]:
    """Text of each page by its name."""
    return {name: "\n".join(map(_part, parts, _levels())) for name, parts in PAGES.items()}


def _levels():
    yield "#"
    while True:
        yield "##"


def _part(part: Part, level: str) -> str:
    package = import_module(part.package)
    names = part.names or tuple(sorted(package.__all__, key=str.lower))
    documented = [name for name in names if getattr(package, name, None).__doc__ or "." in name]
    lines = [f"{level} {part.heading}", "", part.words, "", "```{eval-rst}"]
    lines += [".. autosummary::", "   :nosignatures:", "   :toctree: generated", ""]
    lines += [f"   {_address(part.package, name)}" for name in documented]
    return "\n".join([*lines, "```", ""])


def _address(package: str, name: str) -> str:
    """The name under which people import it."""
    return f"dual2.{name}" if name in dual2.__all__ else f"{package}.{name}"
