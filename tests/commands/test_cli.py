"""The command line: exit codes, files, messages."""

import csv
import io
import json
import signal
import subprocess
import sys

import numpy as np
import pytest

import dual2
from dual2.cli import main
from dual2.commands.app import COMMANDS
from dual2.paper import experiment1
from dual2.solving.solve import solve
from dual2.solving.storage import load_problem


def run(*arguments):
    """Run the command in this process; its exit code."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code or 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "problem"
    assert run("example", path) == 0
    return path


def test_the_first_thing_one_types(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"dual2 {dual2.__version__}\n"
    assert run() == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    named = [words[1] for words in lines if words[:1] == ["dual2"] and words[1].isalpha()]
    assert set(named) - {"COMMAND"} <= set(COMMANDS)
    assert len(named) >= 5


def test_example_is_experiment_one(folder):
    problem, network, options = load_problem(folder)
    original = experiment1()
    assert np.array_equal(network.weights, original.network.weights)
    assert problem.objective(original.reference) == original.problem.objective(original.reference)
    assert options["tol"] == 1e-8


def test_example_overwrites_only_with_force(folder, capsys):
    assert run("example", folder) == 2
    assert "exists" in capsys.readouterr().err
    assert run("example", folder, "--force") == 0


def test_solve_writes_json(folder, tmp_path, capsys):
    out = tmp_path / "x.json"
    assert run("solve", folder, "--tol", "1e-6", "--out", out) == 0
    assert "CONVERGED" in capsys.readouterr().out
    data = json.loads(out.read_text(), parse_constant=pytest.fail)
    wanted = {"format", "status", "x", "y", "dual", "objective", "counts", "certificate"}
    assert wanted | {"parameters", "versions"} <= set(data)
    reference = np.concatenate(experiment1().reference)
    found = np.concatenate(data["x"])
    assert np.linalg.norm(found - reference) <= 1e-5 * np.linalg.norm(reference)
    assert list(tmp_path.iterdir()) == [out]
    assert run("solve", folder, "--out", out) == 2
    assert "--force" in capsys.readouterr().err


def test_exact_sums_are_an_option(folder, tmp_path, capsys):
    out = tmp_path / "x.json"
    assert run("solve", folder, "--method", "Newton", "--sums", "exact", "--out", out) == 0
    problem, network, _ = experiment1()
    here = solve(problem, network, method="Newton", sums="exact", record=False)
    assert json.loads(out.read_text())["x"] == [x.tolist() for x in here.x]
    assert run("solve", folder, "--sums", "best") == 2
    assert "sums='best' is unknown" in capsys.readouterr().err


def test_resume_goes_on_where_it_stopped(folder, tmp_path, capsys):
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    assert run("solve", folder, "--tol", "1e-5", "--out", whole) == 0
    total = json.loads(whole.read_text())["counts"]["rounds"]
    assert run("solve", folder, "--tol", "1e-5", "--max-rounds", total // 2, "--out", parts) == 3
    assert json.loads(parts.read_text())["status"] == "MAX_ROUNDS"
    said = " ".join(capsys.readouterr().out.split())
    stopped = said[said.index("NOT SOLVED (max rounds). The coupling is off by ") :]
    assert "what follows is no solution" in stopped and "continue with --resume" in stopped
    assert "objective (of no solution)" in stopped
    assert run("solve", folder, "--tol", "1e-5", "--out", parts, "--resume") == 0
    one, two = (json.loads(path.read_text()) for path in (whole, parts))
    assert one["x"] == two["x"]
    assert one["counts"]["rounds"] == two["counts"]["rounds"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts.json", "whole.json"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["solve", "nowhere"], "nowhere is not a problem folder"),
        (["solve", "{folder}", "--method", "iD2B"], "iD2A"),
        (["solve", "{folder}", "--rho", "much"], "--rho 'much'"),
        (["solve", "{folder}", "--rho", "-1"], "rho"),
        (["solve", "{folder}", "--resume"], "--out"),
        (["solve", "{folder}", "--out", "{new}", "--resume"], "nothing to resume"),
        (["solve", "{folder}", "--out", "{folder}", "--force"], "is a folder"),
        (["example", "{file}/problem"], "problem"),
        (["reproduce", "exp9"], "Known: exp1"),
        (["solve"], "DIR"),
    ],
)
def test_bad_input(folder, tmp_path, capsys, arguments, message):
    names = {"folder": folder, "file": folder / "problem.toml", "new": tmp_path / "new.json"}
    assert run(*(argument.format(**names) for argument in arguments)) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_without_greek_letters(folder, monkeypatch):
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", screen)
    assert run("theory", folder) == 0
    assert b"Condition numbers" in screen.buffer.getvalue()


def test_reproduce_quick(tmp_path, capsys, monkeypatch):
    """From the command to stored runs, table, claims, figures and report; nothing twice."""
    out = tmp_path / "deep" / "results"
    assert run("reproduce", "exp1", "--quick", "--workers", 1, "--out", out) == 0
    printed, told = capsys.readouterr()
    assert "MiD2A-iDAPG, ρ = 0" in printed and "CONVERGED" in printed and "MAX_ROUNDS" in printed
    assert "reproduced         Experiment I, caption: κ_pd = 98603" in printed
    assert "skipped: exp1, APAPC-Chebyshev: APAPC-Chebyshev cannot solve" in told
    files = {path.name for path in out.iterdir()}
    assert files == {f"exp1.{end}" for end in ("csv", "json", "png", "pdf")} | {
        "claims.csv",
        "exp1-paper.pdf",
        "exp1-paper.png",
        "plan.json",
        "report.html",
        "runs",
    }
    record = json.loads((out / "exp1.json").read_text(), parse_constant=pytest.fail)
    rows = list(csv.DictReader((out / "exp1.csv").read_text().splitlines()))
    assert set(record["runs"]) == {row["run"] for row in rows} | {"APAPC-Chebyshev"}
    for name in {row["run"] for row in rows}:
        first = next(row for row in rows if row["run"] == name and float(row["gap"]) <= 1e-4)
        entry = record["runs"][name]
        assert float(first["rounds"]) == entry["reached"]["0.0001"]["rounds"]
        assert all(set(p) == {"value", "source"} for p in entry["parameters"].values())
    assert run("reproduce", "exp1", "--out", out) == 2, "would replace the figures of other runs"
    assert "--force" in capsys.readouterr().err
    drawn = []
    write = lambda figure, path: drawn.append(path.name)  # noqa: E731
    monkeypatch.setattr("dual2.paper.figures.write_figure", write)
    assert run("reproduce", "exp1", "--quick", "--workers", 1, "--out", out) == 0
    assert "0 runs made, 12 kept" in capsys.readouterr().out
    assert drawn == ["exp1.png", "exp1.pdf", "exp1-paper.png", "exp1-paper.pdf"]


@pytest.mark.parametrize("command", [["reproduce", "exp1"], ["bench", "paper"]])
def test_what_figures_need_is_asked_for_before_any_run(tmp_path, capsys, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(*command, "--out", tmp_path / "results") == 2
    assert "need matplotlib, which is not installed: pip install" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_info(capsys):
    assert run("info") == 0
    printed = capsys.readouterr().out
    assert f"numpy        {np.__version__}" in printed
    assert "cache" in printed


def test_interrupt_keeps_the_best_so_far(folder, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        return solve(*arguments, callback=lambda _: signal.raise_signal(signal.SIGINT), **options)

    monkeypatch.setattr("dual2.commands.solving.solve_problem", interrupted)
    out = tmp_path / "x.json"
    assert run("solve", folder, "--out", out) == 130
    assert json.loads(out.read_text())["status"] == "INTERRUPTED"
    monkeypatch.undo()
    assert run("solve", folder, "--tol", "1e-5", "--out", out, "--resume") == 0


def test_module_is_the_command(tmp_path):
    command = [sys.executable, "-W", "error", "-m", "dual2.cli", "solve", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("dual2: ")
    assert done.stdout == ""
