"""Complexity formulas: one text that prints as it stands and evaluates at numbers."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

Numbers = Mapping[str, float]
Term = Callable[[Numbers], float]
_TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?|[(),√^/·]|[^\s(),√^/·]+)")


@dataclass(frozen=True)
class Formula:
    """A product of powers, roots, maxima and logarithms, as written.

    Factors stand side by side or are joined by ``·`` and ``/``; ``√`` binds the next factor,
    ``^`` takes a number, ``max(a, b)`` and ``log(a)`` are the functions. Symbols are any other
    words.

    Examples
    --------
    >>> bound = Formula("√(κ_f κ_C) max(κ_pd, κ_h*) log(1/ε)")
    >>> sorted(bound.symbols)
    ['ε', 'κ_C', 'κ_f', 'κ_h*', 'κ_pd']
    >>> Formula("√(κ_f κ_C) max(κ_pd, κ_h*)")({"κ_f": 4, "κ_C": 9, "κ_pd": 5, "κ_h*": 7})
    42.0
    """

    text: str  # the formula

    def __str__(self) -> str:
        return self.text

    @cached_property
    def symbols(self) -> frozenset[str]:
        """Names that need a value."""
        words = set(_TOKEN.findall(self.text)) - {"max", "log", *"(),√^/·"}
        return frozenset(word for word in words if not word[0].isdigit())

    @cached_property
    def _term(self) -> Term:
        return _Reader(_TOKEN.findall(self.text)).product()

    def __call__(self, numbers: Numbers) -> float:
        """Value at the given numbers; infinite or NaN where they are, never an error for that."""
        return self._term(numbers)


class _Reader:
    """Recursive descent over the tokens of a formula."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.place = 0

    def product(self) -> Term:
        terms: list[tuple[Term, float]] = [(self.power(), 1.0)]
        while self.peek() not in (")", ",", ""):
            sign = -1.0 if self.peek() == "/" else 1.0
            if self.peek() in ("/", "·"):
                self.take()
            terms.append((self.power(), sign))
        return lambda numbers: math.prod(_power(term(numbers), sign) for term, sign in terms)

    def power(self) -> Term:
        if self.peek() == "√":
            self.take()
            inside = self.power()
            return lambda numbers: _power(inside(numbers), 0.5)
        base = self.atom()
        if self.peek() != "^":
            return base
        self.take()
        exponent = float(self.take())
        return lambda numbers: _power(base(numbers), exponent)

    def atom(self) -> Term:
        word = self.take()
        if word == "(":
            return self.arguments()[0]
        if word in ("max", "log"):
            self.take()
            inside = self.arguments()
            function = _largest if word == "max" else _logarithm
            return lambda numbers: function([term(numbers) for term in inside])
        if word[0].isdigit():
            return lambda numbers: float(word)
        return lambda numbers: float(numbers[word])

    def arguments(self) -> list[Term]:
        """Products up to the closing bracket."""
        terms = [self.product()]
        while self.take() == ",":
            terms.append(self.product())
        return terms

    def peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1]


def _power(base: float, exponent: float) -> float:
    if base == 0 and exponent < 0:
        return math.inf
    return base**exponent


def _largest(values: list[float]) -> float:
    return math.nan if any(map(math.isnan, values)) else max(values)


def _logarithm(values: list[float]) -> float:
    return math.log(values[0])
