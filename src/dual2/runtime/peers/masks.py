"""Masks that cancel in the total: nobody sees anybody's part of a sum.

Each pair of parties shares a key (X25519, HKDF) and, for every sum, a stream of random words
(AES-256 in counter mode, one nonce per sum). Of a pair the first adds it, the second subtracts it.
A party's words are uniform to whoever does not know all of its streams.
"""

import hmac
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dual2.engine.fixed_point import add_words, subtract_words
from dual2.errors import Dual2Error, PeerError
from dual2.runtime.peers.frames import MARK
from dual2.runtime.peers.identity import load_cryptography, read_private
from dual2.runtime.peers.journal import KEY_FILE, create

Array = np.ndarray
PUBLIC = 32
"""Bytes of a public key."""
_SECRET = 64


class Randomness:
    """Words that follow from a key and the number of a sum: the same after a restart."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import CTR

        cipher = AES(key)
        self._stream = lambda nonce: Cipher(cipher, CTR(nonce)).encryptor()

    def words(self, index: int, count: int) -> Array:
        """``count`` words of 64 bits for sum ``index``."""
        stream = self._stream(index.to_bytes(8, "big") + bytes(8))  # the nonce, then block 0
        found = np.zeros(count, "<u8")
        place = found.view(np.uint8).data
        stream.update_into(place, place)
        return found.astype(np.uint64, copy=False)


class Secret:
    """The keys of one party for one run, kept in a file until the run is over.

    Attributes
    ----------
    entry : bytes
        Public key and its signature by the key of the certificate: what all parties are told. The
        signature is made once, since a restart must say the same.
    own : Randomness
        Of this party alone, for words that mean "yes" or hide that a number did not fit.
    """

    def __init__(self, folder: Path, message: bytes, sign: Any) -> None:
        load_cryptography()
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self.file = folder / KEY_FILE
        if not self.file.exists():
            secret = os.urandom(_SECRET)
            public = _public(X25519PrivateKey.from_private_bytes(secret[:32]))
            create(self.file, secret + sign(message + public))
        content = read_private(self.file)
        if len(content) <= _SECRET:
            raise Dual2Error(
                f"{self.file} has {len(content)} bytes and is damaged. Restore it; a new attempt "
                "needs a new name of the run and another state folder."
            )
        self.private = X25519PrivateKey.from_private_bytes(content[:32])
        self.own = Randomness(content[32:_SECRET])
        self.entry = _public(self.private) + content[_SECRET:]

    def erase(self) -> None:
        """Forget the keys: what was recorded on the wire can never be unmasked."""
        self.file.unlink(missing_ok=True)


def _public(private: Any) -> bytes:
    return private.public_key().public_bytes_raw()


def message_of(run: bytes, study: bytes, party: int) -> bytes:
    """What a party signs, but for its public key."""
    return b"dual2 mask key 1" + run + study + party.to_bytes(4, "little")


def demand_signed(entry: bytes, message: bytes, certificates: list[Any], name: str) -> bytes:
    """The public key of an entry, if the owner of one of the certificates has signed it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256

    public, signature = entry[:PUBLIC], entry[PUBLIC:]
    for certificate in certificates:
        try:
            certificate.public_key().verify(signature, message + public, ECDSA(SHA256()))
        except InvalidSignature:
            continue
        return public
    raise PeerError(
        f"The mask key of {name} is not signed by the key of its certificate: somebody on the "
        "way has replaced it, or the party runs with another key. Nothing was computed."
    )


class Masks:
    """The streams that a party shares with each of the others.

    Parameters
    ----------
    secret : Secret
        The own keys.
    me : int
        Number of this party.
    publics : mapping of int to bytes
        Public keys of the others, checked.
    run, study : bytes
        What the run is: other runs have other streams.
    """

    def __init__(
        self, secret: Secret, me: int, publics: Mapping[int, bytes], run: bytes, study: bytes
    ) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        self.me, self._pairs, self._tags = me, {}, {}
        for other, public in sorted(publics.items()):
            first, second = sorted((me, other))
            info = b"dual2 mask 2" + study + first.to_bytes(4, "little")
            info += second.to_bytes(4, "little")
            try:
                shared = secret.private.exchange(X25519PublicKey.from_public_bytes(public))
            except ValueError as error:
                raise PeerError(f"Party {other} has told a mask key of no use: {error}.") from error
            key = HKDF(SHA256(), 32, salt=run, info=info).derive(shared)
            self._pairs[other] = Randomness(key)
            info = b"dual2 totals 1" + info[len(b"dual2 mask 2") :]
            self._tags[other] = HKDF(SHA256(), 32, salt=run, info=info).derive(shared)

    def tags(self, chain: bytes, size: int) -> bytes:
        """For each of ``size`` parties a mark of ``chain`` that only this one can make for it."""
        return b"".join(self._tag(i, self.me, chain) for i in range(size))

    def is_same(self, other: int, tags: bytes, chain: bytes) -> bool:
        """Whether another party's ``tags`` say that it has the same chain."""
        found = tags[MARK * self.me : MARK * (self.me + 1)]
        return hmac.compare_digest(found, self._tag(other, other, chain))

    def _tag(self, other: int, sender: int, chain: bytes) -> bytes:
        if other not in self._tags:
            return bytes(MARK)  # one's own place
        text = sender.to_bytes(4, "little") + chain
        return hmac.digest(self._tags[other], text, "sha256")[:MARK]

    def apply(self, index: int, words: Array) -> None:
        """Mask the words of sum ``index``: (m, limbs), or (m,) of one word each."""
        for other, stream in self._pairs.items():
            mask = stream.words(index, words.size).reshape(words.shape)
            if words.ndim == 1:
                words += mask if self.me < other else np.uint64(0) - mask
            else:
                (add_words if self.me < other else subtract_words)(words, mask)
