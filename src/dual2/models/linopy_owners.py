"""Who owns which variables of a linopy model: by a dimension, by its blocks, or by a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dual2.errors import ProblemError, near_names

Array = np.ndarray


def owners_of_labels(model: Any, blocks: Any, rest: str) -> tuple[list[str], Array]:
    """Names of the owners, and the number of the owner by label of the variable; -1 if masked."""
    blocks = _given(model, blocks)
    numbers: dict[str, int] = {}
    found = np.full(model.shape[1], -1)
    for name, variable in model.variables.items():
        labels = np.asarray(variable.labels.values)
        owners = np.broadcast_to(_owners(name, variable, blocks, rest), labels.shape)
        for owner in dict.fromkeys(owners.ravel().tolist()):
            number = numbers.setdefault(str(owner), len(numbers))
            found[labels[(owners == owner) & (labels >= 0)]] = number
    used = np.unique(found[found >= 0])
    names = list(numbers)
    renumbered = np.full(len(names) + 1, -1)
    renumbered[used] = np.arange(len(used))
    return [names[k] for k in used], renumbered[found]


def _given(model: Any, blocks: Any) -> Any:
    """The blocks asked for, or those of the model; a dimension or a mapping must exist."""
    if blocks is None:
        blocks = getattr(model, "blocks", None)
        if blocks is None:
            raise ProblemError(
                "The model has no blocks. Give blocks= a dimension ('zone'), a mapping from "
                "variables to owners, or set model.blocks."
            )
    if isinstance(blocks, Mapping):
        known = list(model.variables)
        for name in blocks:
            if name not in known:
                near = near_names(str(name), known)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise ProblemError(f"The model has no variable {name!r}.{hint}")
    elif isinstance(blocks, str):
        known = sorted({dim for _, variable in model.variables.items() for dim in variable.dims})
        if blocks not in known:
            raise ProblemError(
                f"No variable has the dimension {blocks!r}; the model has {', '.join(known)}."
            )
    elif not (hasattr(blocks, "dims") and len(blocks.dims) == 1):
        raise ProblemError(
            f"blocks is a {type(blocks).__name__}; expected a dimension, a mapping from variables "
            "to owners, or a DataArray with one dimension."
        )
    return blocks


def _owners(name: str, variable: Any, blocks: Any, rest: str) -> Array:
    """Owners of the entries of one variable, in a shape that broadcasts to its own."""
    rule = blocks.get(name, rest) if isinstance(blocks, Mapping) else blocks
    if isinstance(rule, str):
        if rule in variable.dims:
            return _along(variable, rule, np.asarray(variable.coords[rule].values).astype(str))
        return np.array(rest if isinstance(blocks, str) else rule, dtype=object)
    keys, owners = _table(name, rule)
    known = dict(zip(keys, owners, strict=True))
    dims = [rule.dims[0]] if hasattr(rule, "dims") else list(variable.dims)
    for dim in dims:
        if dim in variable.dims:
            values = variable.coords[dim].values.tolist()
            if all(value in known for value in values):
                return _along(variable, dim, np.array([str(known[v]) for v in values], object))
    if not isinstance(blocks, Mapping):
        return np.array(rest, dtype=object)
    missing = [v for dim in variable.dims for v in variable.coords[dim].values if v not in known]
    raise ProblemError(
        f"No owner for {missing[0] if missing else name!r} of the variable {name!r}: its entry in "
        "blocks needs an owner for every coordinate of one of its dimensions."
    )


def _table(name: str, rule: Any) -> tuple[list[Any], list[Any]]:
    """Coordinates and owners of a mapping, a pandas Series or a DataArray."""
    if hasattr(rule, "dims") and len(rule.dims) == 1:
        return rule.coords[rule.dims[0]].values.tolist(), rule.values.tolist()
    if isinstance(rule, Mapping) or hasattr(rule, "items"):
        pairs = list(rule.items())
        return [key for key, _ in pairs], [owner for _, owner in pairs]
    raise ProblemError(
        f"blocks[{name!r}] is a {type(rule).__name__}; expected a dimension, the name of an owner, "
        "or a mapping (dict, Series, DataArray) from coordinates to owners."
    )


def _along(variable: Any, dim: str, owners: Array) -> Array:
    """Owners along one dimension of a variable."""
    shape = [1] * len(variable.dims)
    shape[list(variable.dims).index(dim)] = len(owners)
    return np.asarray(owners, dtype=object).reshape(shape)


def label_names(items: Iterator[tuple[str, Any]], size: int) -> list[str]:
    """What messages call each label: the name with its coordinates, ``gen[north, 3]``."""
    found = [""] * size
    for name, array in items:
        labels = np.asarray(array.labels.values)
        dims = list(array.labels.dims)
        texts = [[str(v) for v in array.labels.indexes[dim]] for dim in dims]
        for place, label in np.ndenumerate(labels):
            if label >= 0:
                inside = ", ".join(texts[k][j] for k, j in enumerate(place))
                found[int(label)] = f"{name}[{inside}]" if inside else name
    return found
