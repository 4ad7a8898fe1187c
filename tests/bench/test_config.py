"""Configs become cases; mistakes are named with what was expected."""

import numpy as np
import pytest

import dual2 as d2
from dual2.bench.builders import BUILDERS, build_setting
from dual2.bench.case import Case
from dual2.bench.config import parse_config, read_config, shipped_configs
from dual2.bench.topologies import TOPOLOGIES, build_network
from dual2.errors import Dual2Error, ProblemError
from dual2.solving.storage import save_problem

GOOD = """
title = "Some"
seeds = [3, 4]
[solve]
tol = 1e-6
[[problems]]
name = "net"
build = "elastic_net"
kappa_f = [1, 10]
networks = ["path"]
[[problems]]
build = "exp1"
[[networks]]
build = "path"
[[networks]]
build = "erdos_renyi"
p = [0.4, 0.8]
[[methods]]
method = "iD2A"
[[methods]]
label = "tuned"
method = "NECPD"
tune = {budget = 10}
problems = "net"
[[studies]]
over = "kappa_f"
problems = ["net"]
"""


def test_problems_meet_networks_methods_and_seeds():
    config = parse_config(GOOD, "good")
    cells = [(case.group, case.label, case.seed) for case in config.cases]
    net = [f"net (kappa_f = {k}) on path" for k in (1, 10)]
    expected = [(group, m, s) for group in net for m in ("iD2A", "tuned") for s in (3, 4)]
    assert cells == [*expected, ("exp1", "iD2A", 3)]
    first, tuned = config.cases[0], config.cases[2]
    assert first.problem_options == {"kappa_f": 1, "network": {"build": "path"}}
    assert first.solve == {"tol": 1e-6, "method": "iD2A"}
    assert first.notes == {"entry": "net", "problem": "net (kappa_f = 1)", "network": "path"}
    assert tuned.notes["tune"] == {"budget": 10}
    assert config.title == "Some" and config.studies[0].problems == ("net",)
    again = parse_config(GOOD, "good")
    assert [case.key for case in again.cases] == [case.key for case in config.cases]
    assert len({case.key for case in config.cases}) == 9


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title =", "titel =", r"bad: Unknown key 'titel'. Did you mean 'title'\? Known: title, "),
        ("seeds = [3, 4]", "seeds = 3", "bad, seeds: 3 found; expected a list"),
        ("seeds = [3, 4]", "seeds = [true]", r"seeds: \[True\] found; expected a list of whole"),
        ("seeds = [3, 4]", "seeds = [-1]", r"seeds: \[-1\] found; expected .* whole numbers ≥ 0"),
        ("tol = 1e-6", "tol = -1", r"bad, \[solve\]: tol = -1 found; expected a finite number"),
        (
            'method = "iD2A"',
            'method = "iD2A"' + '\nmax_rounds = "x"',
            r"methods\]\] number 1: max_rounds = 'x' found",
        ),
        (
            'method = "iD2A"',
            'method = "iD2A"' + '\nsubsolver = "foo"',
            r"methods\]\] number 1: Unknown subsolver 'foo'",
        ),
        ("tol =", "rho =", r"\[solve\]: Unknown key 'rho'. .*Known: tol, atol"),
        ('"elastic_net"', '"lasso"', r"problems\]\] number 1: Unknown problem 'lasso'"),
        ("kappa_f = [", "kapa_f = [", "Unknown key 'kapa_f'. Did you mean 'kappa_f'"),
        ('["path"]', '["ring"]', r"number 1: Unknown network 'ring'. Known: path, erdos_renyi"),
        ('"erdos_renyi"', '"torus"', r"networks\]\] number 2: Unknown network 'torus'"),
        ("p = [", "q = [", r"networks\]\] number 2: Unknown key 'q'"),
        ('method = "iD2A"', 'method = "iD3A"', r"methods\]\] number 1: Unknown method 'iD3A'"),
        ('method = "iD2A"', "rho = 0", "method = None found; expected a name in quotes"),
        ('label = "tuned"', "mixin = 1", "number 2: Unknown key 'mixin'. Did you mean 'mixing'"),
        ("budget = 10", "buget = 10", "number 2, tune: Unknown key 'buget'"),
        ('label = "tuned"\nmethod = "NECPD"', 'label = "iD2A"\nmethod = "NECPD"', "is there"),
        ('over = "kappa_f"', 'over = "kappa"', r"studies\]\] number 1: Unknown quantity 'kappa'"),
        ('problems = "net"', 'problems = "nte"', "Unknown problem 'nte'. Did you mean 'net'"),
        ('build = "exp1"', 'build = "exp1"\nnetworks = ["path"]', "Unknown key 'networks'"),
        ("[[networks]]", "[[networks", "bad is not valid TOML"),
        ('build = "exp1"', 'build = "folder"\npath = "nowhere"', "is not a problem folder"),
        ('build = "exp1"', 'build = "folder"', "number 2: path is missing; expected a name"),
        ('build = "exp1"', 'build = "exp2"\nactive = "no"', "active = 'no' found; expected true"),
        ("kappa_f = [1, 10]", "kappa_f = []", r"number 1: kappa_f = \[\] found; expected a value"),
        ("kappa_f = [1, 10]", "kappa_f = 0.5", "kappa_f = 0.5 found; expected a finite number ≥ 1"),
        ("kappa_f = [1, 10]", "n = -4", "number 1: n = -4 found; expected a whole number ≥ 1"),
        ("kappa_f = [1, 10]", 'n = [4, "four"]', "n = 'four' found; expected a whole number"),
        ("kappa_f = [1, 10]", "noise = nan", "noise = nan found; expected a finite number ≥ 0"),
        ('"elastic_net"', '"random"\ng = "l2"', "number 1: Unknown g 'l2'. Did you mean 'l1'"),
        ('"elastic_net"', '"random"\ng = 5', "number 1: g = 5 found; expected a name"),
        ("p = [0.4, 0.8]", "p = 1.5", r"networks\]\] number 2: p = 1.5 found; expected .* ≤ 1"),
        ('"path"\n[[n', '"grid"\nname = "path"\nrows = 3\n[[n', "number 1 on path: A grid of 8"),
        ('networks = ["path"]', "networks = []", r"networks = \[\] found; expected at least one"),
        ('problems = "net"', "problems = []", r"problems = \[\] found; expected at least one"),
        ('name = "net"', "name = 5", "number 1: name = 5 found; expected a name in quotes"),
        ('title = "Some"', "title = 5", "bad: title = 5 found; expected a name in quotes"),
        ("tol = 1e-6", "max_rounds = 2.5", "max_rounds = 2.5 found; expected a whole number"),
        ("tol = 1e-6", 'reduce = "no"', "reduce = 'no' found; expected true or false"),
        ("budget = 10", 'budget = "x"', "number 2, tune: budget = 'x' found; expected a whole"),
        ('method = "iD2A"', 'method = "iD2A"\nrho = -1', "rho = -1 found; expected 'auto' or"),
        ('method = "iD2A"', 'method = "iD2A"\nc = "a"', "number 1: c = 'a' found; expected 1 < c"),
        ('method = "iD2A"', 'method = "iD2A"\naccuracy = "a"', "accuracy='a' is unknown"),
        ('method = "iD2A"', 'method = "iD2A"\nconstants = 1', "constants = 1 found; expected 'ti"),
        ('method = "iD2A"', 'method = "iD2A"\ncost = "low"', "cost = 'low' found; expected Costs"),
        ('method = "NECPD"', 'method = "NECPD"\ntau = "a"', "tau = 'a' found; expected a number"),
    ],
)
def test_mistakes_are_named(old, new, message):
    assert old in GOOD
    with pytest.raises(Dual2Error, match=message):
        parse_config(GOOD.replace(old, new), "bad")


def test_what_must_be_there_is_asked_for():
    with pytest.raises(Dual2Error, match=r"expected at least one entry \[\[problems\]\]"):
        parse_config("", "empty")
    only = '[[problems]]\nbuild = "random"\n'
    with pytest.raises(Dual2Error, match=r"expected at least one entry \[\[methods\]\]"):
        parse_config(only, "half")
    with pytest.raises(Dual2Error, match=r"needs at least one entry in \[\[networks\]\]"):
        parse_config(only + '[[methods]]\nmethod = "iD2A"', "half")
    with pytest.raises(Dual2Error, match=r"There is no file .* or a name: paper, scaling, peers"):
        read_config("nothing.toml")


def test_the_configs_that_come_along():
    assert shipped_configs() == ["paper", "scaling"]
    paper = read_config("paper")
    assert {case.problem for case in paper.cases} == {"exp1", "exp2", "exp3"}
    assert {case.problem_options.get("active") for case in paper.cases} == {None, False, True}


def test_a_folder_is_run_on_its_own_network_and_its_data_are_part_of_the_key(tmp_path):
    text = '[[problems]]\nbuild = "folder"\npath = "p"\n[[methods]]\nmethod = "iD2A"'
    keys = []
    for weight in (1.0, 2.0):
        agents = [d2.Agent([[1.0]], d2.SquaredNorm(weight)) for _ in range(2)]
        problem = d2.Problem(agents, d2.IndicatorPoint([3.0]))
        save_problem(tmp_path / "p", problem, d2.Network([(0, 1)]), force=True)
        (tmp_path / "c.toml").write_text(text)
        (case,) = read_config(tmp_path / "c.toml").cases
        keys.append(case.key)
        assert build_setting(case).problem.agents[0].f.mu == weight
    assert keys[0] != keys[1]


@pytest.mark.parametrize("name", [name for name in BUILDERS if name != "folder"])
def test_builders_give_the_same_data_for_the_same_seed(name):
    fixed = name == "paper" or name.startswith("exp")
    options = {} if name.startswith("exp") else {"network": {"build": "ring"}, "n": 8}
    one, two, other = (
        build_setting(Case("g", "l", name, options, seed=seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_equal(one.facts, two.facts)  # a condition number may be NaN
    assert (one.facts["data"] == other.facts["data"]) == fixed
    assert one.facts["edges"] == one.network.edges.tolist() and one.facts["n"] == one.problem.n


@pytest.mark.parametrize("kappa", [1.0, 300.0])
def test_the_condition_number_of_f_is_a_knob(kappa):
    for name in ("random", "elastic_net"):
        options = {"kappa_f": kappa, "d": 3, "network": {"build": "path"}}
        found = build_setting(Case("g", "l", name, options)).facts["kappa_f"]
        assert found == pytest.approx(kappa, rel=1e-9)


@pytest.mark.parametrize("g", ["zero", "l1", "box"])
@pytest.mark.parametrize("h", ["squared", "huber", "point", "at_most"])
def test_random_problems_have_a_solution(g, h):
    options = {"n": 4, "p": 3, "d": 2, "g": g, "h": h, "network": {"build": "ring"}}
    setting = build_setting(Case("g", "l", "random", options))
    result = d2.solve(setting.problem, setting.network, max_rounds=200_000, tol=1e-6)
    assert result.status == "CONVERGED"


def test_references_are_asked_for():
    options = {"n": 3, "network": {"build": "path"}, "reference": True}
    setting = build_setting(Case("g", "l", "elastic_net", options))
    assert setting.facts["reference_kkt"] <= 1e-11
    found = d2.solve(setting.problem, setting.network, tol=1e-10)
    gap = np.linalg.norm(np.concatenate(found.x) - np.concatenate(setting.reference))
    assert gap < 1e-7


def test_networks_by_name():
    sizes = {
        name: len(build_network(12, name).edges) for name in TOPOLOGIES if name != "erdos_renyi"
    }
    assert sizes == {
        "path": 11,
        "ring": 12,
        "star": 11,
        "complete": 66,
        "grid": 17,
        "circulant": 12,
        "geometric": 31,
        "conditioned": 66,
    }
    assert len(build_network(12, "circulant", reach=3).edges) == 36
    assert len(build_network(12, "grid", rows=2).edges) == 16
    assert len(build_network(12, "erdos_renyi", p=1.0).edges) == 66
    for kappa in (1.5, 20.0):
        assert build_network(9, "conditioned", kappa=kappa).kappa == pytest.approx(kappa)


@pytest.mark.parametrize(
    ("build", "options", "message"),
    [
        ("grid", {"rows": 5}, "cannot have 5 rows"),
        ("circulant", {"reach": 12}, "expected 1 … 11"),
        ("erdos_renyi", {"p": 0.0}, "p = 0.0 found; expected a finite number > 0 and ≤ 1"),
        ("erdos_renyi", {"p": 0.001}, "raise p"),
        ("conditioned", {"kappa": 1e6}, "the condition number of the path"),
        ("path", {"p": 1}, "no argument 'p'; expected none"),
        ("torus", {}, "Unknown network 'torus'"),
    ],
)
def test_impossible_networks_are_refused(build, options, message):
    with pytest.raises(Dual2Error, match=message):
        build_network(12, build, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"h": "cube"}, "Unknown h 'cube'"),
        ({"n": 2.5}, "n = 2.5 found; expected a whole number"),
        ({"kappa_f": 0.5}, "kappa_f = 0.5 found; expected a finite number ≥ 1"),
        ({"size": 3}, "no argument 'size'; expected network, n, p"),
    ],
)
def test_impossible_problems_are_refused(options, message):
    with pytest.raises(Dual2Error, match=message):
        build_setting(Case("g", "l", "random", {"network": {"build": "ring"}} | options))
    with pytest.raises(ProblemError, match=r"Unknown problem 'rnadom'. Did you mean 'random'"):
        build_setting(Case("g", "l", "rnadom"))
