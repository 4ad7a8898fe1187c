"""Where the answers of the processes go: one file per agent, or all together if asked for."""

import os
from collections.abc import Sequence
from pathlib import Path

from dual2.errors import Dual2Error
from dual2.files import refuse_existing
from dual2.solving.result import Result
from dual2.solving.storage import to_json


def demand_writable(folder: Path) -> None:
    """An error if a folder cannot be made or written to, before there is anything to write."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        found = "may not be written to" if nearest.is_dir() else "is a file, not a folder"
        raise Dual2Error(f"Nothing can be written to {folder}: {nearest} {found}. Choose another.")


def refuse_answers(folder: Path, out: Path | None, owned: Sequence[int], force: bool) -> None:
    """An error if an answer would be overwritten."""
    for file in [folder / f"{agent}.json" for agent in owned] + ([out] if out else []):
        refuse_existing(file, force)


def own_answers(folder: Path, owned: Sequence[int], result: Result) -> dict[Path, str]:
    """The answer of each own agent for ``FOLDER/<agent>.json``: its x_i and what is public."""
    public = result.as_dict()
    return {
        folder / f"{agent}.json": to_json({"agent": agent} | public | {"x": x.tolist()})
        for agent, x in zip(owned, result.x, strict=True)
    }
