"""What the README tells people to type works; what takes minutes is run by readme_commands.py."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from mpi_runs import variables
from readme_commands import ROOT, commands, in_a_clean_shell
from ready import ADDRESS, PYTHON
from ready_server import decided

MINUTES = ("make ", "pip ", "pipx ", "dual2 reproduce", "dual2 plot", "dual2 bench")
"""Beginnings of what installs, or makes many runs; ``--mpi`` has tests of its own."""


def test_the_commands_of_the_readme_in_a_clean_shell(tmp_path):
    lines = commands((ROOT / "README.md").read_text(encoding="utf-8"))
    assert {line.split()[0] for line in lines} >= {"make", "pip", "dual2"}
    quick = [line for line in lines if not line.startswith(MINUTES) and "--mpi" not in line]
    assert len(quick) >= 5, lines
    environment = decided(variables()) | {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    check(in_a_clean_shell(quick[:1], tmp_path, environment))
    environment |= {ADDRESS: os.environ.get(ADDRESS, "none")}
    environment["PATH"] = f"{ready_program(tmp_path / 'bin')}:{environment['PATH']}"
    check(in_a_clean_shell(quick[1:], tmp_path, environment))


def ready_program(folder: Path) -> Path:
    """A folder with a ``dual2`` that is loaded already, which the first command was not."""
    folder.mkdir()
    program = folder / "dual2"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(PYTHON)} -m dual2.cli "$@"\n')
    program.chmod(0o755)
    return folder


def check(done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all of them\n") and "\x1b" not in done.stdout + done.stderr


def test_a_command_that_fails_ends_the_shell(tmp_path):
    environment = {"PATH": "/usr/bin:/bin"}
    done = in_a_clean_shell(["true", "false", "echo never"], tmp_path, environment)
    assert done.returncode == 1 and done.stdout.splitlines() == ["true", "false"]
