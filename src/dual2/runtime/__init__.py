"""Where the agents live: their rows, and the transport over which all agents agree."""

from dual2.runtime.faults import Faults
from dual2.runtime.rows import Runtime
from dual2.runtime.share import Share, share_of
from dual2.runtime.simulated import SimulatedNetwork
from dual2.runtime.transport import Agreement, Transport, find_transport

__all__ = [
    "Agreement",
    "Faults",
    "Runtime",
    "Share",
    "SimulatedNetwork",
    "Transport",
    "find_transport",
    "share_of",
]
