"""Where the answers of the processes go: one file per agent, or all together if asked for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dual2.documents import to_json
from dual2.files import refuse_existing, write_atomically
from dual2.result import Result

Array = np.ndarray


def agent_file(folder: Path, agent: int) -> Path:
    """``FOLDER/<agent>.json``."""
    return folder / f"{agent}.json"


def refuse_answers(folder: Path, out: Path | None, owned: Sequence[int], force: bool) -> None:
    """An error if an answer would be overwritten."""
    for file in [agent_file(folder, agent) for agent in owned] + ([out] if out else []):
        refuse_existing(file, force)


def write_own(folder: Path, owned: Sequence[int], result: Result) -> None:
    """The answer of each own agent: its x_i and what is public."""
    public = result.as_dict()
    for agent, x in zip(owned, result.x, strict=True):
        document = {"agent": agent} | public | {"x": x.tolist()}
        write_atomically(agent_file(folder, agent), to_json(document))


def gathered(comm: Any, owned: Sequence[int], x: Sequence[Array], n: int) -> list[Array] | None:
    """All x_i at rank 0, None elsewhere: the one exchange that the privacy of x does not survive.

    Parameters
    ----------
    comm : MPI.Comm
        All processes.
    owned, x : sequences
        Own agents and their answers.
    n : int
        Number of agents.
    """
    sizes = _collect(comm, np.array([[i, part.size] for i, part in zip(owned, x, strict=True)]))
    values = _collect(comm, np.concatenate(x))
    if sizes is None or values is None:
        return None
    table = sizes.reshape(-1, 2)
    parts = np.split(values, np.cumsum(table[:, 1])[:-1])
    found = dict(zip(table[:, 0].tolist(), parts, strict=True))
    return [found[i] for i in range(n)]


def _collect(comm: Any, own: Array) -> Array | None:
    """The arrays of all processes, one after the other, at rank 0."""
    own = np.ascontiguousarray(own).ravel()
    sizes = np.zeros(comm.size, np.int64) if comm.rank == 0 else None
    comm.Gather(np.array([own.size], np.int64), sizes)
    whole = None if sizes is None else np.zeros(int(sizes.sum()), own.dtype)
    comm.Gatherv(own, None if sizes is None else (whole, sizes))
    return whole
