"""Threads over a serial kernel: the same compiled code, told which member of a team runs it.

Every thread owns a fixed range of rows and meets the others at :func:`meet`. Nothing depends on
how many threads there are: each row is computed by one of them with the same operations.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from dual2.compiled import compiled, inline

_SPINS = 4000
_ARRIVED, _PHASE, EXCHANGE = 0, 8, 16
"""Entries of a barrier, on cache lines of their own: threads that have arrived, how often all have,
and the address of the callbacks by which rows travel to other processes (0: there are none)."""
BARRIER = 24
"""Entries of a barrier."""
_yield_cpu = types.ExternalFunction("sched_yield", types.int32())


class TeamMember(NamedTuple):
    """One thread of a team: its number, how many there are, and where they meet."""

    thread: int
    threads: int
    barrier: np.ndarray


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, [index])


@intrinsic
def _fetch_add(typingctx: Any, array: Any, index: Any, amount: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        cell = _pointer(context, builder, signature.args[0], args[0], args[1])
        return builder.atomic_rmw("add", cell, args[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), codegen


@intrinsic
def _load(typingctx: Any, array: Any, index: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        cell = _pointer(context, builder, signature.args[0], args[0], args[1])
        return builder.load_atomic(cell, "seq_cst", 8)

    return types.int64(array, types.int64), codegen


@inline
def own_rows(member, n):
    """First and last (excluded) of the n rows that are this thread's."""
    return n * member.thread // member.threads, n * (member.thread + 1) // member.threads


@compiled
def meet(member):
    """Wait until all threads of the team have arrived at its barrier."""
    if member.threads == 1:
        return
    barrier = member.barrier
    # Read before arriving: the last one to arrive changes the phase at once.
    phase = _load(barrier, _PHASE)  # pyright: ignore[reportCallIssue]
    if _fetch_add(barrier, _ARRIVED, 1) == member.threads - 1:
        # The count first: a thread that sees the new phase may arrive here again at once.
        _fetch_add(barrier, _ARRIVED, -member.threads)
        _fetch_add(barrier, _PHASE, 1)
        return
    # The others are usually less than a microsecond behind, so spin first. Then yield: with more
    # threads than free cores spinning would use up the time slice of the one that is awaited.
    spins = 0
    while _load(barrier, _PHASE) == phase:
        spins += 1
        if spins > _SPINS:
            _yield_cpu()
