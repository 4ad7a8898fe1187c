"""Files that can be read and say what cannot be: every reader names the file and the entry."""

import json

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.errors import Dual2Error
from dual2.files import read_arrays, write_arrays
from dual2.solving.storage.answers import read_result
from hostile_files import CONFIG, honest_files, placed, refused


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return honest_files(tmp_path_factory.mktemp("honest"))


# -- what the numbers mean ---------------------------------------------------------------------
SPARSE = {
    "sparse": "csr",
    "shape": [2, 3],
    "data": [1.0, 2.0],
    "indices": [0, 2],
    "indptr": [0, 1, 2],
}

WRONG_SPARSE = {
    "index beyond": {"indices": [0, 99]},
    "index below": {"indices": [0, -1]},
    "indices that are no numbers": {"indices": ["a", "b"]},
    "indices that are real": {"indices": [0.0, 1.5]},
    "indices in rows": {"indices": [[0, 2]]},
    "too few indices": {"indices": [0]},
    "too many indices": {"indices": [0, 2, 1]},
    "pointers from 1": {"indptr": [1, 1, 2]},
    "pointers that fall": {"indptr": [0, 3, 2]},
    "pointers beyond": {"indptr": [0, 1, 9]},
    "pointers below": {"indptr": [0, -1, 2]},
    "too few pointers": {"indptr": [0, 2]},
    "no pointers": {"indptr": []},
    "real pointers": {"indptr": [0.0, 1.0, 2.0]},
    "a wide shape": {"shape": [2, 10**15]},
    "a long shape": {"shape": [10**15, 3]},
    "a negative shape": {"shape": [2, -3]},
    "a real shape": {"shape": [2.0, 3.0]},
    "one number as shape": {"shape": 6},
    "three numbers as shape": {"shape": [2, 3, 1]},
    "another format": {"sparse": "coo"},
    "words as data": {"data": ["1.0", "2.0"]},
    "tables as data": {"data": [{}, {}]},
    "an unknown entry": {"extra": 1},
}


@pytest.mark.parametrize("case", WRONG_SPARSE)
@pytest.mark.parametrize("stored", ["toml", "npz"])
def test_sparse_matrices(honest, tmp_path, case, stored):
    """Wrong indices were segmentation faults, or entries dropped in silence."""
    file, read = placed(honest, tmp_path, "agent.toml")
    table = SPARSE | WRONG_SPARSE[case]
    arrays = {}
    if stored == "npz":
        for name in ("data", "indices", "indptr"):
            arrays[name], table[name] = np.array(table[name]), {"array": name}
        if any(array.dtype.kind == "O" for array in arrays.values()):
            pytest.skip("such arrays cannot be in an npz file, see test_archives")
    text = f'format = 1\nA = {toml(table)}\nf = {{function = "SquaredNorm", weight = 1.0}}\n'
    file.unlink()
    if stored == "npz":
        file = file.with_suffix(".npz")
        write_arrays(file, {"document": np.array(text)} | arrays)
    else:
        file.write_text(text)
    refused(tmp_path, file, read)


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def test_a_sparse_matrix_that_would_be_written_out(honest, tmp_path):
    """A short table in the place of a dense matrix may not stand for gigabytes."""
    file, read = placed(honest, tmp_path, "agent.toml")
    rows = 2000
    table = {
        "sparse": "csr",
        "shape": [rows, 10**6],
        "data": [],
        "indices": [],
        "indptr": [0] * (rows + 1),
    }
    f = f'{{function = "LeastSquares", M = {toml(table)}, b = 0.0}}'
    file.write_text(f"format = 1\nA = [[1.0]]\nf = {f}\n")
    refused(tmp_path, file, read, "f.M")


PUBLIC = {"function": "SquaredLoss", "y": [1.0, 2.0]}
WRONG_PUBLIC = {
    "h is a number": ("h", 3),
    "h is a list": ("h", [PUBLIC]),
    "h of another name": ("h", {"function": "Nothing"}),
    "h named by a list": ("h", {"function": ["L1Norm"]}),
    "h of text": ("h", PUBLIC | {"y": ["1.0", "2.0"]}),
    "h of one text": ("h", PUBLIC | {"y": "3"}),
    "h of truth": ("h", PUBLIC | {"scale": True}),
    "h of ragged rows": ("h", PUBLIC | {"y": [[1.0], [1.0, 2.0]]}),
    "h of words and numbers": ("h", PUBLIC | {"y": [1.0, "2.0"]}),
    "an argument that is not": ("h", PUBLIC | {"__class__": 3}),
    "an array that is not there": ("h", PUBLIC | {"y": {"array": "y"}}),
    "an array named by a list": ("h", PUBLIC | {"y": {"array": ["y"]}}),
    "a function of nothing": ("h", {"function": "Shifted", "of": 3}),
    "network is a number": ("network", 3),
    "network is a list": ("network", [[0, 1]]),
    "network without edges": ("network", {"nodes": [0, 1, 2]}),
    "edges of real numbers": ("network", {"edges": [[0.7, 1.2], [1.0, 2.0]]}),
    "edges of words": ("network", {"edges": [["a", "b"]]}),
    "edges of truth": ("network", {"edges": [[True, False]]}),
    "edges in one row": ("network", {"edges": [0, 1]}),
    "edges that are ragged": ("network", {"edges": [[0, 1], [2]]}),
    "edges below": ("network", {"edges": [[0, -1], [1, 2]]}),
    "edges far beyond": ("network", {"edges": [[0, 10**15]]}),
    "nodes that are a number": ("network", {"edges": [[0, 1]], "nodes": 2}),
    "nodes that are lists": ("network", {"edges": [[0, 1]], "nodes": [[0], [1]]}),
    "the same node twice": ("network", {"edges": [[0, 1]], "nodes": ["a", "a"]}),
    "weights of words": ("network", {"edges": [[0, 1]], "weights": ["0.5"]}),
    "weights of nothing": ("network", {"edges": [[0, 1]], "weights": {"a": 1}}),
    "an unknown rule": ("network", {"edges": [[0, 1], [1, 2]], "weights": "heavy"}),
    "options are a number": ("options", 3),
    "options are a list": ("options", ["tol"]),
    "options: problem": ("options", {"problem": "x"}),
    "options: network": ("options", {"network": 3}),
    "options: checkpoints": ("options", {"checkpoints": 3}),
    "options: start": ("options", {"start": [1.0]}),
    "options: callback": ("options", {"callback": "print"}),
    "options: runtime": ("options", {"runtime": "mpi"}),
    "options: a method that is a number": ("options", {"method": 3}),
    "options: tol of text": ("options", {"tol": "1e-8"}),
    "options: truth as number": ("options", {"max_rounds": True}),
    "options: number as truth": ("options", {"reduce": 1}),
    "options: a list of seeds": ("options", {"seed": [1]}),
    "format of text": ("format", "1"),
}


@pytest.mark.parametrize("case", WRONG_PUBLIC)
def test_public_parts(honest, tmp_path, case):
    file, read = placed(honest, tmp_path, "problem.toml")
    (file.parent / "problem.npz").unlink()
    document = {"format": 1, "h": PUBLIC, "network": {"edges": [[0, 1], [1, 2]]}}
    name, value = WRONG_PUBLIC[case]
    lines = [f"{key} = {toml(part)}\n" for key, part in (document | {name: value}).items()]
    file.write_text("".join(lines))
    refused(tmp_path, file, read)


def test_an_array_serves_once(honest, tmp_path):
    """Otherwise a thousand references to one array would be a thousand copies."""
    file, read = placed(honest, tmp_path, "problem.toml")
    write_arrays(file.with_suffix(".npz"), {"y": np.ones(10)})
    loss = {"function": "SquaredLoss", "y": {"array": "y"}}
    h = {"function": "Stacked", "functions": [loss, loss], "sizes": [10, 10]}
    file.write_text(f"format = 1\nh = {toml(h)}\nnetwork = {{edges = [[0, 1]]}}\n")
    refused(tmp_path, file, read, "second time")


# -- results and checkpoints ---------------------------------------------------------------------
def changed(file, **arrays):
    old = read_arrays(file)
    new = {name: value for name, value in (old | arrays).items() if value is not None}
    write_arrays(file, new)


NAN = float("nan")
WRONG_META = {
    "format": 7,
    "status": "GREAT",
    "counts": {"rounds": "many"},
    "certificate": [1.0],
    "objective": [1.0],
    "parameters": {"tol": 3},
    "seconds": "long",
    "explanation": 3,
    "versions": None,
}
WRONG_ARRAYS = {
    "meta": np.array("[1]"),
    "x": np.full(304, NAN),
    "sizes": np.array([1, 2, 10**12]),
    "duals": np.zeros((3, 7)),
    "dual": np.full(250, NAN),
    "y": np.zeros(3),
    "owned": np.array([-1, 0, 1]),
    "trace/kkt": np.ones(2),
    "trace/rounds": np.array("many"),
    "state/inner_lam": np.full((2, 3, 250), NAN),
    "other": np.ones(3),
}


@pytest.mark.parametrize("name", WRONG_META)
def test_descriptions_of_results(honest, tmp_path, name):
    file, read = placed(honest, tmp_path, "result")
    meta = json.loads(str(read_arrays(file)["meta"]))
    for value in (WRONG_META[name], NAN, {"a": [10**400]}):
        write_arrays(file, read_arrays(file) | {"meta": np.array(json.dumps(meta | {name: value}))})
        if name in ("objective", "seconds") and value is NAN:
            continue
        refused(tmp_path, file, read)
    short = {key: value for key, value in meta.items() if key != name}
    write_arrays(file, read_arrays(file) | {"meta": np.array(json.dumps(short))})
    refused(tmp_path, file, read)


@pytest.mark.parametrize("name", WRONG_ARRAYS)
def test_arrays_of_results(honest, tmp_path, name):
    file, read = placed(honest, tmp_path, "result")
    changed(file, **{name: WRONG_ARRAYS[name]})
    refused(tmp_path, file, read, name.removeprefix("meta").removeprefix("owned"))


@pytest.mark.parametrize("name", ["format", "ranks", "owned", "state/inner_lam", "more"])
def test_checkpoints(honest, tmp_path, name):
    file, read = placed(honest, tmp_path, "checkpoint")
    changed(file, **{name: np.full(3, NAN)})
    refused(tmp_path, file, read)


def test_states_that_do_not_fit_are_not_continued():
    """NaN in a state was the answer, a wrong shape an access outside of an array."""
    agents = [d2.Agent(np.eye(2), d2.SquaredNorm(1.0 + i)) for i in range(3)]
    problem, network = d2.Problem(agents, d2.SquaredLoss([1.0, 2.0])), d2.Network(nx.path_graph(3))
    wishes = {"max_rounds": 20, "tol": 1e-14, "progress": False, "record": False, "method": "iD2A"}
    state = d2.solve(problem, network, **wishes).state
    assert d2.solve(problem, network, start=state, **wishes).counts.rounds == 20
    wrong = {
        "inner_lam": [np.full_like(state["inner_lam"], NAN), np.zeros((1, 1, 2))],
        "inner_x": [np.zeros(5), np.full_like(state["inner_x"], np.inf)],
        "driver_test": [-3, 10.5, 2**63 - 1],
        "rounds": [np.arange(2)],
        "outer_k": ["three"],
        "driver_anchor": [np.zeros(7)],
        "best_x": [np.zeros(50)],
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(Dual2Error, match="cannot be continued"):
                d2.solve(problem, network, start=state | {name: value}, **wishes)
    lacking = {name: value for name, value in state.items() if name != "outer_z"}
    with pytest.raises(Dual2Error, match="outer_z"):
        d2.solve(problem, network, start=lacking, **wishes)
    with pytest.raises(Dual2Error, match="checkpoints = 3 found"):
        d2.solve(problem, network, checkpoints=3)


# -- stores, configs, partitions -------------------------------------------------------------------
DEEP, MANY = 10**5 * "[", list(range(1, 400))


@pytest.mark.parametrize(
    "reader, content",
    [
        ("record", "[]"),
        ("record", '{"format": 1}'),
        ("record", DEEP),
        ("record", '{"format": 1, "trace": {"columns": 3, "rows": 1}}'),
        ("record", '{"a": 1' + 5000 * "0" + "}"),
        ("trace", "rounds,kkt\n1,2\n"),
        ("trace", "rounds,kkt\n" + 3 * f"{'9' * 40},1\n"),
        ("trace", "rounds,kkt\n" + 200_000 * "1"),
        ("trace", 'rounds,kkt\n"' + 200_000 * "1"),
        ("plan", "3"),
        ("plan", '{"groups": [1]}'),
        ("plan", '{"groups": {"a": ["../../../etc/passwd"]}}'),
        ("plan", '{"groups": {"a": 3}}'),
        ("plan", DEEP),
        ("partition", "0 0 x"),
        ("partition", "0 0 1" + 5000 * "0"),
        ("partition", "0 0 1" + 400 * "0"),
        ("partition", "0.5 0 1"),
        ("partition", ""),
        ("config", CONFIG.replace("n = 4", "n = 1000000000000")),
        ("config", CONFIG.replace('"path"', '"complete"').replace("n = 4", "n = 100000")),
        ("config", CONFIG.replace("n = 4", "n = [4.5]")),
        ("config", CONFIG.replace("[1, 10]", str([[k] for k in range(9)]))),
        ("config", CONFIG.replace("n = 4", f"n = {MANY}\np = {MANY}")),
        ("config", CONFIG.replace('"elastic_net"\nn = 4', '"folder"\npath = "/dev/zero"')),
    ],
)
def test_stores_configs_and_partitions(honest, tmp_path, reader, content):
    file, read = placed(honest, tmp_path, reader)
    file.write_text(content)
    refused(tmp_path, file, read)


def test_answers_of_files_are_read_with_care():
    agents = [d2.Agent([[1.0]], d2.SquaredNorm(1.0)) for _ in range(2)]
    problem, network = d2.Problem(agents, d2.IndicatorPoint([3.0])), d2.Network([(0, 1)])
    document = json.loads(json.dumps(d2.solve(problem, network).as_dict()))
    assert read_result(document, 2).status == "CONVERGED"
    for name, value in {
        "x": [[10**400], [1.0]],
        "dual": [NAN],
        "y": "3",
        "counts": {"rounds": 1.5},
        "status": 3,
        "certificate": {"kkt": 0.0, "unknown": 1},
        "objective": None,
    }.items():
        with pytest.raises(Dual2Error, match="not a result of dual2 solve"):
            read_result(document | {name: value}, 2)
    with pytest.raises(Dual2Error, match="not a result"):
        read_result([1, 2], 2)


def test_complex_numbers_are_refused():
    network = d2.Network([(0, 1)])
    for f in (
        d2.Smooth(lambda x: x * (1 + 0j), mu=1.0, L=1.0),
        d2.Smooth(lambda x: x, mu=1.0, L=1.0, value=lambda x: 0.5 * (x @ x) + 0j),
    ):
        agents = [d2.Agent([[1.0]], f), d2.Agent([[1.0]], d2.SquaredNorm(1.0))]
        with pytest.raises(Dual2Error, match="complex"):
            d2.solve(d2.Problem(agents, d2.IndicatorPoint([1.0])), network)
    with pytest.raises(Dual2Error, match="complex"):
        d2.SquaredNorm(np.array([1.0 + 2.0j]))
