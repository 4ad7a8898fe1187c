"""Sums between parties: seconds of a masked, logged sum beside plain asyncio and TLS.

Three processes on a path, each a party with its own state folder. Blocks of both kinds alternate:
``sums`` go through :class:`dual2.runtime.peers.parties.Parties` (encoded, masked, logged on disk
before they leave, checked, decoded), ``plain`` ones send as many bytes up and down the same path
over bare asyncio streams with the same certificates.
"""

import argparse
import asyncio
import math
import multiprocessing
import ssl
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from common.report import Report, parse
from dual2.runtime.peers.carrier_tls import make_context
from dual2.runtime.peers.parties import Parties
from party_circle import Circle

EDGES = [(0, 1), (1, 2)]


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

    def sums(self, size: int, count: int) -> float:
        """Seconds of one, over ``count`` of them."""
        return asyncio.run_coroutine_threadsafe(self._sums(size, count), self.loop).result()

    async def _sums(self, size: int, count: int) -> float:
        while len(self.links) < (2 if self.me == 1 else 1):
            self.came.clear()
            await self.came.wait()
        data, begun = bytes(size), time.perf_counter()
        for _ in range(count):
            if self.me == 1:
                for reader, _ in self.links:
                    await reader.readexactly(size)
                for _, writer in self.links:
                    writer.write(data)
                    await writer.drain()
            else:
                self.links[0][1].write(data)
                await self.links[0][1].drain()
                await self.links[0][0].readexactly(size)
        return (time.perf_counter() - begun) / count


def live(me: int, folder: str, pipe: Pipe, sizes: list[tuple[int, int]], blocks: int) -> None:
    """One process: its port to the parent, the others' from it, then its numbers."""
    circle = Circle(Path(folder), EDGES)
    circle.ports, plain_ports = pipe.recv()
    plain = Plain(me, circle, plain_ports)
    start = circle.listen

    def listen(hub: Any) -> Any:
        start(hub)
        pipe.send((hub.port, plain.port))
        return hub

    circle.listen = listen  # type: ignore[method-assign]

    def work(party: Parties) -> list[Any]:
        party.strict, found = True, []
        for p, count in sizes:
            values = np.random.default_rng([me, p]).standard_normal((1, p))
            every = [np.random.default_rng([i, p]).standard_normal((1, p)) for i in range(3)]
            total = party.sum(values, circle.network)  # agrees on sizes, once
            right = all(
                a == math.fsum(b) for a, b in zip(total, np.vstack(every).T.tolist(), strict=True)
            )
            times: list[tuple[float, float]] = []
            for _ in range(blocks):
                begun = time.perf_counter()
                for _ in range(count):
                    party.sum(values, circle.network)
                times.append(((time.perf_counter() - begun) / count, plain.sums(16 * p, count)))
            found.append((p, right, times))
        return found

    pipe.send(circle.program(me, False, work))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--sums", type=int, default=20, help="in a block of the smallest size")
    options = parse(parser, blocks=1, sums=2)
    report = Report(options)
    widths = [20, 500] if options.smoke else [20, 500, 100_000, 125_250]
    sizes = [(p, options.sums if p < 1000 else max(1, options.sums // 7)) for p in widths]
    with tempfile.TemporaryDirectory() as folder:
        Circle(Path(folder), EDGES)  # certificates
        context, ports, plain = multiprocessing.get_context("spawn"), {}, {}
        pipes: list[Pipe] = []
        processes = []
        for me in range(3):
            here, there = context.Pipe()
            arguments = (me, folder, there, sizes, options.blocks)
            processes.append(context.Process(target=live, args=arguments, daemon=True))
            processes[-1].start()
            here.send((dict(ports), dict(plain)))
            ports[me], plain[me] = here.recv()
            pipes.append(here)
        found = [pipe.recv() for pipe in pipes]
        for process in processes:
            process.join(30.0)
    rows = []
    for k, p in enumerate(widths):
        times = np.array(found[1][k][2])
        report.expect(all(one[k][1] for one in found), f"sums of {p} numbers equal math.fsum")
        masked, bare = np.median(times, axis=0)
        rows.append((p, 1e3 * masked, 1e3 * bare, float(np.median(times[:, 0] / times[:, 1]))))
    head = ("numbers", "masked sum, ms", "plain asyncio + TLS, ms", "ratio")
    report.table("One sum over three parties on a path", head, rows)
    report.end()


if __name__ == "__main__":
    main()
