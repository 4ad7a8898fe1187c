"""A full disk ends a process, neither the run nor the truth about it."""

import errno
import json
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from dual2.commands import NOT_WRITTEN, exit_code
from dual2.errors import StateError
from dual2.parties.session import _public
from dual2.parties.status import Board
from dual2.runtime.peers import audit as audits
from dual2.runtime.peers import log as logs
from dual2.runtime.peers.aborts import Reason
from dual2.runtime.peers.audit import Audit, verify
from dual2.runtime.peers.folder import write
from dual2.runtime.peers.parties import Parties
from party_circle import Circle


def test_a_status_that_cannot_be_written_is_said_and_nothing_else(tmp_path):
    file = tmp_path / "gone" / "status.json"
    party = SimpleNamespace(name="lab", study=SimpleNamespace(name="trial"))
    board = Board(file, party)  # type: ignore[arg-type]
    board.finish()
    assert "status.json cannot be written" in board.unwritten


def test_an_audit_log_without_room_keeps_its_chain_and_counts(tmp_path, monkeypatch):
    """Half a line is on the disk when it is full; later lines follow the last whole one."""
    file = tmp_path / "audit.jsonl"
    log, full = Audit(file, "trial"), [False]

    def fill(descriptor: int, data: bytes) -> None:
        write(descriptor, data[: len(data) // 2] if full[0] else data)
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(audits, "write", fill)
    log("start")
    full[0] = True
    log("sum", index=1, shape=(3,), masked=True)
    log("sum", index=2, shape=(3,), masked=True)
    full[0] = False
    log("end")
    log("end")
    log.close()
    assert verify(file) == {"start": 1, "end": 2}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line.get("lost") for line in lines] == [None, 2, None]


@pytest.mark.parametrize("name", ["said", "journal"])
def test_a_run_goes_on_when_there_is_room_again(tmp_path, monkeypatch, name):
    """The party ends with the file's name and says nothing to the others, who wait for it."""
    circle, full = Circle(tmp_path, [(0, 1), (1, 2), (1, 3)]), [True]
    monkeypatch.setattr(Parties, "test_network", circle.network, raising=False)
    monkeypatch.setattr("dual2.runtime.peers.exchange._SYNC_FRAMES", 2)
    files: dict[int, str] = {}
    right = logs.Log.append

    def append(log, *args):
        files[log._descriptor] = str(log.file)
        return right(log, *args)

    def fill(descriptor: int, data: bytes) -> None:
        place = files.get(descriptor, "")
        if full[0] and place.endswith(f"state3/{name}") and len(counted) > 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        counted.append(1) if place.endswith(f"state3/{name}") else None
        write(descriptor, data)

    counted: list[int] = []
    monkeypatch.setattr(logs.Log, "append", append)
    monkeypatch.setattr(logs, "write", fill)
    ended: list[StateError] = []

    def work(party: Parties) -> list[float]:
        found = np.zeros(1)
        try:
            for k in range(12):
                found = party.sum(np.full((1, 2), float(k)), circle.network)
        except StateError as error:
            assert party.rank == 3 and _public("party3", error)[1] is Reason.LEFT
            assert exit_code(error) == NOT_WRITTEN
            ended.append(error)
            full[0] = False
            raise
        return found.tolist()

    found: list = [None] * 4

    def live(me: int) -> None:
        try:
            found[me] = circle.program(me, False, work)
        except StateError:
            found[me] = circle.program(me, True, work)

    threads = [threading.Thread(target=live, args=(me,), daemon=True) for me in range(4)]
    for me, thread in enumerate(threads):
        thread.start()
        while me not in circle.ports and thread.is_alive():
            thread.join(0.002)
    for thread in threads:
        thread.join(60.0)
    assert found == [[44.0, 44.0]] * 4
    assert len(ended) == 1 and f"state3/{name} cannot be written: No space left" in str(ended[0])
