"""Organisations on one machine: a folder, a process and a port of its own for each of them."""

import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from dual2.functions import L1Norm, SquaredLoss, SquaredNorm
from dual2.network import Network
from dual2.problem import Agent, Problem
from dual2.runtime.peers.identity import make_trial
from dual2.solving.storage import save_problem
from mpi_runs import variables
from ready import PYTHON

LIMIT = 600
"""Seconds after which a run counts as hanging; processes may compile kernels first."""


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses, and that nobody else will take until they are used.

    They lie below those that systems give to whoever asks for any port (32 768 and up), and each
    worker of the tests has a range of its own.
    """
    found: list[int] = []
    while len(found) < count:
        port = next(_PORTS)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
    return found


def lasso(n: int, p: int = 6, seed: int = 1) -> Problem:
    """A small problem that the parties of a path can solve."""
    draw = np.random.default_rng(seed)
    agents = [Agent(draw.standard_normal((p, 2)), SquaredNorm(1.0), L1Norm(0.1)) for _ in range(n)]
    return Problem(agents, SquaredLoss(draw.standard_normal(p)))


def _own_ports() -> Iterator[int]:
    """The ports of this worker, again and again, from a random one on."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 20
    ports = range(12_000 + 1_000 * worker, 13_000 + 1_000 * worker)
    begin = random.randrange(len(ports))
    return itertools.cycle([*ports[begin:], *ports[:begin]])


_PORTS = _own_ports()


def loopback_hosts(count: int) -> list[str]:
    """An address of loopback for each of some parties; the same one where there is no other."""
    found = [f"127.0.0.{2 + i}" for i in range(count)]
    try:
        for host in found:
            with socket.socket() as one:
                one.bind((host, 0))
    except OSError:  # macOS has 127.0.0.1 only
        return ["127.0.0.1"] * count
    return found


class Offices:
    """The folders of all parties of a study; ``processes`` are those that were started."""

    def __init__(
        self,
        folder: Path,
        problem: Problem,
        network: Network,
        options: Mapping[str, Any],
        sums: str = "{ masked = true, matrices = true }",
        addresses: Mapping[tuple[int, int], int] | None = None,
        extra: str = "",
        carrier: str = "tls",
        hosts: Sequence[str] = (),
    ) -> None:
        self.folder, self.n = folder, network.n
        hosts = hosts or ["127.0.0.1"] * network.n
        self.names = [f"party{i}" for i in range(self.n)]
        self.ports = free_ports(self.n)
        self.processes: dict[int, subprocess.Popen[str]] = {}
        prints = make_trial(folder / "keys", self.names)
        save_problem(folder / "whole", problem, network, options)
        study = f'run = "test"\nproblem = "problem"\nsums = {sums}\ncarrier = "{carrier}"\n'
        for name in self.names:
            study += f'[[parties]]\nname = "{name}"\ncertificate = "{name}.pem"\n'
            study += f'fingerprint = "{prints[name]}"\n'
        around = {
            i: {int(j) for e in network.edges if i in e for j in e} - {i} for i in range(self.n)
        }
        for i, name in enumerate(self.names):
            own = folder / name
            (own / "problem").mkdir(parents=True)
            for file in (folder / "whole").glob("problem.*"):
                shutil.copy(file, own / "problem")
            (data,) = (folder / "whole" / "agents").glob(f"{i}.*")
            shutil.copy(data, own / f"data{data.suffix}")
            for other in self.names:
                shutil.copy(folder / "keys" / f"{other}.pem", own)
            shutil.copy(folder / "keys" / f"{name}.key", own)
            (own / "study.toml").write_text(study)
            text = f'name = "{name}"\nstudy = "study.toml"\ndata = "data{data.suffix}"\n'
            text += f'key = "{name}.key"\ncertificate = "{name}.pem"\nstate = "state"\n'
            text += f'listen = "{hosts[i]}:{self.ports[i]}"\n' + extra
            for j in sorted(j for j in around[i] if j < i):
                port = (addresses or {}).get((i, j), self.ports[j])
                text += f'[peers.{self.names[j]}]\naddress = "{hosts[j]}:{port}"\n'
            (own / "party.toml").write_text(text)

    def file(self, i: int) -> Path:
        return self.folder / self.names[i] / "party.toml"

    def start(
        self,
        i: int,
        *options: str,
        program: Sequence[str] = ("-m", "dual2.cli"),
        python: Sequence[str] = PYTHON,
    ) -> None:
        """Start party i."""
        line = [*python, *program, "party", "run", str(self.file(i)), *options]
        self.processes[i] = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables()
        )

    def wait(self, i: int, seconds: float = LIMIT) -> tuple[int, str]:
        """Exit code and last words of party i."""
        process = self.processes[i]
        try:
            _, said = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            _, said = process.communicate()
            raise AssertionError(f"{self.names[i]} hangs: {said[-2000:]}") from None
        return process.returncode, said

    def run(self, *options: str) -> list[dict[str, Any]]:
        """Start all parties, wait for all; their answers."""
        for i in range(self.n):
            self.start(i, *options)
        for i in range(self.n):
            code, said = self.wait(i)
            assert code == 0, f"{self.names[i]}: {code}\n{said}"
        return [self.answer(i) for i in range(self.n)]

    def answer(self, i: int) -> dict[str, Any]:
        return json.loads((self.folder / self.names[i] / "state" / "answer.json").read_text())

    def close(self) -> None:
        """End what still runs."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.communicate()


def bits(answers: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What must be the same whatever happened on the way."""
    kept = ("status", "y", "dual", "objective", "counts", "certificate")
    return [[{k: a[k] for k in kept}, a["x"]] for a in answers]
