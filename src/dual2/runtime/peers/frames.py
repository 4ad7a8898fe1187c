"""What travels between two parties: a header of 88 bytes, checked before anything else is read."""

import itertools
import math
import struct
import sys
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import sha256

import numpy as np

from dual2.errors import PeerError

Array = np.ndarray
Bytes = bytes | bytearray | memoryview
MAGIC = b"D2F1"
MARK = 16
"""Bytes of a run's name, and of the chain of totals that a header has room for."""
CHAIN_BYTES = 32
"""Bytes of the chain of totals: whoever makes the totals must not find two of the same hash."""
MAX_CONTROL_BYTES = 4096
"""Most bytes of a frame that is not numbered."""
_HEADER = struct.Struct("<4s4sQQQQIIII16s16s")
HEADER_BYTES = _HEADER.size
_HEARD, _SAID = 16, 32
"""Where ``ack`` and ``stable`` begin and end in a header."""
_NO_MARK = bytes(MARK)
_COPIED_BYTES = 1 << 14
"""Bytes of a part of a sum up to which its frame has a copy of its own."""
SHORT_BYTES = 1 << 13
"""Bytes up to which SHA-256 is as fast as anything else."""


def mark_of(*parts: Bytes) -> bytes:
    """16 bytes of the SHA-256 of all parts, one after the other; processors have it built in.

    Examples
    --------
    >>> mark_of(b"ab", b"c").hex()
    'ba7816bf8f01cfea414140de5dae2223'
    """
    whole = parts[0] if len(parts) == 1 else b"".join(parts)
    return sha256(whole).digest()[:MARK]


def chain_of(chain: bytes, *parts: bytes) -> bytes:
    """The chain of totals after some more, each by its SHA-256.

    Examples
    --------
    >>> len(chain_of(bytes(CHAIN_BYTES), sha256(b"total").digest()))
    32
    """
    return sha256(b"".join((chain, *parts))).digest()


def check_of(key: bytes, data: Bytes) -> bytes:
    """16 bytes by which a party knows some bytes again, for itself alone; nobody else sees them.

    Of short ones, or without a key, as ``mark_of``. Of long ones Poly1305 under a ``key`` that
    nobody else knows, which is faster: L bytes that were chosen without it agree with
    others by a chance of L/2¹⁰⁷ at most. Where others compare, or choose with knowledge of the key,
    only ``mark_of`` will do.
    """
    view = memoryview(data)
    if not key or view.nbytes <= SHORT_BYTES:
        return mark_of(data)
    from cryptography.hazmat.primitives.poly1305 import Poly1305

    return Poly1305.generate_tag(key, view.cast("B"))


class Kind(IntEnum):
    """What a frame is for."""

    HELLO = 1
    UP = 2
    DOWN = 3
    ROWS = 4
    KEYS = 5
    ACK = 6
    PING = 7
    BYE = 8
    ABORT = 9


NUMBERED = frozenset({Kind.UP, Kind.DOWN, Kind.ROWS, Kind.KEYS, Kind.BYE})
"""Kinds that the program sends and consumes, each exactly once."""
_OF_SUMS = frozenset({Kind.UP, Kind.DOWN})
_TYPES = (None, np.dtype("<f8"), np.dtype("<u8"), np.dtype("u1"))
_SIZES = (0, 8, 8, 1)
_NUMBERS = {"d": 1, "L": 2, "Q": 2}
"""Types of arrays by what NumPy calls them; any other one is of bytes."""
_LITTLE = sys.byteorder == "little"
_UNUSED = ((0, 0, 0), (0, 0), (0,), ())
"""Places of a header that a shape of so many dimensions leaves."""
_FORMS = {
    bytes((kind, dtype, ndim, 0)): (kind, dtype, ndim, kind in NUMBERED)
    for kind, dtype, ndim in itertools.product(Kind, range(4), range(4))
    if dtype or not ndim
}
"""What bytes 4 to 7 of a header mean: kind, type, dimensions, and whether it has a number."""
_BYTES = {form[:3]: data for data, form in _FORMS.items()}


class FrameError(PeerError):
    """Bytes that are no frame of this protocol."""


@dataclass(slots=True)
class Frame:
    """A header and its payload, once made never changed.

    ``ack`` and ``stable`` are filled in when it is written.

    Attributes
    ----------
    seq : int
        Number in the order of the program, 0 for control frames.
    ack, stable : int
        Next number that the sender expects; below ``stable`` the receiver may forget its own.
    tag : int
        Which sum or round.
    chain : bytes
        Hash of all totals that the sender has seen.
    mark : bytes
        ``check_of`` the payload, as soon as it is known: what came is read once for all who ask.
    head : bytes
        The header of a frame that came.
    """

    kind: Kind
    dtype: int = 0
    shape: tuple[int, ...] = ()
    seq: int = 0
    ack: int = 0
    stable: int = 0
    tag: int = 0
    length: int = 0
    run: bytes = _NO_MARK
    chain: bytes = _NO_MARK
    payload: Bytes = b""
    mark: bytes = field(default=b"", compare=False, repr=False)
    head: bytes = field(default=b"", compare=False, repr=False)

    def header(self, ack: int, stable: int) -> bytes:
        """The 88 bytes, with what the sender has heard so far."""
        shape = self.shape
        return _HEADER.pack(
            MAGIC,
            _BYTES[self.kind, self.dtype, len(shape)],
            self.seq,
            ack,
            stable,
            self.tag,
            *shape,
            *_UNUSED[len(shape)],
            self.length,
            self.run,
            self.chain,
        )

    def numbered(self, seq: int) -> "Frame":
        """With its number in the order of the program: itself, or a copy if it has one already."""
        if not self.seq:
            self.seq = seq
            return self
        return Frame(
            self.kind,
            self.dtype,
            self.shape,
            seq,
            self.ack,
            self.stable,
            self.tag,
            self.length,
            self.run,
            self.chain,
            self.payload,
            self.mark,
        )

    def bare(self) -> "Frame":
        """A frame that came, without its payload: that it came, and what it was known by."""
        found = self.numbered(self.seq)
        found.head, found.mark, found.payload = self.head, self.mark or self.hashed(), b""
        return found

    def packed(self) -> bytes:
        """Header and payload."""
        return self.header(self.ack, self.stable) + self.payload

    def content(self) -> bytes:
        """Hash of what must be the same whenever a frame is sent again: all but what was heard."""
        head = self.head or self.header(0, 0)
        return mark_of(head[:_HEARD], head[_SAID:], self.mark or self.hashed())

    def hashed(self) -> bytes:
        """``mark_of`` the payload; of a short one made once."""
        if self.length > SHORT_BYTES:
            return mark_of(self.payload)
        self.mark = self.mark or mark_of(self.payload)
        return self.mark

    def digest(self) -> bytes:
        """SHA-256 of the payload, for the chain of totals, which all parties compare."""
        found = sha256(self.payload).digest()
        if self.length <= SHORT_BYTES:
            self.mark = found[:MARK]
        return found

    def array(self) -> Array:
        """The payload as an array."""
        dtype = _TYPES[self.dtype]
        assert dtype is not None, "frames without numbers are not asked for them"
        found = np.frombuffer(self.payload, dtype).reshape(self.shape)
        return found if _LITTLE else found.astype(dtype.newbyteorder("="))


def frame_of(
    kind: Kind,
    run: bytes,
    values: Array | bytes | None = None,
    tag: int = 0,
    chain: bytes = _NO_MARK,
) -> Frame:
    """A frame with an array, or bytes, as its payload.

    A long array of a sum is not copied: it must not change any more.

    Examples
    --------
    >>> frame = frame_of(Kind.ROWS, bytes(16), np.ones((2, 3))).numbered(1)
    >>> parse_header(frame.packed()[:HEADER_BYTES], 48).shape
    (2, 3)
    """
    if values is None:
        return Frame(kind, run=run, tag=tag, chain=chain)
    if isinstance(values, bytes):
        values = np.frombuffer(values, np.uint8)
    code, length = _NUMBERS.get(values.dtype.char, 3), values.nbytes
    whole = values if _LITTLE else values.astype(_TYPES[code])
    if length > _COPIED_BYTES and kind in _OF_SUMS:
        payload = np.ascontiguousarray(whole).reshape(-1).view(np.uint8).data
    else:
        payload = whole.tobytes()
    return Frame(kind, code, values.shape, 0, 0, 0, tag, length, run, chain, payload)


def parse_header(data: Bytes, limit: int) -> Frame:
    """The frame that a header announces, without its payload; ``FrameError`` if it is none.

    ``data`` begins with it. ``limit`` is the largest payload of a numbered frame; others have at
    most 4096 bytes.
    """
    if len(data) < HEADER_BYTES:
        raise FrameError(f"it has {len(data)} bytes; expected {HEADER_BYTES}")
    magic, word, seq, ack, stable, tag, a, b, c, length, run, chain = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise FrameError(f"it begins with {magic!r}; expected {MAGIC!r}")
    if word not in _FORMS:
        raise FrameError(f"unknown kind {word[0]}, type {word[1]} or {word[2]} dimensions")
    kind, dtype, ndim, numbered = _FORMS[word]
    shape = (a, b, c)
    used = shape[:ndim]
    if shape[ndim:] != _UNUSED[ndim]:
        raise FrameError(f"shape {shape} with {ndim} dimensions of type {dtype}")
    if length != math.prod(used) * _SIZES[dtype]:
        raise FrameError(f"{length} bytes announced for the shape {used} of type {dtype}")
    if (seq > 0) != numbered:
        raise FrameError(f"number {seq} on a frame of kind {kind.name}")
    if length > (limit if numbered else MAX_CONTROL_BYTES):
        most = limit if numbered else MAX_CONTROL_BYTES
        raise FrameError(f"{length} bytes announced; expected at most {most}")
    whole = bytes(data[:HEADER_BYTES])
    return Frame(kind, dtype, used, seq, ack, stable, tag, length, run, chain, b"", b"", whole)


def filled(header: Frame, payload: bytes | bytearray) -> Frame:
    """The announced frame, which has its payload now."""
    header.payload = payload
    return header
