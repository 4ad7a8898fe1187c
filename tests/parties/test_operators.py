"""What an operator sees: why a link is down, how the runs of a study go, metrics and health."""

import json
import socket
import ssl
import time
import urllib.request
from types import SimpleNamespace

import pytest

from dual2.cli import main
from dual2.parties.status import Board, read_statuses, status_lines
from dual2.parties.status_page import metrics, serve
from dual2.runtime.peers.link_faults import FaultKind, classify
from dual2.runtime.peers.wire_transport import Neighbour
from party_circle import Circle
from party_offices import free_ports


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (socket.gaierror(-2, "Name or service not known"), FaultKind.NAME),
        (ConnectionRefusedError(), FaultKind.REFUSED),
        (TimeoutError(), FaultKind.TIMEOUT),
        (OSError(113, "No route to host"), FaultKind.UNREACHABLE),
        (ConnectionResetError(), FaultKind.LOST),
        (ssl.SSLError("bad certificate"), FaultKind.CERTIFICATE),
    ],
)
def test_errors_of_dialling_have_a_kind(error, kind):
    assert classify(error) is kind


def reason(circle: Circle, me: int, address: tuple[str, int], peer: int = 0) -> str:
    """What a party says of a neighbour that it dials in vain."""
    manager = circle.manager(me)
    neighbour = manager.neighbours[peer]
    manager.neighbours[peer] = Neighbour(peer, neighbour.name, neighbour.fingerprints, address)
    manager.start()
    try:
        end = time.monotonic() + 20
        while peer not in manager.refusals and time.monotonic() < end:
            time.sleep(0.01)
        return manager.why_down(peer)
    finally:
        manager.fail("", "the test is over")
        manager.stop()


@pytest.fixture
def pair(tmp_path) -> Circle:
    circle = Circle(tmp_path, [(0, 1)])
    circle.ports[0] = free_ports(1)[0]
    return circle


def test_a_refused_connection_is_named_with_its_address(pair):
    port = pair.ports[0]
    words = reason(pair, 1, ("127.0.0.1", port))
    assert f"127.0.0.1:{port}: connection refused: not started" in words


def test_a_name_without_address_is_named(pair):
    assert "(DNS)" in reason(pair, 1, ("nowhere.invalid", 7443))


def test_a_port_that_speaks_no_tls_is_named(pair):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        import threading

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        words = reason(pair, 1, ("127.0.0.1", server.getsockname()[1]))
    assert "ended in the handshake" in words


def test_a_party_that_must_dial_here_is_told_apart_from_one_that_is_dialled(pair):
    manager = pair.manager(0)
    assert "not started, or it cannot reach 127.0.0.1" in manager.why_down(1)


def make_board(folder) -> Board:
    public = SimpleNamespace(options={"tol": 1e-8})
    party = SimpleNamespace(name="lab", study=SimpleNamespace(name="trial", public=public))
    return Board(folder / "status.json", party)  # type: ignore[arg-type]


def test_before_the_first_sum_the_line_says_for_whom_it_waits_and_why(pair, tmp_path):
    board, manager = make_board(tmp_path), pair.manager(0)
    line = board.refresh(manager)
    assert line.startswith("connecting, waiting for party1") and "not started" in line


def command(*arguments: str) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def write_states(folder, **phases: dict) -> None:
    (folder / "party.toml").write_text('name = "lab"\nstate = "state"\n[table]\nfile = "t.csv"\n')
    for phase, entries in phases.items():
        (folder / "state" / phase).mkdir(parents=True)
        now = {"party": "lab", "run": "trial", "time": time.time()} | entries
        (folder / "state" / phase / "status.json").write_text(json.dumps(now))


def test_a_learning_study_has_one_status_for_each_run(tmp_path, capsys):
    write_states(tmp_path, align={"state": "ended"}, fit={"state": "running", "sums": 3})
    found = read_statuses(tmp_path / "party.toml")
    assert {phase: one["state"] for phase, one in found.items()} == {
        "align": "ended",
        "fit": "running",
    }
    assert command("party", "status", str(tmp_path / "party.toml")) == 0
    assert "sum 3" in capsys.readouterr().out


def test_a_killed_process_is_gone_and_a_failed_one_says_why(tmp_path, capsys):
    write_states(
        tmp_path,
        align={"state": "running", "time": time.time() - 60},
        fit={"state": "failed", "error": "east was unreachable", "time": 1.0},
    )
    found = read_statuses(tmp_path / "party.toml")
    assert found["align"]["state"] == "gone" and found["fit"]["state"] == "failed"
    assert "error: east was unreachable" in status_lines(found["fit"])
    assert command("learn", "status", "--json", str(tmp_path / "party.toml")) == 4
    assert json.loads(capsys.readouterr().out)["fit"]["state"] == "failed"


def test_metrics_have_every_link_and_escape_names():
    link = {"peer": 'a"b\\', "up": True, "received": 7, "kept": 1, "down_for": 0.0}
    text = metrics({"party": "lab", "run": "r", "state": "running", "sums": 3, "links": [link]})
    assert 'dual2_sums_total{party="lab"} 3' in text
    assert 'dual2_link_up{party="lab",peer="a\\"b\\\\"} 1' in text
    assert "kkt" not in text  # not known yet


def test_health_answers_as_long_as_the_process_works_also_without_its_peers(pair, tmp_path):
    board, manager = make_board(tmp_path), pair.manager(0)
    board.refresh(manager)
    with serve(("127.0.0.1", 0), board) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=20) as answer:
            assert json.loads(answer.read()) == {"state": "connecting", "links": 1, "up": 0}
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert 'dual2_link_up{party="lab",peer="party1"} 0' in answer.read().decode()
