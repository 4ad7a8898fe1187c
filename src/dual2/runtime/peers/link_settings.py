"""How long a party waits, and where it listens."""

from dataclasses import dataclass

from dual2.runtime.peers.wire_transport import WireTransport


@dataclass(frozen=True)
class Timing:
    """Seconds: silence that ends a connection, waiting for a lost or an idle peer, pauses."""

    dead: float = 15.0
    patience: float = 600.0
    progress: float = 3600.0
    shortest: float = 0.05
    longest: float = 1.0


@dataclass(frozen=True)
class Place:
    """Where this party listens, and what carries its frames."""

    listen: tuple[str, int] | None
    carrier: WireTransport
