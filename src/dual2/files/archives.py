"""Arrays from npz files that somebody else may have written.

NumPy's own reader believes the headers: it allocates what they declare, evaluates them as Python
literals and unpacks whatever zlib gives. Here a header is held against a pattern, the declared
shape against the bytes that are there, and the sum of all sizes against that of the file.
"""

import io
import math
import os
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, LargeZipFile, ZipFile, ZipInfo

import numpy as np

from dual2.errors import Dual2Error, ProblemError
from dual2.files.reading import AnyPath, allowance, open_regular

DAMAGED = (
    OSError,
    ValueError,
    TypeError,
    EOFError,
    RuntimeError,
    ArithmeticError,
    LookupError,
    MemoryError,
    BadZipFile,
    LargeZipFile,
    struct.error,
    zlib.error,
)
"""What zipfile and zlib raise on broken, encrypted or exotic archives."""

_CHUNK, _MOST_AT_ONCE = 2**18, 2**20
_HEADER = re.compile(
    r"\{'descr': '(?P<dtype>[<>|=][biufU]\d{1,9})', 'fortran_order': (?P<turned>True|False), "
    r"'shape': \((?P<shape>(?:\d{1,18},? ?){0,32})\),? ?\} *\n"
)
_MAGIC = b"\x93NUMPY"
_LENGTHS = {b"\x01\x00": "<H", b"\x02\x00": "<I"}
"""How the length of a header is written, by version."""
_MOST_HEADER, _MOST_EMPTY = 10_000, 10**6


class _Cautious(io.BufferedReader):
    """A file that is read in small parts only: a directory of entries has to fit into one."""

    def read(self, size: int | None = -1, /) -> bytes:
        most = _MOST_AT_ONCE + 1 if size is None or size < 0 else size
        if most > _MOST_AT_ONCE + 1:
            raise BadZipFile("its list of entries is too long")
        return super().read(most)


def read_arrays(path: AnyPath) -> dict[str, np.ndarray]:
    """The arrays of an npz file: real numbers and text, no Python objects.

    Memory stays below twice the arrays that are really there. Entries may be compressed, to an
    extent (:func:`~dual2.files.reading.allowance`).

    Examples
    --------
    >>> import tempfile
    >>> from dual2.files import write_arrays
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_arrays(f"{folder}/a.npz", {"x": np.arange(3.0)})
    ...     read_arrays(f"{folder}/a.npz")
    {'x': array([0., 1., 2.])}
    """
    arrays: dict[str, np.ndarray] = {}
    with open_regular(path) as raw:
        size = os.fstat(raw.fileno()).st_size
        with _blaming(f"{path} cannot be read as an npz file"):
            archive = ZipFile(_Cautious(raw))
            _demand_honest_sizes(archive.infolist(), size)
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            with _blaming(f"{path}, entry {name!r}, cannot be read"):
                if name in arrays or name == entry.filename:
                    found = "it is there twice" if name in arrays else "it is no .npy array"
                    raise ValueError(found)
                arrays[name] = _read_entry(archive, entry)
    return arrays


@contextmanager
def _blaming(what: str) -> Iterator[None]:
    try:
        yield
    except Dual2Error:
        raise
    except DAMAGED as error:
        why = str(error) or type(error).__name__
        raise ProblemError(f"{what}: {why}. Write it anew, with numpy.savez.") from error


def _demand_honest_sizes(entries: list[ZipInfo], size: int) -> None:
    if sum(entry.compress_size for entry in entries) > size:
        raise ValueError("its entries overlap")
    total = sum(entry.file_size for entry in entries)
    if total > allowance(size):
        raise ValueError(
            f"{size} bytes claim to hold {total}; expected at most {allowance(size)} from a file "
            "of that size"
        )


def _read_entry(archive: ZipFile, entry: ZipInfo) -> np.ndarray:
    if entry.flag_bits & 0x1:
        raise ValueError("it is encrypted")
    if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError(f"it is compressed by the unknown method {entry.compress_type}")
    if entry.compress_type == ZIP_STORED and entry.compress_size != entry.file_size:
        raise ValueError(f"it has {entry.compress_size} bytes and claims {entry.file_size}")
    with archive.open(entry) as stream:
        dtype, shape, turned = _read_header(stream)
        left = entry.file_size - stream.tell()
        if math.prod(shape) * dtype.itemsize != left:
            raise ValueError(
                f"its header declares the shape {shape} of {dtype.str}, "
                f"{math.prod(shape) * dtype.itemsize} bytes; there are {left}"
            )
        data = bytearray()
        while chunk := stream.read(_CHUNK):
            data += chunk
    if len(data) != left:
        raise ValueError(f"it ends after {len(data)} of {left} bytes")
    flat = np.frombuffer(data, dtype) if left else np.empty(0, dtype)
    native = flat if dtype.isnative else flat.astype(dtype.newbyteorder("="))
    return native.reshape(shape, order="F" if turned else "C")


def _read_header(stream: IO[bytes]) -> tuple[np.dtype, tuple[int, ...], bool]:
    """Type, shape and whether columns come first, from the text before the data."""
    magic, version = stream.read(len(_MAGIC)), stream.read(2)
    if magic != _MAGIC or version not in _LENGTHS:
        raise ValueError(f"it begins with {magic + version!r}, not as a .npy array does")
    layout = _LENGTHS[version]
    (length,) = struct.unpack(layout, stream.read(struct.calcsize(layout)))
    if length > _MOST_HEADER:
        raise ValueError(f"its header has {length} characters")
    text = stream.read(length).decode("latin1")
    found = _HEADER.fullmatch(text)
    if found is None:
        raise ValueError(
            f"its header is {text.strip()[:200]!r}; expected an array of real numbers or text"
        )
    dtype = np.dtype(found["dtype"])
    shape = tuple(int(word) for word in found["shape"].replace(",", " ").split())
    if dtype.itemsize == 0 or (0 in shape and math.prod(max(d, 1) for d in shape) > _MOST_EMPTY):
        raise ValueError(f"its shape {shape} of {dtype.str} holds nothing")
    return dtype, shape, found["turned"] == "True"
