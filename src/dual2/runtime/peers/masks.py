"""Masks that cancel in the total: nobody sees anybody's part of a sum.

Each pair of parties shares a key (X25519, HKDF) and, for every sum, a stream of random words
(AES-256 in counter mode, one nonce per sum). Of a pair the first adds it, the second subtracts it.
A party's words are uniform to whoever does not know all of its streams.
"""

import hmac
import math
import os
from collections.abc import Mapping
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
PUBLIC = 32
"""Bytes of a public key."""
_SECRET = 64
_SPARE = 2
"""Words beyond what is encrypted: the cipher wants room for one block more."""
_AHEAD = 16_384
"""Words of the masks that are drawn at once, for one sum or for several that follow."""


class Randomness:
    """Words that follow from a key and the number of a sum: the same after a restart.

    Block k of sum i is AES-256 of the 16 bytes (i, k), highest byte first: counter mode, one nonce
    per sum.
    """

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import ECB

        self._encrypt = Cipher(AES(key), ECB()).encryptor().update_into

    def words(self, index: int, count: int) -> Array:
        """``count`` words of 64 bits for sum ``index``."""
        return self.encrypt(counters(index, 1, -(-count // 2)))[:count]

    def encrypt(self, blocks: Array, place: Array | None = None) -> Array:
        """The words that some counters become, in ``place`` if there is one."""
        if place is None:
            place = np.empty(blocks.size + _SPARE, "<u8")
        self._encrypt(blocks.view(np.uint8).reshape(-1).data, place.view(np.uint8).data)
        return place[: blocks.size].astype(np.uint64, copy=False)


def counters(index: int, sums: int, blocks: int) -> Array:
    """The counters (i, k) of some sums from ``index`` on, so many blocks each.

    Examples
    --------
    >>> counters(7, 2, 2).astype(int).tolist()
    [[[7, 0], [7, 1]], [[8, 0], [8, 1]]]
    """
    found = np.empty((sums, blocks, 2), ">u8")
    _number(found, index)
    found[:, :, 1] = np.arange(blocks)
    return found


def _number(blocks: Array, index: int) -> None:
    """Put in the numbers of the sums."""
    blocks[:, :, 0] = np.arange(index, index + len(blocks), dtype=">u8")[:, None]


def _one(numbers: int, limbs: int) -> Array:
    """So many ones of some words each."""
    found = np.zeros((numbers, limbs), np.uint64)
    found[:, 0] = 1
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

        self.me = me
        self._pairs: dict[int, Randomness] = {}
        self._tags: dict[int, bytes] = {}
        self._shape: tuple[int, ...] = ()
        self._alike = False
        self._drawn: dict[int, Array] = {}
        self._blocks = self._scratch = np.zeros(0, "<u8")
        for other, public in sorted(publics.items(), reverse=True):  # those to be added first
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

    def draw(self, index: int, shape: tuple[int, ...]) -> Array:
        """What this party adds its words of sum ``index`` to, which whoever asked may change.

        ``shape`` is (m,) for numbers of one word each: the sum of its masks. Or it is (m, limbs):
        the last number but one is then 1 more, since there all parties count themselves.
        """
        self._alike = shape == self._shape
        if not self._alike:
            self._shape, self._drawn = shape, {}
        if index not in self._drawn:
            self._fill(index)
        drawn = self._drawn
        return drawn[index].copy() if len(drawn) > 1 else drawn.pop(index)

    def prepare(self, index: int) -> None:
        """Draw for a sum to come, if the last ones had one shape: it usually has it too."""
        if index not in self._drawn and self._alike:
            self._fill(index)

    def _fill(self, index: int) -> None:
        """Masks of one sum; of several that follow where they are short and alike."""
        shape = self._shape
        size = math.prod(shape)
        sums = max(1, _AHEAD // max(size, 1)) if self._alike and size % 2 == 0 else 1
        drawn = self._draw(index, sums, size, shape[1:]).reshape(sums, *shape)
        if len(shape) == 2:
            add_words(drawn[:, -2], _one(sums, shape[1]))
        self._drawn = dict(zip(range(index, index + sums), drawn, strict=True))

    def _draw(self, index: int, sums: int, size: int, limbs: tuple[int, ...]) -> Array:
        """Masks of some sums, one after the other: ± AES(counters) of each pair."""
        blocks, total = self._counters(index, sums, -(-size // 2)), None
        for other, stream in self._pairs.items():
            if total is None and self.me < other:
                total = stream.encrypt(blocks)[: sums * size].reshape(-1, *limbs)
                continue
            mask = stream.encrypt(blocks, self._scratch)[: sums * size].reshape(-1, *limbs)
            total = np.zeros_like(mask) if total is None else total
            if not limbs:
                total += mask if self.me < other else np.uint64(0) - mask
            else:
                (add_words if self.me < other else subtract_words)(total, mask)
        assert total is not None, "there are other parties"
        return total

    def _counters(self, index: int, sums: int, blocks: int) -> Array:
        """Those of the last time, if only the number of the sum is another one."""
        if self._blocks.shape == (sums, blocks, 2):
            _number(self._blocks, index)
        else:
            self._blocks = counters(index, sums, blocks)
            self._scratch = np.empty(self._blocks.size + _SPARE, "<u8")
        return self._blocks
