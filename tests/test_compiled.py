"""The kernel cache: an edit anywhere is noticed, no directory is no error, one signature."""

import shutil
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
import mpi_runs
from dual2 import compiled
from dual2.methods.subsolvers.idapg_kernel import idapg_steps
from ready import PYTHON

INNER = "from dual2.compiled import compiled\n\n\n@compiled\ndef inner(x):\n    return x + {}\n"
OUTER = (
    "from dual2.compiled import compiled\nfrom dual2.inner import inner\n\n\n"
    "@compiled\ndef outer(x):\n    return 10.0 * inner(x)\n"
)
ASK = """
import os, sys
folder, os.environ["DUAL2_CACHE_DIR"] = sys.argv[1:]
sys.dont_write_bytecode = True  # an edit in the same second would not be seen
for name in [name for name in sys.modules if name.partition(".")[0] == "dual2"]:
    del sys.modules[name]
sys.path.insert(0, folder)
from dual2.outer import outer
print(outer(1.0), sum(outer.stats.cache_hits.values()))
"""
"""What a process does with the package in a folder, whatever it has loaded."""


def small_package(folder: Path) -> Path:
    """A package of two kernels in two files beside a copy of compiled.py."""
    package = folder / "dual2"
    package.mkdir()
    shutil.copy(compiled.__file__, package / "compiled.py")
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text(INNER.format("1.0"))
    (package / "outer.py").write_text(OUTER)
    return package


def ask(folder: Path, cache: Path) -> tuple[list[str], str]:
    done = mpi_runs.run([*PYTHON, "-c", ASK, str(folder), str(cache)], cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


def test_an_edit_in_a_called_kernel_is_noticed(tmp_path):
    package, cache = small_package(tmp_path), tmp_path / "cache"
    assert ask(tmp_path, cache)[0] == ["20.0", "0"]
    assert ask(tmp_path, cache)[0] == ["20.0", "1"]
    (package / "inner.py").write_text(INNER.format("20.0"))
    assert ask(tmp_path, cache)[0] == ["210.0", "0"]
    assert ask(tmp_path, cache)[0] == ["210.0", "1"]


PAIR = "from typing import NamedTuple\n\n\nclass Pair(NamedTuple):\n    x: float\n    y: float\n"
BY_PAIR = OUTER.replace("inner(x)", "inner(x.y)").replace("outer", "kernel") + (
    "\n\nfrom dual2.{0} import Pair\n\n\ndef outer(x):\n    return kernel(Pair(0.0, x))\n\n\n"
    "outer.stats = kernel.stats\n"
)


def test_kernels_of_types_that_have_moved_are_no_obstacle(tmp_path):
    package, cache = small_package(tmp_path), tmp_path / "cache"
    for module in ("shape", "moved"):
        (package / f"{module}.py").write_text(PAIR)
        (package / "outer.py").write_text(BY_PAIR.format(module))
        assert ask(tmp_path, cache)[0] == ["20.0", "0"]
        assert ask(tmp_path, cache)[0] == ["20.0", "1"]
        (package / "shape.py").unlink(missing_ok=True)
    assert len(list(cache.glob("*/*"))) == 1, "older kernels are removed"


def test_without_a_writable_directory_kernels_still_compile(tmp_path):
    small_package(tmp_path)
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    answer, messages = ask(tmp_path, blocked)
    assert answer == ["20.0", "0"]
    assert "cannot write its compiled kernels" in messages
    assert "DUAL2_CACHE_DIR" in messages
    assert messages.count("cannot write") == 1


def test_stamp_depends_on_compiled_sources_only(tmp_path):
    package = small_package(tmp_path)
    stamp = compiled.source_stamp.__wrapped__
    before = stamp(package)
    (package / "words.py").write_text("A = 1\n")
    assert stamp(package) == before
    (package / "inner.py").rename(package / "other.py")
    assert stamp(package) != before


# -- one signature ------------------------------------------------------------------------------
RNG = np.random.default_rng(7)
DENSE = RNG.standard_normal((3, 2))
MATRICES = {
    "dense": DENSE,
    "Fortran": np.asfortranarray(DENSE),
    "integers": np.array([[1, 2], [0, 1], [3, 0]]),
    "sparse": sp.csr_array(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])),
    "operator": aslinearoperator(DENSE),
}
SMOOTH = {
    "norm": d2.SquaredNorm(2.0, 1.0),
    "diagonal": d2.Quadratic([1.0, 2.0]),
    "dense": d2.Quadratic([[2.0, 1.0], [1.0, 2.0]], [1.0, 0.0]),
    "logistic": d2.LogisticRegression(DENSE, [1.0, -1.0, 1.0], ridge=1.0),
    "user": d2.Smooth(lambda x: 2 * x, 2.0, 2.0, value=lambda x: x @ x),
}
COUPLINGS = {
    "clip": (d2.IndicatorPoint([0.1, 0.2, 0.3]), {}),
    "prox": (d2.LogisticLoss([1.0, -1.0, 1.0]), {}),
    "smooth": (d2.SquaredLoss([1.0, 0.0, 2.0]), {"mapping": "smooth"}),
    "conjugate": (
        d2.ConjugateSmooth(
            lambda w: w, 1.0, 1.0, value=lambda z: z @ z / 2, conjugate_value=lambda w: w @ w / 2
        ),
        {},
    ),
    "user": (d2.Proximable(lambda v, t: v / (1 + t), value=lambda z: z @ z / 2), {}),
    "stacked": (d2.Stacked([d2.L2Norm(1.0), d2.PoissonLoss([2.0])], [2, 1]), {}),
}


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_loop_has_one_signature(threads, monkeypatch):
    monkeypatch.setenv("DUAL2_THREADS", threads)
    network = d2.Network(nx.path_graph(3))

    def run(h=COUPLINGS["clip"][0], A=DENSE, f=SMOOTH["norm"], n=3, **wishes):
        agents = [d2.Agent(A, f, d2.L1Norm(0.1)) for _ in range(n)]
        where = network if n == 3 else d2.Network(nx.path_graph(n))
        d2.solve(d2.Problem(agents, h), where, max_rounds=20, **{"method": "iD2A"} | wishes)

    for A in MATRICES.values():
        run(A=A, h=d2.SquaredLoss([1.0, 2.0, 3.0]))
    for f in SMOOTH.values():
        run(f=f)
    for h, wishes in COUPLINGS.values():
        run(h, **wishes)
    run(method="MiD2A")
    run(d2.SquaredLoss([1.0, 2.0, 3.0]), rho=0)
    run(n=1)
    run(rho=3, eta=0.05)
    run(start=(np.zeros(6, dtype=np.float32), [0, 0, 1]))
    run(accuracy="paper", constants="paper", h=d2.SquaredLoss([1.0, 2.0, 3.0]))
    assert len(idapg_steps.signatures) == 1
