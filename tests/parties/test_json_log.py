"""The structured log of a command, and what of a machine a restart must find again."""

import io
import json
import threading

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.cli import main
from dual2.errors import Dual2Error
from dual2.parties.json_log import JsonLog
from dual2.parties.machine import machine_in_words, threads_are_pinned, threads_in_words
from dual2.parties.party import read_party
from dual2.parties.session import run_party
from dual2.runtime.peers.journal import Journal
from party_offices import Offices, lasso

PINNED = {"OMP_NUM_THREADS": "1", "DUAL2_THREADS": "1"}


def test_a_run_writes_its_events_as_lines_of_json(tmp_path):
    network = d2.Network(nx.path_graph(3))
    offices = Offices(tmp_path, lasso(3), network, {"method": "Newton", "tol": 1e-8})
    streams = [io.StringIO() for _ in range(3)]

    def live(i: int) -> None:
        run_party(read_party(offices.file(i)), report=JsonLog(streams[i]))

    threads = [threading.Thread(target=live, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300.0)
    for i, stream in enumerate(streams):
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        events = [line["event"] for line in lines]
        assert events[0] == "start" and {"link_up", "end"} < set(events)
        assert "sum" not in events
        own = [line for line in lines if line["event"] != "message"]
        assert all(line["party"] == f"party{i}" and line["phase"] == "state" for line in own)
        assert [line["status"] for line in lines if line["event"] == "end"] == ["CONVERGED"]


@pytest.mark.parametrize("group", ["party", "learn"])
def test_a_command_that_ends_with_an_error_says_so_in_json(tmp_path, capsys, group):
    with pytest.raises(SystemExit) as ended:
        main([group, "run", str(tmp_path / "party.toml"), "--log", "json"])
    line = json.loads(capsys.readouterr().err)
    assert ended.value.code == line["code"] == 2
    assert line["event"] == "exit" and str(tmp_path) in line["text"]


def test_the_number_of_cores_counts_only_if_it_decides_how_many_threads_there_are():
    assert threads_are_pinned(PINNED)
    assert threads_in_words(PINNED, 2) == threads_in_words(PINNED, 64)
    for one in PINNED:
        assert not threads_are_pinned({one: "1"})
    assert threads_in_words({}, 2) != threads_in_words({}, 64)
    assert threads_in_words(PINNED) != threads_in_words(PINNED | {"DUAL2_THREADS": "2"})


def test_other_instructions_are_another_kind_of_processor(tmp_path, monkeypatch):
    """A state of one machine is not continued on another that computes other bits."""
    before = machine_in_words({})
    Journal(tmp_path, {"kind of processor": before}, False).close()
    Journal(tmp_path, {"kind of processor": before}, True).close()
    other = {"SIMD Extensions": {"baseline": ["X86_V2"], "found": [], "not found": ["X86_V3"]}}
    monkeypatch.setattr(np, "show_config", lambda mode: other)
    assert machine_in_words({}) != before
    with pytest.raises(Dual2Error):
        Journal(tmp_path, {"kind of processor": machine_in_words({})}, True)
    assert "OPENBLAS_CORETYPE=Haswell" in machine_in_words({"OPENBLAS_CORETYPE": "Haswell"})
