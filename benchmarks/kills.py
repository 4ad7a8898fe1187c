"""Runs of ``dual2 solve --out`` that are killed at random times and resumed: what they answer.

A run is killed by SIGKILL again and again, most times while it iterates, some while it starts: in
process the run itself, over MPI one of its processes or everything at once as a power cut does.
Each time ``--resume`` (or the same command again, if nothing had been saved yet) goes on, until the
run reaches its end. Then x, prices, objective, counts and certificate are compared with those of an
undisturbed run, digit by digit. A file FILE that is there after a kill must be whole, and in the
end no temporary file may be left beside it.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from common import interpreter
from common.report import Report, parse
from dual2.paper import experiment1
from dual2.solving.storage import save_problem

PROC = Path("/proc")
COMPARED = ("status", "x", "y", "dual", "objective", "counts", "certificate")
LIMIT = 600
"""Seconds after which a run counts as hanging."""
METHODS = {"iD2A": ["--tol", "1e-4"], "NPGA-EXTRA": ["--tol", "1e-12"]}
"""Options of the runs; the second ends at its largest number of rounds."""
PARTS = {"single": 0, "mpi": 2}
"""Processes of a run over MPI, 0 for one in process."""
EARLY = "of them before a checkpoint"
KINDS = ("kills", EARLY, "runs", "OTHER ANSWER", "LEFT BEHIND")
_POLL = 0.002


class Run:
    """One run of the command in a folder of its own."""

    def __init__(self, folder: Path, method: str, rounds: int, ranks: int, out: Path) -> None:
        self.out, self.ranks = out, ranks
        self.line = [*interpreter.PYTHON, "-m", "dual2.cli", "solve", str(folder)]
        self.line += ["--method", method, *METHODS[method], "--max-rounds", str(rounds)]
        self.line += ["--out", str(out)]
        self.line += ["--checkpoint", "0"] + (["--mpi", str(ranks), "--gather"] if ranks else [])

    def start(self, *more: str) -> "subprocess.Popen[bytes]":
        """Start it, in silence."""
        line = [*self.line, *more]
        return subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def finish(self, *more: str) -> float:
        """Run to the end; the seconds that it took."""
        begun = time.monotonic()
        code = self.start(*more).wait(LIMIT)
        if code not in (0, 3):
            raise RuntimeError(f"exit code {code}: {' '.join(self.line)} {' '.join(more)}")
        return time.monotonic() - begun

    def answer(self) -> dict[str, Any]:
        """What it wrote, without what differs from run to run."""
        document = json.loads(self.out.read_text(encoding="utf-8"))
        return {name: document[name] for name in COMPARED}

    @property
    def saved(self) -> int:
        """Round of the newest checkpoint that every process has, 0 if there is none."""
        folder, newest = self.out.with_name(f"{self.out.name}.d"), []
        for rank in range(self.ranks or 1):
            names = [file.name.split(".")[1] for file in folder.glob(f"rank-{rank}.*.npz")]
            newest.append(max(map(int, names), default=0))
        return min(newest)

    def iterating(self, process: "subprocess.Popen[bytes]", since: int) -> bool:
        """Wait until there is a checkpoint after round ``since``; whether the run still goes on."""
        while process.poll() is None and self.saved <= since:
            time.sleep(_POLL)
        return process.poll() is None

    @property
    def rest(self) -> list[str]:
        """Names of what temporary files are left."""
        return [file.name for file in self.out.parent.rglob(".*") if file.is_file()]


def descendants(parent: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for folder in PROC.glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, queue = [], [parent]
    while queue:
        queue += (new := children.get(queue.pop(), []))
        found += new
    return found


def kill(process: "subprocess.Popen[bytes]", ranks: int, cut: bool, chance: random.Random) -> None:
    """SIGKILL to one process of the agents (if there are any yet), or to all at once."""
    others = descendants(process.pid) if ranks else []
    agents = [pid for pid in others if b"dual2.cli" in _command(pid)]
    if cut or not agents:
        stopped: set[int] = set()  # those that are stopped start no others in the meantime
        while new := {process.pid, *descendants(process.pid)} - stopped:
            _send(signal.SIGSTOP, new)
            stopped |= new
        _send(signal.SIGKILL, stopped)
    else:
        _send(signal.SIGKILL, [chance.choice(agents)])
    process.wait(LIMIT)


def _send(number: signal.Signals, processes: Iterable[int]) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _command(pid: int) -> bytes:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""


def timed(run: Run) -> tuple[float, float]:
    """Seconds of an undisturbed run until its first checkpoint, and from there to its end."""
    begun, process = time.monotonic(), run.start()
    run.iterating(process, 0)
    first = time.monotonic()
    process.wait(LIMIT)
    return first - begun, time.monotonic() - first


def chain(
    run: Run,
    seconds: tuple[float, float],
    most: int,
    early: float,
    chance: random.Random,
    words: Counter[str],
) -> None:
    """Kill one run at most so many times and bring it to its end; ``words`` count what happened."""
    for _ in range(most):
        before = run.saved
        process = run.start("--resume" if before else "--force")
        starting = chance.random() < early
        if starting or run.iterating(process, before):
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.0, seconds[not starting]))
        if process.returncode is None:
            kill(process, run.ranks, chance.random() < 0.5, chance)
        if process.returncode in (0, 3):
            return
        words["kills"] += 1
        words[EARLY] += not run.saved
        if run.out.exists():
            run.answer()  # whole, or an error here
    run.finish("--resume" if run.saved else "--force")


def campaign(report: Report, options: argparse.Namespace, ranks: int, folder: Path) -> None:
    """So many kills of one kind of run, over the methods in turn, some with a checkpoint."""
    chance, rows = random.Random(options.seed), []
    rounds = options.rounds // 300 if ranks else options.rounds
    for name in options.methods:
        first, whole = (
            Run(folder, name, rounds, ranks, folder.parent / f"{name}-{ranks}-{which}" / "x.json")
            for which in ("first", "whole")
        )
        if not options.smoke:
            first.finish()  # kernels are compiled
        seconds, expected = timed(whole), whole.answer()
        report.say(f"{name}: starts in {seconds[0]:.1f} s, iterates for {seconds[1]:.1f} s")
        words, wanted, k = Counter[str](), options.kills // len(options.methods), 0
        while words["kills"] < wanted or words["kills"] == words[EARLY]:
            k += 1
            run = Run(folder, name, rounds, ranks, folder.parent / f"{name}-{ranks}-{k}" / "x.json")
            most = max(wanted - words["kills"], 1)
            chain(run, seconds, most, options.early, chance, words)
            words["runs"] += 1
            words["OTHER ANSWER"] += run.answer() != expected
            words["LEFT BEHIND"] += bool(run.rest)
        rows.append([name, *(words[kind] for kind in KINDS)])
    place = f"{ranks} processes" if ranks else "in process"
    report.table(f"Killed at random times, {place}", ["method", *KINDS], rows)
    bad = sum(row[-1] + row[-2] for row in rows)
    report.expect(bad == 0, f"{bad} answers differ or files are left behind, {place}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50, help="of each kind, by default 50")
    parser.add_argument("--rounds", type=int, default=600_000, help="most rounds in process")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    early = "share of the kills before the first iteration, by default 0.2"
    parser.add_argument("--early", type=float, default=0.2, help=early)
    parser.add_argument("--seed", type=int, default=0)
    smoke = {"kills": 1, "early": 0.0, "rounds": 900, "methods": ["iD2A"], "parts": ["single"]}
    options = parse(parser, PARTS, **smoke)
    report = Report(options)
    if not PROC.is_dir():
        report.leave_out("everything: there is no /proc to find the processes in")
        report.end()
    problem, network, _ = experiment1()
    with tempfile.TemporaryDirectory() as place:
        folder = save_problem(Path(place) / "problem", problem, network)
        for part in options.parts:
            campaign(report, options, PARTS[part], folder)
    report.end()


if __name__ == "__main__":
    main()
