"""Where the agents live: their rows, and the transport over which all agents agree."""

from dual2.runtime.rows import Runtime
from dual2.runtime.transport import Agreement, Share, Transport, find_transport, share_of

__all__ = ["Agreement", "Runtime", "Share", "Transport", "find_transport", "share_of"]
