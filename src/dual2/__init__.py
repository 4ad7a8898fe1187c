"""dual2: decentralised constraint-coupled optimisation.

Agents on a network, each with private f_i, g_i and A_i, minimise

    Σ_i f_i(x_i) + g_i(x_i)  +  h(Σ_i A_i x_i)

by exchanging dual vectors with their neighbours only. State a :class:`Problem` and a
:class:`Network`, call :func:`solve`, read the :class:`Result` and its certificate. Saddle problems
by themselves are solved by ``dual2.saddle.solve``; ``dual2.learn`` (scikit-learn estimators) and
``dual2.applications`` are imported when they are first asked for.
"""

from importlib import import_module
from types import ModuleType

from dual2 import functions
from dual2.errors import CapabilityError, Dual2Error, NetworkError, ProblemError
from dual2.functions import *  # noqa: F403
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
    "Agent",
    "CapabilityError",
    "Certificate",
    "ChebyshevNetwork",
    "Costs",
    "Counts",
    "Dual2Error",
    "Method",
    "Network",
    "NetworkError",
    "NotSolved",
    "Problem",
    "ProblemError",
    "Result",
    "Status",
    "Trial",
    "Tuned",
    "__version__",
    "from_cvxpy",
    "load_problem",
    "saddle",
    "save_problem",
    "solve",
    "solve_for_all",
    "tune",
]
__all__ += functions.__all__


def __getattr__(name: str) -> ModuleType:
    """Packages with requirements of their own, imported on demand."""
    if name in ("applications", "learn"):
        return import_module(f"dual2.{name}")
    raise AttributeError(f"module 'dual2' has no attribute {name!r}")
