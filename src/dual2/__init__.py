"""dual2: decentralised constraint-coupled optimisation.

Agents on a network, each with private f_i, g_i and A_i, minimise

    Σ_i f_i(x_i) + g_i(x_i)  +  h(Σ_i A_i x_i)

by exchanging dual vectors with their neighbours only. State a :class:`Problem` and a
:class:`Network`, call :func:`solve`, read the :class:`Result` and its certificate.
``dual2.learn`` (scikit-learn estimators) is imported when it is first asked for.
"""

from importlib import import_module
from types import ModuleType

from dual2.algorithms import METHODS, Method
from dual2.errors import CapabilityError, Dual2Error, NetworkError, ProblemError
from dual2.functions import *  # noqa: F403
from dual2.functions import __all__ as _functions
from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Agent, Problem
from dual2.result import Certificate, Counts, NotSolved, Result, Status
from dual2.solve import solve
from dual2.theory import Costs
from dual2.tune import Trial, Tuned, tune
from dual2.version import __version__

__all__ = [
    *_functions,
    "METHODS",
    "Agent",
    "CapabilityError",
    "Certificate",
    "Costs",
    "ChebyshevNetwork",
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
    "solve",
    "tune",
]


def __getattr__(name: str) -> ModuleType:
    """Packages with requirements of their own, imported on demand."""
    if name == "learn":
        return import_module("dual2.learn")
    raise AttributeError(f"module 'dual2' has no attribute {name!r}")
