"""Files: written whole or not at all, read without trusting them."""

from dual2.files.archives import read_arrays
from dual2.files.locks import locked
from dual2.files.reading import read_bytes, read_text
from dual2.files.texts import parse_json, parse_toml, read_json, read_toml, to_csv
from dual2.files.writing import (
    DIGEST_SIZE,
    digest,
    refuse_existing,
    remove_leftovers,
    write_arrays,
    write_atomically,
)

__all__ = [
    "DIGEST_SIZE",
    "digest",
    "locked",
    "parse_json",
    "parse_toml",
    "read_arrays",
    "read_bytes",
    "read_json",
    "read_text",
    "read_toml",
    "refuse_existing",
    "remove_leftovers",
    "to_csv",
    "write_arrays",
    "write_atomically",
]
