"""Factors over the periods, for loads, wind and sun, by element, kind or bus."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dual2.errors import ProblemError, unknown_name
from dual2.functions.arguments import Array, Entries, entries

LOAD = "load"


class Profiles:
    """What the elements of a case are multiplied by in each period.

    ``given``: factors of all loads, (T,); or factors by the name of an element, its type or its
    kind. Elements that are not named stay as they are.

    Examples
    --------
    >>> profiles = Profiles({"load": [1.0, 0.5], "PV": [0.0, 0.8]})
    >>> profiles.of("load 3", "load").tolist(), profiles.of("gen 0", "gen")
    ([1.0, 0.5], 1.0)
    """

    def __init__(self, given: Any = None) -> None:
        named = given if isinstance(given, Mapping) else {} if given is None else {LOAD: given}
        self.factors: dict[Any, Entries] = {
            key: entries("Dispatch", f"profile of {key!r}", value) for key, value in named.items()
        }
        lengths = {len(f) for f in self.factors.values() if isinstance(f, np.ndarray)}
        if len(lengths) > 1:
            raise ProblemError(
                f"Dispatch: the profiles have lengths {sorted(lengths)}; expected one number of "
                "periods."
            )
        self._used: set[Any] = set()

    def of(self, *keys: Any) -> Entries:
        """The factors under the first of these keys that has some, else 1."""
        found = next((key for key in keys if key in self.factors), None)
        self._used.update(keys)
        return 1.0 if found is None else self.factors[found]

    @property
    def periods(self) -> int:
        """How many periods the profiles have; 1 without profiles."""
        return max((np.size(factors) for factors in self.factors.values()), default=1)

    def room(self, limits: Sequence[float], *keys: Any) -> tuple[Entries, Entries]:
        """Limits of a producer whose greatest power follows its profile; least and greatest."""
        factors = self.of(*keys)
        low, high = (float(limit) for limit in limits)
        if isinstance(factors, float) and factors == 1.0:
            return low, high
        top: Array | float = high * factors
        return np.minimum(low, top), top

    def check(self) -> None:
        """Refuse factors of something that is not there."""
        for key in self.factors:
            if key not in self._used:
                known = sorted(str(one) for one in self._used if one is not None)
                raise ProblemError(unknown_name("element in profile", str(key), known))
