"""Checks of a config, part by part: an error names the file and the part."""

import itertools
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from dual2.bench.arguments import Builders, Count, Weight, check_table
from dual2.bench.imported import is_imported
from dual2.errors import Dual2Error, unknown_name
from dual2.methods.gossip.accuracy import Options
from dual2.methods.subsolvers import find_subsolver, read_costs

Table = dict[str, Any]
Variants = list[tuple[str, Table]]
"""Label and arguments of each combination of the values in lists."""

FOR_ALL = {"tol": Weight, "atol": Weight, "max_rounds": Count, "time_limit": Weight, "reduce": bool}
"""Arguments of ``solve`` that suit every method."""

FOR_SOME = ("method", "subsolver", "rho", "constants", "accuracy", "cost")
"""Those that a method may add to its own parameters."""

TEXTS = (*FOR_SOME, "mapping", "spectrum", "integrator")
"""Parameters of methods that may be text."""


MOST_COMBINATIONS = 10_000
"""Most combinations of the values in the lists of one entry."""


class Checks:
    """A config's document with the questions that its readers ask of it.

    ``name``: what errors call the config; ``document``: the whole of it.
    """

    def __init__(self, name: str, document: Table) -> None:
        self.name, self.document = name, document

    def fail(self, where: str, message: str) -> Any:
        """Refuse the config."""
        raise Dual2Error(f"{self.name}{f', {where}' if where else ''}: {message}")

    def explain(self, where: str, function: Any, *arguments: Any) -> Any:
        """Call a function whose errors lack the place."""
        try:
            return function(*arguments)
        except Dual2Error as error:
            return self.fail(where, str(error))

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

    def text(self, table: Table, key: str, where: str, default: str | None = None) -> str:
        """An entry that must be text, if it is there."""
        value = table.get(key, default)
        self.explain(where, check_table, {key: value}, {key: str})
        return str(value)

    def variants(
        self,
        where: str,
        table: Table,
        builders: Builders,
        taken: Mapping[str, Any],
        others: tuple[str, ...] = (),
    ) -> tuple[str, Variants]:
        """Name of an entry, and one set of arguments for each combination of values in lists."""
        build = self.text(table, "build", where)
        every, needed = self.explain(where, builders.arguments, build)
        kinds = {key: kind for key, kind in every.items() if key != "network"}
        free = (*others, "name", "build")
        self.explain(where, check_table, table, dict.fromkeys((*free, *kinds), Any))
        name = self.fresh(self.text(table, "name", where, build), taken, where)
        given = {key: value for key, value in table.items() if key not in free}
        listed = {key: values for key, values in given.items() if isinstance(values, list)}
        for key, values in listed.items():
            if not values:
                self.fail(where, f"{key} = [] found; expected a value, or a list of values.")
        combinations = math.prod(len(values) for values in listed.values())
        if combinations > MOST_COMBINATIONS:
            self.fail(where, f"{combinations} combinations found; at most {MOST_COMBINATIONS}.")
        found: Variants = []
        for values in itertools.product(*listed.values()):
            chosen = dict(zip(listed, values, strict=True))
            words = ", ".join(f"{key} = {json.dumps(value)}" for key, value in chosen.items())
            self.explain(where, check_table, given | chosen, kinds, {*needed} & {*kinds})
            found.append((f"{name} ({words})" if words else name, given | chosen))
        return name, found

    def parameters(self, solve: Table, name: str, where: str) -> None:
        """Refuse parameters of a method that it would refuse itself, on whatever problem."""
        self.explain(where, find_subsolver, solve.get("subsolver", "auto"))
        self.explain(where, read_costs, solve.get("cost", "communication"))
        rho, constants = solve.get("rho", "auto"), solve.get("constants", "tight")
        if rho != "auto" and (type(rho) not in (int, float) or not 0 <= rho < math.inf):
            self.fail(where, f"rho = {rho!r} found; expected 'auto' or a finite number ≥ 0.")
        if constants not in ("tight", "paper"):
            self.fail(where, f"constants = {constants!r} found; expected 'tight' or 'paper'.")
        own = {k: v for k, v in solve.items() if k in Options.__annotations__ and v != "auto"}
        if name in ("iD2A", "MiD2A"):
            self.explain(where, lambda: Options(**own))
        for key, value in solve.items() if not is_imported(solve["method"]) else ():
            if isinstance(value, str) and key not in TEXTS:
                self.fail(where, f"{key} = {value!r} found; expected a number.")

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
        if wanted == []:
            self.fail(where, f"{what}s = [] found; expected at least one of {', '.join(known)}.")
        chosen = wanted if isinstance(wanted, list) else [wanted]
        for name in chosen:
            if name not in known:
                self.fail(where, unknown_name(what, str(name), known))
        return chosen
