"""How a run goes: a line, and a small file that ``dual2 party status`` reads.

Reading needs no solver, so this module imports none.
"""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dual2.errors import Dual2Error
from dual2.files import read_json, read_toml

if TYPE_CHECKING:
    from dual2.parties.party import Party
    from dual2.runtime.peers.connection_manager import ConnectionManager
    from dual2.runtime.peers.parties import Parties

_FRESH_SECONDS = 30.0
"""A running process writes its status several times a second: an older one was killed."""


class Board:
    """What an observer of one party may know; no values but the public residual."""

    def __init__(self, file: Path, party: Party) -> None:
        self.file = file
        self._party, self._begun = party, time.monotonic()
        self._kkt: list[tuple[float, float]] = []
        self.now: dict[str, Any] = {
            "party": party.name,
            "run": party.study.name,
            "state": "starting",
        }
        self.transport: Parties | None = None
        self.unwritten = ""

    def tell(self, info: dict[str, Any]) -> None:
        """A stopping test was made; a callback of ``solve``."""
        self._kkt.append((time.monotonic(), float(info["kkt"])))

    def refresh(self, manager: ConnectionManager) -> str:
        """Look at the links and sums; the line to print."""
        with manager.changed:
            links = [
                {
                    "peer": link.name,
                    "up": peer in manager.connections,
                    "received": link.next_in - 1,
                    "kept": len(link.out),
                    "why": "" if peer in manager.connections else manager.why_down(peer),
                    "down_for": 0.0
                    if peer in manager.connections
                    else round(time.monotonic() - manager.down_since[peer], 1),
                }
                for peer, link in manager.links.items()
            ]
        progress = self.transport.progress if self.transport else None
        kkt = self._kkt[-1][1] if self._kkt else None
        tol = float(self._party.study.public.options.get("tol", 1e-8))
        waiting = progress.waiting if progress else ""
        waited = time.monotonic() - progress.since if progress and waiting else 0.0
        self.now |= {
            "state": self._state(links, progress.sums if progress else 0),
            "process": os.getpid(),
            "time": time.time(),
            "seconds": round(time.monotonic() - self._begun, 1),
            "sums": progress.sums if progress else 0,
            "rounds": progress.rounds if progress else 0,
            "kkt": kkt,
            "target": tol,
            "time_left": self._left(tol),
            "waiting": waiting,
            "waited": round(waited, 1),
            "links": links,
        }
        self._write()
        return f"{self._line(links)}. {self.unwritten}" if self.unwritten else self._line(links)

    @staticmethod
    def _state(links: list[dict[str, Any]], sums: int) -> str:
        """What the run is at, before its first sum and after."""
        if sums:
            return "running"
        return "exchanging keys" if all(link["up"] for link in links) else "connecting"

    def _line(self, links: list[dict[str, Any]]) -> str:
        """What it is at, and for whom it waits and why."""
        now = self.now
        line = f"sum {now['sums']}" if now["sums"] else now["state"]
        line += f", residual {now['kkt']:.1e} (target {now['target']:g})" if now["kkt"] else ""
        down = [link for link in links if not link["up"]]
        names = {link["peer"] for link in down}
        if now["waited"] >= 1 and now["waiting"] not in names:
            line += f", waiting for {now['waiting']} {now['waited']:.0f} s"
        for link in down:
            if now["waiting"] == link["peer"] or not now["sums"]:
                line += f", waiting for {link['peer']} {link['down_for']:.0f} s"
                line += f" ({link['why']})" if link["why"] else ""
        return line

    def _left(self, tol: float) -> float | None:
        """Seconds to the target if the residual falls as it did so far; None if it does not."""
        points = [(t, k) for t, k in self._kkt if 0 < k < math.inf]
        if len(points) < 3 or not points[-1][1] < points[0][1]:
            return None
        speed = math.log(points[0][1] / points[-1][1]) / max(points[-1][0] - points[0][0], 1e-9)
        return round(max(0.0, math.log(points[-1][1] / tol) / speed), 1)

    def finish(self, error: str = "") -> None:
        """The process ends, perhaps with an error."""
        self.now |= {"state": "failed" if error else "ended", "error": error, "time": time.time()}
        self._write()

    def _write(self) -> None:
        """Best effort: a full disk must not end a run because of its status."""
        new = self.file.with_name(f".{self.file.name}.new")
        try:
            new.write_text(json.dumps(self.now))
            os.replace(new, self.file)
            self.unwritten = ""
        except OSError as error:
            self.unwritten = f"{self.file} cannot be written: {error.strerror or error}"


def read_statuses(file: Path) -> dict[str, dict[str, Any]]:
    r"""What a party says about itself, by the run of its study; an error if it was never started.

    Only the entries ``name`` and ``state`` of ``party.toml`` are needed.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "party.toml").write_text('name = "lab"\nstate = "state"\n')
    >>> read_statuses(folder / "party.toml")
    Traceback (most recent call last):
    dual2.errors.Dual2Error: ...state has no status: lab was never started.
    """
    table = read_toml(file)
    if not isinstance(table.get("state"), str):
        raise Dual2Error(f"{file} lacks state; expected the name of the party's state folder.")
    folder = file.parent / table["state"]
    files = [folder / "status.json", *sorted(folder.glob("*/status.json"))]
    found = {_phase(one, folder): _read_status(one) for one in files if one.exists()}
    if not found:
        name = table.get("name", "the party")
        raise Dual2Error(f"{folder} has no status: {name} was never started.")
    return dict(sorted(found.items(), key=lambda item: float(item[1].get("time", 0))))


def _phase(file: Path, folder: Path) -> str:
    """The run that a status belongs to; the only one of a study without phases is ``run``."""
    return "run" if file.parent == folder else file.parent.name


def _read_status(file: Path) -> dict[str, Any]:
    """What a process has written last; ``gone`` if it should have written since."""
    found = read_json(file)
    if not isinstance(found, dict) or "state" not in found:
        raise Dual2Error(f"{file} is no status of a party.")
    late = time.time() - float(found.get("time", 0)) > _FRESH_SECONDS
    if late and found["state"] not in ("ended", "failed"):
        found["state"] = "gone"
    return found


def status_lines(found: dict[str, Any]) -> list[str]:
    r"""One status in words.

    Examples
    --------
    >>> link = {"peer": "east", "up": False, "down_for": 12.0, "why": "connection refused"}
    >>> now = {"party": "lab", "run": "trial", "state": "connecting", "links": [link]}
    >>> print("\n".join(status_lines(now)))
    lab, run trial: connecting
    east: down for 12 s (connection refused)
    """
    lines = [f"{found['party']}, run {found['run']}: {found['state']}"]
    if found.get("error"):
        lines.append(f"error: {found['error']}")
    kkt = found.get("kkt")
    if found.get("sums"):
        lines.append(f"sum {found['sums']}" + ("" if kkt is None else f", residual {kkt:.1e}"))
    if found.get("waiting"):
        lines.append(f"waiting for {found['waiting']} {found['waited']:.0f} s")
    for link in found.get("links", []):
        if link["up"]:
            counts = f"{link['received']} frames received, {link['kept']} kept"
            lines.append(f"{link['peer']}: up, {counts}")
        else:
            why = f" ({link['why']})" if link.get("why") else ""
            lines.append(f"{link['peer']}: down for {link['down_for']:.0f} s{why}")
    return lines
