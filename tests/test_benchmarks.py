"""Every benchmark runs: on small sizes, with all its parts, and its numbers agree."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import ready
from mpi_runs import LIMIT, variables

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))
LEFT_OUT = 77
"""Exit code of a script that lacks something (a C compiler) and is right otherwise."""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(
        line, cwd=FOLDER, capture_output=True, text=True, timeout=LIMIT, env=variables()
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_has_a_smoke_mode_that_ends_well(name, monkeypatch, capsys):
    """In this process, where kernels and libraries are loaded already; its children are ready."""
    monkeypatch.chdir(FOLDER)
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr("common.interpreter.PYTHON", ready.PYTHON)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--smoke"])
    try:
        runpy.run_path(f"{name}.py", run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code or 0
    printed = capsys.readouterr().out
    if code == LEFT_OUT:
        pytest.skip(next(s for s in printed.splitlines() if s.startswith("Left out")))
    assert code == 0, printed
    assert "-+-" in printed  # a table


@pytest.mark.parametrize(
    ("event", "code"),
    [("report.expect(False, '1 = 2')", 1), ("report.leave_out('all of C')", LEFT_OUT), ("", 0)],
)
def test_numbers_that_disagree_are_a_failure(event, code):
    text = "from common.report import Report, parse; import argparse; "
    text += f"report = Report(parse(argparse.ArgumentParser())); {event or 'pass'}; report.end()"
    assert run("-c", text, "--smoke").returncode == code


def test_every_script_is_in_the_table():
    text = (FOLDER / "README.md").read_text()
    assert [name for name in SCRIPTS if f"`{name}.py`" not in text] == []
