"""Sums between parties: seconds of a masked, logged sum beside plain asyncio and TLS.

Three processes on a path, each a party with its own state folder. Blocks of both kinds alternate:
``sums`` go through :class:`dual2.runtime.peers.parties.Parties` (encoded, masked, logged on disk
before they leave, checked, decoded), ``plain`` ones send the words of exact sums, 16 bytes for a
number, up and down the same path over bare asyncio streams with the same certificates, each way in
one piece. ``same bytes`` are those that send 8 bytes a number down, as masked sums do, whose root
decodes the total for all. ``synced`` ones are the plain ones of parties that each write some bytes
to the disk and sync them before they send: what nobody can spare, since no masked word may leave
before. A sync of one process alone stands beside, and the same sums with state folders in memory
(``--memory DIR``), where it costs nothing. With
``--delay 0.04`` also Experiment I between eight processes and logistic regression between five from
end to end, every link through a proxy that holds all bytes for so long.
"""

import argparse
import asyncio
import json
import math
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

import networkx as nx
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from common import interpreter
from common.report import Report, parse
from dual2 import Agent, LogisticLoss, Network, Problem, Result, SquaredNorm
from dual2.bench.peer_report import predicted_seconds
from dual2.paper import experiment1
from dual2.runtime.comm_mode import ITERATING
from dual2.runtime.peers.audit import Audit
from dual2.runtime.peers.connection_manager import Timing
from dual2.runtime.peers.parties import Parties
from dual2.runtime.peers.tls_transport import make_context
from dual2.solving.solve import solve
from party_circle import Circle
from party_offices import Offices, free_ports

EDGES = [(0, 1), (1, 2)]
OPENING = 6
"""Delays until a link is open: TCP, TLS and the greetings of both sides, one after the other."""
_RECORD = 45
"""Bytes that a party logs before it sends."""
CHILD = "--child"
"""First argument of the processes that this one starts."""


class Plain:
    """Bytes up and down the path 0 - 1 - 2, node 1 the root, over bare streams."""

    def __init__(self, me: int, circle: Circle, ports: dict[int, int]) -> None:
        self.me, self.circle, self.ports = me, circle, ports
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.links: list[Any] = []
        self.port = asyncio.run_coroutine_threadsafe(self._open(), self.loop).result()

    def _context(self, server: bool) -> ssl.SSLContext:
        files = [self.circle.folder / f"party{self.me}.{kind}" for kind in ("key", "pem")]
        return make_context(files[0], files[1], self.circle.certificates, server)

    async def _open(self) -> int:
        came = asyncio.Event()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.links.append((reader, writer))
            came.set()

        self.came = came
        context = self._context(True)
        self.server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
        if self.me > 0:
            where = ("127.0.0.1", self.ports[self.me - 1])
            self.links.append(await asyncio.open_connection(*where, ssl=self._context(False)))
        return self.server.sockets[0].getsockname()[1]

    def sums(self, up: int, down: int, count: int, file: BinaryIO | None = None) -> float:
        """Seconds of one, over ``count`` of them; each with a sync of ``file`` if there is one."""
        work = self._sums(up, down, count, file)
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def _sums(self, up: int, down: int, count: int, file: BinaryIO | None) -> float:
        while len(self.links) < (2 if self.me == 1 else 1):
            self.came.clear()
            await self.came.wait()
        data, begun = bytes(down if self.me == 1 else up), time.perf_counter()
        for _ in range(count):
            if file is not None:
                os.write(file.fileno(), bytes(_RECORD))
                os.fdatasync(file.fileno())
            if self.me == 1:
                for reader, _ in self.links:
                    await reader.readexactly(up)
                for _, writer in self.links:
                    writer.write(data)
                    await writer.drain()
            else:
                self.links[0][1].write(data)
                await self.links[0][1].drain()
                await self.links[0][0].readexactly(down)
        return (time.perf_counter() - begun) / count


def live(me: int, folder: str, sizes: list[tuple[int, int]], blocks: int) -> None:
    """One process: its ports to the parent, the others' from it, then its numbers; as JSON."""
    circle = Circle(Path(folder), EDGES, timing=Timing(dead=30.0, patience=600.0))
    circle.audit = Audit(Path(folder) / f"state{me}" / "audit.jsonl", "run")
    known, other = json.loads(sys.stdin.readline())
    circle.ports = {int(i): port for i, port in known.items()}
    plain = Plain(me, circle, {int(i): port for i, port in other.items()})
    start = circle.listen

    def listen(manager: Any) -> Any:
        start(manager)
        print(json.dumps([manager.port, plain.port]), flush=True)
        return manager

    circle.listen = listen  # type: ignore[method-assign]

    def work(party: Parties) -> list[Any]:
        found = []
        for p, count in sizes:
            values = np.random.default_rng([me, p]).standard_normal((1, p))
            every = [np.random.default_rng([i, p]).standard_normal((1, p)) for i in range(3)]
            total = party.sum(values, circle.network, ITERATING)  # agrees on sizes, once
            right = all(
                a == math.fsum(b) for a, b in zip(total, np.vstack(every).T.tolist(), strict=True)
            )
            file, times = zeros(count * blocks, folder), []
            for _ in range(blocks):
                begun, busy = time.perf_counter(), time.process_time()
                for _ in range(count):
                    party.sum(values, circle.network, ITERATING)
                between = time.perf_counter(), time.process_time()
                bare = plain.sums(16 * p, 16 * p, count)
                own = (between[1] - busy) / count, (time.process_time() - between[1]) / count
                same = plain.sums(16 * p, 8 * p, count)
                synced = plain.sums(16 * p, 16 * p, count, file)
                times.append(((between[0] - begun) / count, bare, *own, same, synced))
            file.close()
            found.append((p, right, times))
        return found

    print(json.dumps(circle.program(me, False, work)), flush=True)


def time_of_sync(where: str | None, count: int = 20) -> float:
    """Seconds of one small write with ``fdatasync``, over zeros that were written before."""
    with zeros(count, where) as file:
        begun = time.perf_counter()
        for _ in range(count):
            os.write(file.fileno(), bytes(_RECORD))
            os.fdatasync(file.fileno())
        return (time.perf_counter() - begun) / count


def zeros(count: int, where: str | None) -> BinaryIO:
    """A file on the disk with room for so many records."""
    file = tempfile.TemporaryFile(dir=where)
    os.pwrite(file.fileno(), bytes(_RECORD * count), 0)
    os.fsync(file.fileno())
    return file


def run_all(sizes: list[tuple[int, int]], blocks: int, where: str | None) -> list[Any]:
    """Start three processes, tell each who listens where; what they measured."""
    ports: dict[int, int] = {}
    plain: dict[int, int] = {}
    processes = []
    with tempfile.TemporaryDirectory(dir=where) as folder:
        Circle(Path(folder), EDGES)  # certificates
        for me in range(3):
            what = json.dumps([me, folder, sizes, blocks])
            line = [*interpreter.PYTHON, str(Path(__file__).resolve()), CHILD, what]
            processes.append(
                subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            _tell(processes[me], [ports, plain])
            ports[me], plain[me] = _hear(processes[me])
        found = [_hear(process) for process in processes]
        for process in processes:
            process.communicate(timeout=60.0)
    return found


def _tell(process: "subprocess.Popen[str]", what: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(what) + "\n")
    process.stdin.flush()


def _hear(process: "subprocess.Popen[str]") -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


class Proxies:
    """Ports that hold all bytes for some seconds in each direction before they pass them on."""

    def __init__(self, delay: float, targets: dict[int, int]) -> None:
        self.delay, self.targets = delay, targets
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        for port, target in targets.items():
            asyncio.run_coroutine_threadsafe(self._open(port, target), self.loop).result()

    async def _open(self, port: int, target: int) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                other = await asyncio.open_connection("127.0.0.1", target)
            except OSError:
                writer.transport.abort()
                return
            await asyncio.gather(self._pass(reader, other[1]), self._pass(other[0], writer))

        await asyncio.start_server(accept, "127.0.0.1", port)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.loop.call_later(self.delay, writer.write, data)
        finally:
            self.loop.call_later(self.delay, writer.close)


def breast_cancer(n: int) -> tuple[Problem, Network]:
    """Logistic regression, the features split between the parties, a path."""
    from sklearn.datasets import load_breast_cancer

    data, labels = load_breast_cancer(return_X_y=True)
    data = (data - data.mean(axis=0)) / data.std(axis=0)
    parts = np.array_split(data, n, axis=1)
    agents = [Agent(np.ascontiguousarray(part), SquaredNorm(1.0)) for part in parts]
    return Problem(agents, LogisticLoss(2.0 * labels - 1.0)), Network(nx.path_graph(n))


def report_wan(
    report: Report, title: str, delay: float, problem: Problem, network: Network, **options: Any
) -> None:
    """A run between processes whose links take ``delay`` seconds in each direction."""
    pairs = [(int(max(edge)), int(min(edge))) for edge in network.edges]
    addresses = dict(zip(pairs, free_ports(len(pairs)), strict=True))
    options = {"method": "Newton", "tol": 1e-8} | options
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "run"
        offices = Offices(where, problem, network, options, addresses=addresses)
        Proxies(delay, {port: offices.ports[j] for (_, j), port in addresses.items()})
        try:
            begun, before = time.perf_counter(), busy_children()
            answers = offices.run("--quiet")
            seconds, busy = time.perf_counter() - begun, busy_children() - before
        finally:
            offices.close()
        log = (where / "party0" / "state" / "audit.jsonl").read_text().splitlines()
    sums = [one for one in map(json.loads, log) if one["event"] == "sum"]
    here = solve(problem, network, sums="exact", record=False, **options)
    same = all(one["x"] == x.tolist() for one, x in zip(answers, here.x, strict=True))
    same &= all(one["counts"] == answers[0]["counts"] for one in answers)
    report.expect(same, f"{title}: the parties answer with the bits of one process")
    exchanges, cores = 2 * network.tree.height * len(sums), len(os.sched_getaffinity(0))
    light, opening = delay * exchanges, delay * OPENING
    numbers = len(pairs) * sum(math.prod(one["shape"]) + one["shape"][0] for one in sums)
    between, told = sums[-1]["t"] - sums[0]["t"], light + opening + busy / cores
    rows = [
        ("sums of the method", here.counts.sums),
        ("its seconds, as in dual2 bench peers", _predicted(here, delay)),
        ("masked sums in all, by the record", len(sums)),
        ("seconds predicted: their exchanges", light),
        ("seconds from the first sum to the last", between),
        ("over the prediction", between / light),
        (f"CPU seconds of all parties over {cores} cores", busy / cores),
        ("seconds predicted: exchanges, opening, CPU", told),
        ("seconds, with the start of the processes", seconds),
        ("over the prediction", seconds / told),
        ("MB sent by all", 8e-6 * numbers),
        ("more seconds if one line of 100 Mbit/s took them", predicted_seconds(0, 0, numbers, 0)),
    ]
    report.table(f"{title}, {1e3 * delay:g} ms per link", ("what", "how much"), rows)


def busy_children() -> float:
    """Processor seconds of the processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _predicted(here: Result, delay: float) -> float:
    """Seconds by the model of the comparison with rivals, from the run in one process."""
    counts = here.counts
    return predicted_seconds(delay, counts.latency, counts.floats, here.seconds)


def report_sums(report: Report, widths: list[int], found: list[Any], where: str | None) -> None:
    """A table of what the processes measured."""
    rows = []
    for k, p in enumerate(widths):
        times = np.array([one[k][2] for one in found])  # process, block, what
        report.expect(all(one[k][1] for one in found), f"sums of {p} numbers equal math.fsum")
        masked, bare, _, _, same, synced = 1e3 * np.median(times[1], axis=0)
        ratio = np.median(times[1, :, :1] / times[1, :, [1, 4, 5]].T, axis=0)
        busy = 1e3 * np.median(times[:, :, 2:4].sum(axis=0), axis=0)
        row = p, masked, bare, ratio[0], same, ratio[1], synced, ratio[2]
        row += (*busy, busy[0] / busy[1])
        rows.append((*row, 1e3 * time_of_sync(where)))
    head = ("numbers", "masked, ms", "plain asyncio + TLS, ms", "ratio")
    head += (
        "same bytes, ms",
        "ratio",
        "plain, synced, ms",
        "ratio",
        "CPU of all three, ms",
        "CPU, plain, ms",
        "ratio",
        "sync alone, ms",
    )
    title = "One sum over three parties on a path"
    report.table(title + (f", state in {where}" if where else ""), head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--sums", type=int, default=20, help="in a block of the smallest size")
    parser.add_argument("--memory", help="also with state in this folder of a file system in RAM")
    parser.add_argument("--delay", type=float, help="also two runs with such links, seconds")
    options = parse(parser, blocks=1, sums=2)
    report = Report(options)
    widths = [20, 500] if options.smoke else [20, 500, 100_000, 125_250]
    sizes = [(p, options.sums if p < 1000 else max(1, options.sums // 7)) for p in widths]
    for where in [None, options.memory] if options.memory else [None]:
        report_sums(report, widths, run_all(sizes, options.blocks, where), where)
    if options.delay is not None:
        problem, network, _ = experiment1()
        report_wan(report, "Experiment I, 8 parties", options.delay, problem, network)
        wan = "Breast cancer, logistic regression, 5 parties", options.delay, *breast_cancer(5)
        report_wan(report, *wan, mode="primal")
    report.end()


if __name__ == "__main__":
    if CHILD in sys.argv:
        live(*json.loads(sys.argv[-1]))
    else:
        main()
