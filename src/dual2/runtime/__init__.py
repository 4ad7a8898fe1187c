"""Where the agents live: their rows, and the transport over which all agents agree.

Names are imported when they are first used: the links between parties need none of them.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dual2.runtime.cluster import Cluster, ClusterWorker, RemoteProblem
    from dual2.runtime.faults import Faults
    from dual2.runtime.mailbox import Inbox, Mailbox
    from dual2.runtime.rows import Runtime
    from dual2.runtime.share import LocalProblem, local_problem
    from dual2.runtime.simulated import SimulatedNetwork
    from dual2.runtime.transport import Communicator, Transport, find_communicator, find_transport

__all__ = [
    "Cluster",
    "ClusterWorker",
    "Communicator",
    "Faults",
    "Inbox",
    "LocalProblem",
    "Mailbox",
    "RemoteProblem",
    "Runtime",
    "SimulatedNetwork",
    "Transport",
    "find_communicator",
    "find_transport",
    "local_problem",
]
_MODULES = {
    "Cluster": "cluster",
    "ClusterWorker": "cluster",
    "Communicator": "transport",
    "Faults": "faults",
    "Inbox": "mailbox",
    "LocalProblem": "share",
    "Mailbox": "mailbox",
    "RemoteProblem": "cluster",
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
