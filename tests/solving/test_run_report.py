"""The page about one run: what it says, what it refuses, and how it looks in a browser."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from chromium import find, loaded, needs_chromium, press
from dual2.solving.report.run_page import MOST_ROWS, page_of


def solved(**how):
    rng = np.random.default_rng(5)
    blocks = np.hsplit(rng.standard_normal((12, 6)), 3)
    agents = [d2.Agent(A, d2.SquaredNorm(0.1), d2.L1Norm(0.05)) for A in blocks]
    problem = d2.Problem(agents, d2.SquaredLoss(rng.standard_normal(12), scale=1 / 12))
    return d2.solve(problem, d2.Network(nx.path_graph(3)), **how)


@pytest.fixture(scope="module")
def result():
    return solved(method="iD2A")


def test_the_summary_comes_first(result):
    first, *details = result.explain().split("\n\n")
    assert first == result.summary and "\n" not in first
    assert first.startswith(f"CONVERGED after {result.counts.rounds} rounds (+ ")
    assert "by iD2A for 3 agents and 12 rows" in first
    assert first.endswith("The KKT residual meets the tolerance.")
    assert details[0].startswith("iD2A with ") and details[-1].startswith("Certificate: ")


def test_the_page_tells_prices_counts_and_certificate(result):
    page = page_of(result)
    assert result.certificate.reason in page and "Why it was solved this way" in page
    for row in (0, 11):
        assert f"<tr><td>{row}</td>" in page
    assert "grad_f" in page and "http" not in page.split("<script>")[0].split("</style>")[1]


def test_an_impossible_problem_has_its_proof_on_the_page():
    agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0), d2.IndicatorBox(0.0, 1.0))] * 2
    found = d2.solve(d2.Problem(agents, d2.IndicatorPoint([5.0])), d2.Network([(0, 1)]))
    page = page_of(found)
    assert found.status == d2.Status.INFEASIBLE and "separator, which proves" in page


def test_runs_without_a_trace_a_network_or_with_many_rows(result):
    bare = page_of(replace(result, trace={}, setting={}))
    assert 'id="convergence"' not in bare and 'id="network"' not in bare and "A run" in bare
    many = replace(result, dual=np.arange(500.0), y=np.zeros(500))
    page = page_of(many)
    assert f"the {MOST_ROWS} with the largest prices" in page
    assert "<tr><td>299</td>" not in page and "<tr><td>300</td>" in page


def test_texts_from_outside_cannot_become_markup(result):
    page = page_of(replace(result, explanation="<script>alert(1)</script>"))
    assert "<script>alert(1)" not in page


def test_a_file_that_is_there_stays_unless_forced(result, tmp_path):
    file = result.report(tmp_path / "run.html")
    before = file.read_bytes()
    with pytest.raises(d2.Dual2Error, match="exists and would be overwritten"):
        solved(method="Newton").report(file)
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]
    solved(method="Newton").report(file, force=True)
    assert b"Newton: CONVERGED" in file.read_bytes()


def test_a_missing_package_is_named(result, tmp_path, monkeypatch):
    from dual2.solving import plotting
    from dual2.solving.report.templates import templates

    templates.cache_clear()
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    said = r"jinja2, which is not installed: pip install 'dual2\[plot\]'"
    with pytest.raises(d2.Dual2Error, match=said):
        result.report(tmp_path / "run.html")
    assert not list(tmp_path.iterdir())


def test_setting_survives_saving_and_older_files_have_none(result, tmp_path):
    result.save(tmp_path / "run.npz")
    again = d2.Result.load(tmp_path / "run.npz")
    assert again.setting == result.setting == {
        "method": "iD2A", "n": 3, "p": 12, "edges": [[0, 1], [1, 2]],
    }  # fmt: skip
    assert again.summary == result.summary
    older = replace(result, setting={})
    assert older.summary.startswith("CONVERGED after ") and "None" not in older.explain()


@pytest.fixture(scope="module")
def address(result, tmp_path_factory):
    return result.report(tmp_path_factory.mktemp("page") / "run.html").as_uri()


@needs_chromium
@pytest.mark.parametrize("width", [360, 1280])
def test_in_a_browser(show, width):
    page = show(width, "dark" if width < 500 else "light")
    assert len(find(page, "#convergence .scatterlayer .trace")) == 1
    assert len(find(page, "#network circle")) == 3
    assert not find(page, "button:disabled")
    press(page, "[data-axis='latency']")
    title = "return document.querySelector('.canvas')._fullLayout.xaxis.title.text"
    assert page.execute_script(title) == "rounds and agreement: latency"
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_light_page_is_small_and_has_the_same_words(result, tmp_path):
    light = result.report(tmp_path / "light.html", light=True).read_text(encoding="utf-8")
    assert len(light.encode()) < 100_000 < len(page_of(result).encode())
    assert light.split("<script>")[0] == page_of(result).split("<script>")[0]


@needs_chromium
@pytest.mark.parametrize("width", [360, 1280])
def test_the_light_page_in_a_browser(browser, result, tmp_path, width):
    size = {"width": width, "height": 850, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(result.report(tmp_path / "light.html", light=True).as_uri())
    loaded(browser)
    (line,) = find(browser, "#convergence polyline")
    assert len(line.get_attribute("points").split()) == min(400, len(result.trace["kkt"]))
    texts = [text.text for text in find(browser, "#convergence .canvas text")]
    assert any(text.startswith("10⁻") for text in texts)
    before = line.get_attribute("points")
    press(browser, "[data-axis='seconds']")
    (line,) = find(browser, "#convergence polyline")
    assert line.get_attribute("points") != before
    press(browser, "[data-curve='0']")
    assert not find(browser, "#convergence polyline")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert [e for e in browser.get_log("browser") if e["level"] == "SEVERE"] == []
