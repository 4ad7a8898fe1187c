"""What the README tells people to type works; what takes minutes is run by readme_commands.py."""

import os
import sys
from pathlib import Path

from readme_commands import ROOT, commands, in_a_clean_shell

MINUTES = ("make ", "pip ", "pipx ", "dual2 reproduce", "dual2 plot", "dual2 bench")
"""Beginnings of what installs, or makes many runs; ``--mpi`` has tests of its own."""


def test_the_commands_of_the_readme_in_a_clean_shell(tmp_path):
    lines = commands((ROOT / "README.md").read_text(encoding="utf-8"))
    assert {line.split()[0] for line in lines} >= {"make", "pip", "dual2"}
    quick = [line for line in lines if not line.startswith(MINUTES) and "--mpi" not in line]
    assert len(quick) >= 5, lines
    kept = ("HOME", "PYTHONPATH", "DUAL2_CACHE_DIR", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = in_a_clean_shell(quick, tmp_path, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all of them\n") and "\x1b" not in done.stdout + done.stderr


def test_a_command_that_fails_ends_the_shell(tmp_path):
    environment = {"PATH": "/usr/bin:/bin"}
    done = in_a_clean_shell(["true", "false", "echo never"], tmp_path, environment)
    assert done.returncode == 1 and done.stdout.splitlines() == ["true", "false"]
