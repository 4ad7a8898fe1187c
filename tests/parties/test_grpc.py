"""The second carrier: the same frames over gRPC, the same strangers refused."""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.errors import CapabilityError, Dual2Error
from dual2.runtime.peers import grpc_transport
from dual2.runtime.peers.connection_manager import ConnectionManager
from dual2.runtime.peers.frames import Kind, frame_of
from dual2.runtime.peers.grpc_transport import GrpcTransport, name_of
from dual2.runtime.peers.hello import SessionIdentity
from dual2.runtime.peers.identity import fingerprint, make_certificate, make_key, make_trial
from dual2.runtime.peers.tls_transport import make_context
from dual2.runtime.peers.wire_transport import Neighbour
from mpi_runs import variables
from party_circle import RUN, STUDY, Circle
from party_offices import Offices, bits
from ready import PYTHON

grpc = pytest.importorskip("grpc", reason="needs grpcio", exc_type=ImportError)
EDGES = [(0, 1)]


def test_without_grpcio_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.setitem(sys.modules, "grpc.aio", None)
    with pytest.raises(CapabilityError, match=r"pip install 'dual2\[party-grpc\]'"):
        grpc_transport.load_grpc()


def test_a_certificate_that_may_issue_others_is_no_pin(tmp_path):
    from cryptography.hazmat.primitives.serialization import Encoding

    key = make_key(tmp_path / "lab.key")
    found = make_certificate("lab", key).public_bytes(Encoding.DER)
    with pytest.raises(Dual2Error, match="certificate of lab does not say that it is no authority"):
        name_of(found, "lab")


# -- who knocks ------------------------------------------------------------------------------------
# The two ends are in processes of their own, as parties are: gRPC does not care for several event
# loops at once.
LISTEN = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from party_circle import Circle
while True:
    circle = Circle(Path(sys.argv[1]), [(0, 1)], masked=False, grpc=True)
    manager = circle.listen(circle.manager(0))
    print(manager.port, flush=True)
    if not sys.stdin.readline():
        break
    failure = manager.failure and [manager.failure.origin, manager.failure.text]
    manager.stop()
    print(json.dumps([circle.events, failure]), flush=True)
"""
"""A party that listens; tells its port and, when asked, what happened, then begins anew."""


class Listener:
    """Party 0 in a process of its own."""

    def __init__(self, folder: Path) -> None:
        tests = Path(__file__).resolve().parents[1] / "support"
        self.process = subprocess.Popen(
            [*PYTHON, "-c", LISTEN, str(folder), str(tests)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=variables(),
        )
        self.port = int(self._hear())

    def _hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def tell(self) -> tuple[list, list | None]:
        """What happened so far; then it begins anew."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        events, failure = json.loads(self._hear())
        self.port = int(self._hear())
        return events, failure


@pytest.fixture(scope="module")
def circle(tmp_path_factory) -> Circle:
    return Circle(tmp_path_factory.mktemp("grpc"), EDGES, masked=False, grpc=True)


@pytest.fixture(scope="module")
def living(circle):
    found = Listener(circle.folder)
    yield found
    found.process.kill()
    found.process.communicate()


@pytest.fixture
def listener(living):
    living.tell()
    return living


def files(circle: Circle, name: str = "party1") -> tuple[bytes, bytes]:
    return tuple((circle.folder / f"{name}.{kind}").read_bytes() for kind in ("key", "pem"))


def knock(port: int, circle: Circle, own: tuple[bytes, bytes], *frames: bytes, pin: int = 0):
    """Dial as somebody with these files, say these bytes; what came back first."""

    async def talk():
        carrier = GrpcTransport(*own, {0: [circle.certificates[pin]]}, 1 << 20, 5.0)
        name = fingerprint(circle.certificates[pin])
        connection = await carrier.dial(Neighbour(0, "party0", (name,), ("127.0.0.1", port)))
        try:
            for frame in frames:
                await connection.send(frame)
            async with asyncio.timeout(20.0):
                first = await connection.receive()
                while frames and await connection.receive() is not None:
                    pass
                return first
        finally:
            connection.close()
            await carrier.stop()

    return asyncio.run(talk())


def hello(**changes) -> bytes:
    return replace(SessionIdentity(RUN, STUDY, "versions"), **changes).hello(1, 1, 1).packed()


def names(events: list) -> list[str]:
    return [event for _, event, _ in events]


def test_wrong_frames_of_a_known_party_end_the_run_with_its_name(circle, listener):
    bad = replace(frame_of(Kind.ROWS, RUN, np.ones(3)), seq=1, length=99).packed()
    found = knock(listener.port, circle, files(circle), hello(), bad)
    assert found is not None and found.kind == Kind.HELLO
    events, failure = listener.tell()
    assert "link_up" in names(events)
    assert failure[0] == "party1" and "99 bytes" in failure[1]


def test_bytes_beyond_a_frame_are_refused(circle, listener):
    more = replace(frame_of(Kind.ROWS, RUN, np.ones(3)), seq=1, ack=1, stable=1).packed() + b"x"
    knock(listener.port, circle, files(circle), hello(), more)
    assert "25 bytes came for 24 announced" in listener.tell()[1][1]


def test_strangers_and_another_study_are_refused(circle, listener, tmp_path):
    """Without a certificate of the study there is no stream, with one of another study no link."""
    make_trial(tmp_path, ["party1"])
    thief = tuple((tmp_path / f"party1.{kind}").read_bytes() for kind in ("key", "pem"))
    with pytest.raises(OSError):
        knock(listener.port, circle, thief)
    with socket.create_connection(("127.0.0.1", listener.port), 20) as plain:
        plain.sendall(hello())
        plain.settimeout(30)
        answer = b"x"
        while answer:
            try:
                answer = plain.recv(1000)
            except ConnectionError:
                break
            assert b"D2F1" not in answer
    knock(listener.port, circle, files(circle), hello(study=bytes(32)))
    events, failure = listener.tell()
    assert names(events) == ["refused"] * len(events) and failure is None
    assert any("another study file" in details["why"] for _, _, details in events)


def test_tls_1_2_is_refused(circle, listener):
    own = circle.folder / "party1.key", circle.folder / "party1.pem"
    context = make_context(*own, circle.certificates, server=False)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", listener.port), 20) as plain:
        with pytest.raises((ssl.SSLError, OSError)):
            context.wrap_socket(plain)
    context.maximum_version = context.minimum_version = ssl.TLSVersion.TLSv1_3
    with socket.create_connection(("127.0.0.1", listener.port), 20) as plain:
        with context.wrap_socket(plain) as secured:
            assert secured.version() == "TLSv1.3"


def test_a_name_on_the_list_with_another_key_is_not_dialled(circle, listener, tmp_path):
    """The pin has the right name; whoever listens there has another key."""
    other = Circle(tmp_path, EDGES, masked=False, grpc=True)
    with pytest.raises(ssl.SSLError, match="not the one of the study"):
        knock(listener.port, other, files(circle))
    assert listener.tell() == ([], None)


def wait_until(manager: ConnectionManager, what) -> None:
    end = time.monotonic() + 30
    while not what(manager) and time.monotonic() < end:
        time.sleep(0.01)
    assert what(manager)


def test_a_party_that_goes_is_noticed(circle, listener):
    circle.ports[0] = listener.port
    manager = circle.manager(1)
    manager.start()
    try:
        wait_until(manager, lambda manager: 0 in manager.connections)
        assert "link_up" in names(listener.tell()[0])
        wait_until(manager, lambda manager: 0 not in manager.connections)
        assert manager.failure is None
    finally:
        manager.stop()


# -- runs ------------------------------------------------------------------------------------------
def lasso(n: int) -> d2.Problem:
    draw = np.random.default_rng(n)
    agents = [
        d2.Agent(draw.standard_normal((6, 2)), d2.SquaredNorm(1.0), d2.L1Norm(0.1))
        for _ in range(n)
    ]
    return d2.Problem(agents, d2.SquaredLoss(draw.standard_normal(6)))


def test_three_processes_answer_with_the_bits_of_one(tmp_path):
    """... although one is killed on the way and resumed."""
    problem, network = lasso(3), d2.Network(nx.path_graph(3))
    offices = Offices(tmp_path / "run", problem, network, {"method": "Newton"}, carrier="grpc")
    try:
        for i in range(3):
            offices.start(i)
        journal = offices.folder / "party2" / "state" / "journal"
        while offices.processes[2].poll() is None:
            if journal.exists() and journal.stat().st_size > 3_000:
                break
            time.sleep(0.005)
        offices.processes[2].kill()
        offices.processes[2].communicate()
        offices.start(2, "--resume")
        for i in range(3):
            code, said = offices.wait(i)
            assert code == 0, said
        answers = [offices.answer(i) for i in range(3)]
    finally:
        offices.close()
    result = d2.solve(problem, network, method="Newton", sums="exact", record=False)
    assert bits(answers) == bits([result.as_dict() | {"x": x.tolist()} for x in result.x])
