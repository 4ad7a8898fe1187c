"""Masks that cancel in the total: nobody sees anybody's part of a sum.

Each pair of parties shares a key (X25519, HKDF). For every sum the key gives a stream of random
words: AES-256 in counter mode under HMAC-SHA256(pair key, chain of totals, number of the sum). Of a
pair the first party adds the stream, the second subtracts it. A party's words are uniform to
whoever does not know all of its streams.

The chain of totals is part of the stream's key, so masks cancel only between parties that have seen
the same totals. A relay that sends one party other totals gets random words from it at the next
sum. The masks of a sum therefore cannot be drawn before the total of the last one is known.
"""

import hmac
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dual2.engine.fixed_point import add_words, subtract_words
from dual2.errors import Dual2Error, PeerError
from dual2.runtime.peers.folder import create
from dual2.runtime.peers.frames import MARK
from dual2.runtime.peers.identity import load_cryptography, read_private
from dual2.runtime.peers.journal import KEY_FILE

Array = np.ndarray
PUBLIC_KEY_BYTES = 32
"""Bytes of a public key."""
_SECRET_BYTES = 64
_SPARE_WORDS = 2
"""Words beyond what is encrypted: the cipher wants room for one block more."""
_PAIR_INFO, _TAG_INFO = b"dual2 mask 3", b"dual2 totals 1"


class Randomness:
    """Words that follow from a key and the number of a sum: the same after a restart.

    Block k of sum i is AES-256 of the 16 bytes (i, k), highest byte first: counter mode, one nonce
    per sum.
    """

    def __init__(self, key: bytes) -> None:
        self._encrypt = _block_cipher(key)

    def words(self, index: int, count: int) -> Array:
        """``count`` words of 64 bits for sum ``index``."""
        blocks = counters(index, -(-count // 2))
        place = np.empty(blocks.size + _SPARE_WORDS, "<u8")
        return _encrypt_into(self._encrypt, blocks, place)[:count]


def _block_cipher(key: bytes) -> Callable[[Any, Any], int]:
    """AES-256 of whole blocks: reads one buffer, writes another one."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import ECB

    return Cipher(AES(key), ECB()).encryptor().update_into


def _encrypt_into(encrypt: Callable[[Any, Any], int], blocks: Array, place: Array) -> Array:
    """The words that some counters become, in ``place``."""
    encrypt(blocks.view(np.uint8).reshape(-1).data, place.view(np.uint8).data)
    return place[: blocks.size].astype(np.uint64, copy=False)


def counters(index: int, blocks: int) -> Array:
    """The counters (i, k) of sum ``index``, so many blocks.

    Examples
    --------
    >>> counters(7, 2).astype(int).tolist()
    [[7, 0], [7, 1]]
    """
    found = np.empty((blocks, 2), ">u8")
    found[:, 0], found[:, 1] = index, np.arange(blocks)
    return found


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
            secret = os.urandom(_SECRET_BYTES)
            public = _public(X25519PrivateKey.from_private_bytes(secret[:32]))
            create(self.file, secret + sign(message + public))
        content = read_private(self.file)
        if len(content) <= _SECRET_BYTES:
            raise Dual2Error(
                f"{self.file} has {len(content)} bytes and is damaged. Restore it; a new attempt "
                "needs a new name of the run and another state folder."
            )
        self.private = X25519PrivateKey.from_private_bytes(content[:32])
        self.own = Randomness(content[32:_SECRET_BYTES])
        self.entry = _public(self.private) + content[_SECRET_BYTES:]

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

    public, signature = entry[:PUBLIC_KEY_BYTES], entry[PUBLIC_KEY_BYTES:]
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

        self.me = me
        self._pair_keys: dict[int, bytes] = {}
        self._tag_keys: dict[int, bytes] = {}
        self._counters = self._scratch = np.zeros(0, "<u8")
        for other, public in sorted(publics.items(), reverse=True):  # those to be added first
            first, second = sorted((me, other))
            pair = study + first.to_bytes(4, "little") + second.to_bytes(4, "little")
            try:
                shared = secret.private.exchange(X25519PublicKey.from_public_bytes(public))
            except ValueError as error:
                raise PeerError(f"Party {other} has told a mask key of no use: {error}.") from error
            self._pair_keys[other], self._tag_keys[other] = (
                HKDF(SHA256(), 32, salt=run, info=info + pair).derive(shared)
                for info in (_PAIR_INFO, _TAG_INFO)
            )

    def tags(self, chain: bytes, size: int) -> bytes:
        """For each of ``size`` parties a mark of ``chain`` that only this one can make for it."""
        return b"".join(self._tag(i, self.me, chain) for i in range(size))

    def is_same(self, other: int, tags: bytes, chain: bytes) -> bool:
        """Whether another party's ``tags`` say that it has the same chain."""
        found = tags[MARK * self.me : MARK * (self.me + 1)]
        return hmac.compare_digest(found, self._tag(other, other, chain))

    def _tag(self, other: int, sender: int, chain: bytes) -> bytes:
        if other not in self._tag_keys:
            return bytes(MARK)  # one's own place
        text = sender.to_bytes(4, "little") + chain
        return hmac.digest(self._tag_keys[other], text, "sha256")[:MARK]

    def draw(self, index: int, chain: bytes, shape: tuple[int, ...]) -> Array:
        """What this party adds its words of sum ``index`` to, which whoever asked may change.

        Parameters
        ----------
        index : int
            Number of the sum.
        chain : bytes
            Hash of all totals before it.
        shape : tuple of int
            (m,) for numbers of one word each: the sum of its masks. Or (m, limbs): the last number
            but one is then 1 more, since there all parties count themselves.
        """
        size, limbs = math.prod(shape), shape[1:]
        blocks, scratch = self._blocks(-(-size // 2))
        nonce = chain + index.to_bytes(8, "big")
        total = None
        for other, key in self._pair_keys.items():
            encrypt = _block_cipher(hmac.digest(key, nonce, "sha256"))
            place = scratch if total is not None else np.empty_like(scratch)
            mask = _encrypt_into(encrypt, blocks, place)[:size].reshape(-1, *limbs)
            adds = self.me < other
            if total is None:
                total = mask if adds else _negative(mask)
            elif not limbs:
                total += mask if adds else np.uint64(0) - mask
            else:
                (add_words if adds else subtract_words)(total, mask)
        assert total is not None, "there are other parties"
        if limbs:
            add_words(total[-2:-1], _one(limbs[0]))
        return total

    def _blocks(self, blocks: int) -> tuple[Array, Array]:
        """Counters of so many blocks, and room for what they become; kept for the next sum."""
        if self._counters.shape != (blocks, 2):
            self._counters = counters(0, blocks)
            self._scratch = np.empty(self._counters.size + _SPARE_WORDS, "<u8")
        return self._counters, self._scratch


def _negative(words: Array) -> Array:
    """Minus numbers of one or several words, modulo 2^(64 limbs)."""
    if words.ndim == 1:
        return np.uint64(0) - words
    found = np.zeros_like(words)
    subtract_words(found, words)
    return found


def _one(limbs: int) -> Array:
    """The number 1 in so many words."""
    found = np.zeros((1, limbs), np.uint64)
    found[0, 0] = 1
    return found
