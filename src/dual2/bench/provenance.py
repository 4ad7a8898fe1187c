"""What a benchmark was made from, and whether another run of it gives the same counts."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dual2.bench.config import Config, parse_config
from dual2.bench.harness import Outcome, run_cases
from dual2.bench.store import Store, StoredRun
from dual2.errors import Dual2Error
from dual2.files import read_json, write_atomically
from dual2.solving.storage import to_json
from dual2.solving.version import versions

RECORD = "bench.json"
"""File in the folder of a benchmark."""

AGAIN = "reproduced"
"""Folder in it with the runs that were made again."""


def provenance(config: Config, runs: Sequence[StoredRun], folder: Path) -> dict[str, Any]:
    """Config, code, data and versions behind some runs, and one hash of them all."""
    code: dict[str, str] = {}
    for case in config.cases:
        code |= case.notes.get("code", {})
    found = {
        "config": config.text,
        "code": code,
        "data": {f"{run.case.group}, seed {run.case.seed}": run.facts.get("data") for run in runs},
        "versions": versions(),
    }
    digest = hashlib.blake2b(json.dumps(found, sort_keys=True).encode(), digest_size=8)
    place = None if config.folder is None else os.path.relpath(config.folder.resolve(), folder)
    return {"name": config.name, "folder": place, "hash": digest.hexdigest(), **found}


def write_provenance(folder: Path, record: dict[str, Any]) -> None:
    """Keep it with the runs."""
    write_atomically(folder / RECORD, to_json(record))


def remark(record: dict[str, Any]) -> str:
    """One line that stands in every table and figure."""
    return f"dual2 {record['versions']['dual2']}, benchmark {record['name']}, {record['hash']}"


@dataclass(frozen=True)
class Difference:
    """A run that came out otherwise."""

    run: str  # problem, network, method and seed
    what: str  # the count, "status", or "data"
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.run}: {self.what} was {self.before}, is {self.now}"


@dataclass(frozen=True)
class Reproduced:
    """What came of running a benchmark again."""

    outcome: Outcome
    same: int  # runs with the same status, counts and data
    differences: list[Difference]
    changes: list[str]  # code and versions that are not those of before


def reproduce_bench(
    folder: str | os.PathLike[str],
    *,
    workers: int | None = None,
    progress: bool | str | None = None,
) -> Reproduced:
    """Run a stored benchmark again, into its folder ``reproduced``, and compare the counts.

    ``folder``: of ``dual2 bench``; ``workers``, ``progress``: as for ``run_cases``.
    """
    place = Path(folder)
    record = read_record(place)
    origin = place if record["folder"] is None else (place / record["folder"]).resolve()
    config = parse_config(record["config"], record["name"], origin)
    before = {_name(run): run for run in Store(place).runs()}
    store = Store(place / AGAIN)
    outcome = run_cases(config.cases, store, workers=workers, force=True, progress=progress)
    now = [store.load(case) for case in config.cases if store.has(case)]
    differences: list[Difference] = []
    same = 0
    for run in now:
        found = _differences(before.get(_name(run)), run)
        differences += found
        same += not found
    again = provenance(config, now, place)
    return Reproduced(outcome, same, differences, _changes(record, again))


def read_record(folder: Path) -> dict[str, Any]:
    """The record of a benchmark, its keys checked."""
    file = folder / RECORD
    if not file.is_file():
        raise Dual2Error(
            f"{folder} has no {RECORD}; expected a folder that dual2 bench CONFIG has written."
        )
    record = read_json(file)
    kinds = {"name": str, "config": str, "code": dict, "versions": dict, "hash": str}
    for key, kind in kinds.items():
        if not isinstance(record, dict) or not isinstance(record.get(key), kind):
            raise Dual2Error(f"{file} is not the record of a benchmark: {key} is missing.")
    if not isinstance(record.get("folder"), str | None):
        raise Dual2Error(f"{file} is not the record of a benchmark: folder is no path.")
    return record


def _name(run: StoredRun) -> str:
    return f"{run.case.label} on {run.case.group}, seed {run.case.seed}"


def _differences(before: StoredRun | None, now: StoredRun) -> list[Difference]:
    name = _name(now)
    if before is None:
        return [Difference(name, "run", "missing", now.status)]
    pairs: dict[str, tuple[Any, Any]] = {"status": (before.status, now.status)}
    pairs["data"] = (before.facts.get("data"), now.facts.get("data"))
    for key in dict.fromkeys([*before.counts, *now.counts]):
        pairs[key] = (before.counts.get(key), now.counts.get(key))
    return [Difference(name, key, *pair) for key, pair in pairs.items() if pair[0] != pair[1]]


def _changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    changes = []
    for part in ("code", "versions"):
        for key in dict.fromkeys([*before[part], *now[part]]):
            old, new = before[part].get(key), now[part].get(key)
            if old != new:
                changes.append(f"{key}: {part} was {old}, is {new}")
    return changes
