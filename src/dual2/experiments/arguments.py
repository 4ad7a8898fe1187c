"""Arguments of builders: of what kind they are, and within which limits.

A builder says so in its signature: ``n: Annotated[int, Limits(1)]``. What is read from a config is
held against that before anything is built.
"""

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from dual2.errors import Dual2Error, unknown_name

KINDS = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a name"}
"""Kinds of values, as errors call them."""


@dataclass(frozen=True)
class Limits:
    """Smallest and largest value of a number; ``open``: the smallest itself is too small."""

    low: float = -math.inf
    high: float = math.inf
    open: bool = False

    def admit(self, value: float) -> bool:
        """Whether a number lies within."""
        return (self.low < value if self.open else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        below = "" if self.low == -math.inf else f" {'>' if self.open else '≥'} {self.low:g}"
        return below + ("" if self.high == math.inf else f" and ≤ {self.high:g}")


@dataclass(frozen=True)
class OneOf:
    """The names that an argument may be."""

    names: Collection[str]


Size = Annotated[int, Limits(1)]


def arguments(function: Callable[..., Any], *fixed: str) -> list[str]:
    """Names of a builder's arguments besides the ``fixed`` ones."""
    return [name for name in inspect.signature(function).parameters if name not in fixed]


def check_arguments(function: Callable[..., Any], given: Mapping[str, Any], *fixed: str) -> None:
    """Refuse values of the wrong kind or beyond their limits, and the lack of what has no default.

    Parameters
    ----------
    function : callable
        A builder.
    given : mapping
        Its arguments.
    *fixed : str
        Arguments that come from elsewhere.

    Examples
    --------
    >>> def build(n: Size, p: Annotated[float, Limits(0, 1, open=True)] = 0.3): ...
    >>> check_arguments(build, {"n": 3, "p": 1})
    >>> check_arguments(build, {"n": 3, "p": 0})
    Traceback (most recent call last):
    dual2.errors.Dual2Error: p = 0 found; expected a finite number > 0 and ≤ 1.
    """
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if name in given and name in hints:
            _check(name, given[name], hints[name])
        elif name not in (*given, *fixed) and parameter.default is parameter.empty:
            raise Dual2Error(f"{name} is missing; expected {_words(hints[name])}.")


def _parts(hint: Any) -> tuple[type, Any]:
    """Kind and limits of an annotation."""
    return get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, Limits())


def _words(hint: Any) -> str:
    kind, limits = _parts(hint)
    return f"{KINDS[kind]}{limits if isinstance(limits, Limits) else ''}"


def _check(name: str, value: Any, hint: Any) -> None:
    kind, limits = _parts(hint)
    if kind not in KINDS:
        return
    right = type(value) in ((int, float) if kind is float else (kind,))
    if right and kind in (int, float):
        right = math.isfinite(value) and limits.admit(value)
    if not right:
        raise Dual2Error(f"{name} = {value!r} found; expected {_words(hint)}.")
    if isinstance(limits, OneOf) and value not in limits.names:
        raise Dual2Error(unknown_name(name, value, limits.names))
