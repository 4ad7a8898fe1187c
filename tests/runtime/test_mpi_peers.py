"""Processes that send what they must not: who did it is named, and all end with exit code 4."""

import numpy as np
import pytest

from dual2.errors import PeerError
from dual2.network import Network
from dual2.runtime import find_transport
from dual2.runtime.edges import Guard
from dual2.runtime.gathering import gather_at_first
from dual2.runtime.tree import combine, find_route
from dual2.solving.stopping import Request, _wish
from mpi_runs import run_script

LYING = """
    import sys
    import networkx as nx
    import numpy as np
    import dual2 as d2
    from dual2.processes.failure import ending_together
    from dual2.runtime.mpi import _AGREE, _ROWS, Mpi, Shipment

    lie, place, calls = sys.argv[1], Mpi(timeout=30.0), 0
    agents = [d2.Agent(np.eye(3), d2.SquaredNorm(1.0 + i), d2.L1Norm(0.1)) for i in range(4)]
    problem = d2.Problem(agents, d2.SquaredLoss([1.0, 2.0, 3.0]))
    network = d2.Network(nx.path_graph(4))
    honest_sendrecv, honest_ship = Mpi.sendrecv, Shipment.__call__

    def sendrecv(self, outgoing, incoming, kind):
        global calls
        calls += self.iterating and kind == "agree up"
        if calls == 3 and kind == "agree up":
            for rank, array in outgoing.items():
                array[:] = np.nan
                if lie != "nan":
                    self.neighbours.Send(np.ones(array.size + 5), rank, _AGREE)
            outgoing = outgoing if lie == "nan" else {}
        honest_sendrecv(self, outgoing, incoming, kind)

    def ship(self):
        global calls
        calls += 1
        if calls == 40 and lie == "rows short":
            for rank in self.outgoing:
                self.mpi.neighbours.Send(np.ones(2), rank, _ROWS)
        elif calls == 40:
            self.stage[:2] = np.nan
        honest_ship(self)

    with ending_together(place) as owned:
        owned[:] = np.flatnonzero(place.owners(network) == place.rank).tolist()
        if place.rank == 1:
            Mpi.sendrecv = honest_sendrecv if "rows" in lie else sendrecv
            Shipment.__call__ = ship if "rows" in lie else honest_ship
        d2.solve(problem, network, runtime=place, method="iD2A", tol=1e-14, max_rounds=4000,
                 record=False)
        print("not noticed")
"""


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ("nan", "rank 1 sent NaN where all agents agree"),
        ("long", "rank 1 sent a message of the wrong length (agree up"),
        ("rows nan", "agent 2 (rank 1) sent a row with nan in place 0"),
        ("rows short", "rank 1 sent a message of the wrong length (rows"),
    ],
)
def test_a_process_that_lies_is_named(lie, said):
    done = run_script(2, LYING, lie)
    assert f"rank 0 (agents 0, 1): {said}" in done.stderr, done.stdout + done.stderr
    assert done.returncode == 4
    assert "not noticed" not in done.stdout


def test_nan_of_ones_own_travels_as_infinity():
    """A run that diverges ends with its status, not with an accusation."""
    tree, owners = Network([(0, 1), (1, 2)]).tree, np.array([0, 0, 1])
    sent = {}

    def sendrecv(outgoing, incoming, kind):
        sent.update(outgoing)
        for array in incoming.values():
            array[:] = 5.0

    rows = np.array([[np.nan]])
    answer = combine(find_route(tree, owners, 1), np.maximum, rows, sendrecv, strict=True)
    assert sent[0].tolist() == [[np.inf]] and answer.tolist() == [5.0]


def test_nan_is_an_error_on_the_way_down_too():
    tree, owners = Network([(0, 1), (1, 2)]).tree, np.array([0, 0, 1])

    def sendrecv(outgoing, incoming, kind):
        for array in incoming.values():
            array[:] = np.nan

    with pytest.raises(PeerError, match="rank 0 sent NaN"):
        combine(find_route(tree, owners, 1), np.add, np.ones((1, 1)), sendrecv, strict=True)
    with pytest.raises(PeerError, match="rank 1 sent NaN"):
        combine(find_route(tree, owners, 0), np.add, np.ones((2, 1)), sendrecv, strict=True)
    assert np.isnan(combine(find_route(tree, owners, 1), np.add, np.ones((1, 1)), sendrecv)).all()


def test_rows_that_are_huge_everywhere_are_no_lie():
    stage, owners = np.array([[1e140], [1e160]]), np.array([0, 1])
    Guard(stage, np.array([1]), owners).check()
    stage[0] = 1.0
    with pytest.raises(PeerError, match=r"agent 1 \(rank 1\) sent a row with 1e\+160"):
        Guard(stage, np.array([1]), owners).check()


@pytest.mark.parametrize("number", [np.inf, np.nan, -1.0, 2.5, 99.0])
def test_wishes_that_nobody_has(number):
    assert _wish(2.0) is Request.HOLD
    with pytest.raises(PeerError, match="asks for"):
        _wish(number)


def test_gathered_answers_are_looked_at():
    here = find_transport("stacked")
    with pytest.raises(PeerError, match="agent 1 is missing"):
        gather_at_first(here, [0, 0], [np.ones(1), np.ones(1)], 2)
    with pytest.raises(PeerError, match="agent 1 gave nan"):
        gather_at_first(here, [0, 1], [np.ones(2), np.array([1.0, np.nan])], 2)
