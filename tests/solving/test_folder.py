"""Problem folders: what is written comes back; what is wrong is named with its file."""

import dataclasses
import json
import shutil

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
from dual2.solving.storage.codec import decode, encode, known_functions
from dual2.solving.storage.documents import read_document, to_toml
from dual2.solving.storage.problem_folder import (
    load_agent,
    load_agents,
    load_problem,
    load_public,
    public_digest,
    save_problem,
)

RNG = np.random.default_rng(0)
M = RNG.standard_normal((3, 2))

FUNCTIONS = [
    d2.SquaredNorm(2.0, [0.1, 0.2]),
    d2.Quadratic([1.0, 2.0], [0.0, -1.0]),
    d2.Quadratic(M.T @ M + np.eye(2)),
    d2.LeastSquares(M, [1.0, 2.0, 3.0], ridge=0.1),
    d2.LogisticRegression(M, [1.0, -1.0, 1.0], ridge=0.5),
    d2.Zero(),
    d2.L1Norm([1.0, 2.0]),
    d2.SoftmaxLoss([1], classes=2, scale=0.5),
    d2.L2Norm(0.3),
    d2.ElasticNet(1.0, 2.0),
    d2.IndicatorBox([-np.inf, 0.0], [1.0, np.inf]),
    d2.IndicatorNonnegative(),
    d2.IndicatorSimplex(2.0),
    d2.IndicatorBall(1.5, [0.0, 1.0]),
    d2.IndicatorHalfspace([1.0, 2.0], 3.0),
    d2.IndicatorAffine([[1.0, 1.0]], [1.0]),
    d2.IndicatorPolyhedron([[1.0, 1.0], [0.0, 1.0]], [0.0, -np.inf], [1.0, 2.0]),
    d2.IndicatorPoint([1.0, 2.0]),
    d2.IndicatorAtMost([1.0, 2.0]),
    d2.SquaredLoss([1.0, 2.0], scale=1 / 3),
    d2.NonnegativeSquaredLoss([1.0, 2.0]),
    d2.HuberLoss([1.0, 2.0], 0.7),
    d2.HuberNormLoss([1.0, 2.0], 0.7, 3.0),
    d2.AbsoluteLoss([1.0, 2.0]),
    d2.QuantileLoss([1.0, 2.0], 0.3),
    d2.LogisticLoss([1.0, -1.0]),
    d2.HingeLoss([1.0, -1.0]),
    d2.SquaredHingeLoss([1.0, -1.0], [0.5, 2.0]),
    d2.PoissonLoss([1.0, 4.0]),
    d2.Max(2.0),
    d2.SumLargest(1.5, 0.5),
    d2.LInfNorm(3.0),
    d2.IndicatorCappedSimplex(1.2, 0.8),
    d2.IndicatorL1Ball(0.7),
    d2.IndicatorSecondOrderCone(),
    d2.NegativeLog([1.0, 2.0]),
    d2.Entropy([1.0, 0.2], 2.0),
    d2.PiecewiseLinear([0.3, 1.0], [-np.inf, 0.5, 2.0], 0.7),
    d2.Stacked([d2.IndicatorPoint([1.0]), 2 * d2.L2Norm(1.0).shift([3.0])], [1, 1]),
    d2.L2Norm(2.0).shift([1.0, 0.0]).tilt([0.5, 0.5]).plus_quadratic(0.25),
    d2.IndicatorSimplex().conjugate,
    3 * d2.L1Norm(1.0).shift([1.0, 2.0]),
]


def same(one, two):
    """Equality of functions, arrays and plain values, bit for bit."""
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one) if field.init]
        equal = (same(getattr(one, name), getattr(two, name)) for name in names)
        return type(one) is type(two) and all(equal)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(np.all(np.asarray(one) == np.asarray(two)))


def problem_of(h, d=3, matrix=np.asarray):
    p = h.dim or 2
    agents = [
        d2.Agent(matrix(RNG.standard_normal((p, d))), d2.SquaredNorm(1.0 + i), d2.L1Norm(0.1))
        for i in range(3)
    ]
    return d2.Problem(agents, h=h)


def test_every_public_function_is_in_the_table():
    own_code = {"Smooth", "Proximable"}
    public = {name for name in known_functions() if hasattr(d2, name)}
    assert public - own_code <= {type(f).__name__ for f in FUNCTIONS}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("small", [True, False])
def test_function_round_trip(tmp_path, monkeypatch, function, small):
    monkeypatch.setattr("dual2.solving.storage.problem_folder.SMALL", 10**9 if small else 0)
    save_problem(tmp_path / "p", problem_of(function), d2.Network(nx.path_graph(3)))
    assert (tmp_path / "p" / "agents" / ("0.toml" if small else "0.npz")).exists()
    h = load_public(tmp_path / "p").h
    assert same(h, function)
    x = np.array([0.3, 0.6])
    assert same(h.value(x), function.value(x))


@pytest.mark.parametrize("matrix", [np.asarray, sp.csr_array, sp.csc_matrix])
@pytest.mark.parametrize("d", [3, 300])
def test_problem_round_trip(tmp_path, matrix, d):
    problem = problem_of(d2.SquaredLoss(RNG.standard_normal(4)), d, matrix)
    network = d2.Network(nx.path_graph(3), weights="metropolis")
    options = {"method": "MiD2A", "tol": 1e-6, "rho": 0.0, "restart": True}
    save_problem(tmp_path / "p", problem, network, options)
    again = load_problem(tmp_path / "p")
    assert again.options == options
    x = [RNG.standard_normal(d) for _ in range(3)]
    assert np.array_equal(again.problem.coupling(x), problem.coupling(x))
    assert again.problem.objective(x) == problem.objective(x)
    for one, two in zip(again.problem.agents, problem.agents, strict=True):
        assert sp.issparse(one.A) == sp.issparse(two.A)
        assert same(one.f, two.f)
        assert same(one.g, two.g)


@pytest.mark.parametrize(
    "graph",
    [
        nx.empty_graph(1),
        nx.cycle_graph(3),
        nx.relabel_nodes(nx.star_graph(3), dict(enumerate("dbca"))),
    ],
    ids=["single", "cycle", "labels"],
)
def test_network_round_trip(tmp_path, graph):
    network = d2.Network(graph, weights=RNG.uniform(0.1, 0.2, graph.number_of_edges()))
    agents = [d2.Agent(np.eye(2), d2.SquaredNorm(1.0)) for _ in graph]
    save_problem(tmp_path / "p", d2.Problem(agents, d2.Zero()), network)
    again = load_problem(tmp_path / "p").network
    assert again.nodes == network.nodes
    assert np.array_equal(again.edges, network.edges)
    assert np.array_equal(again.weights, network.weights)


def test_each_file_is_read_alone(tmp_path, saved):
    (alone,) = [tmp_path / "elsewhere.toml"]
    shutil.copy(saved / "agents" / "1.toml", alone)
    shutil.rmtree(saved / "agents")
    assert load_public(saved).network.n == 3
    assert same(load_agent(alone).f, d2.SquaredNorm(2.0))


def test_written_by_hand(tmp_path):
    (tmp_path / "agents").mkdir()
    (tmp_path / "problem.toml").write_text(
        'format = 1\nh = {function = "IndicatorPoint", b = [1]}\n'
        "network = {edges = [[2, 1], [0, 1]], weights = [0.2, 0.1]}\n"
    )
    for i in range(3):
        (tmp_path / "agents" / f"{i}.toml").write_text(
            f'format = 1\nA = [[1, {i}]]\nf = {{function = "SquaredNorm", weight = 1}}\n'
        )
    problem, network, options = load_problem(tmp_path)
    assert problem.dims == (2, 2, 2) or list(problem.dims) == [2, 2, 2]
    assert dict(zip(map(tuple, network.edges.tolist()), network.weights, strict=True)) == {
        (0, 1): 0.1,
        (1, 2): 0.2,
    }
    assert options == {}


@pytest.fixture
def saved(tmp_path):
    network = d2.Network(nx.path_graph(3))
    return save_problem(tmp_path / "p", problem_of(d2.SquaredLoss([1.0, 2.0])), network)


def test_nothing_is_overwritten_without_force(saved):
    problem, network, _ = load_problem(saved)
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(d2.Dual2Error, match="exists"):
        save_problem(saved, problem, network)
    two = d2.Problem(problem.agents[:2], problem.h)
    save_problem(saved, two, d2.Network(nx.path_graph(2)), force=True)
    assert load_problem(saved).problem.n == 2
    assert (saved / "notes.txt").read_text() == "mine"


def test_an_interrupted_save_is_not_a_problem(saved, monkeypatch):
    problem, network, _ = load_problem(saved)
    bomb = OSError("disk full")

    def explode(path, *rest, **named):
        raise bomb

    monkeypatch.setattr("dual2.solving.storage.problem_folder.write_document", explode)
    with pytest.raises(OSError, match="disk full"):
        save_problem(saved, problem, network, force=True)
    with pytest.raises(d2.ProblemError, match="not a problem folder"):
        load_problem(saved)


@pytest.mark.parametrize(
    "agent, place",
    [
        (d2.Agent(np.eye(2), d2.Smooth(lambda x: x, mu=1.0, L=1.0)), "agent 1, f.*function"),
        (d2.Agent(aslinearoperator(np.eye(2)), d2.SquaredNorm(1.0)), "agent 1, A.*Operator"),
    ],
)
def test_python_code_is_refused(tmp_path, agent, place):
    plain = d2.Agent(np.eye(2), d2.SquaredNorm(1.0))
    problem = d2.Problem([plain, agent], h=d2.Zero())
    with pytest.raises(d2.ProblemError, match=place):
        save_problem(tmp_path / "p", problem, d2.Network(nx.path_graph(2)))
    assert not (tmp_path / "p").exists()


def edit(old, new):
    def change(saved):
        file = saved / "problem.toml"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    return change


BROKEN = {
    "no problem.toml": (lambda s: (s / "problem.toml").unlink(), "not a problem folder"),
    "not TOML": (edit("format = 1", "format = "), "problem.toml is not valid TOML"),
    "format": (edit("format = 1", "format = 7"), "problem.toml has the format version 7"),
    "no h": (edit("[h]", "[hh]"), "lacks h and has the unknown entry hh"),
    "name": (edit("SquaredLoss", "SquareLoss"), "problem.toml.*Did you mean 'SquaredLoss'"),
    "argument": (
        edit("scale", "skale"),
        "problem.toml: h: Unknown entry of SquaredLoss 'skale'. Did you mean 'scale'",
    ),
    "no argument": (
        edit("y = [1.0, 2.0]\n", ""),
        "problem.toml: h: SquaredLoss lacks its entry 'y'",
    ),
    "data": (edit("[1.0, 2.0]", "[1.0, nan]"), "problem.toml"),
    "function": (edit('function = "SquaredLoss"\n', ""), "problem.toml.*'function'"),
    "graph": (edit("nodes = [0, 1, 2]", "nodes = [0, 1, 2, 3]"), "problem.toml.*not connected"),
    "weights": (edit("weights = [", "weights = [1.0, "), "2 edges and 3 weights"),
    "network entry": (edit("weights = ", "wieghts = "), "'wieghts'. Did you mean 'weights'"),
    "edges": (
        edit("[1, 2]", "[1, 3]"),
        r"edges\[1, 1\] is 3; expected 0 … 2, the position of an agent",
    ),
    "triples": (edit("[1, 2]", "[1, 2, 0]"), "problem.toml"),
    "array": (edit("[1.0, 2.0]", '{array = "y"}'), "array 'y'"),
    "missing": (lambda s: (s / "agents" / "1.toml").unlink(), "no file for agent 1"),
    "extra": (
        lambda s: shutil.copy(s / "agents" / "1.toml", s / "agents" / "3.toml"),
        "no node for 3.toml",
    ),
    "double": (
        lambda s: (s / "agents" / "1.npz").write_bytes(b""),
        r"both 1.npz and 1.toml",
    ),
    "broken": (
        lambda s: (s / "agents" / "1.toml").rename(s / "agents" / "1.npz"),
        r"1.npz cannot be read",
    ),
    "coupling": (
        lambda s: (s / "agents" / "1.toml").write_text(
            'format = 1\nA = [[1.0]]\nf = {function = "SquaredNorm", weight = 1.0}\n'
        ),
        "[Aa]gent 1",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_bad_folders(saved, case):
    change, message = BROKEN[case]
    change(saved)
    with pytest.raises(d2.Dual2Error, match=f"(?s){message}") as caught:
        load_problem(saved)
    assert str(saved) in str(caught.value)


def test_toml_text_round_trips(tmp_path):
    document = {
        "format": 1,
        "tiny": 5e-324,
        "third": 1 / 3,
        "no limit": -np.inf,
        "text": 'a "quoted" ρ\n',
        "on": True,
        "rows": [[1.0, 2.0], [3.0, 4.0]],
        "none": [],
        "table": {"nested": {"deeper": [{"x": 1}, {"y": 2.5}]}},
    }
    (tmp_path / "d.toml").write_text(to_toml(document), encoding="utf-8")
    assert json.dumps(read_document(tmp_path / "d.toml")) == json.dumps(document)


def test_encode_decode_is_exact():
    value = encode(d2.SquaredLoss(RNG.standard_normal(50), scale=1 / 3), "h")
    assert same(decode(value, "h"), d2.SquaredLoss(value["y"], scale=1 / 3))


def test_a_share_needs_only_its_own_files(tmp_path):
    original = [d2.Agent(RNG.standard_normal((2, 1 + i)), d2.SquaredNorm(1.0)) for i in range(3)]
    network = d2.Network(nx.path_graph(3))
    folder = save_problem(tmp_path / "p", d2.Problem(original, d2.SquaredLoss([1.0, 2.0])), network)
    for number in (0, 2):
        (folder / "agents" / f"{number}.toml").unlink()
    found = load_agents(folder, [1])
    assert list(found) == [1]
    assert np.array_equal(found[1].A, original[1].A)
    with pytest.raises(d2.ProblemError, match=r"Agent 2: .*agents has no file of it"):
        load_agents(folder, [1, 2])
    shutil.copy(folder / "agents" / "1.toml", folder / "agents" / "1.npz")
    with pytest.raises(d2.ProblemError, match=r"Agent 1: .*has 1.npz and 1.toml"):
        load_agents(folder, [1])


def test_digest_of_the_public_files(tmp_path):
    agents = [d2.Agent(np.eye(2), d2.SquaredNorm(1.0)) for _ in range(2)]
    parts = [d2.Problem(agents, d2.SquaredLoss([1.0, b])) for b in (2.0, 2.0, 3.0)]
    network = d2.Network([(0, 1)])
    hashes = [
        public_digest(save_problem(tmp_path / str(k), problem, network))
        for k, problem in enumerate(parts)
    ]
    assert hashes[0] == hashes[1] != hashes[2]
