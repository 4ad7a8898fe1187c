"""Files that are broken in many ways, for every reader of files that a user may hand over."""

import io
import os
import struct
import warnings
import zipfile
from functools import cache
from pathlib import Path

import numpy as np

TRAP = "{'descr': __import__('os').mkdir('executed'), 'fortran_order': False, 'shape': (1,), }"


def headed(shape: str, data: bytes = b"12345678", dtype: str = "<f8", **more: bytes) -> bytes:
    """A .npy file that declares a shape."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    return npy(header, data, **more)


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    """A .npy file with a header of one's own."""
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + data


def array_bytes(array: object, **options: object) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), **options)
    return stream.getvalue()


def entries(data: bytes) -> dict[str, bytes]:
    """Contents of an archive by name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as out:
        for name, data in members.items():
            out.writestr(zipfile.ZipInfo(name), data, method)
    return stream.getvalue()


def patched(data: bytes, local: int, central: int, layout: str, value: int) -> bytes:
    """One field of the first entry's headers changed, in front of it and in the directory."""
    raw = bytearray(data)
    struct.pack_into(layout, raw, raw.index(b"PK\x03\x04") + local, value)
    struct.pack_into(layout, raw, raw.index(b"PK\x01\x02") + central, value)
    return bytes(raw)


def with_first(make):
    """The archive with its first large entry replaced by what ``make(content)`` gives."""

    def change(data: bytes) -> bytes:
        members = entries(data)
        name = max(members, key=lambda key: len(members[key]) if "document" not in key else 0)
        return archive(members | {name: make(members[name])})

    return change


def overlapping(data: bytes) -> bytes:
    """Many names in the directory for the same bytes."""
    stream = io.BytesIO(archive({"a.npy": array_bytes(np.arange(2000.0))}))
    with zipfile.ZipFile(stream, "a") as out:
        first = out.infolist()[0]
        for k in range(50):
            twin = zipfile.ZipInfo(f"a{k}.npy")
            for field in ("header_offset", "file_size", "compress_size", "CRC"):
                setattr(twin, field, getattr(first, field))
            out.filelist.append(twin)
            out.NameToInfo[twin.filename] = twin
        out._didModify = True
    return stream.getvalue()


def twice(data: bytes) -> bytes:
    stream = io.BytesIO(data)
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "a") as out:
        warnings.simplefilter("ignore")
        out.writestr(out.namelist()[0], b"")
    return stream.getvalue()


def corrupt_deflate(data: bytes) -> bytes:
    raw = bytearray(archive(entries(data), zipfile.ZIP_DEFLATED))
    start = raw.index(b"PK\x03\x04") + 30 + raw[raw.index(b"PK\x03\x04") + 26]
    raw[start : start + 40] = b"\xff" * 40
    return bytes(raw)


def flipped(data: bytes) -> bytes:
    largest = max(entries(data).values(), key=len)
    middle = data.index(largest) + len(largest) // 2
    return data[:middle] + bytes([data[middle] ^ 0x5A]) + data[middle + 1 :]


def bomb(data: bytes) -> bytes:
    zeros = array_bytes(np.zeros(2**22))
    return archive(entries(data) | {"zeros.npy": zeros}, zipfile.ZIP_DEFLATED)


@cache
def wide_directory() -> bytes:
    """A directory of entries that is longer than any honest one."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as out:
        for k in range(12_000):
            out.writestr(f"{k:090d}.npy", b"")
    return stream.getvalue()


ARCHIVES = {
    "nothing": lambda data: b"",
    "text": lambda data: b"format = 1",
    "half": lambda data: data[: len(data) // 2],
    "last byte missing": lambda data: data[:-1],
    "no directory": lambda data: data[: data.index(b"PK\x01\x02")],
    "directory only": lambda data: data[data.index(b"PK\x01\x02") :],
    "a flipped byte": flipped,
    "encrypted": lambda data: patched(data, 6, 8, "<H", 1),
    "strong encryption": lambda data: patched(data, 6, 8, "<H", 0x41),
    "patched data": lambda data: patched(data, 6, 8, "<H", 0x20),
    "method 99": lambda data: patched(data, 8, 10, "<H", 99),
    "bzip2": lambda data: archive(entries(data), zipfile.ZIP_BZIP2),
    "lzma": lambda data: archive(entries(data), zipfile.ZIP_LZMA),
    "corrupt deflate": corrupt_deflate,
    "wrong sizes": lambda data: patched(data, 22, 24, "<I", 10**9),
    "wrong offset": lambda data: patched(data, 22, 42, "<I", 10**8),
    "overlapping": overlapping,
    "bomb": bomb,
    "wide directory": lambda data: wide_directory(),
    "no array": lambda data: archive(entries(data) | {"note.txt": b"hello"}),
    "outside": lambda data: archive(entries(data) | {"../../out.npy": array_bytes([1.0])}),
    "twice": twice,
    "pickled": with_first(
        lambda old: array_bytes(np.array([{"a": 1}], dtype=object), allow_pickle=True)
    ),
    "objects": with_first(lambda old: headed("(1,)", b"cos\nsystem\n", "|O")),
    "complex": with_first(lambda old: array_bytes(np.ones(3) * 1j)),
    "fields": with_first(lambda old: array_bytes(np.zeros(3, dtype=[("a", "f8")]))),
    "dates": with_first(lambda old: array_bytes(np.zeros(3, dtype="M8[s]"))),
    "bytes": with_first(lambda old: array_bytes(np.array([b"abc"]))),
    "code in the header": with_first(lambda old: npy(TRAP)),
    "deep header": with_first(lambda old: npy("(" * 9000)),
    "no header": with_first(lambda old: b"\x93NUMPY\x01\x00"),
    "another version": with_first(lambda old: headed("(1,)", version=b"\x09\x00")),
    "no npy": with_first(lambda old: b"hello"),
    "a huge shape": with_first(lambda old: headed("(1000000000000,)")),
    "a shape of 400 digits": with_first(lambda old: headed(f"(1{400 * '0'},)")),
    "a negative shape": with_first(lambda old: headed("(-1,)")),
    "a huge shape of nothing": with_first(lambda old: headed("(0, 1000000000000)", b"")),
    "40 dimensions": with_first(lambda old: headed(f"({40 * '1, '})")),
    "a short shape": with_first(lambda old: headed("(1,)", 16 * b"1")),
    "a long text": with_first(lambda old: headed("()", 16 * b"1", "<U999999999")),
    "a text of nothing": with_first(lambda old: headed("(5,)", b"", "<U0")),
    "words": with_first(lambda old: array_bytes(np.array(["1.0", "2.0"]))),
}
"""What may be done to the bytes of an npz file."""

DEEP = 100_000
TEXTS = {
    "nothing": lambda data: b"",
    "binary": lambda data: bytes(range(256)),
    "Latin-1": lambda data: data + b'\nname = "\xe9"\n',
    "half": lambda data: data[: len(data) // 2],
    "a null byte": lambda data: data + b"\nx = \x00\n",
    "lists in lists": lambda data: data + b"\nx = " + DEEP * b"[" + DEEP * b"]",
    "open lists": lambda data: data + b"\nx = " + DEEP * b"[",
    "tables in tables": lambda data: data + b"\nx = " + DEEP * b"{a = " + b"1" + DEEP * b"}",
    "a dotted key": lambda data: data + b"\n" + DEEP * b"a." + b"a = 1\n",
    "a quoted dotted key": lambda data: data + b"\n" + DEEP * b'"a b".' + b"a = 1\n",
    "a dotted table": lambda data: data + b"\n[" + DEEP * b"a." + b"a]\n",
    "an endless text": lambda data: data + b'\nx = """' + DEEP * b'\\"""',
    "masses of tables": lambda data: data + b"".join(b"\n[t%d]" % k for k in range(60_000)),
    "masses of keys": lambda data: data + b"".join(b"\nk%d = 1" % k for k in range(60_000)),
    "masses of lists": lambda data: data + b"\nx = [" + 1_000_001 * b"[]," + b"]\n",
    "too long": lambda data: data + (16 * 2**20) * b" ",
    "400 digits": lambda data: b"big = 1" + 400 * b"0" + b"\n" + data,
    "5000 digits": lambda data: b"big = 1" + 5000 * b"0" + b"\n" + data,
    "a date": lambda data: b"day = 1979-05-27\n" + data,
    "the same key twice": lambda data: data + b"\nx = 1\nx = 2\n",
    "an unknown entry": lambda data: b"unknown = 3\n" + data,
}
"""What may be done to the bytes of a TOML file."""


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _loop(path: Path) -> None:
    path.symlink_to(path)


PLACES = {
    "a named pipe": _fifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a terminal": lambda path: path.symlink_to("/dev/ptmx"),
    "a folder": lambda path: path.mkdir(),
    "a loop": _loop,
}
"""What may be in the place of a file."""
