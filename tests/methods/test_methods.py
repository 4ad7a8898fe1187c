"""Every row of the table of methods: what a method claims, and what every run tells."""

import re

import pytest

import dual2 as d2
import howto
from dual2.methods import METHODS
from dual2.testing import check_algorithm
from methods_table import NETWORK, ROWS

CLAIMS = [(row, pair) for row in ROWS for pair in row.pairs]
NAMES = [f"{row.name}-{type(g).__name__}-{type(h).__name__}" for row, (g, h) in CLAIMS]


@pytest.mark.parametrize("row, pair", CLAIMS, ids=NAMES)
def test_methods_do_what_they_claim(row, pair):
    """Solution, fixed point, relabelling, resume bit for bit, counts, conservation."""
    check_algorithm(row.method, (pair,), **row.checks)


def test_every_method_has_a_row():
    assert set(METHODS) <= {row.name for row in ROWS}


@pytest.mark.parametrize("row", [row for row in ROWS if row.discrete], ids=lambda row: row.name)
def test_threads_give_the_same_bits(row, monkeypatch):
    problem, wishes = row.cases()[row.name][1:]
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("DUAL2_THREADS", threads)
        limits = {"tol": 0.0, "atol": 1e-300, "max_rounds": 300, "record": False}
        found.append(
            d2.solve(problem, **{"network": NETWORK} | wishes, **limits, method=row.method)
        )
    assert (found[0].duals == found[1].duals).all() and found[0].counts == found[1].counts


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_messages_are_as_declared(row):
    """The row in the table of methods, the result's parameters and the counts say the same."""
    if not re.fullmatch(r"\d", row.method.rounds) or not row.discrete:
        return
    problem, wishes = row.cases()[row.name][1:]
    network = wishes.get("network", NETWORK)
    wishes = {"network": network} | wishes | {"tol": 0.0, "atol": 1e-300, "max_rounds": 240}
    result = d2.solve(problem, method=row.method, **wishes)
    counts, rounds, vectors = result.counts, int(row.method.rounds), int(row.method.vectors)
    agreed = counts.floats - 2 * len(network.edges) * problem.p * counts.vectors
    assert counts.rounds == 240 and counts.vectors == 240 * vectors // rounds
    assert 0 < agreed <= counts.agree_rounds * problem.n * 2 * problem.p * problem.n
    if row.name != "iD2A":
        assert counts.iterations == 240 // rounds
        assert result.parameters["rounds_per_iteration"][0] == rounds
        assert result.parameters["vectors_per_iteration"][0] == vectors


def test_the_guide_is_short():
    """A method is at most 60 lines in one file."""
    program, _ = howto.printed("howto_algorithm.md")
    assert len(program.splitlines()) <= 60
