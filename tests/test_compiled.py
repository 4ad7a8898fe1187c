"""The kernel cache: an edit anywhere is noticed, no directory is no error, one signature."""

import gc
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from llvmlite.binding import get_host_cpu_features
from numba.core.registry import cpu_target
from scipy.sparse.linalg import aslinearoperator

import dual2 as d2
import mpi_runs
from dual2 import kernel_cache, shipped_kernels
from dual2.compiling import Watcher, working_clock
from dual2.engine.local import SPARSE_A
from dual2.engine.pack import pack
from dual2.functions.kernels import prox_block, prox_separable
from dual2.methods.deadline import Deadline, OutOfTime
from dual2.methods.local.closed_form import find_curvatures, mark_triangle_entries
from dual2.methods.local.solver_kind import CLOSED_FORM_SOLVER, NUMPY_SOLVER
from dual2.methods.subsolvers.idapg_kernel import idapg_steps
from ready import PYTHON

HOST = get_host_cpu_features()
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
    """A package of two kernels in two files beside copies of the modules that compile them."""
    package = folder / "dual2"
    package.mkdir()
    for name in ("compiled", "compiling", "kernel_cache", "shipped_kernels"):
        shutil.copy(Path(kernel_cache.__file__).with_name(f"{name}.py"), package)
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


def blocked(folder: Path) -> Path:
    """A cache directory that cannot be made."""
    path = folder / "file"
    path.write_text("not a folder")
    return path


def test_without_a_writable_directory_kernels_still_compile(tmp_path):
    small_package(tmp_path)
    answer, messages = ask(tmp_path, blocked(tmp_path))
    assert answer == ["20.0", "0"]
    assert "cannot write its compiled kernels" in messages
    assert "DUAL2_CACHE_DIR" in messages
    assert messages.count("cannot write") == 1


def test_stamp_depends_on_compiled_sources_only(tmp_path):
    package = small_package(tmp_path)
    stamp = kernel_cache.source_stamp.__wrapped__
    before = stamp(package)
    (package / "words.py").write_text("A = 1\n")
    assert stamp(package) == before
    (package / "inner.py").rename(package / "other.py")
    assert stamp(package) != before


# -- kernels compiled ahead --------------------------------------------------------------------
def ship(folder: Path, cache: Path) -> Path:
    """The kernels of the small package in a cache, as a package of kernels would bring them."""
    ship, target = folder / "ship", cpu_target.target_context.codegen().magic_tuple()
    ship.mkdir()
    for file in cache.glob("*/*/*.nb?"):
        shutil.copy(file, ship)
    found = shipped_kernels.manifest(
        kernel_cache.source_stamp.__wrapped__(folder / "dual2"), target
    )
    found["features"] = [name for name in found["features"] if HOST.get(name)]
    (ship / "manifest.json").write_text(json.dumps(found))
    return ship


def test_shipped_kernels_are_used_if_they_fit_and_never_otherwise(tmp_path, monkeypatch):
    package = small_package(tmp_path)
    assert ask(tmp_path, tmp_path / "cache")[0] == ["20.0", "0"]
    monkeypatch.setenv("DUAL2_KERNELS", str(ship(tmp_path, tmp_path / "cache")))
    for cache in (tmp_path / "other", blocked(tmp_path)):
        assert ask(tmp_path, cache)[0] == ["20.0", "1"], "nothing compiled"
    assert not list((tmp_path / "other").glob("*/*/*"))
    (package / "inner.py").write_text(INNER.format("20.0"))
    assert ask(tmp_path, tmp_path / "other")[0] == ["210.0", "0"], "other sources"
    assert ask(tmp_path, tmp_path / "other")[0] == ["210.0", "1"]


@pytest.mark.parametrize(
    "change, reason",
    [
        ({}, ""),
        ({"stamp": "another"}, "other sources"),
        ({"python": "cpython-27"}, "another Python"),
        ({"system": "Plan9 vax"}, "another system"),
        ({"features": ["sse2", "quantum"]}, "lacks quantum"),
        ({"target": None}, "target is not known"),
        ({"python": None}, "another Python"),
    ],
)
def test_foreign_kernels_are_refused(tmp_path, monkeypatch, caplog, change, reason):
    for name in shipped_kernels.OVERRIDES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DUAL2_KERNELS", str(tmp_path))
    found = shipped_kernels.manifest("stamp", ("a", "b", "c")) | {"features": []} | change
    (tmp_path / "manifest.json").write_text(json.dumps(found))
    with caplog.at_level("INFO", "dual2"):
        assert (shipped_kernels.find_shipped("stamp") is None) == bool(reason)
    assert reason in caplog.text
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert shipped_kernels.find_shipped("stamp") is None
    monkeypatch.setenv("DUAL2_KERNELS", "off")
    assert shipped_kernels.find_shipped("stamp") is None


@pytest.mark.parametrize("text", [None, "{", "[]", "{}"])
def test_a_manifest_that_cannot_be_read_is_no_error(tmp_path, monkeypatch, text):
    monkeypatch.setenv("DUAL2_KERNELS", str(tmp_path))
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    assert shipped_kernels.find_shipped("stamp") is None


# -- while kernels compile ---------------------------------------------------------------------
def compiling(module: str) -> SimpleNamespace:
    function = SimpleNamespace(__module__=module)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


def test_the_collector_pauses_and_one_line_says_why(monkeypatch, capsys):
    monkeypatch.setattr("dual2.compiling.SOON", -1.0)
    ours, helper, foreign = compiling("dual2.a"), compiling("numba.b"), compiling("theirs")
    watcher = Watcher()
    watcher.on_start(foreign)
    assert gc.isenabled()
    watcher.on_start(ours)
    watcher.on_start(helper)
    assert not gc.isenabled()
    watcher.on_end(helper)
    assert not gc.isenabled()
    watcher.on_end(ours)
    watcher.on_end(foreign)
    assert gc.isenabled()
    assert capsys.readouterr() == ("", ""), "no terminal"
    for wanted, lines in ((True, 1), (False, 0), (None, 0)):
        watcher = Watcher()
        watcher.shown = wanted
        for _ in range(2):
            watcher.on_start(ours)
            watcher.on_end(ours)
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", lines)
        assert ("Compiling" in said.err) == bool(lines)


def test_limits_of_time_leave_compiling_out(monkeypatch):
    """A run of which half a second of work is left goes on after an hour of compiling."""
    watcher, now = Watcher(), [100.0]
    monkeypatch.setattr("dual2.compiling.WATCHER", watcher)
    for clock in ("perf_counter", "monotonic"):
        monkeypatch.setattr(f"time.{clock}", lambda: now[0])
    deadline = Deadline(working_clock() + 0.5)
    watcher.on_start(compiling("dual2"))
    now[0] += 3600.0
    deadline.look()
    watcher.on_end(compiling("dual2"))
    deadline.look()
    now[0] += 1.0
    with pytest.raises(OutOfTime):
        deadline.look()


def test_moments_of_compiling_are_not_worth_a_word(capsys):
    watcher = Watcher()
    watcher.shown = True
    watcher.on_start(compiling("dual2"))
    watcher.on_end(compiling("dual2"))
    assert capsys.readouterr().err == ""


# -- only what a problem needs -------------------------------------------------------------------
@pytest.mark.parametrize(
    "g, kernel", [(d2.L1Norm(1.0), prox_separable), (d2.L2Norm(1.0), prox_block)]
)
def test_a_block_leads_to_the_smallest_prox_kernel_that_knows_its_kinds(g, kernel):
    agents = [d2.Agent(DENSE, d2.SquaredNorm(1.0), g)]
    block = pack(d2.Problem(agents, d2.SquaredLoss([1.0, 2.0, 3.0]))).block
    (found,) = kernel.overloads.values()
    assert block.prox == found.library.get_pointer_to_function(found.fndesc.llvm_func_name)


@pytest.mark.parametrize("flags", [0, 1, 4, 5])
def test_the_separable_prox_is_that_of_all_kinds(flags):
    v, params = RNG.standard_normal(3), np.abs(RNG.standard_normal(21))
    params[6:9], params[15:18], params[18:21] = -params[6:9], -params[15:18], 2.0
    found, expected, work = np.zeros(3), np.zeros(3), np.zeros(17)
    prox_separable(0, flags, 0.7, v, found, params, work)
    prox_block(0, flags, 0.7, v, expected, params, work)
    np.testing.assert_array_equal(found, expected)
    assert found.any()


def test_marks_and_curvatures_are_those_of_the_agents_columns():
    columns = [np.array([0, 3]), np.array([2]), np.array([], np.int64), np.array([1, 3])]
    ends = np.cumsum([0, *map(len, columns)])
    block = SimpleNamespace(
        akind=np.array([SPARSE_A, SPARSE_A]),
        place=np.column_stack([ends[:-1], ends[1:]]),
        sidx=np.concatenate(columns),
        xptr=np.array([0, 2, 4]),
        coef=np.array([[3.0, 1.0, 5.0, 2.0], *np.zeros((4, 4)), [0, 1, 0, 0], [1, 1, 9, 1]]),
    )
    marks, mu, top = np.zeros(10, np.int64), np.zeros(2), np.zeros(2)
    mark_triangle_entries(block, np.zeros(2, np.int64), marks)
    pairs = {(int(a), int(b)) for rows in columns for a in rows for b in rows if b <= a}
    assert set(np.flatnonzero(marks)) == {a * (a + 1) // 2 + b for a, b in pairs}
    find_curvatures(block, mu, top)
    assert (mu.tolist(), top.tolist()) == ([3.0, 2.0], [3.0, 5.0])
    mark_triangle_entries(block, np.array([CLOSED_FORM_SOLVER, NUMPY_SOLVER]), marks)
    assert marks.all()


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
