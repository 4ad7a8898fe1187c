"""Parties that are processes, under random faults: kill -9, pauses, disturbed links, new ports.

``python party_campaign.py FIRST COUNT [CARRIER]`` runs the schedules of some seeds and prints a
JSON line for each. Processes are forked from this one, which has everything loaded and no threads.
"""

import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import dual2 as d2
import party_proxies
from dual2.cli import main as dual2_main
from dual2.engine.fixed_point import add_words, subtract_words
from party_offices import Offices, bits, free_ports

EDGES = [(0, 1), (1, 2), (1, 3), (2, 3)]
LIMIT = 300.0
"""Seconds after which a run counts as hanging."""
OPTIONS: list[dict[str, Any]] = [
    {"method": "Newton", "tol": 1e-8},
    {"method": "iD2A", "tol": 1e-2},
    {"method": "L-BFGS", "tol": 1e-6},
    {"method": "interior-point", "tol": 1e-8},
]


def problem() -> d2.Problem:
    draw = np.random.default_rng(7)
    agents = [
        d2.Agent(draw.standard_normal((6, 2)), d2.SquaredNorm(1.0), d2.L1Norm(0.1))
        for _ in range(4)
    ]
    return d2.Problem(agents, d2.SquaredLoss(draw.standard_normal(6)))


def network() -> d2.Network:
    return d2.Network(nx.Graph(EDGES))


def expected(options: dict[str, Any]) -> list[Any]:
    """What one process answers without any fault; compiles what the parties will need."""
    found = d2.solve(problem(), network(), sums="exact", record=False, **options)
    words = np.zeros((1, 2), np.uint64)
    add_words(words, words.copy())
    subtract_words(words, words.copy())
    public = json.loads(json.dumps(found.as_dict()))
    return bits([public | {"x": x.tolist()} for x in found.x])


class Run:
    """One run: four parties, a process between them, and what happens to them."""

    def __init__(self, folder: Path, seed: int, carrier: str) -> None:
        self.draw, self.counts = random.Random(seed), Counter[str]()
        self.options = OPTIONS[seed % len(OPTIONS)]
        ports = free_ports(len(EDGES))
        self.edges = {(max(e), min(e)): port for e, port in zip(EDGES, ports, strict=True)}
        extra = "dead = 1.5\npatience = 60\n"
        where = folder / str(seed)
        more = {"addresses": self.edges, "extra": extra, "carrier": carrier}
        self.offices = Offices(where, problem(), network(), self.options, **more)
        self.living: dict[int, int] = {}
        self.paused: dict[int, float] = {}
        self.dead: dict[int, float] = {}
        self.codes: dict[int, int] = {}

    def fork(self, work: Any, log: Path) -> int:
        """A process that does ``work()`` and ends with its exit code."""
        child = os.fork()
        if child:
            return child
        code = 99
        try:
            os.setsid()
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, 1)
            os.dup2(file, 2)
            work()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os._exit(code)

    def start(self, i: int) -> None:
        line = ["party", "run", str(self.offices.file(i)), "--resume", "--quiet"]
        self.living[i] = self.fork(lambda: dual2_main(line), self.offices.folder / f"{i}.log")

    def order(self, *what: Any) -> None:
        os.write(self.orders, (json.dumps(what) + "\n").encode())

    # -- faults ------------------------------------------------------------------------------------
    def disturb(self) -> None:
        """One fault, drawn."""
        kind = self.draw.choice(("kill", "kill", "pause", "move", *party_proxies.FAULTS))
        self.counts[kind] += 1
        if kind in party_proxies.FAULTS:
            self.order(self.draw.randrange(len(EDGES)), kind, self.draw.uniform(0.05, 0.5))
            return
        count = self.draw.choice((1, 1, 2, 4)) if kind == "kill" else 1
        for i in self.draw.sample(range(4), count):
            if i not in self.living or i in self.paused:
                continue
            if kind == "pause":
                os.kill(self.living[i], signal.SIGSTOP)
                self.paused[i] = time.monotonic() + self.draw.choice((0.1, 0.5, 2.5))
                continue
            self.kill(i)
            self.dead[i] = time.monotonic() + self.draw.uniform(0.0, 0.4)
            if kind == "move":
                self.move(i)

    def kill(self, i: int) -> None:
        os.kill(self.living[i], signal.SIGKILL)
        os.waitpid(self.living.pop(i), 0)
        self.counts["deaths"] += 1

    def move(self, i: int) -> None:
        """Party i will return on another port."""
        (port,) = free_ports(1)
        file = self.offices.file(i)
        old = f'listen = "127.0.0.1:{self.offices.ports[i]}"'
        self.offices.ports[i] = port
        file.write_text(file.read_text().replace(old, f'listen = "127.0.0.1:{port}"'))
        self.order(i, "moved", port)

    def attend(self) -> None:
        """Wake up who was paused long enough, start again who was killed, note who has ended."""
        now = time.monotonic()
        for i in [i for i, end in self.paused.items() if end <= now]:
            os.kill(self.living[i], signal.SIGCONT)
            del self.paused[i]
        for i in [i for i, end in self.dead.items() if end <= now]:
            del self.dead[i]
            self.start(i)
        for i, process in list(self.living.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                self.codes[i] = os.waitstatus_to_exitcode(status)
                del self.living[i]

    # -- the whole ---------------------------------------------------------------------------------
    def run(self) -> dict[str, Any]:
        """Start all, disturb them some times, wait for all; what was found."""
        reading, self.orders = os.pipe()
        log = self.offices.folder / "proxies.log"
        work = lambda: party_proxies.run(self.edges, self.offices.ports, reading)  # noqa: E731
        proxies = self.fork(lambda: (os.close(self.orders), work()), log)
        os.close(reading)
        begun = time.monotonic()
        faults = [begun + self.draw.uniform(0.1, 3.0) for _ in range(self.draw.randint(3, 9))]
        try:
            for i in range(4):
                self.start(i)
            while len(self.codes) < 4 and time.monotonic() - begun < LIMIT:
                self.attend()
                for at in [at for at in faults if at <= time.monotonic()]:
                    faults.remove(at)
                    self.disturb()
                time.sleep(0.01)
        finally:
            hanging = sorted(self.living)
            for i in hanging:
                self.kill(i)
            os.close(self.orders)
            os.kill(proxies, signal.SIGKILL)
            os.waitpid(proxies, 0)
        return self.judge(hanging) | {"seconds": round(time.monotonic() - begun, 2)}

    def judge(self, hanging: list[int]) -> dict[str, Any]:
        found = {"counts": dict(self.counts), "method": self.options["method"]}
        found["codes"] = [self.codes.get(i) for i in range(4)]
        if hanging:
            return found | {"end": f"hanging: {hanging}", "events": self.events()}
        if any(self.codes.values()):
            return found | {"end": "error", "said": self.words(), "events": self.events()}
        same = bits([self.offices.answer(i) for i in range(4)]) == expected(self.options)
        return found | {"end": "same bits" if same else "OTHER BITS"}

    def events(self) -> list[list[str]]:
        """The last lines of the parties' logs."""
        found = []
        for name in self.offices.names:
            log = self.offices.folder / name / "state" / "audit.jsonl"
            lines = log.read_text().splitlines()[-12:] if log.exists() else []
            last = [json.loads(line) for line in lines]
            found.append(
                [{k: v for k, v in one.items() if k not in ("run", "prev")} for one in last]
            )
        return found

    def words(self) -> list[str]:
        """What the parties said last."""
        logs = [self.offices.folder / f"{i}.log" for i in range(4)]
        texts = [log.read_text().strip() if log.exists() else "" for log in logs]
        return [re.sub(r"\s+", " ", text)[-300:] for text in texts]


def main(first: int, count: int, carrier: str) -> None:
    """Run the schedules of ``count`` seeds."""
    for options in OPTIONS:
        expected(options)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            print(json.dumps({"seed": seed} | Run(Path(folder), seed, carrier).run()), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *(sys.argv[3:] or ["tls"]))
