"""The report's text: complete, inert, the same whenever it is drawn."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from dual2.bench.styles import BASES, OTHERS, OURS, labels, style, styles
from dual2.paper.report import page
from dual2.paper.report.page import costs_at
from dual2.solving.report.network import network_places
from stored_runs import ABOUT, CLAIMS, TRICK, fill, stored


class Reader(HTMLParser):
    """Collects the visible words, the attributes, and the embedded data."""

    def __init__(self):
        super().__init__()
        self.words, self.attributes, self.ids, self.scripts = [], [], [], []
        self._inside = ""

    def handle_starttag(self, tag, attrs):
        self._inside = tag
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside != "style":
            self.words.append(data)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def text(store):
    return page(store, ABOUT, CLAIMS)


@pytest.fixture(scope="module")
def reader(text):
    reader = Reader()
    reader.feed(text)
    return reader


@pytest.fixture(scope="module")
def data(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))


def test_every_run_claim_and_constant_is_there(store, reader):
    words = " ".join(" ".join(reader.words).split())
    for group in store.groups():
        for name in labels(store.runs(group), lambda run: run.case.label):
            assert name in words
    for claim in CLAIMS:
        for part in (claim.text, claim.where, claim.measured, claim.verdict, claim.reason):
            assert part in words
    for part in ("5.83", "a path", "theorem DCPA", "sha256 0a1b", "1.2.3", "cut at 3 M rounds"):
        assert part in words
    assert "4 agents, 3 edges" in words
    assert f"SKIPPED why g is not zero {TRICK}" in words
    assert "minimise Σ i f i (x i )" in words


def test_texts_from_outside_are_escaped(text, reader):
    assert "<img" not in text
    assert not any(name.startswith("on") for _, name, _ in reader.attributes)
    assert text.count("</script>") == 3


def test_buttons_wait_for_the_script(text):
    """A click must not be lost while the page loads."""
    body = text.partition('<script type="application/json"')[0]
    buttons = re.findall(r"<button[^>]*>", body)
    assert len(buttons) > 10 and all(" disabled" in button for button in buttons)


def test_the_claims_of_the_paper_are_counted_apart_from_ours(store):
    aim = replace(CLAIMS[0], verdict="not reproduced", printed=False)
    printed = [replace(CLAIMS[0], verdict="reproduced")]
    text = page(store, ABOUT, [*printed, aim])
    assert '<li class="yes"><b>1</b> claim reproduced' in text
    assert '<li class="no"><b>0</b> claims not reproduced' in text
    assert "our own aims: 0 reproduced, 1 not reproduced, 0 cannot be decided" in text
    assert "our own aims:" not in page(store, ABOUT, printed)


def test_nothing_is_loaded(reader, text):
    loading = [
        (tag, name, value)
        for tag, name, value in reader.attributes
        if name in ("src", "href", "srcset", "data", "action")
    ]
    assert loading
    assert all(value.startswith(("#", "data:")) for _, _, value in loading)
    assert "@import" not in re.search(r"<style>(.*?)</style>", text, re.DOTALL).group(1)
    policy = [v for t, n, v in reader.attributes if (t, n) == ("meta", "content") and "-src" in v]
    assert policy[0].startswith("default-src 'none'")
    assert len(reader.ids) == len(set(reader.ids))
    targets = {value[1:] for _, _, value in loading if value.startswith("#")}
    assert targets <= set(reader.ids)


def test_curves_are_thinned_and_keep_their_ends(store, data):
    curves = data["groups"]["exp1"]["curves"]
    assert len(curves) == 5
    for curve, run in zip(curves, store.runs("exp1"), strict=False):
        assert len(curve["y"]) == len(curve["x"]["rounds"]) <= 400
        assert curve["x"]["rounds"][-1] == run.trace["rounds"][-1]
        assert curve["x"]["local"][-1] == run.trace["grad_f"][-1] + run.trace["prox_g"][-1]
        assert curve["y"][0] == 1.0
        assert curve["colour"] == style(run).colour
    assert [c["name"] for c in data["groups"]["mine-a-b"]["curves"]] == [
        "iD2A, seed 0",
        "iD2A, seed 1",
    ]


def test_costs_are_those_from_which_on_the_target_is_met():
    run = stored("iD2A", 1000)
    gap = np.ones_like(run.trace["gap"])
    gap[[100, 300]], gap[400:] = 1e-9, 1e-5
    costs = costs_at(replace(run, trace=run.trace | {"gap": gap}), 1e-4, "gap")
    assert costs["rounds"] == run.trace["rounds"][400]
    assert costs["coupling"] == sum(run.trace[name][400] for name in ("A", "AT", "prox_h"))
    assert set(costs_at(run, 1e-10, "gap").values()) == {None}


def test_same_store_same_page(store, text):
    assert page(store, ABOUT, CLAIMS) == text


def test_a_benchmark_has_no_claims(store):
    text = page(store, {}, [])
    assert "<h1>Benchmark</h1>" in text
    assert 'id="claims"' not in text
    assert "dual2 bench" in text


@pytest.mark.parametrize("paper", ["#ffffff", "#1c2026"])
def test_colours_stand_out_from_light_and_dark_paper(paper):
    def luminance(colour):
        parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722] + 0.05

    for colour in [*OTHERS, OURS.colour, *(base.colour for base in BASES.values())]:
        one, two = sorted((luminance(colour), luminance(paper)))
        assert two / one >= 3, colour


def test_looks_differ_within_a_group(store):
    for group in store.groups():
        looks = styles(store.runs(group))
        assert len(set(looks)) == len(looks)


def test_a_path_is_drawn_flat_in_order():
    places, _ = network_places(5, [[i, i + 1] for i in range(4)])
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert len({y for _, y in places}) == 1


@pytest.mark.parametrize("n, edges", [(1, []), (2, [[0, 1]]), (3, [[0, 1], [1, 2], [0, 2]])])
def test_small_networks(n, edges):
    places, height = network_places(n, edges)
    assert len(places) == n
    assert np.isfinite(places).all() and np.isfinite(height)


def test_large_networks_are_not_drawn():
    assert network_places(1000, [[0, 1]]) == ([], 0.0)


def test_every_agent_and_edge_is_drawn(text):
    picture = re.search(r'<svg class="network".*?</svg>', text, re.DOTALL).group()
    assert picture.count("<line") == 3 and picture.count("<circle") == 4
