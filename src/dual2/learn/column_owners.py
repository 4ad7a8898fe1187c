"""Who owns which columns, and who talks to whom."""

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from dual2.errors import NetworkError, ProblemError, unknown_name
from dual2.network import Network

Array = np.ndarray

GRAPHS = {
    "path": nx.path_graph,
    "cycle": lambda n: nx.cycle_graph(n) if n > 2 else nx.path_graph(n),
    "star": lambda n: nx.star_graph(n - 1),
    "complete": nx.complete_graph,
}
"""Networks by name, as functions of the number of parties."""


def is_matrix_per_party(X: Any) -> bool:
    """Whether X is a list with one matrix per party, rather than one matrix.

    Examples
    --------
    >>> is_matrix_per_party([np.ones((3, 2)), np.ones((3, 1))]), is_matrix_per_party([[1.0, 2.0]])
    (True, False)
    """
    return isinstance(X, list | tuple) and any(np.ndim(part) == 2 for part in X)


def join_matrices(X: Sequence[Any], expected: Sequence[int] | None = None) -> Any:
    """One matrix from one per party, after a check of the numbers of rows and columns.

    pandas frames give a frame, so that the names of the columns are checked like those of one
    table; their indices must agree. One sparse matrix makes the table sparse.

    ``X``: one matrix per party, rows in the same order; ``expected``: how many columns each party
    brought to ``fit``.
    """
    for i, part in enumerate(X):
        if np.ndim(part) != 2:
            raise ProblemError(
                f"Party {i} brings an array of shape {np.shape(part)}; expected a matrix. One "
                "column is a matrix of shape (n, 1): reshape(-1, 1), or to_frame() of a Series."
            )
    parts = [part if sp.issparse(part) else np.asarray(part) for part in X]
    found = [part.shape[0] for part in parts]
    if len(set(found)) > 1:
        raise ProblemError(
            f"The parties bring different numbers of rows: {found}. Every party needs the same "
            "samples in the same order."
        )
    widths = [part.shape[1] for part in parts]
    if expected is not None and list(expected) != widths:
        raise ProblemError(
            f"Found {len(widths)} matrices with {widths} columns; the model was fitted with "
            f"{len(expected)} parties with {list(expected)} columns. Pass one matrix per party, "
            "with the features of fit."
        )
    if any(map(sp.issparse, parts)):
        return sp.hstack([sp.csr_array(part) for part in parts], "csr")
    joined = np.hstack(parts)
    if all(hasattr(part, "iloc") for part in X):
        return type(X[0])(joined, index=_common_index(X), columns=_all_names(X))
    return joined


def check_same_rows(X: Any, values: Any, name: str) -> None:
    """Refuse a Series whose index has X's labels in another order, or others altogether.

    A plain numbering from 0 on one side says nothing about the rows and is taken by position,
    unless the other side has the same numbers in another order.
    """
    frame = X[0] if is_matrix_per_party(X) else X
    if not (hasattr(frame, "iloc") and hasattr(values, "iloc")) or len(frame) != len(values):
        return
    ours, theirs = frame.index, values.index
    if ours.equals(theirs):
        return
    plain = any(list(index) == list(range(len(index))) for index in (ours, theirs))
    if plain and set(ours) != set(theirs):
        return
    k = next(k for k, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
    raise ProblemError(
        f"The index of {name} is not that of X: position {k} is {theirs[k]!r} there and "
        f"{ours[k]!r} in X. Take {name}.loc[X.index], or {name}.to_numpy() if the "
        "order is right as it is."
    )


def _common_index(X: Sequence[Any]) -> Any:
    """The index of all frames: rows are matched by position, which must mean the same."""
    for i, part in enumerate(X):
        if not part.index.equals(X[0].index):
            raise ProblemError(
                f"The rows of parties 0 and {i} differ by their index. Every party needs the same "
                "samples in the same order: take part.loc[ids] of each, or "
                "reset_index(drop=True) if the order is right as it is."
            )
    return X[0].index


def _all_names(X: Sequence[Any]) -> list[Any]:
    """The names of all columns, which must differ."""
    names = [name for part in X for name in part.columns]
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    if twice:
        raise ProblemError(
            f"The columns {twice} come from more than one party. Rename or drop them."
        )
    return names


def column_groups(parties: Any, columns: int, names: Sequence[str] | None = None) -> list[Array]:
    """The columns of each party.

    ``parties``: None: two parties (one if there is one column). An int: so many, columns shared out
    evenly in order. Otherwise the columns of each party, by position or by name; ``columns``:
    number of columns of X; ``names``: their names.

    Examples
    --------
    >>> [group.tolist() for group in column_groups(2, 5)]
    [[0, 1, 2], [3, 4]]
    >>> [group.tolist() for group in column_groups([[2, 0], [1]], 3)]
    [[2, 0], [1]]
    """
    if parties is None or isinstance(parties, int | np.integer):
        count = min(2, columns) if parties is None else int(parties)
        if isinstance(parties, bool) or not 1 <= count <= columns:
            raise ProblemError(
                f"parties = {parties} found, with n_features = {columns}; expected between 1 and "
                f"{columns}, so that every party has a column."
            )
        return np.array_split(np.arange(columns), count)
    if isinstance(parties, str) or not hasattr(parties, "__len__") or len(parties) == 0:
        raise ProblemError(
            f"parties = {parties!r} found; expected None, a number, or the columns of each party, "
            "for instance [[0, 1], [2]]."
        )
    named = parties if isinstance(parties, Mapping) else dict(enumerate(parties))
    groups = {who: _positions(who, group, columns, names) for who, group in named.items()}
    _check_partition(groups, columns, names)
    return list(groups.values())


def _positions(who: Hashable, group: Any, columns: int, names: Sequence[str] | None) -> Array:
    """One party's columns as positions."""
    members = list(group) if hasattr(group, "__len__") and not isinstance(group, str) else []
    if not members:
        raise ProblemError(f"Party {who}: {group!r} found; expected a list of at least one column.")
    known = {name: k for k, name in enumerate(names)} if names is not None else {}
    if any(isinstance(member, str) for member in members):
        unknown = [member for member in members if member not in known]
        if unknown:
            nameless = (
                "X has no names: use positions, or keep the names through a pipeline with "
                "set_output(transform='pandas')"
            )
            raise ProblemError(
                f"Party {who}: the columns {unknown} are not in X. "
                f"{f'Columns: {list(known)}' if known else nameless}."
            )
        return np.array([known[member] for member in members])
    found = np.asarray(members)
    if found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= columns:
        raise ProblemError(
            f"Party {who}: columns {members} found; expected positions from 0 to {columns - 1}."
        )
    return found


def _check_partition(
    groups: Mapping[Any, Array], columns: int, names: Sequence[str] | None
) -> None:
    """Every column belongs to exactly one party."""
    count = np.bincount(np.concatenate(list(groups.values())), minlength=columns)
    label = lambda where: [names[k] if names is not None else int(k) for k in where]  # noqa: E731
    if np.any(count > 1):
        twice = np.flatnonzero(count > 1)
        owners = [str(who) for who, group in groups.items() if np.isin(twice[0], group)]
        raise ProblemError(
            f"The parties overlap: columns {label(twice)} are listed more than once (column "
            f"{label(twice[:1])[0]} by parties {', '.join(owners)}). Give every column to one "
            "party."
        )
    if np.any(count == 0):
        raise ProblemError(
            f"Columns {label(np.flatnonzero(count == 0))} belong to no party. Add them to one, "
            "or remove them from X."
        )


@lru_cache(maxsize=16)
def _named(name: str, n: int) -> Network:
    """The network of a name, with what is known of it, for one fit after the other."""
    return Network(GRAPHS[name](n))


def read_network(network: Any, n: int, parties: Any = None) -> Network:
    """The network of n parties: None (a path), a name, a networkx graph or edges, or a Network.

    Nodes are in the order of the parties; if these are a mapping, its keys may name the nodes.

    Examples
    --------
    >>> read_network("star", 4).n
    4
    >>> parties = {"bank": [0], "shop": [1], "insurer": [2]}
    >>> read_network([("insurer", "bank"), ("insurer", "shop")], 3, parties).edges.tolist()
    [[0, 2], [1, 2]]
    """
    if network is None:
        network = "path"
    if isinstance(network, str):
        if network not in GRAPHS:
            raise NetworkError(unknown_name("network", network, GRAPHS))
        network = GRAPHS[network](n) if isinstance(parties, Mapping) else _named(network, n)
    if isinstance(parties, Mapping) and not isinstance(network, Network):
        graph = network if isinstance(network, nx.Graph) else nx.Graph(list(network))
        strange = set(graph.nodes) ^ set(parties)
        if not strange:
            network = nx.relabel_nodes(graph, {name: i for i, name in enumerate(parties)})
        elif set(graph.nodes) != set(range(n)):
            raise NetworkError(
                "The network's nodes are not the parties; in only one of the two: "
                f"{', '.join(sorted(map(str, strange)))}. Use the parties' names, or the numbers "
                f"0 … {n - 1} in their order."
            )
    found = network if isinstance(network, Network) else Network(network)
    if found.n != n:
        raise NetworkError(
            f"The network has {found.n} nodes but there are {n} parties. Give one node per party."
        )
    return found
