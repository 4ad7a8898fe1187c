"""Connections over gRPC (HTTP/2) with certificates at both ends, for sites whose proxies want it.

The same frames, one in each message of a stream that goes both ways. Who listens sees the caller's
certificate and compares its fingerprint; who dials is not shown the other's by gRPC, so the pinned
certificate itself is the only root that it trusts. Such a certificate must say that it is no
authority: else its owner could issue others that are trusted as well.
"""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from dual2.errors import CapabilityError, Dual2Error
from dual2.runtime.peers import wire_transport
from dual2.runtime.peers.crash_points import passing
from dual2.runtime.peers.frames import HEADER_BYTES, Bytes, Frame, FrameError, filled, parse_header
from dual2.runtime.peers.identity import fingerprint, parse_certificate
from dual2.runtime.peers.wire_transport import PARTING_SECONDS, AcceptHandler, Neighbour, Reading

T = TypeVar("T")
_SERVICE, _METHOD = "dual2.ReliableChannel", "Frames"
_SUITES = "ECDHE-RSA-AES256-GCM-SHA384"
"""gRPC cannot demand TLS 1.3. Of the older suites only this one is left, which needs another kind
of key than the parties have."""


def load_grpc() -> Any:
    """The package ``grpc.aio``, or an error that says how to get it."""
    os.environ["GRPC_SSL_CIPHER_SUITES"] = _SUITES
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what is wrong is said by the party
    try:
        import grpc.aio
    except ImportError as error:
        raise CapabilityError(
            'carrier = "grpc" of a study needs the package grpcio. Install it with: pip install '
            "'dual2[party-grpc]'"
        ) from error
    return grpc


def name_of(der: bytes, who: str) -> str:
    """The name that a certificate is for; an error if it may issue others."""
    from cryptography import x509

    found = parse_certificate(der)
    try:
        constraints = found.extensions.get_extension_for_class(x509.BasicConstraints).value
        authority = constraints.ca
    except x509.ExtensionNotFound:
        authority = True
    if authority:
        raise Dual2Error(
            f"The certificate of {who} does not say that it is no authority (basic constraints "
            'CA:FALSE), which carrier = "grpc" needs: whatever it issued would be trusted as well.'
        )
    names: list[str] = []
    with suppress(x509.ExtensionNotFound):
        others = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names += others.get_values_for_type(x509.DNSName)
    names += [str(one.value) for one in found.subject.get_attributes_for_oid(x509.OID_COMMON_NAME)]
    if not names:
        raise Dual2Error(f'The certificate of {who} has no name, which carrier = "grpc" needs.')
    return names[0]


class Connection:
    """One stream to a party whose certificate is known.

    Parameters
    ----------
    stream : object
        With ``read`` and ``write``: a call, or the context of one that came.
    limit, dead
        As for :class:`~dual2.runtime.peers.tls_transport.TlsTransport`.
    shown, address : str
        Fingerprint and place of the other end.
    channel : object, optional
        Of a call that was made here; ends with it.
    """

    def __init__(
        self, stream: Any, limit: int, dead: float, shown: str, address: str, channel: Any = None
    ) -> None:
        self._stream, self._limit, self._dead, self._channel = stream, limit, dead, channel
        self.fingerprint, self.address = shown, address
        self._loop, self._grpc = asyncio.get_running_loop(), load_grpc()
        self.heard, self._over = self._loop.time(), False
        self.reading: Reading | None = None
        self._at_work: set[asyncio.Future[Any]] = set()
        self.ending: asyncio.Future[Any] | None = None

    async def _do(self, work: Awaitable[T]) -> T | None:
        """What a call of gRPC answers; None if the connection has ended, here or there."""
        if self._over:
            asyncio.ensure_future(work).cancel()
            return None
        task = asyncio.ensure_future(work)
        self._at_work.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self._over and task.cancelled():
                return None
            raise
        except (self._grpc.RpcError, self._grpc.aio.BaseError, asyncio.InvalidStateError):
            return None
        finally:
            task.cancel()
            self._at_work.discard(task)

    idle = True

    def put(self, head: bytes, payload: Bytes = b"") -> bool:
        """Not without waiting."""
        return False

    async def send(self, head: bytes, payload: Bytes = b"") -> None:
        """Write a frame; an error if the other end takes none of it for too long."""
        passing("before send")

        async def write() -> bool:
            await self._stream.write(head + payload)
            return True

        async with asyncio.timeout(self._dead):
            written = await self._do(write())
        if not written:
            raise ConnectionResetError("the connection is lost")
        passing("after send")

    async def receive(self) -> Frame | None:
        """The next frame, None at the end of the stream."""
        data = await self._do(self._stream.read())
        if data is None or data is self._grpc.aio.EOF:
            return None
        header = parse_header(data[:HEADER_BYTES], self._limit)
        if len(data) != HEADER_BYTES + header.length:
            raise FrameError(f"{len(data) - HEADER_BYTES} bytes came for {header.length} announced")
        self.heard = self._loop.time()
        passing("after receive")
        return filled(header, data[HEADER_BYTES:])

    async def listen(self, hear: Callable[[Frame], None]) -> None:
        """Hand over each frame that comes, to the end of the stream."""
        while (frame := await self.receive()) is not None:
            hear(frame)

    def close(self) -> None:
        """End the connection at once."""
        if self._over:
            return
        self._over = True
        for task in list(self._at_work):
            task.cancel()
        if self._channel is not None:
            self._stream.cancel()
            self.ending = asyncio.ensure_future(self._channel.close(None))

    async def finish(self) -> None:
        """Write what is left, then end it."""
        if self._channel is not None and not self._over:
            async with asyncio.timeout(PARTING_SECONDS):
                await self._do(self._stream.done_writing())
                await self._do(self._stream.code())
        self.close()


class _Caller:
    """Who has opened a stream: its certificate is one of the study's already."""

    def __init__(self, context: Any, owner: "GrpcTransport") -> None:
        self._context, self._owner = context, owner
        self.address = str(context.peer())
        self._connection: Connection | None = None

    async def secure(self) -> Connection:
        """The connection; the handshake is over."""
        pem = (self._context.auth_context().get("x509_pem_cert") or [b""])[0]
        try:
            shown = fingerprint(ssl.PEM_cert_to_DER_cert(pem.decode("ascii")))
        except ValueError as error:
            raise ConnectionResetError("it has shown no certificate") from error
        await self._context.send_initial_metadata(())
        owner = self._owner
        self._connection = Connection(self._context, owner.limit, owner.dead, shown, self.address)
        return self._connection

    def leave(self) -> None:
        """End it; the call ends with whoever has served it."""
        if self._connection is not None:
            self._connection.close()


class GrpcTransport:
    """Connections over gRPC.

    Parameters
    ----------
    key, certificate : bytes
        Of this party, in PEM.
    pins : mapping of int to sequence of bytes
        The certificates of the neighbours by number, in DER.
    limit, dead
        As for :class:`~dual2.runtime.peers.tls_transport.TlsTransport`.
    """

    def __init__(
        self,
        key: bytes,
        certificate: bytes,
        pins: Mapping[int, Sequence[bytes]],
        limit: int,
        dead: float,
    ) -> None:
        self._key, self._certificate, self.limit, self.dead = key, certificate, limit, dead
        self._grpc = load_grpc()
        self._pins = {i: [(one, name_of(one, f"party {i}")) for one in pins[i]] for i in pins}
        self._turn = 0
        self._server: Any = None
        self._dialled: list[Connection] = []
        self._options = [
            ("grpc.max_receive_message_length", limit + HEADER_BYTES),
            ("grpc.max_send_message_length", limit + HEADER_BYTES),
            ("grpc.enable_http_proxy", int("grpc_proxy" in os.environ)),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.so_reuseport", 0),
            ("grpc.server_handshake_timeout_ms", int(1e3 * wire_transport.HANDSHAKE_SECONDS)),
            ("grpc.max_concurrent_streams", 4),
        ]

    async def listen(self, address: tuple[str, int], accepted: AcceptHandler) -> int:
        """Hand over who connects from now on; the port."""
        grpc = self._grpc
        roots = "".join(
            ssl.DER_cert_to_PEM_cert(der) for pin in self._pins.values() for der, _ in pin
        )
        credentials = grpc.ssl_server_credentials(
            [(self._key, self._certificate)], roots.encode(), require_client_auth=True
        )

        async def serve(requests: Any, context: Any) -> None:
            await accepted(_Caller(context, self))

        handler = grpc.stream_stream_rpc_method_handler(serve)
        self._server = grpc.aio.server(options=self._options)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: handler}),)
        )
        try:
            port = self._server.add_secure_port(_target(address), credentials)
        except RuntimeError as error:
            raise OSError(f"gRPC cannot use it ({error})") from error
        await self._server.start()
        return port

    async def dial(self, neighbour: Neighbour) -> Connection:
        """Connect to a listening party; of two certificates each has its turn."""
        assert neighbour.address is not None
        grpc, pins = self._grpc, self._pins[neighbour.number]
        self._turn += 1
        der, name = pins[self._turn % len(pins)]
        credentials = grpc.ssl_channel_credentials(
            ssl.DER_cert_to_PEM_cert(der).encode(), self._key, self._certificate
        )
        options = [*self._options, ("grpc.ssl_target_name_override", name)]
        where = _target(neighbour.address)
        channel = grpc.aio.secure_channel(where, credentials, options)
        call = channel.stream_stream(f"/{_SERVICE}/{_METHOD}")()
        try:
            async with asyncio.timeout(2 * wire_transport.HANDSHAKE_SECONDS):
                await call.wait_for_connection()
        except BaseException as error:
            call.cancel()
            await channel.close(None)
            if isinstance(error, grpc.RpcError):
                _explain(str(error.details()))  # type: ignore[attr-defined]
            raise
        made = Connection(call, self.limit, self.dead, fingerprint(der), where, channel)
        self._dialled = [one for one in self._dialled if not one.ending or not one.ending.done()]
        self._dialled.append(made)
        return made

    async def stop(self) -> None:
        """Accept nobody any more."""
        for one in self._dialled:
            one.close()
        await asyncio.gather(*(one.ending for one in self._dialled if one.ending is not None))
        if self._server is not None:
            await self._server.stop(PARTING_SECONDS)


def _target(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _explain(details: str) -> None:
    """Raise what a failed call means; gRPC tells it in words only."""
    if "CERTIFICATE_VERIFY_FAILED" in details or "Peer name" in details:
        raise ssl.SSLError(f"its certificate is not the one of the study ({details[:300]})")
    raise ConnectionResetError(details[:300])
