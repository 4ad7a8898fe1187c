"""Sums and maxima along the spanning tree of the graph, in an order that depends on it alone.

Partial results go up the tree, from the process of an agent to that of its parent, and the answer
comes down again.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from dual2.engine.gossip_kernel import fold, walk_down
from dual2.engine.packed_args import PackedArgs
from dual2.engine.threads import BARRIER, TeamMember
from dual2.errors import PeerError
from dual2.network.gossip import Tree

Array = np.ndarray
Messages = Mapping[int, Array]
Fill = Callable[[Array, Array], object]
"""``fill(rows, out)`` writes the arrays of the agents in places ``rows`` to the rows of ``out``."""
Run = Callable[..., Any]
"""``run(kernel, *args)`` calls ``kernel(*args, member)`` on each thread; the first one's answer."""
SendRecv = Callable[[Messages, Messages, str], None]
"""Sends arrays to ranks and fills those that come from ranks; the last is the kind of message."""


ROOM = 500_000
"""Numbers that are held at once where agents compute their part of a sum one after the other: 4 MB,
which stay in the cache."""
LEAST = 8
"""Messages that are held at once, however long they are: enough for every thread to have one."""


class Addition(Protocol):
    """``np.add``, ``np.maximum``, or what acts like them: ``at(total, parents, rows)``."""

    @property
    def at(self) -> Callable[..., Any]:
        """Combine the ``rows`` with those of ``total`` at the places ``parents``."""
        ...


class Level(NamedTuple):
    """What a process does for one level of the tree on the way up.

    ``parents`` are the rows to which the ``len(parents)`` children of this level add, ``local``
    and ``rows`` which of these children are here and where, ``incoming`` which come from a rank,
    ``outgoing`` the rows that go to one.
    """

    parents: Array
    local: Array
    rows: Array
    incoming: dict[int, Array]
    outgoing: dict[int, Array]


class Route(NamedTuple):
    """The way of a sum through one process.

    ``levels`` are those where it has something to do, ``root`` is its row that ends with the
    answer; else ``source`` is the rank that tells it. ``targets`` are the ranks that it tells.
    """

    levels: list[Level]
    root: int | None
    source: int
    targets: list[int]


def find_route(tree: Tree, owners: Array, rank: int) -> Route:
    """The way of a sum through one process.

    Every process hears the answer at its agent nearest to the root, from that agent's parent.

    Examples
    --------
    >>> from dual2.network import Network
    >>> tree = Network([(0, 1), (1, 2)]).tree
    >>> route = find_route(tree, np.array([0, 0, 1]), 0)
    >>> route.levels[0].incoming, route.root, route.targets
    ({1: array([1])}, 1, [1])
    """
    place = np.full(len(owners), -1)
    owned = np.flatnonzero(owners == rank)
    place[owned] = np.arange(len(owned))
    teller = np.full(owners.max() + 1, -1)
    levels = []
    for children in tree.levels:
        for child in children[::-1]:
            teller[owners[child]] = owners[tree.parent[child]]
        level = _find_level(children, tree.parent[children], owners, rank, place)
        if len(level.parents) or level.outgoing:
            levels.append(level)
    teller[owners[tree.root]] = -1
    root = int(place[tree.root]) if owners[tree.root] == rank else None
    return Route(levels, root, int(teller[rank]), np.flatnonzero(teller == rank).tolist())


def _find_level(children: Array, parents: Array, owners: Array, rank: int, place: Array) -> Level:
    here, below = owners[parents] == rank, owners[children]
    senders = below[here]
    leaving = (below == rank) & ~here
    local = np.flatnonzero(senders == rank)
    return Level(
        place[parents[here]],
        local,
        place[children[here][local]],
        {int(r): np.flatnonzero(senders == r) for r in set(senders) - {rank}},
        {
            int(r): place[children[leaving & (owners[parents] == r)]]
            for r in set(owners[parents[leaving]])
        },
    )


def combine(
    route: Route,
    operation: Addition,
    total: Array,
    sendrecv: SendRecv,
    strict: bool = False,
) -> Array:
    """Up the tree and down; ``total`` has the rows of the own agents and is used up.

    ``sendrecv`` sends arrays to ranks and fills those that come from ranks. If ``strict``, nobody
    sends NaN: what is no number here (a run that diverges) travels as infinity, and NaN that comes
    is an error that names the rank.
    """
    send, receive = (without_nan, _demand_numbers) if strict else (np.asarray, _take)
    for level in route.levels:
        rows = np.empty((len(level.parents), total.shape[1]))
        rows[level.local] = total[level.rows]
        if level.incoming or level.outgoing:
            incoming = {r: np.empty((len(at), rows.shape[1])) for r, at in level.incoming.items()}
            sendrecv({r: send(total[at]) for r, at in level.outgoing.items()}, incoming, "agree up")
            for r, at in level.incoming.items():
                rows[at] = receive(incoming[r], r)
        operation.at(total, level.parents, rows)
    answer = np.empty(total.shape[1])
    if route.root is None:
        sendrecv({}, {route.source: answer}, "agree down")
        receive(answer, route.source)
    else:
        answer[:] = send(total[route.root])
    if route.targets:
        sendrecv(dict.fromkeys(route.targets, answer), {}, "agree down")
    return answer


def without_nan(values: Array) -> Array:
    """A copy with infinity in the place of NaN.

    Examples
    --------
    >>> without_nan(np.array([1.0, np.nan]))
    array([ 1., inf])
    """
    return np.where(np.isnan(values), np.inf, values)


def _take(values: Array, rank: int) -> Array:
    return values


def _demand_numbers(values: Array, rank: int) -> Array:
    if np.isnan(values).any():
        raise PeerError(
            f"rank {rank} sent NaN where all agents agree on a sum or a maximum. Its data or its "
            "program are at fault; the checkpoints stay."
        )
    return values


def run_alone(kernel: Callable[..., Any], *args: Any) -> Any:
    """Run ``kernel(*args, member)`` on this thread."""
    return kernel(*args, PackedArgs(TeamMember(0, 1, np.zeros(BARRIER, np.int64))))


def sum_on_a_walk(
    width: int, fill: Fill, tree: Tree, room: int, run: Run, least: int = LEAST
) -> Array:
    """The sum of what ``fill`` writes, all agents here, ``room`` numbers at a time.

    ``run(kernel, *args)`` runs a kernel on the threads; ``fill`` gets ``least`` agents at least.
    """
    order, depths = tree.walk
    some, top = max(least, room // width), -1
    stack, rows = np.empty((tree.height + 1, width)), np.empty((min(some, len(order)), width))
    for first in range(0, len(order), some):
        part = order[first : first + some]
        fill(part, rows[: len(part)])
        top = run(walk_down, rows[: len(part)], depths[first : first + some], stack, top)
    fold(stack, top, 0, 0, width)
    return stack[0] if len(stack) <= 2 else stack[0].copy()


def sum_in_parts(width: int, fill: Fill, count: int, room: int) -> Array:
    """The sum of what ``fill`` writes for so many agents, in their order.

    Examples
    --------
    >>> def fill(rows, out):
    ...     out[:] = rows[:, None]
    >>> sum_in_parts(1, fill, 1000, 10)
    array([499500.])
    """
    total, some = np.zeros(width), max(LEAST, room // width)
    rows = np.empty((min(some, count), width))
    for first in range(0, count, some):
        part = np.arange(first, min(first + some, count))
        fill(part, rows[: len(part)])
        total += rows[: len(part)].sum(axis=0)
    return total
