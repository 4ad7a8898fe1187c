"""Numbers that know where they come from, so that a result can say so."""

from collections.abc import Mapping
from typing import Any


class Sourced(float):
    """A parameter's value with its source; in every other respect a float.

    Examples
    --------
    >>> value = Sourced(0.5, "tuned: best of 9 trials")
    >>> value + 1, value.source
    (1.5, 'tuned: best of 9 trials')
    """

    source: str

    def __new__(cls, value: float, source: str) -> "Sourced":
        """The value, and the phrase that says where it comes from."""
        number = super().__new__(cls, value)
        number.source = source
        return number


def with_sources(
    parameters: Mapping[str, tuple[Any, str]], given: Mapping[str, Any]
) -> dict[str, tuple[Any, str]]:
    """The table of parameters in which each sourced value among ``given`` names its source.

    Examples
    --------
    >>> with_sources({"c": (0.5, "given"), "n": (1, "default")}, {"c": Sourced(0.5, "tuned")})
    {'c': (0.5, 'tuned'), 'n': (1, 'default')}
    """
    named = {k: (float(v), v.source) for k, v in given.items() if isinstance(v, Sourced)}
    return dict(parameters) | {k: v for k, v in named.items() if k in parameters}
