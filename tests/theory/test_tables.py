"""The paper's tables: every row present, printed formulas, the cases that they apply to."""

import math
import re

import networkx as nx
import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from dual2.errors import CapabilityError
from dual2.methods.subsolvers import predict
from dual2.theory import analyse, compare, complexities, condition_numbers, gather_facts, table
from dual2.theory.complexity_table import BOUNDS, CASE_1, CASE_2, CASE_3
from dual2.theory.saddle_table import SADDLE_BOUNDS, Formula

SYMBOLS = (
    "κ_f",
    "κ_C",
    "κ_pd",
    "κ_h*",
    "κ_A",
    "κ_pd'",
    "κ_Aρ",
    "κ_pd2",
    "κ_A'ρ",
    "κ_pd3",
    "c_1",
    "c_2",
)
POINTS = [
    (4.3, 7.1, 11.7, 5.9, 3.7, 2.9, 13.3, 17.9, 19.1, 23.7, 0.6, 1.7),
    (90.0, 7.1, 11.7, 200.0, 370.0, 160000.0, 13.3, 17900.0, 19.1, 23700.0, 0.6, 1.7),
]
"""In the first point κ_pd and κ_f·κ_A dominate the maxima, in the second the other terms."""

EXPECTED = {
    ("DCPA", "", "1", "①"): (83.07, 83.07, 83.07, 90, 90, 90),
    ("NPGA", "", "1", "①"): (83.07, 83.07, 83.07, 90, 90, 90),
    ("iD2A-LPD", "0", "1", "①"): (7.05989, 24.1485, 24.1485, 7.05989, 66.976, 66.976),
    ("MiD2A-LPD", "0", "1", "①"): (7.05989, 9.06278, 9.06278, 7.05989, 25.1356, 25.1356),
    ("iD2A-LPD", "ρ*", "1", "①"): (9.11427, 9.11427, 9.11427, 25.2784, 25.2784, 25.2784),
    ("MiD2A-LPD", "ρ*", "1", "①"): (9.11427, 3.42053, 3.42053, 25.2784, 9.48683, 9.48683),
    ("iD2A-iDAPG", "0", "1", "①"): (7.05989, 64.6471, 31.1756, 7.05989, 295.758, 31.1756),
    ("MiD2A-iDAPG", "0", "1", "①"): (7.05989, 24.2616, 11.7, 7.05989, 110.996, 11.7),
    ("iD2A-iDAPG", "ρ*", "1", "①"): (9.11427, 18.8998, 9.11427, 9.11427, 86.4656, 9.11427),
    ("MiD2A-iDAPG", "ρ*", "1", "①"): (9.11427, 7.09295, 3.42053, 9.11427, 32.45, 3.42053),
    ("iD2A-LPD", "0", "1", "③"): (7.05989, 24.1485, 24.1485, 37.6829, 532.917, 532.917),
    ("MiD2A-LPD", "0", "1", "③"): (7.05989, 9.06278, 9.06278, 37.6829, 200, 200),
    ("iD2A-LPD", "ρ*", "1", "③"): (9.11427, 9.11427, 9.11427, 37.6829, 37.6829, 37.6829),
    ("MiD2A-LPD", "ρ*", "1", "③"): (9.11427, 3.42053, 3.42053, 37.6829, 14.1421, 14.1421),
    ("iD2A-iDAPG", "0", "1", "③"): (7.05989, 64.6471, 31.1756, 37.6829, 5055.69, 532.917),
    ("MiD2A-iDAPG", "0", "1", "③"): (7.05989, 24.2616, 11.7, 37.6829, 1897.37, 200),
    ("iD2A-iDAPG", "ρ*", "1", "③"): (9.11427, 18.8998, 9.11427, 37.6829, 357.491, 37.6829),
    ("MiD2A-iDAPG", "ρ*", "1", "③"): (9.11427, 7.09295, 3.42053, 37.6829, 134.164, 14.1421),
    ("Nedić", "", "2", "A_i = I, ②"): (5.5254, 5.5254, 5.5254, 25.2784, 25.2784, 25.2784),
    ("DCDA", "", "2", "②"): (15.91, 15.91, 15.91, 33300, 33300, 33300),
    ("MiD2A-Salim", "0", "2.1", "②"): (6.31416, 4.91383, 9.45195, 288.87, 1028.48, 19783.1),
    ("MiD2A-APDG", "ρ*", "2", "①"): (10.6283, 3.98873, 3.98873, 985.896, 370, 370),
    ("MiD2A-iDAPG", "0", "2", "①"): (6.31416, 32.9917, 15.91, 288.87, 315912, 33300),
    ("MiD2A-iDAPG", "ρ*", "2", "①"): (10.6283, 8.27122, 3.98873, 486.241, 1731.18, 182.483),
    ("MiD2A-APDG", "0", "2", "③"): (6.31416, 9.45195, 9.45195, 817.457, 122714, 122714),
    ("MiD2A-APDG", "ρ*", "2", "③"): (10.6283, 3.98873, 3.98873, 1065.83, 400, 400),
    ("MiD2A-iDAPG", "0", "2", "③"): (6.31416, 32.9917, 15.91, 817.457, 1.51789e06, 160000),
    ("MiD2A-iDAPG", "ρ*", "2", "③"): (10.6283, 8.27122, 3.98873, 1065.83, 3794.73, 400),
    ("DCPA", "", "3", "①"): (406.049, 406.049, 406.049, 8498.7, 8498.7, 8498.7),
    ("NPGA", "", "3", "①"): (57.19, 57.19, 57.19, 1197, 1197, 1197),
    ("iD2A-iDAPG", "ρ*", "3", "①"): (20.1507, 41.7853, 20.1507, 92.1884, 874.576, 92.1884),
    ("MiD2A-iDAPG", "ρ*", "3", "①"): (24.1479, 18.7925, 9.06256, 110.476, 393.332, 41.4608),
    ("iD2A-iDAPG", "ρ*", "3", "③"): (20.1507, 41.7853, 20.1507, 356.497, 3382.03, 356.497),
    ("MiD2A-iDAPG", "ρ*", "3", "③"): (24.1479, 18.7925, 9.06256, 410.207, 1460.48, 153.948),
}
"""(rounds, 𝒜, ℬ) at each point for log(1/ε) = 1, computed from the typeset table itself."""


def numbers_at(point):
    return dict(zip(SYMBOLS, POINTS[point], strict=True)) | {"ε": 1 / math.e}


# -- formulas -------------------------------------------------------------------------------


def by_python(text, numbers):
    """Evaluate a formula by turning it into a Python expression: not the library's way."""
    tokens = re.findall(r"\d+(?:\.\d+)?|[(),√^/]|[^\s(),√^/]+", text)
    out = []
    for token in tokens:
        if out and out[-1][-1] in "])0123456789" and token not in "),^/":
            out.append("*")
        word = {"√": "root", "^": "**"}.get(token, token)
        if token not in (*"(),√^/", "max", "log") and not token[0].isdigit():
            word = f"v[{token!r}]"
        out.append(f"({word})" if out and out[-1] == "root" and token != "(" else word)
    scope = {"root": math.sqrt, "max": max, "log": math.log, "v": numbers}
    return eval("".join(out), scope)


@pytest.mark.parametrize("point", range(len(POINTS)))
@pytest.mark.parametrize("bound", BOUNDS, ids=lambda b: f"{b.name} {b.rho} {b.case} {b.assumption}")
def test_text_and_value_of_a_formula_agree(bound, point):
    numbers = numbers_at(point) | {"ε": 1e-3}
    for formula in (bound.rounds, bound.oracle_a, bound.oracle_b):
        assert formula(numbers) == pytest.approx(by_python(str(formula), numbers), rel=1e-12)
        assert formula.symbols <= set(numbers)


@pytest.mark.parametrize("bound", SADDLE_BOUNDS, ids=lambda b: f"{b.algorithm} {b.case}")
def test_text_and_value_of_a_saddle_formula_agree(bound):
    names = ["L_x", "μ_x", "L_y", "S", "μ_φ", "κ_x", "κ_y", "κ_xy", "κ_B", "κ_B'"]
    names += ["κ_xy'", "κ_xy2", "κ_xy3"]
    for seed in range(5):
        rng = np.random.default_rng(seed)
        numbers = dict(zip(names, 10 ** rng.uniform(-1, 3, len(names)), strict=True)) | {"ε": 0.01}
        for formula in (bound.oracle_a, bound.oracle_b):
            assert formula(numbers) == pytest.approx(by_python(str(formula), numbers), rel=1e-12)


def test_formula_limits():
    assert Formula("max(a, b)")({"a": 1.0, "b": math.nan}) != 1.0
    assert Formula("1/a")({"a": 0.0}) == math.inf
    assert Formula("√a b")({"a": math.inf, "b": 2.0}) == math.inf
    assert Formula("a/b c^2")({"a": 6.0, "b": 2.0, "c": 3.0}) == 27.0


# -- the table is complete ------------------------------------------------------------------


def test_every_row_of_the_paper_is_there():
    # Lines between the rules of the appendix "Full Version": Case 1 has 17, of which the first
    # (DCPA, NPGA) is two methods; Case 2 has 10, Case 3 has 6: 33 lines, 34 rows.
    assert [len(case) for case in (CASE_1, CASE_2, CASE_3)] == [18, 10, 6]
    keys = [(b.name, b.rho, b.case, b.assumption) for b in BOUNDS]
    assert len(set(keys)) == len(keys) == 34
    assert set(keys) == set(EXPECTED)


@pytest.mark.parametrize("point", range(len(POINTS)))
@pytest.mark.parametrize("bound", BOUNDS, ids=lambda b: f"{b.name} {b.rho} {b.case} {b.assumption}")
def test_row_says_what_the_paper_says(bound, point):
    numbers = numbers_at(point)
    found = [f(numbers) for f in (bound.rounds, bound.oracle_a, bound.oracle_b)]
    wanted = EXPECTED[bound.name, bound.rho, bound.case, bound.assumption]
    assert found == pytest.approx(wanted[3 * point : 3 * point + 3], rel=1e-5)


# -- cases ----------------------------------------------------------------------------------
RNG = np.random.default_rng(1)
P, N = 3, 4
WIDE = [RNG.standard_normal((P, 5)) for _ in range(N)]
TALL = [RNG.standard_normal((P, 2)) for _ in range(N)]
F = [d2.Quadratic(10 ** RNG.uniform(0, 3, 5)) for _ in range(N)]
F2 = [d2.Quadratic(10 ** RNG.uniform(0, 3, 2)) for _ in range(N)]
POINT, SQUARE = d2.IndicatorPoint(np.ones(P)), d2.SquaredLoss(np.ones(P), 0.5)
INTERVAL_LOSS = d2.NonnegativeSquaredLoss(np.ones(P), 0.5)
NETWORK = d2.Network(nx.path_graph(N))


def problem(matrices, f, h, g=None):
    return d2.Problem(
        [d2.Agent(A, fi, g or d2.Zero()) for A, fi in zip(matrices, f, strict=True)], h
    )


EYES = problem([np.eye(P)] * N, [d2.SquaredNorm(2.0)] * N, POINT)
CASES = {
    "1": problem(TALL, F2, SQUARE, d2.L1Norm(0.1)),
    "1 and 3": problem(TALL, F2, SQUARE),
    "1 and 2": problem(WIDE, F, SQUARE),
    "2": problem(WIDE, F, INTERVAL_LOSS),
    "2.1": problem(WIDE, F, POINT),
    "identity": EYES,
    "3": problem(TALL, F2, INTERVAL_LOSS),
    "3 linear": problem(TALL, F2, POINT),
    "general h": problem(WIDE, F, d2.IndicatorAtMost(np.ones(P))),
    "general g": problem(WIDE, F, POINT, d2.L1Norm(0.1)),
    "general rank": problem([A[:, :1] for A in TALL[:1]] * N, [d2.SquaredNorm(1.0)] * N, POINT),
    "operator": problem([aslinearoperator(A) for A in WIDE], F, POINT),
    "not strongly convex": problem(WIDE, [d2.LeastSquares(np.ones((1, 5)), [1.0])] * N, SQUARE),
}


def applying(name, **options):
    return [row for row in complexities(CASES[name], NETWORK, **options) if row.applies]


@pytest.mark.parametrize(
    "name, count",
    [
        ("1", 18),
        # every row of Case 1 and of Case 3
        ("1 and 3", 24),
        # but (80), DCDA, Salim and APDG under ① of Case 2, for want of a linear h*
        ("1 and 2", 18 + 6 + 6),
        ("2", 6 + 6),
        # every row of Cases 2 and 3 but (80), for which A_i = I
        ("2.1", 9 + 6),
        ("identity", 10 + 6),
        ("3", 6),
        ("3 linear", 6),
        ("general h", 0),
        ("general g", 0),
        ("general rank", 0),
        ("operator", 0),
        ("not strongly convex", 0),
    ],
)
def test_rows_that_apply(name, count):
    rows = complexities(CASES[name], NETWORK)
    assert len(rows) == 34
    assert len(applying(name)) == count
    for row in rows:
        found = np.array([row.rounds, row.oracle_a, row.oracle_b])
        if row.applies:
            assert np.all(found > 0)
        else:
            assert row.reason
            assert np.all(np.isnan(found))
    flags = [row.applies for row in rows]
    assert flags == sorted(flags, reverse=True)
    rounds = [row.rounds for row in rows if row.applies]
    assert rounds == sorted(rounds)


def test_how_h_enters_decides_the_rows():
    assert {row.assumption for row in applying("2")} == {"①", "③"}
    gradient_only = d2.ConjugateSmooth(lambda w: 2 * w, 2.0, 2.0)
    rows = complexities(problem(TALL, F2, gradient_only, d2.L1Norm(0.1)), NETWORK)
    assert {row.assumption for row in rows if row.applies} == {"③"}
    assert sum(row.applies for row in rows) == 8


def test_given_rho_keeps_its_own_rows():
    zero, positive = applying("1", rho=0.0), applying("1", rho=2.5)
    assert {row.rho for row in zero} == {None, 0.0}
    assert {row.rho for row in positive} == {None, 2.5}
    assert len(zero) == len(positive) == 2 + 8
    assert not [row for row in applying("3", rho=0.0) if row.subsolver]


def test_scaling_in_eps_is_logarithmic():
    one, two = (applying("1 and 2", eps=eps)[0] for eps in (1e-4, 1e-8))
    assert two.rounds == pytest.approx(2 * one.rounds)
    with pytest.raises(CapabilityError, match="eps"):
        complexities(CASES["1"], NETWORK, eps=0.0)


def test_rows_printed_without_the_smoothness_of_h_say_so():
    steep = d2.Stacked([d2.SquaredLoss([0.0], 1e-3), d2.SquaredLoss([0.0, 0.0], 1e3)], [1, 2])
    rows = complexities(problem(TALL, F2, steep, d2.L1Norm(0.1)), NETWORK)
    marked = [row for row in rows if "κ_h*" in row.reason and row.applies]
    assert {row.assumption for row in marked} == {"①"}
    assert len(marked) == 8
    assert not [row for row in applying("1") if row.reason]


# -- the rows are what the theorem composes ------------------------------------------------


@pytest.mark.parametrize("name", ["1", "2", "2.1", "identity"])
@pytest.mark.parametrize("method", ["iD2A", "MiD2A"])
def test_rows_agree_with_outer_times_inner(name, method):
    """√κ_F outer iterations times the saddle table, up to a factor that no κ enters."""
    facts = gather_facts(CASES[name])
    network = NETWORK if method == "iD2A" else NETWORK.chebyshev()
    rows = [r for r in applying(name) if r.method == method and r.case != "3" and not r.reason]
    assert rows or method == "iD2A"
    for row in rows:
        mapping = "smooth" if row.assumption == "③" else "prox"
        constants = analyse(CASES[name], network, row.rho or 0.0, "paper", mapping, facts)
        found = predict(constants, facts, row.subsolver, 1e-8, network.rounds)
        pairs = (found.oracle_a, row.oracle_a), (found.oracle_b, row.oracle_b)
        for mine, printed in (*pairs, (found.rounds, row.rounds)):
            assert printed / 8 <= mine <= 8 * printed, (row.name, row.rho, row.assumption)


# -- text and comparison --------------------------------------------------------------------


def test_table_shows_what_applies_and_on_request_the_rest():
    rows = complexities(CASES["3"], NETWORK)
    assert len(table(rows).splitlines()) == 7
    everything = table(rows, every=True)
    assert len(everything.splitlines()) == 35
    assert "h* is not strongly convex" in everything


@pytest.mark.parametrize("method, rho", [("iD2A", "auto"), ("MiD2A", "auto"), ("iD2A", 0.0)])
def test_measured_beside_predicted(method, rho):
    rows = complexities(CASES["1"], NETWORK, eps=1e-12)
    result = d2.solve(CASES["1"], NETWORK, method=method, subsolver="iDAPG", rho=rho, tol=1e-6)
    found = compare(rows, result)
    assert found.row is not None
    assert (found.row.method, found.row.subsolver) == (method, "iDAPG")
    assert (found.row.rho == 0) == (rho == 0.0)
    assert found.measured["rounds"] == result.counts.rounds
    assert found.measured["oracle_a"] == max(result.counts.grad_f, result.counts.prox_g)
    assert found.ratio("rounds") == result.counts.rounds / found.row.rounds
    assert f"{result.counts.rounds}" in str(found)


def test_comparison_without_a_row():
    rows = complexities(CASES["general h"], NETWORK)
    result = d2.solve(CASES["general h"], NETWORK, method="iD2A", tol=1e-4)
    found = compare(rows, result)
    assert found.row is None
    assert "no row for iD2A-iDAPG" in str(found)
    assert math.isnan(found.ratio("rounds"))


def test_numbers_may_be_given():
    numbers = condition_numbers(CASES["1"], NETWORK)
    assert complexities(CASES["1"], NETWORK, numbers=numbers) == complexities(CASES["1"], NETWORK)


def test_a_run_of_nedic_finds_its_row():
    """The paper writes Nedić with an accent, the registry without."""
    agents = [d2.Agent(np.eye(2), d2.SquaredNorm(float(k + 1))) for k in range(3)]
    problem = d2.Problem(agents, d2.IndicatorPoint(np.ones(2)))
    network = d2.Network(nx.path_graph(3))
    result = d2.solve(problem, network, method="Nedic", tol=1e-8)
    found = compare(complexities(problem, network, eps=1e-8), result)
    assert found.row is not None and found.row.method == "Nedić"
