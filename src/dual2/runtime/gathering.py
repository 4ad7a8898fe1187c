"""Answers of all agents in one process or in every one: what is private otherwise becomes known."""

from collections.abc import Sequence

import numpy as np

from dual2.errors import PeerError
from dual2.network import AnyNetwork
from dual2.runtime.transport import Transport

Array = np.ndarray


def gather_at_first(
    transport: Transport, owned: Sequence[int], x: Sequence[Array], n: int
) -> list[Array] | None:
    """The x_i of all n agents at rank 0, None elsewhere, from those of the own agents.

    Examples
    --------
    >>> from dual2.runtime import find_transport
    >>> gather_at_first(find_transport("stacked"), [1, 0], [np.ones(2), np.zeros(1)], 2)
    [array([0.]), array([1., 1.])]
    """
    table = np.array([[i, part.size] for i, part in zip(owned, x, strict=True)])
    sizes = transport.gather(table.ravel(), "gather")
    values = transport.gather(np.concatenate(x), "gather")
    if sizes is None or values is None:
        return None
    table = sizes.reshape(-1, 2)
    _demand_complete(table, values, n)
    parts = np.split(values, np.cumsum(table[:, 1])[:-1])
    found = dict(zip(table[:, 0].tolist(), parts, strict=True))
    return [found[i] for i in range(n)]


def _demand_complete(table: Array, values: Array, n: int) -> None:
    """An error unless every agent has given one answer, of the length it says, in numbers."""
    agents, sizes = table.T
    missing = np.setdiff1d(np.arange(n), agents)
    if missing.size or len(agents) != n or sizes.min() < 0 or sizes.sum() != values.size:
        who = f"agent {missing[0]} is missing" if missing.size else "lengths do not match"
        raise PeerError(f"The answers of the {n} agents could not be gathered: {who}.")
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        agent = agents[np.searchsorted(np.cumsum(sizes), wrong[0], side="right")]
        raise PeerError(f"agent {agent} gave {values[wrong[0]]:g} as part of its answer.")


def gather_everywhere(
    transport: Transport, network: AnyNetwork, dims: Sequence[int], x: Sequence[Array], duals: Array
) -> tuple[list[Array], Array]:
    """x_i and λ_i of all agents in every process, from those of the own agents.

    ``dims`` are the d_i of all agents. Every process lines up its own in one message.

    Examples
    --------
    >>> from dual2.runtime import find_transport
    >>> from dual2.network import Network
    >>> pair, here = Network([(0, 1)]), find_transport("stacked")
    >>> x, duals = gather_everywhere(here, pair, [1, 2], [np.zeros(1), np.ones(2)], np.ones((2, 1)))
    >>> x[1], duals.shape
    (array([1., 1.]), (2, 1))
    """
    owners, lengths = transport.owners(network), np.array(dims) + duals.shape[1]
    own = np.hstack([*map(np.append, x, duals)])
    message = np.zeros(int(np.bincount(owners, weights=lengths).max()))
    message[: own.size] = own
    every: dict[int, Array] = {}
    for rank, row in enumerate(transport.allgather(message, "gather")):
        agents = np.flatnonzero(owners == rank)
        parts = np.split(row, np.cumsum(lengths[agents]))[:-1]
        every |= dict(zip(agents.tolist(), parts, strict=True))
    records = [every[i] for i in range(network.n)]
    x = [record[:d] for record, d in zip(records, dims, strict=True)]
    return x, np.array([record[d:] for record, d in zip(records, dims, strict=True)])
