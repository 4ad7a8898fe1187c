"""Processes that are killed, paused, cut off and moved, by four fixed schedules."""

import json
from pathlib import Path

from mpi_runs import run
from ready import PYTHON

SCRIPT = Path(__file__).resolve().parents[1] / "support" / "party_campaign.py"
FIRST, COUNT = 3, 4


def test_processes_survive_their_faults():
    """Everything that parties answer has the bits of one process without any fault."""
    done = run([*PYTHON, str(SCRIPT), str(FIRST), str(COUNT)])
    assert done.returncode == 0, done.stderr
    found = [json.loads(text) for text in done.stdout.splitlines()]
    assert [one["seed"] for one in found] == [*range(FIRST, FIRST + COUNT)]
    assert [one["end"] for one in found] == ["same bits"] * COUNT, found
    assert all(one["codes"] == [0, 0, 0, 0] for one in found)
    assert sum(sum(one["counts"].values()) for one in found) > COUNT
