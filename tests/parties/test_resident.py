"""One process for several studies through one port: who comes is passed on by what it names."""

import json
import shutil
import socket
import ssl
import threading
import time
from pathlib import Path

import networkx as nx
import pytest

import dual2 as d2
from dual2.commands.party import _find_job
from dual2.errors import Dual2Error
from dual2.learn.vertical.stages import new_tables
from dual2.parties.resident import Resident
from dual2.runtime.peers.shared_port import SharedPort, parse_server_name, server_name
from learning_offices import Offices as LearningOffices
from learning_offices import make_world
from party_offices import Offices, free_ports, lasso

PATIENCE = 120.0


def client_hello(name: str | None) -> bytes:
    """The first record of a handshake, as the system's TLS makes it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    out = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    return out.read()


def test_the_name_of_a_handshake_is_read_once_it_is_whole():
    name = server_name(b"study", b"run")
    hello = client_hello(name)
    assert parse_server_name(hello) == name
    assert {parse_server_name(hello[:k]) for k in range(1, len(hello))} == {None}


@pytest.mark.parametrize("k", range(5, 60, 6))
def test_a_damaged_handshake_is_refused_or_names_something(k):
    """Whatever lengths it says: an error, more bytes, or a text. Nothing else, and no waiting."""
    hello = bytearray(client_hello(server_name(b"study", b"run")))
    for value in (0, 1, 127, 255):
        hello[k] = value
        try:
            found = parse_server_name(bytes(hello))
        except ValueError:
            continue
        assert found is None or isinstance(found, str)


def test_a_handshake_without_name_is_refused():
    with pytest.raises(ValueError):
        parse_server_name(client_hello(None))


class Taker:
    """A run that only notes who came."""

    def __init__(self) -> None:
        self.taken: list[socket.socket] = []

    def __call__(self, plain: socket.socket) -> None:
        self.taken.append(plain)


@pytest.fixture
def shared():
    events: list[dict] = []
    audit = lambda event, **details: events.append({"event": event} | details)  # noqa: E731
    port = SharedPort(("127.0.0.1", 0), audit).open()
    yield port, events
    port.close()


def wait_until(ready) -> None:
    end = time.monotonic() + 20
    while not ready() and time.monotonic() < end:
        time.sleep(0.01)
    assert ready()


def knock(port: SharedPort, *parts: bytes) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port.port))
    for part in parts:
        plain.sendall(part)
        time.sleep(0.05)
    return plain


def test_callers_reach_the_run_that_they_name_or_another_one_of_the_study(shared):
    port, events = shared
    fit, other = Taker(), Taker()
    port.register(server_name(b"study", b"fit"), fit)
    port.register(server_name(b"other", b"fit"), other)
    hello = client_hello(server_name(b"study", b"fit"))
    early = client_hello(server_name(b"study", b"align"))
    foreign = client_hello(server_name(b"nothing", b"fit"))
    with knock(port, hello[:40], hello[40:]), knock(port, early), knock(port, foreign) as lost:
        wait_until(lambda: len(fit.taken) == 2 and events)
        assert fit.taken[0].recv(len(hello)) == hello  # nothing was read before
        assert not other.taken and events[0]["why"].startswith("no run")
        with pytest.raises(ConnectionResetError):  # what it sent was never read
            lost.recv(1)
    for plain in fit.taken:
        plain.close()


def test_a_silent_flood_from_one_address_does_not_keep_others_out(shared):
    port, events = shared
    fit = Taker()
    port.register(server_name(b"study", b"fit"), fit)
    silent = [knock(port) for _ in range(30)]
    with knock(port, client_hello(server_name(b"study", b"fit"))):
        wait_until(lambda: fit.taken)
    assert any("strangers" in one["why"] for one in events)
    for plain in [*silent, *fit.taken]:
        plain.close()


class Sites:
    """A resident process, as a thread, for each of some parties."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.said: dict[str, list[str]] = {name: [] for name in names}
        self.serving = {}
        for name in names:
            (folder / name).mkdir(parents=True)
            self.serving[name] = Resident(folder / name, _find_job, self.said[name].append)
        self.threads = [threading.Thread(target=one.run) for one in self.serving.values()]

    def __enter__(self) -> "Sites":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        for one in self.serving.values():
            one.stop()
        for thread in self.threads:
            thread.join(20)


def same_ports(offices: Offices, ports: list[int]) -> None:
    """Let the parties of a study listen where those of another one do."""
    for name in offices.names:
        file = offices.folder / name / "party.toml"
        text = file.read_text()
        for own, port in zip(offices.ports, ports, strict=True):
            text = text.replace(f":{own}", f":{port}")
        file.write_text(text)


def test_two_studies_are_solved_through_one_port_each_at_three_resident_processes(tmp_path):
    names, network = ["party0", "party1", "party2"], d2.Network(nx.path_graph(3))
    ports = free_ports(3)
    with Sites(tmp_path / "sites", names) as sites:
        for k, study in enumerate(("first", "second")):
            offices = Offices(
                tmp_path / study, lasso(3, seed=k), network, {"method": "Newton", "tol": 1e-8}
            )
            same_ports(offices, ports)
            for name in names:
                shutil.copytree(tmp_path / study / name, tmp_path / "sites" / name / study)
        files = [
            tmp_path / "sites" / name / study / "state" / "answer.json"
            for name in names
            for study in ("first", "second")
        ]
        end = time.monotonic() + PATIENCE
        while not all(file.exists() for file in files) and time.monotonic() < end:
            time.sleep(0.05)
        assert all(len(one.ports) <= 1 for one in sites.serving.values())
        for k, study in enumerate(("first", "second")):
            truth = d2.solve(
                lasso(3, seed=k),
                network,
                sums="exact",
                record=False,
                **{"method": "Newton", "tol": 1e-8},
            )
            for i, name in enumerate(names):
                file = tmp_path / "sites" / name / study / "state" / "answer.json"
                assert json.loads(file.read_text())["x"] == truth.x[i].tolist(), sites.said


def test_a_resident_process_predicts_for_tables_that_come_later(tmp_path):
    offices = LearningOffices(tmp_path / "made", make_world())
    with Sites(tmp_path / "sites", offices.names) as sites:
        for name in offices.names:
            shutil.copytree(tmp_path / "made" / name, tmp_path / "sites" / name / "study")
        models = [
            tmp_path / "sites" / name / "study" / "state" / "model.json" for name in offices.names
        ]
        end = time.monotonic() + PATIENCE
        while not all(file.exists() for file in models) and time.monotonic() < end:
            time.sleep(0.05)
        for name in offices.names:
            new = tmp_path / "sites" / name / "study" / "predict"
            new.mkdir()
            shutil.copy(tmp_path / "made" / name / "table.csv", new / ".spring")
            (new / ".spring").rename(new / "spring.csv")
        made = tmp_path / "sites" / "hospital" / "study" / "state" / "predictions-spring.csv"
        while not made.exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert made.exists(), sites.said


def test_one_broken_study_does_not_end_the_others_and_is_reported_once(tmp_path):
    said: list[str] = []
    for name in ("broken", "mended"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "party.toml").write_text("name = 3")
    (tmp_path / ".unready").mkdir()  # somebody is still copying it
    (tmp_path / ".unready" / "party.toml").write_text("name = 3")
    resident = Resident(tmp_path, _find_job, said.append)
    for _ in range(3):
        resident.look()
        time.sleep(0.1)
    assert len(said) == 2 and said[0].startswith("broken: ")
    with pytest.raises(Dual2Error):
        Resident(tmp_path / "nowhere", _find_job)


def test_tables_that_are_still_being_copied_are_left_alone(tmp_path):
    new = tmp_path / "predict"
    new.mkdir()
    for name in (".spring.csv", "b.csv", "a.parquet", "c.csv.part"):
        (new / name).touch()
    assert [one.name for one in new_tables(tmp_path)] == ["a.parquet", "b.csv"]
