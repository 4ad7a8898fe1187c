"""The fields of a line of an MPS file, by blanks (free format) or by columns (fixed format)."""

from collections.abc import Callable

COLUMNS = ((1, 3), (4, 12), (14, 22), (24, 36), (39, 47), (49, 61))
"""Where the six fields of a line in fixed format stand, counted from 0."""

Split = Callable[[str, str], list[str]]
"""(line, section) -> the fields that are there; the first is the type in ROWS and BOUNDS."""


def split_free(text: str, section: str) -> list[str]:
    """Fields between blanks; what follows a ``$`` is a remark.

    Examples
    --------
    >>> split_free(" x  cost 1.0  $ euros", "COLUMNS")
    ['x', 'cost', '1.0']
    """
    fields = text.split()
    for k, one in enumerate(fields):
        if one.startswith("$") and k > 0:
            return fields[:k]
    return fields


def split_fixed(text: str, section: str) -> list[str]:
    """Fields by their columns, so that names may contain blanks.

    The set's name in RHS, RANGES and BOUNDS may be blank; it counts as a field then.

    Examples
    --------
    >>> split_fixed("    MY COL    MY ROW             1.5", "COLUMNS")
    ['MY COL', 'MY ROW', '1.5']
    """
    fields = [text[start:end].strip() for start, end in COLUMNS]
    while fields and not fields[-1]:
        fields.pop()
    typed = section in ("ROWS", "BOUNDS")
    return fields if typed else fields[1:]
