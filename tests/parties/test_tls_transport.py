"""Sockets of callers are closed, whenever the listener stops."""

import asyncio
import gc
import socket
import ssl

from dual2.runtime.peers.tls_transport import TlsTransport


async def _stop_right_after_accepting(steps: int) -> None:
    """Callers connect, and the listener stops a few turns of the loop later."""
    plain = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    transport = TlsTransport(plain, plain, 1000, 1.0)

    async def accepted(caller) -> None:
        await asyncio.sleep(10.0)

    port = await transport.listen(("127.0.0.1", 0), accepted)
    callers = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    for _ in range(steps):
        await asyncio.sleep(0)
    await transport.stop()
    for caller in callers:
        caller.close()


def test_no_socket_is_lost_if_the_listener_stops_between_accepting_and_serving():
    """An unclosed socket would be a ResourceWarning, which is an error in this suite."""
    for steps in range(12):
        asyncio.run(_stop_right_after_accepting(steps))
        gc.collect()
