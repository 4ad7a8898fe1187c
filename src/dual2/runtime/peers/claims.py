"""Signed words that a party is missing: only a neighbour can know it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_CLAIMS = 8
"""Most parties that may be missing: all claims travel in one control frame of 4096 bytes."""
_PREFIX = b"dual2 missing party 1\0"
_SIGNATURE_BYTES = 80
"""More bytes than a signature by ECDSA with P-256 has."""


@dataclass(frozen=True)
class Claim:
    """``claimer`` says that it has waited in vain for ``absent``, its neighbour."""

    absent: str
    claimer: str
    signature: bytes

    def packed(self) -> list[str]:
        """For JSON."""
        return [self.absent, self.claimer, self.signature.hex()]


def message_of_claim(run: bytes, absent: str) -> bytes:
    """What is signed: a claim counts for one run only."""
    return _PREFIX + run + absent.encode()


def make_claim(sign: Callable[[bytes], bytes], run: bytes, claimer: str, absent: str) -> Claim:
    """A claim of this party; ``sign`` uses the key of its certificate."""
    return Claim(absent, claimer, sign(message_of_claim(run, absent)))


def parse_claims(found: Any) -> tuple[Claim, ...]:
    """Claims as a peer tells them; ``ValueError`` if they are none.

    Examples
    --------
    >>> parse_claims([["east", "hub", "00ff"]])[0].absent
    'east'
    >>> parse_claims([["east", "hub"]])
    Traceback (most recent call last):
    ValueError: a claim has three texts
    """
    if not isinstance(found, list) or len(found) > MAX_CLAIMS:
        raise ValueError(f"at most {MAX_CLAIMS} claims are expected")
    claims = []
    for one in found:
        if not (isinstance(one, list) and len(one) == 3 and all(type(t) is str for t in one)):
            raise ValueError("a claim has three texts")
        signature = bytes.fromhex(one[2])
        if len(signature) > _SIGNATURE_BYTES:
            raise ValueError("a signature of a claim is too long")
        claims.append(Claim(one[0], one[1], signature))
    return tuple(claims)


def is_signed(claim: Claim, run: bytes, certificates: Iterable[Any]) -> bool:
    """Whether one of the claimer's certificates has signed the claim for this run."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256

    message = message_of_claim(run, claim.absent)
    for certificate in certificates:
        try:
            certificate.public_key().verify(claim.signature, message, ECDSA(SHA256()))
        except InvalidSignature:
            continue
        return True
    return False


def merge_claims(*several: Sequence[Claim]) -> tuple[Claim, ...]:
    """One claim about each missing party, in the order of their names."""
    known: Mapping[str, Claim] = {one.absent: one for claims in several for one in claims}
    return tuple(known[name] for name in sorted(known))
