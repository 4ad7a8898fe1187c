"""Three organisations from nothing: commands, lines, seconds of each step.

``commands``: every command that the three type until they have predictions, each a process of its
own, and how many lines they write themselves. Then the study is run once by ``dual2 learn run`` at
all three, and its seconds are split by the events in their audit logs. ``resident``: a second study
for three processes of ``dual2 party serve`` that have worked on a first one before.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from common import interpreter
from common.report import Report, parse
from dual2.learn.vertical.example import PARTIES, write_example
from party_offices import free_ports

PHASES = ("align", "fit", "predict-1")
LIMIT_SECONDS = 300.0


def dual2(folder: Path, *line: str) -> "subprocess.Popen[str]":
    """One command, begun."""
    return subprocess.Popen(
        [*interpreter.PYTHON, "-m", "dual2.cli", *line],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def children() -> float:
    """Processor seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Counted:
    """Runs commands, and counts them."""

    def __init__(self, report: Report) -> None:
        self.report, self.commands, self.lines = report, 0, 0
        self.begun, self.used = time.perf_counter(), children()

    def __call__(self, folder: Path, *line: str) -> None:
        """Run a command, and count it."""
        self.commands += 1
        process = dual2(folder, *line)
        said = process.communicate()[0]
        self.report.expect(process.returncode == 0, f"dual2 {' '.join(line)}: {said}")


def provision(run: Counted, folder: Path, names: tuple[str, ...]) -> None:
    """From nothing to a folder for each party, ready to run."""
    example = write_example(folder / "example")
    for name in names:
        (folder / name).mkdir()
        run(folder / name, "certificates", "create", name)
    run(folder, "study", "new", "study", "--holder", names[0], "--id", "patient")
    where = ["--address", f"127.0.0.1:{free_ports(1)[0]}"]
    for name in names:
        more = where if name == names[0] else []
        run(folder, "study", "add", "study", f"{name}/{name}.pem", *more)
    run(folder, "study", "pack", "study")
    for name in names:
        with zipfile.ZipFile(folder / "study" / "kits" / f"{name}.zip") as kit:
            kit.extractall(folder / name)
        for table in ("table.csv", "new.csv"):
            shutil.copy(example / name / table, folder / name)
        fill_in(run, folder / name / "party.toml", example / name / "party.toml")


def fill_in(run: Counted, draft: Path, known: Path) -> None:
    """What a party writes itself: where its data is, which columns."""
    table, _, columns = known.read_text().partition("[table]")[2].partition("[table.columns]")
    own = [one for one in table.splitlines() if one.strip() and not one.startswith("file")]
    text = draft.read_text().replace('label = "label"', "# label")
    text = text.replace("[table.columns]", "\n".join([*own, "[table.columns]"]))
    draft.write_text(text + columns)
    run.lines += len(own) + sum(bool(one.strip()) for one in columns.splitlines())


def events(folder: Path, phase: str) -> dict[str, float]:
    """When a run began, had its last link, and ended."""
    lines = (folder / "state" / phase / "audit.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    times = {one["event"]: one["t"] for one in found}  # the last one of each kind
    return {"start": found[0]["t"], "links": times["link_up"], "end": times["end"]}


def split(folders: list[Path], begun: float, ended: float) -> list[tuple[str, float]]:
    """Seconds of each step, of the party that was last in it."""
    when = {phase: [events(one, phase) for one in folders] for phase in PHASES}
    last = lambda phase, event: max(one[event] for one in when[phase])  # noqa: E731
    rows = [("start", last("align", "start") - begun)]
    rows.append(("handshake", sum(last(p, "links") - last(p, "start") for p in PHASES)))
    for phase in PHASES:
        rows.append((phase, last(phase, "end") - last(phase, "links")))
    rows.append(("between", last("fit", "start") - last("align", "end")))
    rows[-1] = ("between", rows[-1][1] + last("predict-1", "start") - last("fit", "end"))
    rows.append(("exit", ended - last("predict-1", "end")))
    return [*rows, ("in all", ended - begun)]


def report_commands(report: Report, options: argparse.Namespace, folder: Path) -> None:
    """The documented way, each command a process."""
    names = tuple(PARTIES)
    run = Counted(report)
    provision(run, folder, names)
    seconds, used = time.perf_counter() - run.begun, children() - run.used
    rows = [("set up: certificates, study, kits", run.commands, run.lines, seconds, used)]
    clock = time.time()
    if not options.smoke:
        begun, used, clock = time.perf_counter(), children(), time.time()
        line = ("learn", "run", "party.toml", "--predict", "new.csv", "--quiet")
        running = [dual2(folder / name, *line) for name in names]
        for name, process in zip(names, running, strict=True):
            said = process.communicate()[0]
            report.expect(process.returncode == 0, f"dual2 learn run at {name}: {said}")
        seconds, used = time.perf_counter() - begun, children() - used
        rows.append(("align, fit and predict: learn run", len(names), 0, seconds, used))
    head = ("three organisations from nothing", "commands", "lines", "seconds", "processor seconds")
    report.table("All three together", head, rows)
    if not options.smoke:
        split_rows = split([folder / name for name in names], clock, time.time())
        report.table("dual2 learn run", ("step", "seconds"), split_rows)


def wait_until(ready: Callable[[], bool]) -> None:
    """Wait for files."""
    end = time.monotonic() + LIMIT_SECONDS
    while not ready() and time.monotonic() < end:
        time.sleep(0.01)
    if not ready():
        raise SystemExit("Nothing came in time.")


def place(made: Path, names: tuple[str, ...], sites: Path, study: str) -> None:
    """Put a study into the folders that resident processes watch, with new rows to predict."""
    for name in names:
        ready = sites / name / f".{study}"
        shutil.copytree(made / name, ready, ignore=shutil.ignore_patterns("state*"))
        (ready / "predict").mkdir()
        (ready / "new.csv").rename(ready / "predict" / "1.csv")
    for name in names:
        (sites / name / f".{study}").rename(sites / name / study)


def report_resident(report: Report, options: argparse.Namespace, folder: Path) -> None:
    """Align, fit and predict by processes that have started before."""
    names, studies = tuple(PARTIES), ("first", "second", "third")
    if options.smoke:
        report.table("Resident", ("step", "seconds"), [])
        return
    run, sites = Counted(report), folder / "sites"
    for study in studies:
        (folder / study).mkdir()
        provision(run, folder / study, names)
    for name in names:
        (sites / name).mkdir(parents=True)
    running = [dual2(sites / name, "party", "serve", ".", "--quiet") for name in names]
    rows: list[tuple[Any, ...]] = []
    head: tuple[str, ...] = ()
    try:
        for study in studies:
            before = [processor_seconds(process.pid) for process in running]
            clock = time.time()
            place(folder / study, names, sites, study)
            made = [sites / name / study / "state" / "predict-1" for name in names]
            wait_until(lambda made=made: all(has_ended(one) for one in made))
            now = [processor_seconds(process.pid) for process in running]
            used = sum(now) - sum(before)
            parts = split([sites / name / study for name in names], clock, time.time())
            rows.append((study, *(seconds for _, seconds in parts), used))
            head = ("study", *(step for step, _ in parts), "processor seconds, all three")
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            process.communicate()
    report.table("dual2 party serve, three processes", head, rows)


def has_ended(state: Path) -> bool:
    """Whether a run has ended well."""
    with suppress(FileNotFoundError, json.JSONDecodeError):
        return json.loads((state / "status.json").read_text())["state"] == "ended"
    return False


def processor_seconds(process: int) -> float:
    """Of a process, so far."""
    text = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(text[11]) + int(text[12])) / os.sysconf("SC_CLK_TCK")


PARTS = {"commands": report_commands, "resident": report_resident}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    options = parse(parser, PARTS)
    report = Report(options)
    with tempfile.TemporaryDirectory() as folder:
        for part in options.parts:
            (Path(folder) / part).mkdir()
            PARTS[part](report, options, Path(folder) / part)
    report.end()


if __name__ == "__main__":
    main()
