"""``dual2 solve`` in several processes: the same answer, files per agent, what differs is named."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dual2.cli import main
from dual2.errors import Dual2Error
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.processes.launch import command, find_mpiexec
from dual2.processes.options import ProcessOptions
from dual2.processes.persistence import open_store
from dual2.processes.progress_pipe import ProgressReader, progress_writer
from dual2.runtime.assignment import partition
from dual2.solving.storage import load_public, save_problem
from mpi_runs import LIMIT, run, run_cli, variables
from ready import PYTHON

IN_A_SHELL = shlex.join(PYTHON)


def read(file):
    return json.loads(file.read_text(), parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("mpi") / "problem"
    problem, network, _ = experiment1()
    return save_problem(path, problem, network, {"method": "iD2A", "tol": 1e-8})


@pytest.fixture(scope="module")
def reference(folder, tmp_path_factory):
    """The answer of an ordinary run."""
    out = tmp_path_factory.mktemp("stacked") / "answer.json"
    with pytest.raises(SystemExit) as end:
        main(["solve", str(folder), "--out", str(out)])
    assert end.value.code == 0
    return read(out)


@pytest.fixture(scope="module")
def gathered(folder, tmp_path_factory):
    """A run in two processes."""
    out = tmp_path_factory.mktemp("gathered") / "answer.json"
    logs = out.parent / "logs"
    done = run_cli("solve", folder, "--mpi", 2, "--out", out, "--gather", "--log-dir", logs)
    assert done.returncode == 0, done.stderr
    return done, out


def here(*arguments):
    """Run the launcher in this process; its exit code."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def test_the_answer_is_that_of_one_process(gathered, reference):
    done, out = gathered
    found = read(out)
    assert found.keys() == reference.keys()
    assert found["status"] == "CONVERGED"
    assert found["counts"] == reference["counts"]
    one, two = np.concatenate(reference["x"]), np.concatenate(found["x"])
    assert np.linalg.norm(one - two) <= 1e-10 * np.linalg.norm(one)
    assert done.stdout.count("CONVERGED") == 1
    assert done.stderr == ""


def test_a_file_per_agent_and_a_log_per_process(gathered, folder):
    _, out = gathered
    found, own = read(out), out.with_name("answer.json.d")
    assert sorted(file.name for file in own.iterdir()) == [f"{i}.json" for i in range(8)]
    for i in range(8):
        answer = read(own / f"{i}.json")
        assert answer["agent"] == i
        assert answer["x"] == found["x"][i]
        assert answer["dual"] == found["dual"]
        assert answer["certificate"] == found["certificate"]
    owners = partition(load_public(folder).network, 2)
    for rank in range(2):
        text = (out.parent / "logs" / f"rank-{rank}.log").read_text()
        assert f"agents {np.flatnonzero(owners == rank).tolist()}" in text
        assert "CONVERGED after" in text


def test_nothing_is_overwritten(gathered, folder, tmp_path):
    comm = SimpleNamespace(rank=0, size=2)
    answers = ProcessOptions(folder, out=gathered[1])
    state = ProcessOptions(folder, out=tmp_path / "answer.json")
    with pytest.raises(Dual2Error, match=r"0.json exists"):
        open_store(comm, answers, [0, 1])
    saved = open_store(comm, state, [0, 1])
    saved.save(30, {"x": np.zeros(1)})
    with pytest.raises(Dual2Error, match=r"did not end\. Go on with --resume"):
        open_store(comm, state, [0, 1])
    assert open_store(comm, replace(state, resume=True), [0, 1]).rounds() == [30]
    forced = open_store(comm, replace(state, force=True), [0, 1])
    assert forced.rounds() == [30]  # until the new run has saved something better
    forced.save(10, {"x": np.ones(1)})
    assert forced.rounds() == [10]


def test_answers_that_could_not_be_written_are_refused_first(folder, tmp_path):
    (tmp_path / "file").write_text("")
    comm = SimpleNamespace(rank=0, size=2)
    with pytest.raises(Dual2Error, match=r"out\.d: .*file is a file, not a folder"):
        open_store(comm, ProcessOptions(folder, out=tmp_path / "file" / "out"), [0])
    deep = ProcessOptions(folder, out=tmp_path / "new" / "deep" / "out")
    assert open_store(comm, deep, [0]) is not None
    assert not (tmp_path / "new").exists()


def test_sites_that_hold_their_own_files_only(folder, reference, tmp_path):
    """mpiexec by hand, four processes, each in a folder with its own agents; own partition."""
    owners = [3, 2, 1, 0, 0, 1, 2, 3]
    for rank in range(4):
        site = tmp_path / f"site{rank}" / "problem"
        (site / "agents").mkdir(parents=True)
        shutil.copy(folder / "problem.toml", site)
        for agent in np.flatnonzero(np.array(owners) == rank):
            (file,) = (folder / "agents").glob(f"{agent}.*")
            shutil.copy(file, site / "agents")
        (tmp_path / f"site{rank}" / "owners").write_text(" ".join(map(str, owners)))
    program = f"cd site$OMPI_COMM_WORLD_RANK && exec {IN_A_SHELL} -m dual2.cli solve problem"
    shell = ["sh", "-c", f"{program} --partition owners --tol 1e-3 --out answer"]
    done = run(command(find_mpiexec(), 4, shell), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    size = np.linalg.norm(np.concatenate(reference["x"]))
    for agent, rank in enumerate(owners):
        (file,) = tmp_path.glob(f"site*/answer.d/{agent}.json")
        assert file.parts[-3] == f"site{rank}"
        error = np.array(read(file)["x"]) - reference["x"][agent]
        assert np.linalg.norm(error) <= 0.05 * size


def test_other_public_files_are_noticed(folder, tmp_path):
    for rank in range(2):
        shutil.copytree(folder, tmp_path / f"site{rank}")
    file = tmp_path / "site1" / "problem.toml"
    file.write_text(file.read_text() + "\n# edited\n")
    shell = f"exec {IN_A_SHELL} -m dual2.cli solve site$OMPI_COMM_WORLD_RANK"
    done = run(command(find_mpiexec(), 2, ["sh", "-c", shell]), cwd=tmp_path)
    assert done.returncode == 2
    assert len(re.findall("rank . has another public part", done.stderr)) == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--mpi", "9"], "9 processes for 8 agents"),
        (["--mpi", "0"], "0 processes for 8 agents"),
        (["--mpi", "2", "--method", "iD2B"], "iD2B"),
        (["--mpi", "2", "--gather"], "--gather needs --out"),
        (["--mpi", "2", "--resume"], "--resume needs --out"),
        (["--mpi", "2", "--reduce", "star"], "--reduce 'star'"),
        (["--mpi", "2", "--partition", "nowhere"], "nowhere is not a partition"),
        (["--mpi", "2", "--timeout", "0"], "--timeout 0.0 found; expected seconds > 0"),
        (["--partition", "nowhere", "--reduce", "mpi"], "--partition, --reduce: for runs in sev"),
        (["--mpi", "2", "--checkpoint", "-1"], "--checkpoint -1.0 found; expected seconds >= 0"),
    ],
)
def test_bad_input(folder, capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        main(["solve", str(folder), *arguments])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_killed_then_resumed(folder, tmp_path, gathered):
    """Kill -9 in the middle: everybody ends, the rank is named, --resume gives the same bits."""
    out, logs = tmp_path / "answer.json", tmp_path / "logs"
    line = ["-m", "dual2.cli", "solve", folder, "--mpi", "2", "--out", out, "--gather"]
    line = [*PYTHON, *map(str, line), "--checkpoint", "0", "--log-dir", str(logs)]
    with subprocess.Popen(line, env=variables(), stderr=subprocess.PIPE, text=True) as process:
        saved = wait_for(lambda: checkpoints(out, 0) and checkpoints(out, 1))
        text = (logs / "rank-1.log").read_text()
        os.kill(int(re.search(r"process (\d+)", text)[1]), signal.SIGKILL)
        _, errors = process.communicate(timeout=LIMIT)
    assert saved
    assert process.returncode not in (0, 2, 3)
    assert "dual2: rank 1 (agents 4, 5, 6, 7) was killed by signal 9 (SIGKILL)" in errors
    assert not out.exists()
    assert here("solve", folder, "--mpi", 2, "--out", out, "--gather", "--resume") == 0
    found, reference = read(out), read(gathered[1])
    assert found["x"] == reference["x"]
    assert found["dual"] == reference["dual"]
    assert found["counts"]["rounds"] == reference["counts"]["rounds"]
    assert not checkpoints(out, 0)


def test_progress_is_told_in_lines_and_drawn_by_the_launcher(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    tell = progress_writer("iD2A", 1e-8)
    tell({"rounds": 10, "kkt": 0.5})
    tell({"rounds": 11, "kkt": 0.4})
    (line,) = capsys.readouterr().err.splitlines()
    with ProgressReader() as reader:
        assert reader.take(line)
        assert not reader.take("dual2: rank 1: no such file")
    assert "iD2A" in capsys.readouterr().err


def checkpoints(out, rank):
    return sorted(out.with_name(out.name + ".d").glob(f"rank-{rank}.*.npz"))


def wait_for(condition):
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True
