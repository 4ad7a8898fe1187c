"""Signed heads of the audit logs, which all parties exchange before there is an answer.

A head is the hash of the last line of a log, and so of all lines before. Whoever has signed one
cannot show another log later: :func:`dual2.runtime.peers.audit.verify` finds the head or does not.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dual2.errors import PeerError
from dual2.parties.study import Member
from dual2.runtime.peers.audit import HEAD_BYTES, Audit
from dual2.runtime.peers.folder import create
from dual2.runtime.peers.identity import parse_certificate, read_private

_PREFIX = b"dual2 audit head 1\0"
HEAD_FILE = "audit.head"
"""What this party has signed, until the run is over."""


class AuditHeads:
    """What one party signs about its log, and checks of the others.

    Parameters
    ----------
    audit : Audit
        The log of this party.
    run : bytes
        Name of the run: a signature counts for one run only.
    members : sequence of Member
        All parties, in their order.
    sign : callable
        Signs bytes with the key of this party's certificate.
    """

    def __init__(
        self, audit: Audit, run: bytes, members: Sequence[Member], sign: Callable[[bytes], bytes]
    ) -> None:
        self._audit, self._run, self._members, self._sign = audit, run, members, sign
        self._file = audit.file.with_name(HEAD_FILE)

    def own(self) -> bytes:
        """Head and signature; a restart says the same, since others may have them already."""
        if not self._file.exists():
            head = self._audit.head
            create(self._file, head + self._sign(_PREFIX + self._run + head))
        return read_private(self._file)

    def check(self, number: int, found: bytes) -> None:
        """Log the head of another party; an error if its key has not signed it."""
        member = self._members[number]
        head, signature = found[:HEAD_BYTES], found[HEAD_BYTES:]
        keys = [parse_certificate(der).public_key() for der in member.ders]
        if not any(_is_signed(key, signature, _PREFIX + self._run + head) for key in keys):
            raise PeerError(
                f"The head of the audit log of {member.name} is not signed by its key: somebody on "
                "the way has replaced it. There is no answer; state is kept."
            )
        signed = {"head": head.hex(), "signature": signature.hex()}
        self._audit("peer_head", peer=member.name, **signed)

    def erase(self) -> None:
        """The run is over."""
        self._file.unlink(missing_ok=True)


def _is_signed(key: Any, signature: bytes, text: bytes) -> bool:
    """Whether a key has signed a text."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        key.verify(signature, text, ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True
