"""Every example runs without a warning, is short, and prints something."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example(script, tmp_path, monkeypatch, capsys):
    """In this process, where libraries are loaded already; the gallery runs them in others."""
    assert len(script.read_text().splitlines()) <= 60
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        plt.close("all")
    assert "CONVERGED" in capsys.readouterr().out
