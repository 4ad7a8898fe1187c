"""A process between parties: every edge has a port, and what passes it can be disturbed.

Orders come as JSON lines: ``[edge, what, seconds]``, or ``[party, "moved", port]``.
"""

import asyncio
import json
import os
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress

CHUNK_WORDS = 1 << 16
LINGER = struct.pack("ii", 1, 0)
FAULTS = ("cut", "refuse", "delay", "stall", "half", "twice")
"""Cut with a reset; refuse whoever dials; hold each chunk; let nothing pass; lose what one side
says; pass a chunk twice."""


class Edge:
    """One port, where the higher party dials the lower one."""

    def __init__(self, port: int, party: int, target: int) -> None:
        self.port, self.party, self.target = port, party, target
        self.until = dict.fromkeys(FAULTS, 0.0)
        self.repeats = 0
        self.writers: set[asyncio.StreamWriter] = set()

    def now(self, what: str) -> bool:
        return asyncio.get_running_loop().time() < self.until[what]

    def disturb(self, what: str, seconds: float) -> None:
        """Do it now, or for so long."""
        if what in ("cut", "refuse"):
            for writer in list(self.writers):
                reset(writer)
        self.repeats += what == "twice"
        self.until[what] = asyncio.get_running_loop().time() + seconds

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other = None
        try:
            if not self.now("refuse"):
                other = await asyncio.open_connection("127.0.0.1", self.target)
                self.writers |= {writer, other[1]}
                there = self._pass(reader, other[1], loses=False)
                await asyncio.gather(there, self._pass(other[0], writer, loses=True))
        except OSError:
            pass  # whoever is connected finds out by the reset below
        finally:
            for one in (writer, other[1]) if other else (writer,):
                self.writers.discard(one)
                reset(one)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, loses: bool
    ) -> None:
        while data := await reader.read(CHUNK_WORDS):
            if self.now("delay"):
                await asyncio.sleep(0.03)
            while self.now("stall"):
                await asyncio.sleep(0.02)
            if loses and self.now("half"):
                continue
            if self.repeats:
                self.repeats = 0
                writer.write(data)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection without a word."""
    plain = writer.get_extra_info("socket")
    with suppress(OSError):
        if plain is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
    writer.transport.abort()


async def serve(edges: list[Edge], orders: int) -> None:
    """Until the orders end."""
    for edge in edges:
        await asyncio.start_server(edge.accept, "127.0.0.1", edge.port)
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(orders))
    while line := await reader.readline():
        number, what, value = json.loads(line)
        if what == "moved":
            for edge in edges:
                edge.target = int(value) if edge.party == number else edge.target
        else:
            edges[number].disturb(what, value)


def run(ports: Mapping[tuple[int, int], int], targets: list[int], orders: int) -> None:
    """The whole process."""
    edges = [Edge(port, low, targets[low]) for (_, low), port in ports.items()]
    asyncio.run(serve(edges, orders))
