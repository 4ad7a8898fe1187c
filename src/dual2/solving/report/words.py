"""Numbers and formulas as the tables of a report write them."""

import math
import re
from collections.abc import Mapping
from html import escape
from typing import Any

_LETTER = "[A-Za-z0-9Α-Ωα-ω]"
SUBSCRIPT = re.compile(
    f"(?<!{_LETTER})(?<!_)({_LETTER}|prox)_"
    f"(?:({_LETTER}{{1,3}}(?:&#x27;{_LETTER}?)?)(?!{_LETTER}|_)|{{([^{{}}]*)}})"
)
"""A letter, an underscore and an index: short, or in braces."""

POWER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]\d+)\b")
"""A number with an exponent."""

RAISED = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"


def number(value: Any) -> str:
    """A value as a person reads it.

    Examples
    --------
    >>> number(25274.14236908820), number(3_000_000), number(1.5e-9), number(None), number([1, 2])
    ('25\u202f274.1', '3\u202f000\u202f000', '1.5·10⁻⁹', '–', '1, 2')
    """
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and value < 1e9):
        return f"{int(value):,}".replace(",", "\u202f")
    if isinstance(value, float) and math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if isinstance(value, float):
        digits, _, exponent = f"{value:,.6g}".replace(",", "\u202f").partition("e")
        return f"{digits}·{power(int(exponent))}" if exponent else digits
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {number(member)}" for name, member in value.items())
    if isinstance(value, list | tuple):
        shown = ", ".join(number(member) for member in value[:12])
        return shown + (f", … ({len(value)} in all)" if len(value) > 12 else "")
    return str(value)


def mathematics(text: str) -> str:
    """Escaped text with subscripts (κ_C, prox_g) and powers of ten.

    Examples
    --------
    >>> mathematics("8.24e+15, gap ≤ 1e-08")
    '8.24·10¹⁵, gap ≤ 10⁻⁸'
    >>> mathematics("κ_Aρ < 9, x_iᵀP_i, μ_{h*}, max_rounds")
    'κ<sub>Aρ</sub> &lt; 9, x<sub>i</sub>ᵀP<sub>i</sub>, μ<sub>h*</sub>, max_rounds'
    """
    return SUBSCRIPT.sub(r"\1<sub>\2\3</sub>", POWER.sub(_power, escape(text)))


def _power(found: re.Match[str]) -> str:
    tens = power(int(found[2]))
    return tens if found[1] == "1" else f"{found[1]}·{tens}"


def power(exponent: int) -> str:
    """A power of ten as one writes it.

    Examples
    --------
    >>> power(-8)
    '10⁻⁸'
    """
    return "10" + str(exponent).translate(str.maketrans("-0123456789", RAISED))
