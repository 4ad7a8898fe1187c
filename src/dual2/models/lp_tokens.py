"""Words, numbers and signs of the LP format; sums of terms; sections."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from dual2.models.source import Place

RELATIONS = {
    "<=": "L", "=<": "L", "<": "L", ">=": "G", "=>": "G", ">": "G", "=": "E",
}  # fmt: skip
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_!\"#$%&(),;?@'`{}~|][\w!\"#$%&(),.;?@'`{}~|]*)"
    r"|(?P<sign><=|=<|>=|=>|[<>=+\-*/^:\[\]]))"
)
_SECTIONS = [
    ("minimise", re.compile(r"\s*(minimi[sz]e|minimum|min)(?=\s|:|$)", re.I)),
    ("maximise", re.compile(r"\s*(maximi[sz]e|maximum|max)(?=\s|:|$)", re.I)),
    ("constraints", re.compile(r"\s*(subject\s+to|such\s+that|s\.\s?t\.|st\.?)(?=\s|:|$)", re.I)),
    ("bounds", re.compile(r"\s*bounds?\s*$", re.I)),
    ("generals", re.compile(r"\s*(generals?|gen|integers?|int)\s*$", re.I)),
    ("binaries", re.compile(r"\s*(binary|binaries|bin)\s*$", re.I)),
    ("end", re.compile(r"\s*end\s*$", re.I)),
]
_REFUSED = re.compile(
    r"\s*(semi-continuous|semis?|sos[12]?|general\s+constraints|lazy\s+constraints|user\s+cuts|"
    r"pwlobj|scenario)\s*$",
    re.IGNORECASE,
)


@dataclass
class Expression:
    """A sum of a constant, linear terms and products."""

    constant: float = 0.0
    linear: dict[str, float] = field(default_factory=dict)
    products: dict[tuple[str, str], float] = field(default_factory=dict)

    def add_term(self, name: str | None, value: float) -> None:
        """Add value·name, or a constant."""
        if name is None:
            self.constant += value
        else:
            self.linear[name] = self.linear.get(name, 0.0) + value


class Tokens:
    """The tokens of one section, taken one after the other; errors name their line."""

    def __init__(self, found: list[tuple[str, str, int]], place: Place) -> None:
        self.found, self.place, self.k = found, place, 0

    def more(self) -> bool:
        """Whether any token is left."""
        return self.k < len(self.found)

    def peek(self, ahead: int = 0) -> str:
        """A token that is not taken yet; empty where there is none."""
        k = self.k + ahead
        return self.found[k][1] if k < len(self.found) else ""

    def is_name(self) -> bool:
        """Whether the next token is a name."""
        return self.more() and self.found[self.k][0] == "name"

    def is_number(self) -> bool:
        """Whether the next token is a number."""
        return self.more() and self.found[self.k][0] == "number"

    def take(self) -> str:
        """The next token."""
        if not self.more():
            self.place.fail("the section ends in the middle of a statement.")
        _, text, self.place.line = self.found[self.k]
        self.k += 1
        return text

    def at_label(self) -> bool:
        """Whether a name and a colon come next."""
        return self.peek(1) == ":"

    def label(self) -> str:
        """The name before the colon."""
        name = self.take()
        self.take()
        return name

    def expression(self, *, quadratic: bool = False) -> Expression:
        """A sum of terms, up to a relation, a label or the end."""
        total, first = Expression(), True
        while self.more() and not self.at_label():
            if self.peek() in RELATIONS:
                break
            if not first and self.peek() not in ("+", "-", "["):
                break
            sign = self._signs()
            if self.peek() == "[":
                if not quadratic:
                    self.take()
                    self.place.fail("quadratic constraints are not served; expected linear terms.")
                self._brackets(total, sign)
            else:
                total.add_term(*self._term(sign))
            first = False
        return total

    def _signs(self) -> float:
        sign = 1.0
        while self.peek() in ("+", "-"):
            sign *= -1.0 if self.take() == "-" else 1.0
        return sign

    def _term(self, value: float) -> tuple[str | None, float]:
        """``3 x``, ``3 * x``, ``x`` or ``3``."""
        if self.is_number():
            value *= self.place.number(self.take())
            if self.peek() == "*":
                self.take()
            elif not self.is_name() or self.at_label():
                return None, value
        if not self.is_name():
            found = self.take()
            self.place.fail(f"expected a number or a variable; found {found!r}.")
        return self.take(), value

    def _brackets(self, total: Expression, sign: float) -> None:
        """``[ 2 x^2 + 4 x * y ] / 2``: products, halved where it says so."""
        self.take()
        inside: dict[tuple[str, str], float] = {}
        while self.peek() != "]":
            name, value = self._term(self._signs())
            if name is None:
                self.place.fail("brackets hold squares and products; found a number alone.")
            inside_pair = (name, self._second_factor(name))
            inside[inside_pair] = inside.get(inside_pair, 0.0) + value
        self.take()
        if self.peek() == "/":
            self.take()
            if self.place.number(self.take()) != 2:
                self.place.fail("expected ] / 2 after the products.")
            sign *= 0.5
        for pair, value in inside.items():
            total.products[pair] = total.products.get(pair, 0.0) + sign * value

    def _second_factor(self, name: str) -> str:
        if self.peek() == "^":
            self.take()
            if self.place.number(self.take()) != 2:
                self.place.fail(f"{name} has a power other than 2.")
            return name
        if self.take() != "*" or not self.is_name():
            self.place.fail(f"expected {name}^2 or a product of two variables.")
        return self.take()


def cut_sections(lines: list[str], place: Place) -> Iterator[tuple[str, Tokens]]:
    """The sections of a file, in their order, with their tokens."""
    section, found = "", []
    ended = False
    for text in place.walk(lines):
        text = text.split("\\")[0]
        if _REFUSED.match(text):
            place.fail(
                f"the section {text.strip()!r} has no place in a linear or quadratic program."
            )
        for name, pattern in _SECTIONS:
            head = pattern.match(text)
            if head:
                if section:
                    yield section, Tokens(found, place)
                section, found, text = name, [], text[head.end() :].removeprefix(":")
                break
        ended = section == "end"
        if ended:
            break
        tokens = list(_tokens(text, place))
        if tokens and not section:
            place.fail("expected Minimize or Maximize at the beginning.")
        found += tokens
    if not ended:
        place.fail("the file ends without End; it may be cut off.")


def _tokens(text: str, place: Place) -> Iterator[tuple[str, str, int]]:
    at, text = 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            place.fail(f"{text[at:].strip()[:20]!r} is no name, number or sign.")
        yield str(found.lastgroup), found[str(found.lastgroup)], place.line
        at = found.end()
