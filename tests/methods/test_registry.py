"""The table of methods: names, conditions, capability errors, what ``dual2 methods`` prints."""

import networkx as nx
import numpy as np
import pytest
from rich.cells import cell_len

import dual2 as d2
from dual2.cli import main
from dual2.methods import METHODS, able_methods, find_method

NETWORK = d2.Network(nx.path_graph(3))
NAMES = (
    "iD2A MiD2A NPGA-EXTRA NPGA-ED NPGA-NIDS NPGA-DLM NPGA-DIGing NPGA-ATC NPGA-AugDGM NPGA-P2D2 "
    "NPGA-I NPGA-II NPGA DCPA DCDA iD2GT Nedic APAPC APAPC-Chebyshev"
).split()


def problem(f=None, g=None, h=None, A=None):
    agent = d2.Agent(np.ones((2, 2)) if A is None else A, f or d2.SquaredNorm(1.0), g or d2.Zero())
    return d2.Problem([agent] * 3, h or d2.IndicatorPoint(np.ones(2)))


def coupling(method):
    """A point, or a loss for the methods that need a smooth h."""
    point = d2.IndicatorPoint(np.ones(2))
    return d2.SquaredLoss(np.ones(2)) if "smooth" in method.needs.h.lack(point) else point


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_known_in_any_case(name):
    found = find_method(name.upper())
    assert name in (found.name, *found.aliases)
    assert found.summary and found.needs.f and found.rounds and found.vectors and found.sources


def test_names_and_aliases_are_unique():
    names = [alias for m in METHODS.values() for alias in (m.name, *m.aliases)]
    assert len({name.lower() for name in names}) == len(names)


def test_an_unknown_name_gets_a_hint_among_aliases_too():
    with pytest.raises(d2.CapabilityError, match="Did you mean 'DCPA'"):
        find_method("DCPAA")


@pytest.mark.parametrize(
    "name, changes, lack, able",
    [
        (
            "DCDA",
            {"h": d2.SquaredLoss(np.ones(2))},
            "h must be the indicator of a point",
            "NPGA-ED",
        ),
        ("iD2GT", {"g": d2.L1Norm(1.0)}, "agent 0: g must be zero; found L1Norm", "DCDA"),
        ("APAPC", {"g": d2.L1Norm(1.0)}, "agent 0: g must be zero", "iD2A"),
        ("Nedic", {}, "agent 0: A must be the identity", "APAPC-Chebyshev"),
        ("Nedic", {"A": np.ones((2, 3))}, "its shape is 2 × 3", "DCDA"),
        ("NPGA-ED", {"f": d2.Quadratic([1.0, 0.0])}, "f must be strongly convex", "DC-ADMM"),
    ],
)
def test_a_method_says_what_fails_and_which_would_work(name, changes, lack, able):
    with pytest.raises(d2.CapabilityError) as caught:
        d2.solve(problem(**changes), NETWORK, method=name, reduce=False)
    message = str(caught.value)
    assert lack in message and f"{find_method(name).name} cannot solve" in message
    assert able in message.split("These methods can:")[1]


def test_identity_is_recognised_in_every_form():
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import aslinearoperator

    for A, fine in ((np.eye(2), True), (eye_array(2), True), (aslinearoperator(np.eye(2)), False)):
        assert (find_method("Nedic").lack(problem(A=A)) == "") == fine


def test_what_is_able_solves():
    """Every method that accepts the problem, with its own defaults."""
    rng = np.random.default_rng(0)
    agents = [
        d2.Agent(np.eye(2), d2.Quadratic(rng.uniform(1, 3, 2), rng.standard_normal(2)))
        for _ in range(3)
    ]
    easy = d2.Problem(agents, d2.IndicatorPoint(np.ones(2)))
    best = np.concatenate(d2.solve(easy, NETWORK, tol=1e-12).x)
    names = [name for name in able_methods(easy) if name != "NPGA"]
    assert set(NAMES) - {"NPGA", "NPGA-I", "DCPA"} <= set(names)
    for name in names:
        result = d2.solve(easy, NETWORK, method=name, tol=1e-10, record=False)
        assert result.status == "CONVERGED", name
        np.testing.assert_allclose(np.concatenate(result.x), best, rtol=0, atol=1e-8, err_msg=name)


def test_every_parameter_that_is_listed_may_be_given():
    """What ``dual2 methods`` lists is accepted, and the result says that it was given."""
    agents = [d2.Agent(np.eye(2), d2.Quadratic([1.0 + i, 2.0], [1.0, -1.0])) for i in range(3)]
    M = np.eye(3) - NETWORK.W.toarray()
    other = {"subsolver": "iDAPG", "accuracy": "relative", "constants": "tight", "restart": True,
             "cost": "communication",
             "mapping": "auto", "degree": 2, "spectrum": "exact", "theta": 1, "B2": M, "C": 0 * M,
             "D": np.eye(3) - M, "integrator": "RK45"}  # fmt: skip
    for name, method in METHODS.items():
        easy = d2.Problem(agents, coupling(method))
        base = {"B2": M, "D": np.eye(3) - M} if name == "NPGA" else {}
        short = {"method": name, "max_rounds": 5, "record": False, **base}
        found = d2.solve(easy, NETWORK, **short).parameters
        for key in [key for keys in method.sources for key in keys.split(", ")]:
            value = other[key] if key in other else found[key][0] or 1.0
            answer = d2.solve(easy, NETWORK, **short | {key: value})
            said = answer.parameters.get(key, (None, "given"))
            if name not in ("iD2A", "MiD2A"):
                assert said[1] == "given", (name, key, said)


def run(arguments, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 100])
def test_methods_lists_all_that_a_reader_needs(width, capsys, monkeypatch):
    text = run(["methods"], capsys, monkeypatch, width)
    assert max(map(cell_len, text.splitlines())) <= width
    words = " ".join(text.split())
    for method in METHODS.values():
        assert method.name in words
    for word in ("DCPA", "NPGA-I", "reconstructed", "gradients", "derived", "theorem"):
        assert word in words


def test_methods_describes_one(capsys, monkeypatch):
    text = run(["methods", "dcpa"], capsys, monkeypatch, 100)
    for word in (
        "NPGA-P2D2 (= NPGA-I, DCPA; reconstructed)",
        "1 p-vector per neighbour in 1 round",
        "μ_f/σ̄²",
    ):
        assert word in text


@pytest.mark.parametrize("name", [m.name for m in METHODS.values() if m.name != "NPGA"])
def test_explanations_say_what_the_lists_say(name):
    easy = problem(A=np.eye(2), h=coupling(METHODS[name]))
    text = d2.solve(easy, NETWORK, method=name, max_rounds=1).explain()
    remark = METHODS[name].remark
    assert f"{name}: {remark}." in text if remark else "reconstructed" not in text


def test_methods_for_a_problem(tmp_path, capsys, monkeypatch):
    run(["example", str(tmp_path / "it")], capsys, monkeypatch, 100)
    text = run(["methods", "--for", str(tmp_path / "it")], capsys, monkeypatch, 100)
    words = " ".join(text.split())
    assert "NPGA-ED yes" in words and "DCDA no: h must be the indicator of a point" in words
