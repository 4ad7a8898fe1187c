"""``solve`` from a driver: workers of threads, Ray and Dask give the answer of one process."""

import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import dual2 as d2
from clusters.problems import NETWORK, FolderOfAgents, elastic_net, slow_problem
from dual2.clusters import Dask, Ray, Threads
from dual2.errors import CapabilityError, NetworkError, ProblemError
from dual2.runtime import RemoteProblem
from dual2.runtime.cluster import WorkerLost

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of the engines' own sockets
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ENGINES = {"threads": (None, Threads), "ray": ("ray", Ray), "dask": ("distributed", Dask)}


@pytest.fixture(scope="module", params=list(ENGINES))
def cluster(request):
    """Two workers of an engine, skipped with a reason where its package is not installed."""
    package, make = ENGINES[request.param]
    if package is not None:
        pytest.importorskip(package, reason=f"needs the package {package}")
    with own_modules_found(), make(2) as found:
        yield found


@contextmanager
def own_modules_found():
    """Processes started meanwhile import the modules of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
        yield


@pytest.mark.parametrize("method", ["auto", "iD2A"])
def test_the_answer_has_the_bits_of_one_process(cluster, method):
    problem = elastic_net()
    here = d2.solve(problem, NETWORK, method=method)
    there = d2.solve(problem, NETWORK, method=method, runtime=cluster)
    assert there.status == "CONVERGED" and there.counts == here.counts
    assert there.owned == list(range(6)) and np.array_equal(there.duals, here.duals)
    for one, other in zip(here.x, there.x, strict=True):
        assert np.array_equal(one, other)


def test_data_is_placed_once_and_answers_stay_in_the_workers(cluster, tmp_path):
    whole = elastic_net(1)
    agents = FolderOfAgents(tmp_path, whole)
    problem = RemoteProblem(agents, whole.h, n=6, save=agents.save)
    first = d2.solve(problem, NETWORK, runtime=cluster)
    again = d2.solve(problem, NETWORK, runtime=cluster, tol=1e-6)
    assert first.status == again.status == "CONVERGED"
    assert first.x == [] and first.duals.shape[0] == 0 and first.state == {}
    readers = agents.readers()
    assert sorted(i for i, _ in readers) == list(range(6))
    if not isinstance(cluster, Threads):
        assert os.getpid() not in {pid for _, pid in readers}
    here = d2.solve(whole, NETWORK, tol=1e-6)
    for i in range(6):
        assert np.array_equal(np.load(tmp_path / f"answer{i}.npy"), here.x[i])


def test_a_callback_in_the_driver_stops_all_workers(cluster):
    seen = []

    def look(info):
        seen.append(info["rounds"])
        return True

    options = {"tol": 1e-300, "max_rounds": 10**7, "time_limit": 60.0}
    result = d2.solve(
        slow_problem(), NETWORK, method="iD2A", runtime=cluster, callback=look, **options
    )
    assert seen and result.status in ("INTERRUPTED", "STALLED") and len(result.x) == 6


def test_a_run_goes_on_from_an_earlier_result(cluster):
    problem = elastic_net(2)
    short = d2.solve(problem, NETWORK, method="iD2A", runtime=cluster, max_rounds=100)
    assert short.status == "MAX_ROUNDS"
    whole = d2.solve(problem, NETWORK, method="iD2A")
    rest = d2.solve(problem, NETWORK, method="iD2A", runtime=cluster, start=short)
    assert rest.status == "CONVERGED" and rest.counts == whole.counts
    for one, other in zip(whole.x, rest.x, strict=True):
        assert np.array_equal(one, other)


def test_an_error_in_a_worker_is_raised_in_the_driver_and_the_next_run_works(cluster):
    def load(i):
        if i == 5:
            raise ProblemError("agents/5.parquet: column 'price' is missing.")
        return d2.Agent([[1.0]], d2.SquaredNorm(1.0))

    broken = RemoteProblem(load, d2.IndicatorPoint([3.0]), n=6)
    with pytest.raises(ProblemError, match="column 'price'"):
        d2.solve(broken, NETWORK, runtime=cluster)
    assert d2.solve(elastic_net(), NETWORK, runtime=cluster).status == "CONVERGED"


def test_a_load_that_gives_no_agent_is_named(cluster):
    wrong = RemoteProblem(lambda i: [[1.0]], d2.IndicatorPoint([3.0]), n=6)
    with pytest.raises(ProblemError, match=r"load\(\d\) gave list"):
        d2.solve(wrong, NETWORK, runtime=cluster)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills a process")
@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_a_lost_worker_is_an_error_that_names_its_agents(engine, tmp_path):
    package, make = ENGINES[engine]
    pytest.importorskip(package, reason=f"needs the package {package}")
    whole = slow_problem()
    readers = FolderOfAgents(tmp_path, whole)

    def load(i):
        readers(i)
        return whole.agents[i]

    problem = RemoteProblem(load, whole.h, n=6)

    def kill():
        end = time.monotonic() + 120.0
        while time.monotonic() < end:
            if (tmp_path / "readers.txt").exists() and len(readers.readers()) == 6:
                time.sleep(1.0)
                os.kill(dict(readers.readers())[5], signal.SIGKILL)
                return
            time.sleep(0.05)

    with own_modules_found(), make(2, timeout=20.0) as cluster:
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        with pytest.raises(WorkerLost, match=r"Worker 1 \(agents 3, 4, 5\) was lost"):
            d2.solve(problem, NETWORK, method="iD2A", runtime=cluster, tol=1e-300, time_limit=120.0)
        killer.join()


def test_what_a_driver_cannot_do_is_refused_before_a_worker_starts():
    cluster = Threads(2)
    problem = elastic_net()
    with pytest.raises(ProblemError, match="RemoteProblem"):
        d2.solve([1], NETWORK, runtime=cluster)
    with pytest.raises(NetworkError, match="6 agents but the network has 2"):
        d2.solve(problem, d2.Network([(0, 1)]), runtime=cluster)
    with pytest.raises(NetworkError, match="processes for"):
        d2.solve(problem, NETWORK, runtime=Threads(7))
    with pytest.raises(CapabilityError, match="checkpoints"):
        d2.solve(problem, NETWORK, runtime=cluster, checkpoints=object())
    with pytest.raises(ValueError, match="tol"):
        d2.solve(problem, NETWORK, runtime=cluster, tol=-1.0)
    with pytest.raises(CapabilityError, match="workers"):
        Threads(0)
    with pytest.raises(ProblemError, match="load"):
        RemoteProblem(None, problem.h, 6)
    with pytest.raises(ProblemError, match="number of agents"):
        RemoteProblem(len, problem.h, 0)


def test_an_older_problem_is_placed_again_after_four_others():
    cluster = Threads(2)
    problems = [elastic_net(seed) for seed in range(5)]
    first = d2.solve(problems[0], NETWORK, runtime=cluster)
    for problem in problems[1:]:
        d2.solve(problem, NETWORK, runtime=cluster)
    assert len(cluster.placed) == 4
    again = d2.solve(problems[0], NETWORK, runtime=cluster)
    assert all(np.array_equal(a, b) for a, b in zip(first.x, again.x, strict=True))
