"""Every benchmark runs: on small sizes, with all its parts, and its numbers agree."""

import subprocess
import sys
from pathlib import Path

import pytest
from mpi_runs import LIMIT, variables

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))
LEFT_OUT = 77
"""Exit code of a script that lacks something (a C compiler) and is right otherwise."""


def run(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-W", "error", str(FOLDER / f"{name}.py"), *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=LIMIT, env=variables())


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_has_a_smoke_mode_that_ends_well(name):
    done = run(name, "--smoke")
    if done.returncode == LEFT_OUT:
        pytest.skip(next(s for s in done.stdout.splitlines() if s.startswith("Left out")))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "-+-" in done.stdout  # a table


def test_numbers_that_disagree_are_a_failure(tmp_path):
    text = (FOLDER / "scale.py").read_text()
    (tmp_path / "scale.py").write_text(text.replace("curvature[j] + l2", "curvature[j] + 2 * l2"))
    (tmp_path / "common").symlink_to(FOLDER / "common")
    line = [sys.executable, str(tmp_path / "scale.py"), "--smoke"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT, env=variables())
    assert done.returncode == 1 and "WRONG" in done.stdout


def test_every_script_is_in_the_table():
    text = (FOLDER / "README.md").read_text()
    assert [name for name in SCRIPTS if f"`{name}.py`" not in text] == []
