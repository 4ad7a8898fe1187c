"""Reading of constructor arguments: finite numbers, vectors and matrices, or a clear error."""

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Annotated, Any, get_args, get_origin

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dual2.errors import ProblemError

Array = NDArray[np.float64]
Entries = float | Array
"""A number for every coordinate, or one number per coordinate."""
Groups = NDArray[np.int64]
"""A number for each coordinate, the same for those that belong together."""


def store(owner: Any, **values: Any) -> None:
    """Write normalised fields into a frozen dataclass during ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(owner, name, value)


def read_fields(owner: Any) -> None:
    """Read the fields of a dataclass whose annotations say how; vectors must have one length.

    ``weight: Nonnegative`` is ``Annotated[Entries, reader]``: the reader takes the owner, the
    field's name and what was given, and returns what is kept.
    """
    found = {name: read(owner, name, getattr(owner, name)) for name, read in _readers(type(owner))}
    store(owner, **found)
    common_dim(owner, **found)


@cache
def _readers(kind: type[Any]) -> list[tuple[str, Callable[..., Any]]]:
    marked = [field for field in fields(kind) if get_origin(field.type) is Annotated]
    return [(field.name, get_args(field.type)[1]) for field in marked]


def entries(
    owner: Any,
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    finite: bool = True,
) -> Entries:
    """A float, or a read-only float64 vector, optionally ``> above`` or ``>= least``.

    nan is refused, inf unless ``finite=False``.
    """
    array = _numbers(owner, name, value)
    if array.ndim > 1:
        raise ProblemError(
            f"{_title(owner)}: {name} has shape {array.shape}; expected a number or a vector."
        )
    _check_finite(owner, name, array, finite)
    if above is not None:
        refuse(owner, name, array, lambda v: ~(v > above), f"greater than {above:g}")
    if least is not None:
        refuse(owner, name, array, lambda v: ~(v >= least), f"at least {least:g}")
    return float(array) if array.ndim == 0 else array


def number(
    owner: Any,
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    finite: bool = True,
) -> float:
    """A finite float (or an infinity if allowed), optionally ``> above`` or ``>= least``."""
    shape = np.shape(entries(owner, name, value, finite=finite))
    if shape:
        raise ProblemError(f"{_title(owner)}: {name} has shape {shape}; expected one number.")
    return float(entries(owner, name, value, above=above, least=least, finite=finite))


def matrix(owner: Any, name: str, value: Any) -> Array:
    """A read-only float64 matrix with finite entries; scipy.sparse is made dense."""
    array = _numbers(owner, name, value.toarray() if hasattr(value, "toarray") else value)
    if array.ndim != 2:
        raise ProblemError(
            f"{_title(owner)}: {name} has shape {array.shape}; expected a matrix (rows, columns)."
        )
    _check_finite(owner, name, array, True)
    return array


def matrix_or_sparse(owner: Any, name: str, value: Any) -> Any:
    """A read-only matrix with finite entries; scipy.sparse stays sparse, as a csr_array."""
    if not sp.issparse(value):
        return matrix(owner, name, value)
    found = sp.csr_array(value, dtype=np.float64, copy=True)
    found.sum_duplicates()
    found.eliminate_zeros()
    _check_finite(owner, f"{name}.data", found.data, True)
    return found


def labels(owner: Any, name: str, value: Any) -> Entries:
    """Entries that are -1 or 1."""
    found = entries(owner, name, value)
    wanted = "equal to -1 or 1 (for labels 0 and 1 pass 2*labels - 1)"
    refuse(owner, name, found, lambda v: np.abs(v) != 1.0, wanted)
    return found


def check_rows(owner: Any, name: str, value: Entries, M: Array, what: str = "entry") -> None:
    """Refuse a vector whose length is not the number of rows of M."""
    if np.ndim(value) and np.shape(value) != (M.shape[0],):
        raise ProblemError(
            f"{_title(owner)}: {name} has length {np.size(value)} and M has {M.shape[0]} rows; "
            f"expected one {what} per row."
        )


def refuse(
    owner: Any, name: str, value: Entries, wrong: Callable[[Array], Any], expected: str
) -> None:
    """Raise if ``wrong`` holds for an entry of ``value``, naming the first such entry."""
    array = np.atleast_1d(np.asarray(value, dtype=np.float64))
    where = np.flatnonzero(wrong(array))
    if where.size:
        place = name if np.ndim(value) == 0 else f"{name}[{where[0]}]"
        raise ProblemError(
            f"{_title(owner)}: {place} is {array[where[0]]:g}; expected a number {expected}."
        )


def common_dim(owner: Any, **values: Any) -> int | None:
    """The common length of those arguments that are vectors; None if all are numbers."""
    vectors = [(k, v) for k, v in values.items() if type(v) is not float and np.ndim(v) == 1]
    lengths = {name: len(value) for name, value in vectors}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ProblemError(
            f"{_title(owner)}: the arguments differ in length ({found}); "
            "expected equal lengths, or numbers that hold for every coordinate."
        )
    return next(iter(lengths.values()), None)


Finite = Annotated[Entries, entries]
Bounds = Annotated[Entries, partial(entries, finite=False)]
Nonnegative = Annotated[Entries, partial(entries, least=0.0)]
Positive = Annotated[Entries, partial(entries, above=0.0)]
Labels = Annotated[Entries, labels]
Number = Annotated[float, number]
NonnegativeNumber = Annotated[float, partial(number, least=0.0)]
PositiveNumber = Annotated[float, partial(number, above=0.0)]
Matrix = Annotated[Array, matrix]
MatrixOrSparse = Annotated[Any, matrix_or_sparse]


def describe(owner: Any) -> str:
    """A dataclass as it would be written, without fields that have their default."""
    if not is_dataclass(owner):
        return f"{type(owner).__name__}(...)"
    values = {field.name: getattr(owner, field.name) for field in fields(owner)}
    plain = {field.name for field in fields(owner) if _plain(values[field.name], field.default)}
    shown = (f"{name}={_short(value)}" for name, value in values.items() if name not in plain)
    return f"{type(owner).__name__}({', '.join(shown)})"


def _plain(value: Any, default: Any) -> bool:
    return isinstance(default, float) and bool(np.all(np.equal(value, default)))


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return str(value.tolist()) if value.size <= 4 else f"<array {value.shape}>"
    if isinstance(value, float):
        return f"{value:g}"
    return repr(value)


def read_points(owner: Any, x: Any) -> Array:
    """One vector or rows of vectors, of the length of the owner."""
    try:
        array = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ProblemError(
            f"{type(owner).__name__}: the argument cannot be read as real numbers ({error}). "
            "Pass a vector (d,) or rows (k, d)."
        ) from error
    if array.ndim not in (1, 2):
        raise ProblemError(
            f"{type(owner).__name__}: the argument has shape {array.shape}; expected a vector "
            "(d,) or rows (k, d)."
        )
    if owner.dim is not None and array.shape[-1] != owner.dim:
        raise ProblemError(
            f"{type(owner).__name__}: the argument has length {array.shape[-1]}; "
            f"its data have length {owner.dim}."
        )
    return array


def read_steps(owner: Any, step: Any, dim: int) -> Any:
    """One positive step, or one per coordinate, equal within the groups of the owner."""
    if type(step) is float and 0.0 < step < math.inf:  # in every iteration of a user's prox
        return step
    if isinstance(step, np.ndarray) and owner.separable and step.shape == (dim,) and dim > 1:
        if step.dtype == np.float64 and 0.0 < step.min() and step.max() < math.inf:
            return step
    name = f"{type(owner).__name__}.prox"
    if np.ndim(step) == 0:
        return number(name, "step", step, above=0.0)
    steps = np.asarray(entries(name, "step", step, above=0.0))
    if owner.separable and steps.shape == (dim,):
        return steps if dim > 1 else float(steps[0])
    _, first, inverse = np.unique(owner.groups(dim), return_index=True, return_inverse=True)
    if steps.shape != (dim,) or np.any(steps != steps[first[inverse]]):
        raise ProblemError(
            f"{name}: steps of shape {steps.shape} found; expected one number, or {dim} that "
            "are equal within the groups of coordinates that the function does not separate."
        )
    return steps if len(first) > 1 else float(steps[0])


def _title(owner: Any) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__


def _numbers(owner: Any, name: str, value: Any) -> Array:
    try:
        if np.iscomplexobj(value):
            raise TypeError("they are complex")
        array = np.array(value, dtype=np.float64)
        if value is None:  # which NumPy reads as nan
            raise TypeError("it is missing")
    except (TypeError, ValueError) as error:
        raise ProblemError(
            f"{_title(owner)}: {name} is {type(value).__name__} and cannot be read as real "
            f"numbers ({error}). Pass a number or an array of numbers."
        ) from error
    array.setflags(write=False)
    return array


def _check_finite(owner: Any, name: str, array: Array, finite: bool) -> None:
    wrong = ~np.isfinite(array) if finite else np.isnan(array)
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        place = name + (f"[{', '.join(map(str, index))}]" if index else "")
        kind = "a finite number" if finite else "a number or an infinity"
        raise ProblemError(
            f"{_title(owner)}: {place} is {array[index]}; expected {kind}. "
            "Repair or remove that entry."
        )
