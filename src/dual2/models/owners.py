"""Who owns which variables: by a mapping, a function, a file, or dealt at random."""

import csv
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dual2.errors import ProblemError, near_names
from dual2.models.model import Model
from dual2.models.source import Place, read_lines

Array = np.ndarray


def owner_numbers(
    model: Model, owners: Any, agents: int | None, seed: int
) -> tuple[list[str], Array]:
    """Names of the owners, and for each variable the number of its owner."""
    if (owners is None) == (agents is None):
        raise ProblemError(
            "Give either owners (who owns which variable) or agents (how many to deal them to)."
        )
    if owners is None:
        return _dealt(model, int(agents or 0), seed)
    if isinstance(owners, str | Path):
        owners = read_owners(owners)
    named = _named(model, owners)
    names = list(dict.fromkeys(named))
    numbers = {name: k for k, name in enumerate(names)}
    found = np.array([numbers[name] for name in named])
    return names, found


def read_owners(path: str | Path) -> dict[str, str]:
    r"""Owners by variable from a file with lines ``variable,owner``; ``#`` begins a remark.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "owners.csv"
    >>> _ = path.write_text("variable,owner\nx1,north\nx2,south\n")
    >>> read_owners(path)
    {'x1': 'north', 'x2': 'south'}
    """
    place, found = Place(path), {}
    for text in place.walk(read_lines(path)):
        fields = [one.strip() for one in next(csv.reader([text]), [])]
        if not fields or fields[0].startswith("#") or fields == [""]:
            continue
        if len(fields) != 2 or not all(fields):
            place.fail(f"expected variable,owner; found {text!r}.")
        if not found and [one.lower() for one in fields] == ["variable", "owner"]:
            continue
        if found.setdefault(*fields) != fields[1]:
            place.fail(f"{fields[0]!r} belongs to {found[fields[0]]!r} and to {fields[1]!r}.")
    return found


def _named(model: Model, owners: Mapping[str, Any] | Callable[[str], Any]) -> list[str]:
    """The owner of each variable; every variable has one, and no other is named."""
    if callable(owners):
        return [str(owners(name)) for name in model.variables]
    if not isinstance(owners, Mapping):
        raise ProblemError(
            f"owners is a {type(owners).__name__}; expected a mapping from variables to owners, a "
            "function of a variable's name, or the path of a file."
        )
    missing = [name for name in model.variables if name not in owners]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ProblemError(
            f"No owner for the variables {', '.join(missing[:5])}{more}. Name one for each."
        )
    known = set(model.variables)
    unknown = [name for name in owners if name not in known]
    if unknown:
        near = near_names(unknown[0], model.variables)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ProblemError(f"The model has no variable {unknown[0]!r}, whose owner is given.{hint}")
    return [str(owners[name]) for name in model.variables]


def check_products(model: Model, names: list[str], owner: Array) -> None:
    """Refuse products of variables of two owners: they are no sum of costs of the owners."""
    products = sp.coo_array(model.Q)
    i, j = products.coords
    crossing = np.flatnonzero(owner[i] != owner[j])
    if len(crossing):
        a, b = int(i[crossing[0]]), int(j[crossing[0]])
        raise ProblemError(
            f"The objective multiplies {model.variables[a]!r} of {names[owner[a]]} with "
            f"{model.variables[b]!r} of {names[owner[b]]}. Give both to one owner."
        )


def _dealt(model: Model, agents: int, seed: int) -> tuple[list[str], Array]:
    """Variables at random to so many agents, in equal numbers as far as Q lets them part."""
    if agents < 1:
        raise ProblemError(f"agents is {agents}; expected a positive number.")
    _, group = connected_components(model.Q, directed=False)
    members = defaultdict(list)
    for variable, k in enumerate(group):
        members[int(k)].append(variable)
    rng = np.random.default_rng(seed)
    shuffled = [members[int(k)] for k in rng.permutation(len(members))]
    shuffled.sort(key=len, reverse=True)  # stable: alike ones stay shuffled
    owner, loads = np.empty(len(group), dtype=int), [0] * min(agents, len(members))
    for part in shuffled:
        k = min(range(len(loads)), key=loads.__getitem__)
        owner[part] = k
        loads[k] += len(part)
    return [f"agent {k}" for k in range(len(loads))], owner
