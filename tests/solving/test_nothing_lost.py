"""Killed runs go on where they were, full disks cost no answer, leftovers of killed writers go."""

import errno
import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest

from dual2.cli import main
from dual2.commands import exit_code
from dual2.errors import PeerError
from dual2.files import remove_leftovers, write_atomically
from dual2.files.writing import _machine
from dual2.processes.checkpoints import Checkpoints
from dual2.processes.options import ProcessOptions
from dual2.processes.persistence import keep
from dual2.runtime import Transport
from dual2.solving.stopping import Request
from dual2.solving.storage import load_problem
from mpi_runs import LIMIT, variables
from ready import PYTHON

DEAD = 99999999
"""A number that no process has."""
LONG = ["--method", "NPGA-EXTRA", "--tol", "1e-13", "--max-rounds", "60000"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("lost") / "problem"
    assert run("example", path) == 0
    return path


def run(*arguments):
    """Run the command in this process; its exit code."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def answer(file):
    document = json.loads(file.read_text())
    return {name: document[name] for name in ("status", "x", "dual", "counts", "certificate")}


def test_killed_then_resumed(folder, tmp_path):
    """Kill -9 in the middle of a run in process: --resume gives the same bits."""
    whole, out = tmp_path / "whole.json", tmp_path / "answer.json"
    assert run("solve", folder, *LONG, "--out", whole) == 3
    line = [*PYTHON, "-m", "dual2.cli", "solve", str(folder), *LONG, "--out", str(out)]
    line += ["--checkpoint", "0"]
    own = out.with_name("answer.json.d")
    with subprocess.Popen(line, env=variables(), stdout=subprocess.PIPE) as process:
        end = time.monotonic() + LIMIT
        while not list(own.glob("rank-0.*.npz")) and time.monotonic() < end:
            time.sleep(0.002)
        process.kill()
        process.communicate()  # to the end of what has it open
    assert process.returncode == -signal.SIGKILL
    assert not out.exists()
    rest = own / f".rank-0.77.npz.{_machine()}.{DEAD}.abc"
    rest.write_bytes(b"half")
    assert run("solve", folder, *LONG, "--out", out) == 2  # not without --resume or --force
    assert run("solve", folder, *LONG, "--out", out, "--resume") == 3
    assert answer(out) == answer(whole)
    assert not rest.exists()


@pytest.fixture
def full(monkeypatch):
    """A disk on which there is no room."""

    def fail(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("dual2.files.writing.os.fsync", fail)


def test_a_full_disk_keeps_the_answer_on_the_screen(folder, tmp_path, full, capsys):
    out = tmp_path / "answer.json"
    assert run("solve", folder, "--out", out, "--checkpoint", "0") == 5
    printed, said = capsys.readouterr()
    document, _ = json.JSONDecoder().raw_decode(printed)
    assert document["status"] == "CONVERGED" and len(document["x"]) == 8
    assert "status" in printed[printed.rindex("}") :]  # the summary follows
    assert f"{out} could not be written: [Errno 28]" in said
    assert said.count("No more checkpoints") == 1
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_processes_print_what_they_cannot_write(folder, tmp_path, full, capsys):
    """Each the answers of its own agents; what all had saved before stays."""

    class Several(Transport):
        pass

    store = Checkpoints(tmp_path / "x.json.d", 0, 1, list(range(8)), 60.0)
    asked = ProcessOptions(folder, out=tmp_path / "x.json", gather=True)
    problem, network, options = load_problem(folder)
    from dual2 import solve

    result = solve(problem, network, record=False, **options)
    assert not keep(Several(), asked, list(range(8)), store, result, 8)
    printed, said = capsys.readouterr()
    decoder, found = json.JSONDecoder(), []
    while printed:
        document, end = decoder.raw_decode(printed)
        found, printed = [*found, document], printed[end:].lstrip()
    assert [document.get("agent") for document in found] == [*range(8), None]
    assert said.count("could not be written") == 9


def test_without_room_for_checkpoints_nobody_saves(tmp_path, full, capsys):
    store = Checkpoints(tmp_path, 0, 2, [0], 0.0)
    assert not store.held and store.due
    store.save(10, {"x": np.ones(1)})
    assert store.held and store.rounds() == []
    assert Request.SAVE < Request.HOLD < Request.TIME  # the largest of all wishes counts


def test_saving_takes_a_small_part_of_the_time(tmp_path):
    store = Checkpoints(tmp_path, 0, 1, [0], 1e-9)
    store.save(10, {"x": np.ones(1)})
    store._cost = 1000.0
    assert not store.due
    store.seconds = 0.0
    assert store.due


def test_leftovers_of_the_living_stay(tmp_path):
    names = {
        f".x.json.{_machine()}.{DEAD}.abc": False,
        f".x.json.{_machine()}.{os.getpid()}.abc": True,
        f".x.json.{_machine()}.1.abc": True,
        f".x.json.elsewhere.{DEAD}.abc": True,
        ".x.json": True,
        f".y.json.{_machine()}.{DEAD}.abc": True,
    }
    for name in names:
        (tmp_path / name).write_text("")
    remove_leftovers(tmp_path, "x.json.")
    assert {name: (tmp_path / name).exists() for name in names} == names
    old = tmp_path / f".x.json.elsewhere.{DEAD}.abc"
    os.utime(old, (0, 0))
    remove_leftovers(tmp_path, "x.json.")
    assert not old.exists()


def test_a_failed_write_leaves_nothing(tmp_path, full):
    with pytest.raises(OSError):
        write_atomically(tmp_path / "x", "text")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_just_after_the_renaming_stays_an_interrupt(tmp_path, monkeypatch):
    rename = os.replace

    def interrupted(*args):
        rename(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "x", "text")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("x", "text")]


def test_exit_codes():
    assert exit_code(OSError(errno.ENOSPC, "full")) == 5
    assert exit_code(FileNotFoundError(errno.ENOENT, "none")) == 2
    assert exit_code(PeerError("rank 1")) == 4


def test_options_of_the_folder_that_the_command_decides(folder, tmp_path):
    """An answer that is not there yet is no exception, and the file has no trace."""
    other = tmp_path / "problem"
    problem, network, _ = load_problem(folder)
    from dual2 import save_problem

    save_problem(other, problem, network, {"throw": True, "record": True, "progress": False})
    assert run("solve", other, "--max-rounds", "20", "--out", tmp_path / "x.json") == 3
    assert answer(tmp_path / "x.json")["status"] == "MAX_ROUNDS"
