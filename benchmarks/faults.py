"""Runs between parties under random faults: what they answer, beside a run without any.

Four parties on a graph with a cycle, over mutual TLS on loopback, sum and exchange rows. By a
schedule that follows from its seed, parties die at crash points, one or several at once, and
return; unsynced writes are lost with them in every second schedule; connections are cut at random
times; frames arrive twice in every second schedule. All answers must be those of the undisturbed
run, bit for bit.

The part ``processes`` does the same with processes: kill -9 of one, two or all, restarts, also on a
new port, pauses (SIGSTOP), and through a process between them cuts, refusals, delays, stalls, links
that lose one direction, and bytes that arrive twice.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from common import interpreter
from common.report import Report, parse, report_parts
from dual2.runtime.comm_mode import ITERATING
from dual2.runtime.peers.frames import NUMBERED
from dual2.runtime.peers.identity import make_trial
from dual2.runtime.peers.parties import Parties
from dual2.runtime.peers.tls_transport import Connection
from party_circle import QUICK, Circle, Fate, Hanging

TESTS = Path(__file__).resolve().parents[1] / "tests" / "support"
EDGES = [(0, 1), (1, 2), (1, 3), (2, 3)]
POINTS = [
    "before write frame", "within write frame", "after write frame", "before write said",
    "within write said", "after write said", "before sync", "after sync", "before sync said",
    "after sync said", "before send",
    "after send", "after receive", "before send UP", "before send DOWN", "before send ROWS",
]  # fmt: skip
_put = Connection.put


def program(party: Parties, network: Any) -> list[Any]:
    """Twelve sums, each behind a round of rows; all that a party found."""
    others, found = list(party.manager.links), []
    stage = np.zeros((1 + len(others), 3))
    rows = {j: np.array([1 + k]) for k, j in enumerate(others)}
    ship = party.exchange(stage, dict.fromkeys(others, np.array([0])), rows)
    for k in range(12):
        draw = np.random.default_rng([party.rank, k])
        found.append(party.sum(draw.standard_normal((1, 6)), network, ITERATING).tolist())
        stage[0] = draw.standard_normal(3)
        ship()
        found.append(stage[1:].tolist())
    return found


class Schedule:
    """What happens in one run, by its seed."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.power_loss, self.twice = draw.random() < 0.5, draw.random() < 0.5
        self.cuts = draw.random() < 0.5
        self.deaths: dict[tuple[int, str, int], tuple[int, ...]] = {}
        for _ in range(draw.randint(1, 5)):
            party, also = draw.randrange(4), draw.choice([0, 0, 0, 1, 3])
            others = tuple(draw.sample([i for i in range(4) if i != party], also))
            self.deaths[party, draw.choice(POINTS), draw.randint(1, 30)] = others
        self.draw = draw


def put_twice(self: Connection, *parts: bytes) -> bool:
    """A connection on which every numbered frame arrives twice."""
    return _put(self, *parts) and (parts[0][4] not in NUMBERED or _put(self, *parts) or True)


def cut(circle: Circle, over: threading.Event, draw: random.Random) -> int:
    """Close some connection now and then."""
    count = 0
    while not over.wait(draw.uniform(0.02, 0.2)):
        for party in draw.sample(list(circle.parties.values()), min(1, len(circle.parties))):
            for connection in list(party.manager.connections.values())[:1]:
                with suppress(RuntimeError):  # its loop has just ended
                    party.manager._turns.loop.call_soon_threadsafe(connection.close)
                    count += 1
    return count


def run(folder: Path, keys: Path, schedule: Schedule | None, counts: Counter[str]) -> list[Any]:
    """One run in a folder of its own."""
    for file in keys.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
        (folder / file.name).chmod(0o600)
    loss = schedule is not None and schedule.power_loss
    circle = Circle(folder, EDGES, timing=replace(QUICK, patience=45.0), power_loss=loss)
    Connection.put = put_twice if schedule is not None and schedule.twice else _put
    over, cutter = threading.Event(), None
    if schedule is not None and schedule.cuts:

        def work(draw: random.Random = schedule.draw) -> None:
            counts["cuts"] += cut(circle, over, draw)

        cutter = threading.Thread(target=work)
        cutter.start()
    try:
        fate = Fate(schedule.deaths if schedule is not None else None)
        return circle.run(lambda party: program(party, circle.network), fate)
    finally:
        Connection.put = _put
        over.set()
        if cutter is not None:
            cutter.join()
        counts["deaths"] += circle.deaths
        for _, event, _ in circle.events:
            counts[event] += event in ("link_up", "gap", "peer_restarted")


def report_threads(report: Report, options: argparse.Namespace) -> None:
    """Schedules of parties that are threads of this process."""
    counts, begun = Counter[str](), time.monotonic()
    wrong: list[str] = []
    first, count = options.seed, options.schedules
    with tempfile.TemporaryDirectory() as parent:
        keys = Path(parent) / "keys"
        make_trial(keys, [f"party{i}" for i in range(4)])
        calm = Path(parent) / "calm"
        calm.mkdir()
        expected = run(calm, keys, None, Counter())
        for seed in range(first, first + count):
            folder = Path(parent) / str(seed)
            folder.mkdir()
            try:
                found = run(folder, keys, Schedule(seed), counts)
            except Hanging as error:
                wrong.append(f"seed {seed}: hanging {error}")
                continue
            if found != expected:
                errors = sorted({str(one) for one in found if isinstance(one, Exception)})
                wrong.append(f"seed {seed}: {errors or 'OTHER BITS'}")
    rows = [(name, counts[name]) for name in ("deaths", "cuts", "link_up", "gap", "peer_restarted")]
    rows += [("schedules", count), ("same bits", count - len(wrong))]
    rows += [("seconds", round(time.monotonic() - begun, 1))]
    report.table("Random faults, parties as threads", ("what", "how often"), rows)
    for line in wrong:
        report.say(line)
    report.expect(not wrong, "every run ends with the bits of the undisturbed one")


def report_processes(report: Report, options: argparse.Namespace) -> None:
    """Schedules of parties that are processes, run by a program without threads."""
    begun, counts, wrong, longest = time.monotonic(), Counter[str](), [], 0.0
    first, count = options.seed, options.schedules
    line = [*interpreter.PYTHON, str(TESTS / "party_campaign.py"), str(first), str(count)]
    line += [options.carrier]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for text in process.stdout:
            found = json.loads(text)
            counts.update(found["counts"] | {found["end"]: 1, "schedules": 1})
            longest = max(longest, found["seconds"])
            if found["end"] != "same bits":
                wrong.append(text)
    rows = [*sorted(counts.items()), ("seconds", round(time.monotonic() - begun, 1))]
    rows += [("seconds of the longest", longest)]
    report.table("Random faults, parties as processes", ("what", "how often"), rows)
    for text in wrong:
        report.say(text)
    report.expect(counts["same bits"] == count, "every run of processes has the bits of one")


PARTS = {"threads": report_threads, "processes": report_processes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule")
    parser.add_argument("--carrier", default="tls", help="of the processes: tls or grpc")
    report_parts(PARTS, parse(parser, PARTS, schedules=1))


if __name__ == "__main__":
    main()
