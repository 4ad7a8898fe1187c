"""The page on architecture names files, functions and statuses that exist."""

import ast
import re
from pathlib import Path

import pytest

import dual2
from dual2.runtime import Transport

SOURCE = Path(dual2.__file__).parent
PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PAGE.splitlines()
    if line.startswith("|")
]
STEPS = [
    (r[1].strip("`"), r[2].strip("`"))
    for r in ROWS
    if len(r) == 3 and r[1].endswith(".py`") and re.fullmatch(r"`[\w.]+`", r[2])
]


def names_in(file: Path) -> set[str]:
    """Functions and classes of a file; methods with their class in front."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{part.name}"
                for part in node.body
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found


@pytest.mark.parametrize(("file", "name"), STEPS)
def test_a_step_names_a_function_of_its_file(file, name):
    assert name in names_in(SOURCE / file)


def test_the_page_has_three_paths():
    assert len(STEPS) > 30
    assert PAGE.count("```text") == 3  # a picture of each path


def test_every_file_that_the_page_names_exists():
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    assert len(named) > 30
    assert not {file for file in named if not (SOURCE / file).exists()}


def test_methods_of_the_default_loops_exist():
    named = set(re.findall(r"`((?:Dual|Interior|Exchanges|Run)\w*\.\w+)`", PAGE))
    files = re.findall(r"`(methods/(?:dual_newton|interior_point)/\w+\.py)`", PAGE)
    assert len(named) > 10
    assert named <= set().union(*(names_in(SOURCE / file) for file in files))


def test_every_status_has_a_row_with_places_that_set_it():
    places = {r[0].strip("`"): re.findall(r"`([\w/]+\.py)`", r[1]) for r in ROWS if len(r) == 2}
    for status in dual2.Status:
        assert places[status.name]
        for file in places[status.name]:
            assert f"Status.{status.name}" in (SOURCE / file).read_text(encoding="utf-8")


def test_methods_of_a_transport_exist():
    first = next(k for k, row in enumerate(ROWS) if row[0] == "method")
    named = [row[0].strip("`") for row in ROWS[first + 2 :]]
    assert len(named) == 9
    assert all(callable(getattr(Transport, name, None)) for name in named)


def test_contributing_names_modules_that_exist():
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    path = text[text.index("## The way of one") : text.index("## Words of our own")]
    named = {n for n in re.findall(r"`([a-z_0-9]+/[a-z_0-9/]+)`", path) if not n.startswith("docs")}
    assert len(named) > 15
    assert not {name for name in named if not (SOURCE / f"{name}.py").exists()}
