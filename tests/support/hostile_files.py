"""An honest file for every reader of files, and what a reader must do with a broken one."""

import tracemalloc
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import dual2 as d2
from dual2.bench.case import Case
from dual2.bench.config import read_config
from dual2.bench.store import Store, StoredRun
from dual2.errors import Dual2Error
from dual2.processes.checkpoints import Checkpoints
from dual2.runtime.assignment import given_partition
from dual2.solving.storage import load_problem, load_public
from dual2.solving.storage.codec import encode_agent
from dual2.solving.storage.documents import write_document

ROOM = 12 * 2**20
"""Bytes that a reader may need beside twice the file: buffers, the parser's own."""

CONFIG = """
title = "Two"
[[problems]]
build = "elastic_net"
n = 4
kappa_f = [1, 10]
[[networks]]
build = "path"
[[methods]]
method = "iD2A"
"""


def read_agents(file):
    return load_problem(file.parents[1])


def read_public(file):
    return load_public(file.parent)


def read_checkpoint(file):
    return Checkpoints(file.parent, 0, 1, [0, 1, 2], 5.0).load(70)


READERS = {
    "agent.npz": ("p/agents/0.npz", read_agents),
    "problem.npz": ("p/problem.npz", read_public),
    "result": ("result.npz", d2.Result.load),
    "checkpoint": ("rank-0.70.npz", read_checkpoint),
    "problem.toml": ("p/problem.toml", read_public),
    "agent.toml": ("p/agents/1.toml", read_agents),
    "config": ("bench.toml", read_config),
    "record": ("store/runs/{key}.json", lambda file: Store(file.parents[1]).load(file.stem)),
    "trace": ("store/runs/{key}.csv", lambda file: Store(file.parents[1]).load(file.stem)),
    "plan": ("store/plan.json", lambda file: Store(file.parent).groups()),
    "partition": ("owners.txt", lambda file: given_partition(file, 3, 2)),
}
ZIPPED = ["agent.npz", "problem.npz", "result", "checkpoint"]
TOML = ["problem.toml", "agent.toml", "config"]


def honest_files(root):
    """One honest file for every reader, as bytes by path."""
    rng = np.random.default_rng(0)
    wide = sp.random_array((250, 300), density=0.01, rng=rng, format="csr")
    agents = [
        d2.Agent(wide, d2.SquaredNorm(1.0)),
        d2.Agent(sp.csr_array(np.eye(250, 1)), d2.SquaredNorm(1.0)),
        d2.Agent(rng.standard_normal((250, 3)), d2.SquaredNorm(2.0), d2.L1Norm(0.1)),
    ]
    problem = d2.Problem(agents, d2.SquaredLoss(rng.standard_normal(250)))
    network = d2.Network(nx.path_graph(3))
    d2.save_problem(root / "p", problem, network, {"tol": 1e-6})
    (root / "p/agents/1.npz").unlink()
    document = {"format": 1} | encode_agent(agents[1], "agent 1")
    write_document(root / "p/agents/1.toml", document, limit=np.inf)
    result = d2.solve(problem, network, method="iD2A", max_rounds=70, progress=False)
    result.save(root / "result.npz")
    Checkpoints(root, 0, 1, [0, 1, 2], 5.0).save(70, result.state)
    (root / "bench.toml").write_text(CONFIG)
    case = Case("exp1", "iD2A", "exp1")
    store = Store(root / "store")
    store.save(StoredRun(case, "CONVERGED", trace={"rounds": np.arange(3), "kkt": np.ones(3)}))
    store.plan([case])
    (root / "owners.txt").write_text("0 0 1\n")
    files = {str(f.relative_to(root)): f.read_bytes() for f in root.rglob("*") if f.is_file()}
    return SimpleNamespace(files=files, key=case.key)


def placed(honest, folder, reader):
    """The honest files in a folder, with the path of the reader's own."""
    for name, data in honest.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    name, read = READERS[reader]
    return folder / name.format(key=honest.key), read


@contextmanager
def modest(folder, size):
    """Nothing is written, and memory stays within twice ``size`` (and the room of a reader)."""
    before = sorted(folder.rglob("*"))
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sorted(folder.rglob("*")) == before
    assert not Path("executed").exists()
    assert peak <= 2 * size + ROOM, f"{peak} bytes for a file of {size}"


def refused(folder, file, read, what="", size=None):
    size = size if size is not None else (file.stat().st_size if file.is_file() else 0)
    with modest(folder, size), pytest.raises(Dual2Error) as caught:
        read(file)
    said = str(caught.value)
    assert file.stem in said, said
    assert what in said, said
