"""Frames: what is no frame is refused before a byte of its payload is read."""

import asyncio
import random
import socket
import ssl
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dual2.runtime.peers.frames import (
    HEADER_BYTES,
    MAX_CONTROL_BYTES,
    Frame,
    FrameError,
    Kind,
    check_of,
    filled,
    frame_of,
    mark_of,
    parse_header,
)
from dual2.runtime.peers.tls_transport import Connection

RUN = bytes(range(16))
GOOD = replace(frame_of(Kind.UP, RUN, np.arange(6, dtype=np.uint64).reshape(3, 2), 7), seq=9)


@given(st.sampled_from([np.float64, np.uint64, np.uint8]), st.lists(st.integers(0, 4), max_size=3))
def test_arrays_come_back(dtype, shape):
    values = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    frame = replace(frame_of(Kind.ROWS, RUN, values, 5), seq=3)
    data = frame.packed()
    found = filled(parse_header(data[:HEADER_BYTES], 1000), data[HEADER_BYTES:])
    assert found == frame and found.content() == frame.content()
    assert (found.array() == values).all() and found.array().dtype == values.dtype


@pytest.mark.parametrize(
    "place, value, words",
    [
        (0, b"X", "begins with"),
        (4, b"\x00", "unknown kind 0"),
        (4, b"\x63", "unknown kind 99"),
        (5, b"\x09", "type 9"),
        (6, b"\x04", "4 dimensions"),
        (7, b"\x01", "unknown kind"),
        (8, bytes(8), "number 0 on a frame of kind UP"),
        (48, b"\x01\x00\x00\x00", "with 2 dimensions"),
        (52, struct.pack("<I", 47), "47 bytes announced for the shape"),
    ],
)
def test_each_field_of_the_header_is_checked(place, value, words):
    data = GOOD.packed()[:HEADER_BYTES]
    broken = data[:place] + value + data[place + len(value) :]
    with pytest.raises(FrameError, match=words):
        parse_header(broken, 10**6)


def test_ten_gigabytes_are_refused_before_they_are_read():
    huge = replace(GOOD, shape=(40_000, 40_000), length=0)
    with pytest.raises(FrameError, match="bytes announced for the shape"):
        parse_header(huge.header(0, 0), 10**6)
    large = Frame(Kind.UP, 2, (2**28,), seq=1, length=2**31)
    with pytest.raises(FrameError, match=f"{2**31} bytes announced; expected at most 1000000"):
        parse_header(large.header(0, 0), 10**6)
    control = frame_of(Kind.ABORT, RUN, bytes(MAX_CONTROL_BYTES + 1))
    with pytest.raises(FrameError, match="expected at most 4096"):
        parse_header(control.header(0, 0), 10**6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_mutated_headers_are_frames_or_frame_errors(seed):
    draw, data = random.Random(seed), GOOD.packed()[:HEADER_BYTES]
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(draw.randint(1, 6)):
            broken[draw.randrange(len(broken))] = draw.choice([0, 1, 255, draw.randrange(256)])
        try:
            found = parse_header(bytes(broken), 4096)
        except FrameError:
            continue
        assert found.length <= 4096 and found.kind in Kind


class Cut(socket.socket):
    """A socket whose bytes come in pieces, as those of TLS do; after the last the stream may end.

    The other end has written a byte once for all, so that there is always something to be read.
    """

    pieces: list[bytes]
    ends: bool
    other: socket.socket

    def getpeercert(self, binary_form: bool) -> bytes:
        return b"certificate"

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", 1

    def close(self) -> None:
        self.other.close()
        super().close()

    def pending(self) -> int:
        return 0

    def recv_into(self, buffer, nbytes=0, flags=0) -> int:  # type: ignore[override]
        while self.pieces and not self.pieces[0]:
            del self.pieces[0]
        if not self.pieces and not self.ends:
            raise ssl.SSLWantReadError
        found = self.pieces[0][: len(buffer)] if self.pieces else b""
        buffer[: len(found)] = found
        if found:
            self.pieces[0] = self.pieces[0][len(found) :]
        return len(found)


def socket_with(pieces: list[bytes], ends: bool = False) -> Any:
    """A socket that gives these pieces, one at a time."""
    one, other = socket.socketpair()
    found = Cut(fileno=one.detach())
    found.pieces, found.ends = pieces, ends
    found.setblocking(False)
    other.send(b"-")
    found.other = other
    return found


def test_the_payload_of_a_refused_frame_is_not_waited_for():
    async def read() -> None:
        large = Frame(Kind.UP, 2, (2**28,), seq=1, length=2**31)
        connection = Connection(socket_with([large.header(0, 0)]), 10**6, 5.0)
        try:
            async with asyncio.timeout(5.0):
                await connection.receive()
        finally:
            connection.close()

    with pytest.raises(FrameError, match="expected at most"):
        asyncio.run(read())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 300), max_size=6), st.lists(st.integers(1, 400), max_size=30))
def test_frames_come_whole_however_their_bytes_are_cut(lengths, cuts):
    frames = [
        replace(frame_of(Kind.ROWS, RUN, np.arange(k, dtype=np.uint8)), seq=1 + i)
        for i, k in enumerate(lengths)
    ]
    data = b"".join(frame.packed() for frame in frames)

    async def read() -> list[Frame | None]:
        pieces, rest = [], data
        for cut in cuts:
            pieces.append(rest[:cut])
            rest = rest[cut:]
        connection = Connection(socket_with([*pieces, rest], True), 1000, 5.0)
        return [await connection.receive() for _ in range(len(frames) + 1)]

    assert asyncio.run(read()) == [*frames, None]


@pytest.mark.parametrize("length", [100, 8192, 8193, 70_000])
def test_bytes_are_known_again_under_a_key(length):
    """However they are held; another byte or, of long ones, another key tells them apart."""
    words = np.arange(-(-length // 8), dtype=np.uint64)
    data = words.tobytes()[:length]
    key, other = bytes(range(32)), bytes(range(1, 33))
    found = check_of(key, data)
    assert len(found) == 16 and found == check_of(key, bytearray(data))
    if length % 16 == 0:
        assert found == check_of(key, words.reshape(-1, 2).data)
    for at in (0, length // 2, length - 1):
        changed = bytearray(data)
        changed[at] ^= 1
        assert check_of(key, changed) != found
    assert (found == mark_of(data)) == (found == check_of(other, data)) == (length <= 8192)
    assert check_of(b"", data) == mark_of(data)


@pytest.mark.parametrize("kind", [Kind.UP, Kind.DOWN, Kind.ROWS])
def test_only_long_parts_of_sums_are_not_copied(kind):
    values = np.arange(5000.0)
    frame = replace(frame_of(kind, RUN, values), seq=1)
    shared = np.shares_memory(np.frombuffer(frame.payload), values)
    assert shared == (kind != Kind.ROWS)
    data = frame.packed()
    found = filled(parse_header(data[:HEADER_BYTES], 10**6), data[HEADER_BYTES:])
    assert found == frame and (found.array() == values).all()
