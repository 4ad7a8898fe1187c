"""Where the agents live: their rows, and the transport over which all agents agree."""

import warnings
from typing import Any

from dual2.runtime.faults import Faults
from dual2.runtime.rows import Runtime
from dual2.runtime.share import LocalProblem, local_problem
from dual2.runtime.simulated import SimulatedNetwork
from dual2.runtime.transport import Communicator, Transport, find_communicator, find_transport

__all__ = [
    "Communicator",
    "Faults",
    "LocalProblem",
    "Runtime",
    "SimulatedNetwork",
    "Transport",
    "find_communicator",
    "find_transport",
    "local_problem",
]
_RENAMED = {
    "Agreement": Communicator,
    "Share": LocalProblem,
    "share_of": local_problem,
}


def __getattr__(name: str) -> Any:
    """Old names, for one release."""
    if name not in _RENAMED:
        raise AttributeError(f"module 'dual2.runtime' has no attribute {name!r}")
    new = _RENAMED[name]
    message = (
        f"dual2.runtime.{name} is {new.__name__} now; the old name goes with the next release."
    )
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return new
