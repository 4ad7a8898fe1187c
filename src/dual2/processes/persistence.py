"""What outlives a process of ``dual2 solve --out``: its checkpoints and its answers.

The same for one process that has all agents and for several: a run that was killed goes on from
its last checkpoint, and an answer that cannot be written is printed.
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import Dual2Error
from dual2.files import refuse_existing, remove_leftovers, write_atomically
from dual2.processes.checkpoints import Checkpoints
from dual2.processes.handshake import NONE, shake_hands
from dual2.processes.options import ProcessOptions
from dual2.runtime import Transport
from dual2.runtime.gathering import gather_at_first
from dual2.solving.result import Result, Status
from dual2.solving.storage import to_json

Texts = dict[Path, str]
"""Answers by the file that they belong to."""


def demand_writable(folder: Path) -> None:
    """An error if a folder cannot be made or written to, before there is anything to write."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        found = "may not be written to" if nearest.is_dir() else "is a file, not a folder"
        raise Dual2Error(f"Nothing can be written to {folder}: {nearest} {found}. Choose another.")


def open_store(transport: Transport, asked: ProcessOptions, owned: list[int]) -> Checkpoints | None:
    """The checkpoints of this process; an error if an earlier run would be overwritten.

    What writers that were killed left behind is removed.
    """
    folder = asked.own_folder
    if folder is None or asked.out is None:
        return None
    demand_writable(folder)
    store = Checkpoints(folder, transport.rank, transport.size, owned, asked.checkpoint)
    if not asked.resume:
        alone = _alone(transport)
        answers = [] if alone else [folder / f"{agent}.json" for agent in owned]
        for file in (*answers, *([asked.out] if asked.gather or alone else [])):
            refuse_existing(file, asked.force)
        if store.rounds() and not asked.force:
            raise Dual2Error(
                f"{folder} has checkpoints of a run that did not end. Go on with --resume, or pass "
                "--force to start afresh."
            )
    remove_leftovers(folder, f"rank-{transport.rank}.")
    for agent in owned:
        remove_leftovers(folder, f"{agent}.json.")
    if transport.rank == 0:
        remove_leftovers(asked.out.parent, f"{asked.out.name}.")
    return store


def _alone(transport: Transport) -> bool:
    """Whether this is an ordinary run, not one among processes (even if only one was started)."""
    return type(transport) is Transport


def state_to_resume(
    transport: Transport, asked: ProcessOptions, means: dict[str, bytes], store: Checkpoints | None
) -> dict[str, Any] | None:
    """Make sure that all processes mean the same run; the state to resume from, if any."""
    if store is None or not asked.resume:
        shake_hands(transport, means, NONE)
        return None
    saved = store.rounds()
    if saved:
        store.load(saved[-1])  # of other agents or another number of processes: say so first
    agreed = shake_hands(transport, means, saved[-1] if saved else NONE)
    if not saved:
        raise Dual2Error(f"There is nothing to resume: {asked.own_folder} has no checkpoint.")
    if agreed == NONE:
        raise Dual2Error("There is nothing to resume: another process has no checkpoint.")
    if agreed not in saved:
        raise Dual2Error(
            f"The newest checkpoint of some process is of round {agreed}; here are only "
            f"{', '.join(map(str, saved))}. The checkpoints are not of one run: start afresh."
        )
    return store.load(agreed)


def keep(
    transport: Transport,
    asked: ProcessOptions,
    owned: list[int],
    store: Checkpoints | None,
    result: Result,
    n: int,
) -> bool:
    """Write the answers; whether all processes could.

    A run that may be resumed keeps its state, a finished one does not. Answers for which there is
    no room are printed, one process after the other, and the last checkpoints stay.
    """
    if store is None or asked.out is None:
        return True
    texts = _answers(transport, asked, owned, store, result, n)
    unwritten = {path: text for path, text in texts.items() if not _write(path, text)}
    converged = result.status == Status.CONVERGED
    if not converged:
        store.save(result.counts.rounds, result.state)
    said = np.array([bool(unwritten)], np.uint8)
    if transport.allgather(said, "end").any():
        for rank in range(transport.size):
            if rank == transport.rank:
                print("".join(unwritten.values()), end="", flush=True)
            transport.allgather(said, "end")
        return False
    if converged:
        store.clear()
    return True


def _answers(
    transport: Transport,
    asked: ProcessOptions,
    owned: list[int],
    store: Checkpoints,
    result: Result,
    n: int,
) -> Texts:
    """For each own agent ``OUT.d/<agent>.json``, its x_i and what is public; OUT if asked for."""
    assert asked.out is not None, "there is a store"
    public = result.as_dict()
    if _alone(transport):
        return {asked.out: to_json(public)}
    texts = {
        store.folder / f"{agent}.json": to_json({"agent": agent} | public | {"x": x.tolist()})
        for agent, x in zip(owned, result.x, strict=True)
    }
    if asked.gather:
        x = gather_at_first(transport, owned, result.x, n)
        if x is not None:
            texts[asked.out] = to_json(public | {"x": [part.tolist() for part in x]})
    return texts


def _write(path: Path, text: str) -> bool:
    try:
        write_atomically(path, text)
    except OSError as error:
        print(
            f"dual2: {path} could not be written: {error}. The answer is printed instead.",
            file=sys.stderr,
            flush=True,
        )
        return False
    return True
