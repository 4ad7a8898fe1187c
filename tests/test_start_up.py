"""What a new process loads: names, help and version do without the numerical packages."""

import ast
import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import dual2
from dual2.commands.app import COMMANDS, load

HEAVY = {"llvmlite", "matplotlib", "networkx", "numba", "numpy", "scipy", "sklearn"}
NAMES = set(dual2.__all__)


def loaded_by(program: str) -> set[str]:
    """Top-level packages that an interpreter has loaded after a program."""
    tell = "\nimport sys; print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    line = [sys.executable, "-c", program + tell]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def command(*arguments: str) -> str:
    return f"from dual2.cli import main\ntry: main({arguments!r})\nexcept SystemExit: pass"


@pytest.mark.parametrize(
    "program, avoided",
    [
        ("import dual2", HEAVY | {"typer", "rich"}),
        (command("--version"), HEAVY | {"typer", "rich"}),
        (command("--help"), HEAVY),
        (command(), HEAVY),
        (command("party", "--help"), HEAVY - {"numpy"}),
        (command("party", "status", "none.toml"), HEAVY - {"numpy"}),
        (command("learn", "--help"), HEAVY - {"numpy"}),
        (command("certificates", "--help"), HEAVY - {"numpy"}),
    ],
)
def test_what_needs_no_numerics_loads_none(program, avoided):
    assert not loaded_by(program) & avoided


def test_every_public_name_is_imported_from_where_the_type_checker_looks():
    tree = ast.parse(Path(dual2.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {a.name: node.module for node in block.body for a in node.names}
    assert seen.pop("*") == "dual2.functions"
    seen |= dict.fromkeys(importlib.import_module("dual2.functions").__all__, "dual2.functions")
    assert NAMES <= set(seen) <= set(dir(dual2))
    packages = {"applications", "bench", "functions", "learn", "mpc", "paper", "parties", "power"}
    assert set(seen) - NAMES == packages
    for name in NAMES:
        assert getattr(dual2, name) is getattr(importlib.import_module(seen[name]), name), name


def test_names_arrive_by_star_and_survive_pickling():
    space: dict[str, object] = {}
    exec("from dual2 import *", space)
    assert NAMES <= set(space)
    for name in ("Agent", "Result", "solve", "IndicatorBox", "Costs"):
        assert pickle.loads(pickle.dumps(space[name])) is getattr(dual2, name)
    with pytest.raises(AttributeError, match="has no attribute 'sovle'"):
        _ = dual2.sovle


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_itself(name):
    said = " ".join(load(name).help.split("\n\n")[0].split())
    assert COMMANDS[name].summary.rstrip(".") in said
