"""Processes that are killed, paused, cut off and moved, by three fixed schedules."""

import json
import os
import subprocess
import sys
from pathlib import Path

from party_offices import LIMIT

SCRIPT = Path(__file__).resolve().parents[1] / "party_campaign.py"
FIRST, COUNT = 3, 3


def test_processes_survive_their_faults():
    """Everything that parties answer has the bits of one process without any fault."""
    line = [sys.executable, str(SCRIPT), str(FIRST), str(COUNT)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT, env=environment)
    assert done.returncode == 0, done.stderr
    found = [json.loads(text) for text in done.stdout.splitlines()]
    assert [one["seed"] for one in found] == [*range(FIRST, FIRST + COUNT)]
    assert [one["end"] for one in found] == ["same bits"] * COUNT, found
    assert all(one["codes"] == [0, 0, 0, 0] for one in found)
    assert sum(sum(one["counts"].values()) for one in found) > COUNT
