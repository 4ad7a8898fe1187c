"""Runtime of several processes without MPI: threads with queues as a transport."""

import queue
import sys
import threading

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.runtime import Communicator, Runtime, Transport, local_problem
from dual2.runtime.assignment import partition
from dual2.runtime.edges import own_edges
from dual2.runtime.mpi import load_mpi
from dual2.runtime.rows import Team

P = 3
GRAPHS = {
    "path": nx.path_graph(9),
    "cycle": nx.cycle_graph(8),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4)),
    "complete": nx.complete_graph(5),
}


class Post(Transport):
    """Queues between processes that are threads."""

    def __init__(self, rank, boxes, sent, where):
        super().__init__()
        self.rank, self.size = rank, len(boxes)
        self.boxes, self.sent, self.where = boxes, sent, where

    def owners(self, network):
        return self.where

    def sendrecv(self, outgoing, incoming, kind):
        for rank, array in outgoing.items():
            self.sent.append((kind, self.rank, rank, array.size))
            self.boxes[rank][self.rank].put(array.copy())
        for rank, array in incoming.items():
            array[...] = self.boxes[self.rank][rank].get(timeout=20)

    def exchange(self, stage, outgoing, incoming):
        def ship():
            rows = {rank: stage[at] for rank, at in outgoing.items()}
            held = {rank: np.empty((len(at), stage.shape[1])) for rank, at in incoming.items()}
            self.sendrecv(rows, held, "rows")
            for rank, at in incoming.items():
                stage[at] = held[rank]

        return ship

    def allgather(self, own, kind, seconds=None):
        every = np.tile(own, (self.size, 1))
        others = [rank for rank in range(self.size) if rank != self.rank]
        self.sendrecv(dict.fromkeys(others, own), {rank: every[rank] for rank in others}, kind)
        return every


def in_threads(network, ranks, work, assignment=None):
    """work(transport) in a thread for each rank; the answers."""
    where = partition(network, ranks) if assignment is None else np.array(assignment)
    boxes = [[queue.Queue() for _ in range(ranks)] for _ in range(ranks)]
    answers, sent = [None] * ranks, []

    def run(rank):
        answers[rank] = work(Post(rank, boxes, sent, where))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(answer is not None for answer in answers)
    return answers, sent


def problem(n):
    rng = np.random.default_rng(0)
    blocks = rng.standard_normal((n, P, 2))
    agents = [d2.Agent(A, d2.SquaredNorm(1.0 + i)) for i, A in enumerate(blocks)]
    return d2.Problem(agents, d2.SquaredLoss(np.ones(P)))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("degree", [1, 4])
def test_products_with_the_gossip_matrix_are_the_same_bits(name, ranks, degree):
    network = d2.Network(GRAPHS[name])
    where = network if degree == 1 else network.chebyshev(degree)
    whole = problem(network.n)
    rows = np.random.default_rng(1).standard_normal((network.n, P))
    expected = Runtime(whole, where).mix(rows)

    def work(transport):
        runtime = Runtime(local_problem(whole, Communicator(network, transport)), where)
        owned = runtime.comm.owned
        for _ in range(3):
            found = runtime.mix(rows[owned])
        return owned, found

    answers, sent = in_threads(network, ranks, work)
    for owned, found in answers:
        assert np.array_equal(found, expected[owned])
    assert {kind for kind, *_ in sent} == {"rows", "agree up", "agree down"}
    widths = {size for kind, *_, size in sent if kind == "agree down"}
    assert widths == {3}  # p and the starts are compared, once


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_agreements_do_not_depend_on_the_processes(name, ranks):
    network = d2.Network(GRAPHS[name])
    values = np.random.default_rng(2).standard_normal((network.n, 2)) ** 7
    here = Communicator(network)
    expected = here.allreduce_sum(values), here.allreduce_max(values)

    def work(transport):
        comm = Communicator(network, transport)
        own = values[comm.owned]
        found = comm.allreduce_sum(own), comm.allreduce_max(own)
        return *found, comm.agree_rounds, comm.agree_floats

    answers, sent = in_threads(network, ranks, work)
    for total, most, rounds, floats in answers:
        assert np.array_equal(total, expected[0]) and np.array_equal(most, expected[1])
        assert (rounds, floats) == (here.agree_rounds, here.agree_floats)
    where = partition(network, ranks)
    joined = {(int(where[i]), int(where[j])) for i, j in network.edges}
    joined |= {(b, a) for a, b in joined}
    assert {(source, end) for _, source, end, _ in sent} <= joined
    assert {kind for kind, *_ in sent} == {"agree up", "agree down"}


@pytest.mark.parametrize("name", GRAPHS)
def test_sums_of_arrays_have_the_same_bits_everywhere(name, monkeypatch):
    """All at once, some agents at a time, and in several processes."""
    network, width = d2.Network(GRAPHS[name]), 70
    values = np.random.default_rng(4).standard_normal((network.n, width)) ** 7
    here = Communicator(network)

    def total(comm):
        asked = []

        def fill(rows, out):
            asked.append(len(rows))
            out[:] = values[comm.owned[rows]]

        return comm.allreduce_filled(width, fill), asked, comm

    expected = here.allreduce_sum(values)
    found, asked, _ = total(here)
    assert np.array_equal(found, expected) and asked == [network.n]
    assert here.sums == 1 and here.agree_rounds == 2 * network.tree.height
    assert here.agree_floats == 2 * 2 * (network.n - 1) * width
    long = d2.Network(nx.random_labeled_tree(300, seed=1))
    values = np.random.default_rng(5).standard_normal((300, width)) ** 7
    expected = Communicator(long).allreduce_sum(values)
    monkeypatch.setattr("dual2.runtime.transport.ROOM", 65 * width)
    found, asked, _ = total(Communicator(long))
    assert len(asked) == 5 and np.array_equal(found, expected)
    assert np.array_equal(
        Communicator(long).allreduce_sum(values), expected
    )  # without a copy of all rows
    values = values[: network.n]
    answers, _ = in_threads(network, 2, lambda t: total(Communicator(network, t)))
    for found, _, comm in answers:
        assert np.array_equal(found, here.allreduce_sum(values)) and comm.sums == 1


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_the_columns_of_a_sum(threads, monkeypatch):
    network, width = d2.Network(nx.random_labeled_tree(300, seed=2)), 71
    values = np.random.default_rng(6).standard_normal((300, width)) ** 7
    comm, expected = Communicator(network), Communicator(network).allreduce_sum(values)
    monkeypatch.setattr("dual2.runtime.transport.ROOM", 65 * width)
    comm.run = Team(threads).run
    found = comm.allreduce_filled(width, lambda rows, out: np.copyto(out, values[rows]))
    assert np.array_equal(found, expected)


def test_where_the_order_is_free_a_process_adds_up_its_own_first(monkeypatch):
    class Free(Transport):
        any_order = True
        size = 2

        def owners(self, network):
            return np.zeros(network.n, np.int64)

        def sum(self, rows, network, mode):
            assert len(rows) == 1
            return rows[0]

    network, width, most = d2.Network(nx.path_graph(300)), 70, []
    monkeypatch.setattr("dual2.runtime.transport.ROOM", 65 * width)
    values = np.random.default_rng(7).standard_normal((300, width))

    def fill(rows, out):
        most.append(len(rows))
        out[:] = values[rows]

    found = Communicator(network, Free()).allreduce_filled(width, fill)
    assert max(most) == 65
    np.testing.assert_allclose(found, values.sum(axis=0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", GRAPHS)
def test_many_numbers_are_summed_in_the_same_order(name):
    network = d2.Network(GRAPHS[name])
    values = np.random.default_rng(3).standard_normal((network.n, 4000)) ** 5
    here = Communicator(network)
    few = [here.allreduce_sum(part) for part in np.array_split(values, 20, axis=1)]
    assert np.array_equal(here.allreduce_sum(values), np.concatenate(few))


@pytest.mark.parametrize("warm", [(), (0,), (1,), (0, 1)], ids=str)
def test_nobody_is_asked_for_a_start_where_all_know_that_there_is_none(warm):
    network = d2.Network(nx.path_graph(6))
    whole = problem(6)

    def work(transport):
        share = local_problem(whole, Communicator(network, transport, transport.rank not in warm))
        runtime, x = Runtime(share, network), np.full(2, float(transport.rank in warm))
        with share.comm.from_zero():
            return share.comm.cold, runtime.which(x, 0 * x)

    answers, sent = in_threads(network, 2, work)
    assert answers == [(not warm, [bool(warm), False])] * 2
    assert [size for kind, *_, size in sent if kind == "agree down"] == [3, *([2] if warm else [])]


def test_a_process_may_own_agents_far_apart():
    network = d2.Network(nx.path_graph(6))
    values = np.arange(6.0)[:, None]
    work = lambda transport: transport.sum(values[transport.rank :: 2], network)  # noqa: E731
    answers, _ = in_threads(network, 2, work, [0, 1, 0, 1, 0, 1])
    assert [total.tolist() for total in answers] == [[15.0], [15.0]]


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("method", ["iD2A", "MiD2A"])
def test_another_transport_is_one_class(ranks, method):
    """A whole solve over the queues: the bits and counts of one process.

    Not by a method that agrees inside a cached property: Python 3.11 locks it for all threads.
    """
    network, whole = d2.Network(GRAPHS["cycle"]), problem(8)
    options = {"method": method, "tol": 1e-6, "progress": False}
    expected = d2.solve(whole, network, **options)
    work = lambda transport: d2.solve_for_all(whole, network, runtime=transport, **options)  # noqa: E731
    answers, _ = in_threads(network, ranks, work)
    for found in answers:
        assert found.status == expected.status and found.counts == expected.counts
        assert np.array_equal(np.concatenate(found.x), np.concatenate(expected.x))
        assert np.array_equal(found.duals, expected.duals)


def test_only_the_rows_that_neighbours_need_travel():
    network = d2.Network(nx.path_graph(8))
    found = own_edges(network, partition(network, 2), 0)
    assert found.outgoing[1].tolist() == [3] and found.incoming[1].tolist() == [4]
    assert found.ghosts.tolist() == [4]


def test_an_exchange_that_fails_raises_after_the_loop():
    network = d2.Network(nx.path_graph(4))
    whole = problem(4)

    class Broken(Post):
        def exchange(self, stage, outgoing, incoming):
            calls = []

            def ship():
                calls.append(1)
                if len(calls) == 3:
                    raise TimeoutError("nobody there")

            self.calls = calls
            return ship

        def sendrecv(self, outgoing, incoming, kind):
            """The other has the same p."""
            for array in incoming.values():
                array[...] = [P, -P, 0.0][: array.shape[-1]]

    transport = Broken(0, [[], []], [], np.array([0, 0, 1, 1]))
    runtime = Runtime(local_problem(whole, Communicator(network, transport)), network.chebyshev(6))
    with pytest.raises(TimeoutError, match="nobody there"):
        runtime.mix(np.ones((2, P)))
    assert len(transport.calls) == 3


def test_a_share_says_what_it_is():
    whole = problem(5)
    share = d2.runtime.LocalProblem({1: whole.agents[1], 4: whole.agents[4]}, whole.h, 5)
    assert share.owned.tolist() == [1, 4] and not share.complete
    with pytest.raises(d2.ProblemError, match="not placed"):
        share.total(np.ones((2, 1)))
    with pytest.raises(d2.ProblemError, match="runtime='mpi'"):
        d2.solve(share, d2.Network(nx.path_graph(5)))
    with pytest.raises(d2.ProblemError, match="below n = 3"):
        d2.runtime.LocalProblem({4: whole.agents[4]}, whole.h, 3)


def test_without_mpi4py_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(d2.CapabilityError, match=r"pip install 'dual2\[mpi\]'"):
        load_mpi()


def test_runtimes_by_name():
    with pytest.raises(d2.CapabilityError, match="'stacked' or 'mpi'"):
        d2.solve(problem(2), d2.Network([(0, 1)]), runtime="moon")
