"""Every listing of the documents is run: doctests by pytest, guides as modules, the rest here."""

import contextlib
import io
import os
import re
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from sklearn.datasets import load_diabetes

import dual2
from stored_runs import fill

ROOT = Path(__file__).resolve().parents[1]
LISTING = re.compile(r"^```py(?:thon)?\n(?!>>>)(.*?)^```", re.DOTALL | re.MULTILINE)
MODULES = {
    "docs/bench.md:0": "tests/bench/test_bench_own.py",
    "docs/clusters.md:1": "tests/clusters/test_own_engine.py",
    "docs/howto_algorithm.md:0": "tests/methods/test_methods.py",
    "docs/howto_function.md:0": "tests/functions/conftest.py",
}
"""Guides whose listing is a module that these files load."""


def listings() -> dict[str, str]:
    """Plain listings by document and number; those that are doctests run as such."""
    found = {}
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/[a-z]*.md"))]:
        name = file.relative_to(ROOT).as_posix()
        if not {"_build", "gallery", "methods", "generated"} & set(file.parts):
            texts = LISTING.findall(file.read_text(encoding="utf-8"))
            found |= {f"{name}:{k}": text for k, text in enumerate(texts)}
    return found


LISTINGS = listings()


def given(name: str) -> dict[str, object]:
    """What the text before a listing has introduced."""
    if name != "docs/report.md:0":
        return {}
    X, y = load_diabetes(return_X_y=True)
    agents = [dual2.Agent(A, dual2.SquaredNorm(0.1)) for A in np.hsplit(X[:30], 2)]
    problem = dual2.Problem(agents, dual2.SquaredLoss(y[:30], scale=1 / 30))
    return {"dual2": dual2, "problem": problem, "network": dual2.Network(nx.path_graph(2))}


SAID = {
    "docs/losses.md:0": r"^CONVERGED \[\(0, 1\)\] True$",
    "docs/models.md:0": r"CONVERGED.*oslo +bergen +aarhus",
}
"""What listings print."""


def test_every_listing_is_run_somewhere():
    assert len(LISTINGS) >= 9
    for name, file in MODULES.items():
        assert name in LISTINGS, f"{name} is gone: remove it from the table"
        text = (ROOT / file).read_text(encoding="utf-8")
        assert Path(name.partition(":")[0]).name in text, f"{file} does not load {name}"


@pytest.mark.parametrize("name", sorted(LISTINGS.keys() - MODULES.keys()))
def test_a_listing_runs_as_pasted(name, tmp_path, monkeypatch):
    if "pypsa" in LISTINGS[name]:
        pytest.importorskip("pypsa", reason="needs pypsa")
    if "dual2.clusters" in LISTINGS[name]:
        pytest.importorskip("ray", reason="needs ray")
    monkeypatch.chdir(tmp_path)
    if name == "docs/report.md:1":
        fill(Path("results"))
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(LISTINGS[name], name, "exec"), {"__name__": "pasted"} | given(name))
    assert re.search(SAID.get(name, ""), said.getvalue().strip(), re.DOTALL), said.getvalue()
    if name == "docs/report.md:0":
        assert sorted(os.listdir()) == ["mail.html", "run.html"]
