"""Where the answers of the processes go: one file per agent, or all together if asked for."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dual2.documents import to_json
from dual2.errors import Dual2Error
from dual2.files import refuse_existing, write_atomically
from dual2.result import Result
from dual2.runtime.mpi import Mpi

Array = np.ndarray


def agent_file(folder: Path, agent: int) -> Path:
    """``FOLDER/<agent>.json``."""
    return folder / f"{agent}.json"


def demand_writable(folder: Path) -> None:
    """An error if a folder cannot be made or written to, before there is anything to write."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        found = "may not be written to" if nearest.is_dir() else "is a file, not a folder"
        raise Dual2Error(f"Nothing can be written to {folder}: {nearest} {found}. Choose another.")


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


def gathered(place: Mpi, owned: Sequence[int], x: Sequence[Array], n: int) -> list[Array] | None:
    """All x_i at rank 0, None elsewhere: the one exchange that the privacy of x does not survive.

    Parameters
    ----------
    place : Mpi
        All processes.
    owned, x : sequences
        Own agents and their answers.
    n : int
        Number of agents.
    """
    table = np.array([[i, part.size] for i, part in zip(owned, x, strict=True)])
    sizes = place.collect(table.ravel(), "gather")
    values = place.collect(np.concatenate(x), "gather")
    if sizes is None or values is None:
        return None
    table = sizes.reshape(-1, 2)
    parts = np.split(values, np.cumsum(table[:, 1])[:-1])
    found = dict(zip(table[:, 0].tolist(), parts, strict=True))
    return [found[i] for i in range(n)]
