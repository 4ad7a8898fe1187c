"""What a table of a config may hold: which keys, of what kind, within which limits.

A builder says so in its signature: ``n: Annotated[int, Range(1)]``. What is read from a config is
held against that before anything is built.

The checks are ours and not pydantic's: its strict mode, bounds and unknown keys are one function
here (:func:`check_table`), its messages would have to be translated into the words of a config, and
its import takes 0.1 s of every command.
"""

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from dual2.bench.imported import find_function, hints_of, is_imported
from dual2.errors import Dual2Error, unknown_name

WORDS = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a name in quotes",
    dict: "a table",
}
"""Kinds of values, as errors call them; any other kind is not looked at."""


@dataclass(frozen=True)
class Range:
    """Smallest and largest value of a number; ``open``: the smallest itself is too small."""

    low: float = -math.inf
    high: float = math.inf
    open: bool = False

    def admit(self, value: float) -> bool:
        """Whether a finite number lies within."""
        above = self.low < value if self.open else self.low <= value
        return math.isfinite(value) and above and value <= self.high

    def __str__(self) -> str:
        below = "" if self.low == -math.inf else f" {'>' if self.open else '≥'} {self.low:g}"
        return below + ("" if self.high == math.inf else f" and ≤ {self.high:g}")


Size = Annotated[int, Range(1)]
Count = Annotated[int, Range(0)]
Weight = Annotated[float, Range(0)]
Kinds = Mapping[str, Any]
"""Key → kind of its value: a type, or a type annotated with a Range or with the names it may be."""


def check_table(table: Any, kinds: Kinds, needed: Collection[str] = ()) -> None:
    """Refuse unknown keys, values of the wrong kind or beyond their limits, and missing ones.

    Examples
    --------
    >>> kinds = {"n": Size, "p": Annotated[float, Range(0, 1, open=True)]}
    >>> check_table({"n": 3, "p": 1}, kinds)
    >>> check_table({"n": 3, "p": 0}, kinds)
    Traceback (most recent call last):
    dual2.errors.Dual2Error: p = 0 found; expected a finite number > 0 and ≤ 1.
    """
    if not isinstance(table, Mapping):
        raise Dual2Error(f"{table!r} found; expected a table.")
    for key in table:
        if key not in kinds:
            raise Dual2Error(unknown_name("key", key, kinds))
    for key in needed:
        if key not in table:
            raise Dual2Error(f"{key} is missing; expected {_words(*_parts(kinds[key]))}.")
    for key, value in table.items():
        _check(key, value, *_parts(kinds[key]))


def _parts(kind: Any) -> tuple[Any, Any]:
    """Type and limits of an annotation."""
    return get_args(kind)[:2] if get_origin(kind) is Annotated else (kind, Range())


def _words(kind: Any, limits: Any) -> str:
    return f"{WORDS[kind]}{limits if isinstance(limits, Range) else ''}"


def _check(key: str, value: Any, kind: Any, limits: Any) -> None:
    if kind not in WORDS:
        return
    right = type(value) in ((int, float) if kind is float else (kind,)) and value != ""
    if right and kind in (int, float):
        right = limits.admit(value)
    if not right:
        raise Dual2Error(f"{key} = {value!r} found; expected {_words(kind, limits)}.")
    if not isinstance(limits, Range) and value not in limits:
        raise Dual2Error(unknown_name(key, value, limits))


@dataclass(frozen=True)
class Builders:
    """Functions by name whose arguments come from a config."""

    what: str  # what they build, for messages
    known: Mapping[str, Callable[..., Any]]  # the functions
    fixed: str  # their first argument, which comes from elsewhere
    error: type[Dual2Error]  # of the errors about what they are asked for
    # makes one of them from a function of the user's and its name
    adapt: Callable[[Callable[..., Any], str], Callable[..., Any]] = lambda function, _: function

    def find(self, name: str) -> Callable[..., Any]:
        """The function of that name, or the user's own if it is ``module:function``."""
        if is_imported(name):
            return self.adapt(find_function(name, self.fixed), name)
        if name not in self.known:
            more = f" A {self.what} of your own is 'module:function'."
            raise self.error(unknown_name(self.what, name, self.known) + more)
        return self.known[name]

    def arguments(self, name: str) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Kinds of a builder's arguments, and those without a default."""
        function = self.find(name)
        hints = hints_of(function)
        open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        _, *rest = inspect.signature(function).parameters.values()
        own = [one for one in rest if one.kind not in open_ended]
        needed = tuple(one.name for one in own if one.default is one.empty)
        return {one.name: hints.get(one.name, Any) for one in own}, needed

    def build(self, name: str, first: Any, options: Mapping[str, Any]) -> Any:
        """Call a builder after a check of its arguments."""
        kinds, needed = self.arguments(name)
        for key in options:
            if key not in kinds:
                raise self.error(
                    f"The {self.what} {name!r} has no argument {key!r}; "
                    f"expected {', '.join(kinds) or 'none'}."
                )
        check_table(options, kinds, needed)
        return self.find(name)(first, **options)
