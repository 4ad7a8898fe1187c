"""Where the agents live: their rows, and the transport over which all agents agree.

Names are imported when they are first used: the links between parties need none of them.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
_MODULES = {
    "Communicator": "transport",
    "Faults": "faults",
    "LocalProblem": "share",
    "Runtime": "rows",
    "SimulatedNetwork": "simulated",
    "Transport": "transport",
    "find_communicator": "transport",
    "find_transport": "transport",
    "local_problem": "share",
}
_RENAMED = {"Agreement": "Communicator", "Share": "LocalProblem", "share_of": "local_problem"}


def __getattr__(name: str) -> Any:
    """A name when it is first used; old names for one release."""
    new = _RENAMED.get(name, name)
    if new not in _MODULES:
        raise AttributeError(f"module 'dual2.runtime' has no attribute {name!r}")
    found = getattr(import_module(f"dual2.runtime.{_MODULES[new]}"), new)
    if new == name:
        globals()[name] = found
        return found
    message = f"dual2.runtime.{name} is {new} now; the old name goes with the next release."
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return found
