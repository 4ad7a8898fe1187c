"""Why a party cannot be reached, in words that say what to look at."""

import socket
import ssl
from enum import StrEnum

from dual2.errors import PeerError


class FaultKind(StrEnum):
    """What is wrong with a link."""

    NAME = "name"  # the host's name has no address
    REFUSED = "refused"  # the machine answers, nobody listens there
    TIMEOUT = "timeout"  # no answer at all
    UNREACHABLE = "unreachable"  # no route
    LOST = "lost"  # the connection ended in the handshake
    CERTIFICATE = "certificate"  # the other end is not the one of the study


_HINTS = {
    FaultKind.NAME: "the name has no address (DNS): is it spelt right?",
    FaultKind.REFUSED: "connection refused: not started, or it listens at another port",
    FaultKind.TIMEOUT: "no answer: is the machine up, does a firewall drop the packets?",
    FaultKind.UNREACHABLE: "no route to it: is the network up?",
    FaultKind.LOST: "the connection ended in the handshake: a proxy, or no party at that port?",
}


class Unreached(PeerError):
    """A party could not be dialled; ``kind`` says what is wrong."""

    def __init__(self, kind: FaultKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def classify(error: BaseException) -> FaultKind:
    """What an error of dialling means.

    Examples
    --------
    >>> classify(ConnectionRefusedError()), classify(TimeoutError())
    (<FaultKind.REFUSED: 'refused'>, <FaultKind.TIMEOUT: 'timeout'>)
    """
    if isinstance(error, ssl.SSLError):
        return FaultKind.CERTIFICATE
    if isinstance(error, socket.gaierror):
        return FaultKind.NAME
    if isinstance(error, ConnectionRefusedError):
        return FaultKind.REFUSED
    if isinstance(error, TimeoutError):
        return FaultKind.TIMEOUT
    if isinstance(error, ConnectionError | EOFError):
        return FaultKind.LOST
    return FaultKind.UNREACHABLE


def unreached(error: BaseException, name: str, address: tuple[str, int]) -> Unreached:
    """The error of dialling a party, with its address and a hint.

    Examples
    --------
    >>> print(unreached(ConnectionRefusedError(), "lab", ("lab.example", 7443)))
    lab.example:7443: connection refused: not started, or it listens at another port
    """
    kind = classify(error)
    if isinstance(error, ssl.SSLError):
        return Unreached(kind, f"{name} cannot be trusted: {reason_of(error)}.")
    return Unreached(kind, f"{address[0]}:{address[1]}: {_HINTS[kind]}")


def reason_of(error: ssl.SSLError) -> str:
    """Why a handshake failed."""
    return getattr(error, "verify_message", "") or error.reason or str(error)
