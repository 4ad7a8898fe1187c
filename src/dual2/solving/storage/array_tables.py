"""Sparse matrices and networks as tables of arrays, checked before anything relies on them.

Compiled code indexes by what these arrays say, so every index is compared with what it points to.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dual2.errors import ProblemError, counted, unknown_name
from dual2.files.reading import allowance

NETWORK_ENTRIES = ("nodes", "edges", "weights")
"""What a network's table may hold."""
SPARSE_ENTRIES = ("sparse", "shape", "data", "indices", "indptr")
"""What the table of a sparse matrix holds."""


def read_sparse(table: dict[str, Any], where: str, dense: bool = False) -> sp.csr_array:
    """A sparse matrix from the arrays of the compressed row format.

    ``dense`` says that it will be made dense, so that its size is limited as well.

    Examples
    --------
    >>> table = {"sparse": "csr", "shape": [1, 2], "data": [5.0], "indptr": [0, 1]}
    >>> read_sparse(table | {"indices": [1]}, "A").toarray()
    array([[0., 5.]])
    >>> read_sparse(table | {"indices": [99]}, "A")
    Traceback (most recent call last):
    dual2.errors.ProblemError: A.indices[0] is 99; expected 0 … 1, the numbers of the columns.
    """
    if set(table) != set(SPARSE_ENTRIES) or table["sparse"] != "csr":
        raise ProblemError(
            f"{where}: a sparse matrix with {', '.join(sorted(table))} and the format "
            f"{table['sparse']!r} found; expected {', '.join(SPARSE_ENTRIES)} and the format 'csr'."
        )
    data, indices, indptr = (
        _vector(table[name], f"{where}.{name}", "biuf" if name == "data" else "iu")
        for name in ("data", "indices", "indptr")
    )
    held = data.nbytes + indices.nbytes + indptr.nbytes
    rows, columns = _shape(table["shape"], f"{where}.shape", indptr.size, held)
    if dense and 8 * rows * columns > allowance(held):
        raise ProblemError(
            f"{where} has {data.size} entries and {rows} × {columns} places, too many to be "
            "written out as this function needs it. Give a dense array."
        )
    if indices.size != data.size:
        raise ProblemError(f"{where}: {data.size} data and {indices.size} indices found.")
    _demand_pointers(indptr, rows, data.size, f"{where}.indptr")
    _demand_within(indices, columns, f"{where}.indices", "the numbers of the columns")
    parts = (data.astype(np.float64), indices.astype(np.int64), indptr.astype(np.int64))
    return sp.csr_array(parts, shape=(rows, columns))


def _shape(value: Any, where: str, pointers: int, held: int) -> tuple[int, int]:
    """Rows and columns; a column costs memory even where it is empty, so there is a limit."""
    found = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(found, list) or [type(number) for number in found] != [int, int]:
        raise ProblemError(f"{where} is {_short(found)}; expected two whole numbers.")
    rows, columns = found
    most = allowance(held) // 8
    if rows + 1 != pointers or not 0 <= columns <= most:
        raise ProblemError(
            f"{where} is {_short(found)}; expected {pointers - 1} rows, as indptr has, and 0 … "
            f"{most} columns."
        )
    return rows, columns


def _vector(value: Any, where: str, kinds: str) -> NDArray[Any]:
    """An array of one dimension whose entries are of one of the kinds (of NumPy's dtypes)."""
    array = read_numbers(value, where)
    array = array.astype(np.int64) if array.size == 0 else array
    if array.ndim != 1 or array.dtype.kind not in kinds:
        wanted = "real numbers" if "f" in kinds else "whole numbers"
        raise ProblemError(
            f"{where} has shape {array.shape} and type {array.dtype}; expected {wanted} in a row."
        )
    return array


def read_numbers(value: Any, where: str) -> NDArray[Any]:
    """Nested lists as an array of real numbers."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProblemError(f"{where} is not an array of numbers: {error}.") from error
    if array.dtype.kind not in "biuf":
        raise ProblemError(f"{where} is {_short(value)}; expected an array of real numbers.")
    return array


def _demand_pointers(indptr: NDArray[Any], rows: int, stored: int, where: str) -> None:
    wrong = np.flatnonzero(np.concatenate([[indptr[0] != 0], indptr[1:] < indptr[:-1]]))
    if wrong.size or indptr[-1] != stored:
        k = int(wrong[0]) if wrong.size else rows
        raise ProblemError(
            f"{where}[{k}] is {indptr[k]}; expected numbers that rise from 0 to {stored}, the "
            "number of entries."
        )


def _demand_within(numbers: NDArray[Any], count: int, where: str, meaning: str) -> None:
    """An error unless all numbers are 0 … count-1; it names the first that is not."""
    wrong = np.argwhere((numbers < 0) | (numbers >= count))
    if wrong.size:
        index = tuple(wrong[0].tolist())
        raise ProblemError(
            f"{where}[{', '.join(map(str, index))}] is {numbers[index]}; expected 0 … {count - 1}, "
            f"{meaning}."
        )


def read_network(
    table: Any,
) -> tuple[Sequence[Any], NDArray[np.int64], str | NDArray[np.float64]]:
    """Nodes, edges as pairs of positions in them, and weights (a rule or one per edge)."""
    if not isinstance(table, dict) or "edges" not in table:
        raise ProblemError(f"network is {_short(table)}; expected a table with an entry 'edges'.")
    for name in table:
        if name not in NETWORK_ENTRIES:
            raise ProblemError(unknown_name("entry of network", name, NETWORK_ENTRIES))
    edges = read_numbers(table["edges"], "network.edges")
    edges = np.zeros((0, 2), np.int64) if edges.size == 0 else edges
    nodes = _nodes(table.get("nodes"), edges)
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise ProblemError(
            f"network.edges has shape {edges.shape} and type {edges.dtype}: edges must be pairs of "
            f"whole numbers from 0 to {len(nodes) - 1}, the positions of their ends in nodes."
        )
    _demand_within(edges, len(nodes), "network.edges", "the position of an agent in nodes")
    return nodes, edges.astype(np.int64), _weights(table.get("weights", "laplacian"), len(edges))


def _nodes(found: Any, edges: NDArray[Any]) -> Sequence[Any]:
    """The labels; without them as many numbers as a connected graph with these edges can have."""
    if found is None:
        return range(min(int(edges.max(initial=0)) + 1, len(edges) + 1))
    labels = found.tolist() if isinstance(found, np.ndarray) else found
    if not isinstance(labels, list):
        raise ProblemError(f"network.nodes is {_short(labels)}; expected a list of labels.")
    for k, label in enumerate(labels):
        if not isinstance(label, str | int | float):
            raise ProblemError(f"network.nodes[{k}] is {_short(label)}; expected text or a number.")
    if len(set(labels)) != len(labels):
        twice = next(label for k, label in enumerate(labels) if label in labels[:k])
        raise ProblemError(f"network.nodes has {twice!r} twice; expected labels that differ.")
    return labels


def _weights(found: Any, edges: int) -> str | NDArray[np.float64]:
    if isinstance(found, str):
        return found
    numbers = read_numbers(found, "network.weights")
    if numbers.shape != (edges,):
        raise ProblemError(
            f"network: {counted(edges, 'edge')} and {counted(numbers.size, 'weight')} found; "
            "expected one weight per edge, in their order, or the name of a rule."
        )
    return numbers.astype(np.float64)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
