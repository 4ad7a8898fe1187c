"""Checks of a config, part by part: an error names the file and the part."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from dual2.errors import Dual2Error, unknown_name

Table = dict[str, Any]


class Checks:
    """A config's document with the questions that its readers ask of it.

    Parameters
    ----------
    name : str
        What errors call the config.
    document : dict
        The whole of it.
    """

    def __init__(self, name: str, document: Table) -> None:
        self.name, self.document = name, document

    def fail(self, where: str, message: str) -> Any:
        """Refuse the config."""
        raise Dual2Error(f"{self.name}{f', {where}' if where else ''}: {message}")

    def explain(self, where: str, function: Any, argument: Any) -> Any:
        """Call a function whose errors lack the place."""
        try:
            return function(argument)
        except Dual2Error as error:
            return self.fail(where, str(error))

    def only(self, table: Any, known: tuple[str, ...], where: str) -> None:
        """Refuse keys that mean nothing."""
        if not isinstance(table, Mapping):
            self.fail(where, f"{table!r} found; expected a table.")
        for key in table:
            if key not in known:
                self.fail(where, unknown_name("key", key, known))

    def entries(self, part: str, needed: bool = True) -> Iterable[tuple[str, Table]]:
        """Each table of ``[[part]]`` with its place."""
        tables = self.document.get(part, [])
        if not isinstance(tables, list) or (needed and not tables):
            self.fail("", f"expected at least one entry [[{part}]].")
        for k, table in enumerate(tables):
            where = f"[[{part}]] number {k + 1}"
            if not isinstance(table, dict):
                self.fail(where, f"{table!r} found; expected a table.")
            yield where, table

    def text(self, table: Table, key: str, where: str) -> str:
        """An entry that must be text."""
        if not isinstance(table.get(key), str):
            self.fail(where, f"{key} = {table.get(key)!r} found; expected a name in quotes.")
        return table[key]

    def limits(self, table: Table, where: str) -> None:
        """Refuse tolerances and limits that no run can have."""
        for key in ("tol", "atol", "max_rounds", "time_limit"):
            value = table.get(key, 0)
            if type(value) not in (int, float) or not 0 <= value < math.inf:
                self.fail(where, f"{key} = {value!r} found; expected a finite number ≥ 0.")

    def fresh(self, name: str, taken: Mapping[str, Any], where: str) -> str:
        """A name that nobody has yet."""
        if name in taken:
            self.fail(
                where, f"{name!r} is there already; give this one a name or label of its own."
            )
        return name

    def names(self, wanted: Any, known: list[str], what: str, where: str) -> list[str]:
        """The chosen entries, all of them if nothing is said."""
        if wanted is None:
            return known
        for name in wanted if isinstance(wanted, list) else [wanted]:
            if name not in known:
                self.fail(where, unknown_name(what, str(name), known))
        return wanted if isinstance(wanted, list) else [wanted]
