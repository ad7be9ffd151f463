"""TLS to a replica: connect, verify the certificate, and only then use the connection.

Nothing of a request is sent before the replica's certificate has been verified, so any failure here is as
harmless as a refused connection. The connect timeout covers all of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable

from routing.contract.table import Tls
from routing.http.upstream_connection import UpstreamConnection
from routing.tls.context_cache import CaBundleError, TlsContextCache
from routing.tls.errors import describe_tls_error

GOODBYE_S = 10.0
"""How long a closed connection waits for what was written to be taken and the peer to say goodbye."""


class TlsConnectError(Exception):
    """There is no verified connection; the text says why."""


class Verification:
    """How one replica is verified. Not changed once it is made."""

    __slots__ = ("_contexts", "_host", "_tls", "name")

    def __init__(self, contexts: TlsContextCache, tls: Tls, host: str) -> None:
        self._contexts = contexts
        self._host = host
        self._tls = tls
        self.name = tls.server_name or host.removesuffix(".")
        """For SNI and for the certificate."""

    def under(self, tls: Tls) -> Verification:
        """Of the same replica by other rules."""
        return Verification(self._contexts, tls, self._host)

    def context(self) -> ssl.SSLContext:
        """Raises TlsConnectError."""
        try:
            return self._contexts.get(self._tls.ca)
        except CaBundleError as error:
            raise TlsConnectError(str(error)) from None


class _Opening(asyncio.Protocol):
    """A connection before its first byte."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._abandoned = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        if self._abandoned:
            transport.abort()  # type: ignore[attr-defined]

    def abandon(self) -> None:
        self._abandoned = True
        if self.transport is not None:
            self.transport.abort()


async def open_tls_connection(
    loop: asyncio.AbstractEventLoop,
    upstream: UpstreamConnection,
    open_tcp: Callable[[Callable[[], asyncio.BaseProtocol]], Awaitable[None]],
    verification: Verification,
) -> None:
    """Give ``upstream`` a transport. ``open_tcp``: connects the protocol that a factory makes. Raises
    TlsConnectError, or OSError when it cannot be reached."""
    context = verification.context()
    opening = _Opening()
    with contextlib.ExitStack() as stack:
        stack.callback(opening.abandon)
        await open_tcp(lambda: opening)
        assert opening.transport is not None
        try:
            transport = await loop.start_tls(
                opening.transport,
                upstream,
                context,
                server_hostname=verification.name,
                ssl_shutdown_timeout=GOODBYE_S,
            )
        except (ssl.SSLError, ConnectionError) as error:
            raise TlsConnectError(describe_tls_error(error, verification.name)) from None
        if transport is None or transport.is_closing():
            raise TlsConnectError(describe_tls_error(ConnectionResetError(), verification.name))
        stack.pop_all()
    upstream.connection_made(transport)
