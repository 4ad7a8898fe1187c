"""dual2: decentralised constraint-coupled optimisation.

Agents on a network, each with private f_i, g_i and A_i, minimise

    Σ_i f_i(x_i) + g_i(x_i)  +  h(Σ_i A_i x_i)

by exchanging dual vectors with their neighbours only. State a :class:`Problem` and a
:class:`Network`, call :func:`solve`, read the :class:`Result` and its certificate. Saddle problems
by themselves are solved by ``dual2.saddle.solve``.

Every name is imported when it is first used, so ``import dual2`` takes no time; the compiler and
the scientific packages load with the first :class:`Agent`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dual2.moved import install

if TYPE_CHECKING:
    from dual2 import applications as applications
    from dual2 import bench as bench
    from dual2 import functions as functions
    from dual2 import learn as learn
    from dual2 import mpc as mpc
    from dual2 import paper as paper
    from dual2 import parties as parties
    from dual2 import power as power
    from dual2.errors import CapabilityError, Dual2Error, NetworkError, ProblemError
    from dual2.functions import *
    from dual2.methods import METHODS, Method, saddle
    from dual2.methods.subsolvers import Costs
    from dual2.network import ChebyshevNetwork, Network
    from dual2.problem import Agent, Problem
    from dual2.recognise import from_cvxpy
    from dual2.solving.result import Certificate, Counts, NotSolved, Result, Status
    from dual2.solving.solve import solve, solve_for_all
    from dual2.solving.storage import load_problem, save_problem
    from dual2.solving.tuning import Trial, Tuned, tune
    from dual2.solving.version import __version__

__all__ = [
    "METHODS",
    "AbsoluteLoss",
    "Affined",
    "Agent",
    "CapabilityError",
    "Certificate",
    "ChebyshevNetwork",
    "Conjugate",
    "ConjugateSmooth",
    "Costs",
    "Counts",
    "Dual2Error",
    "ElasticNet",
    "Entropy",
    "Function",
    "HingeLoss",
    "HuberLoss",
    "HuberNormLoss",
    "IndicatorAffine",
    "IndicatorAtMost",
    "IndicatorBall",
    "IndicatorBox",
    "IndicatorCappedSimplex",
    "IndicatorHalfspace",
    "IndicatorL1Ball",
    "IndicatorNonnegative",
    "IndicatorPoint",
    "IndicatorPolyhedron",
    "IndicatorSecondOrderCone",
    "IndicatorSimplex",
    "L1Norm",
    "L2Norm",
    "LInfNorm",
    "LeastSquares",
    "LogisticLoss",
    "LogisticRegression",
    "Max",
    "Method",
    "NegativeLog",
    "Network",
    "NetworkError",
    "NonnegativeSquaredLoss",
    "NotSolved",
    "PiecewiseLinear",
    "PiecewiseQuadratic",
    "PoissonLoss",
    "Problem",
    "ProblemError",
    "Proximable",
    "Quadratic",
    "QuantileLoss",
    "Result",
    "Smooth",
    "SoftmaxLoss",
    "SquaredHingeLoss",
    "SquaredLoss",
    "SquaredNorm",
    "Stacked",
    "Status",
    "SumLargest",
    "Trial",
    "Tuned",
    "Zero",
    "__version__",
    "as_function",
    "from_cvxpy",
    "load_problem",
    "saddle",
    "save_problem",
    "solve",
    "solve_for_all",
    "tune",
]

_MODULES = {
    "errors": ("CapabilityError", "Dual2Error", "NetworkError", "ProblemError"),
    "methods": ("METHODS", "Method"),
    "methods.subsolvers": ("Costs",),
    "network": ("ChebyshevNetwork", "Network"),
    "problem": ("Agent", "Problem"),
    "recognise": ("from_cvxpy",),
    "solving.result": ("Certificate", "Counts", "NotSolved", "Result", "Status"),
    "solving.solve": ("solve", "solve_for_all"),
    "solving.storage": ("load_problem", "save_problem"),
    "solving.tuning": ("Trial", "Tuned", "tune"),
    "solving.version": ("__version__",),
}
"""Where the public names are that are no functions of :mod:`dual2.functions`."""
_PACKAGES = {
    "applications": "applications",
    "bench": "bench",
    "functions": "functions",
    "learn": "learn",
    "models": "models",
    "mpc": "mpc",
    "paper": "paper",
    "parties": "parties",
    "power": "power",
    "saddle": "methods.saddle",
}
"""Public names that are modules."""
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


install()


def __getattr__(name: str) -> Any:
    """Import what is asked for, and keep it (PEP 562)."""
    if name in _PACKAGES:
        value = import_module(f"dual2.{_PACKAGES[name]}")
    elif name in __all__:
        value = getattr(import_module(f"dual2.{_HOMES.get(name, 'functions')}"), name)
    else:
        raise AttributeError(f"module 'dual2' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Public names, imported or not."""
    return sorted({*globals(), *__all__, *_PACKAGES})
