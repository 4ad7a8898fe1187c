"""Identifiers of rows: one form for all parties; what cannot be used is counted, never shown."""

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from dual2.errors import Refusal
from dual2.learn.vertical.learning_terms import INTEGER
from dual2.learn.vertical.tables import Table

TOKEN_BYTES = 16
"""Bytes of a hash that stands for an identifier."""
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,1000}\s*")


def read_ids(table: Table, name: str, kind: str) -> list[str]:
    """The ids of all rows, as text in one form: NFKC without spaces around it, or a whole number.

    Examples
    --------
    >>> from dual2.learn.vertical.tables import as_table
    >>> read_ids(as_table({"id": ["07 ", "+8"]}), "id", "integer")
    ['7', '8']
    >>> read_ids(as_table({"id": ["a", "a", None]}), "id", "text")
    Traceback (most recent call last):
    dual2.errors.Refusal: the table: 1 of 3 values in the column 'id' is missing. ...
    """
    values = table.column(name)
    _refuse(table, name, sum(value is None for value in values), "missing", "Remove those rows.")
    odd = [value for value in values if not _fits(value, kind)]
    kinds = ", ".join(sorted({type(value).__name__ for value in odd}))
    wanted = "whole numbers" if kind == INTEGER else "text"
    words = f"of another type ({kinds}) than the study's ids, which are {wanted}"
    _refuse(table, name, len(odd), words, "Convert the column at all parties in the same way.")
    ids = [_normal(value, kind) for value in values]
    _refuse(table, name, len(ids) - len(set(ids)), "there before", "Every id must occur once.")
    return ids


def _fits(value: Any, kind: str) -> bool:
    if kind == INTEGER:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole or (isinstance(value, str) and _WHOLE.fullmatch(value) is not None)
    return isinstance(value, str) and _is_text(value)


def _is_text(value: str) -> bool:
    """Whether there are bytes for it: half of a pair of code points has none."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _normal(value: Any, kind: str) -> str:
    if kind == INTEGER:
        return str(int(value))
    return unicodedata.normalize("NFKC", value).strip()


def _refuse(table: Table, name: str, count: int, words: str, advice: str) -> None:
    if count:
        text = f"{count} of {len(table)} values in the column {name!r} {_be(count)} {words}."
        told = f"{count} of its ids {_be(count)} {words.partition(' (')[0]}."
        raise Refusal(f"{table.where}: {text} {advice}", told)


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def tokens_of(key: bytes, ids: Iterable[str]) -> list[bytes]:
    """Keyed hashes of ids: HMAC-SHA256, cut to 16 bytes."""
    return [hmac.digest(key, one.encode(), hashlib.sha256)[:TOKEN_BYTES] for one in ids]


def digest_of(tokens: Sequence[bytes]) -> str:
    """Hash of tokens in their order."""
    return hashlib.sha256(b"".join(tokens)).hexdigest()


def cut(data: bytes, size: int = TOKEN_BYTES) -> list[bytes]:
    """Bytes in pieces of one size."""
    return [data[at : at + size] for at in range(0, len(data), size)]
