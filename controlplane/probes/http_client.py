"""Probe client: HTTP/1.1 over kept connections, with as little work as a probe needs (asyncio, httptools).

Why one of our own: ten thousand replicas every five seconds are two thousand requests a second, and a general
client spends more on one than the whole budget of a core.

- A connection is kept after a whole answer below 400 that allows it, for OLDEST_S at most: so a listener that
  takes no new connections, and a name that leads elsewhere by now, are noticed all the same. After anything
  else it is closed, and the next probe connects anew.
- A kept connection that ends before a byte of the answer has come was closed by a replica that no longer
  wanted it, which proves nothing: the request is sent once more, on a new one, within the same time limit.
- The address policy judges each address before it is dialled, and again before a kept connection is used.
- Over TLS the same holds: who is there was verified when the connection was made, and is again with the next
  one. One is used again only with the very trust and name that it was made with.
- No more are kept than may be; then a new one is closed after its probe. All are used in turn, so to make
  room for it would take one from the replica whose turn is next.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from random import Random
from typing import NamedTuple, cast

import httptools

from routing.contract import address_policy
from routing.contract.addresses import BaseUrl
from routing.contract.probe_presets import ProbeRequest

OLDEST_S = 60.0
"""A connection is used for at most this long, and at least half of it."""

MOST_TLS = 4000
"""Connections over TLS that are kept: one takes some tens of kilobytes, and others next to nothing."""

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Addresses of a name that may be dialled; raises OSError."""


class Security(NamedTuple):
    """How TLS is spoken with a replica."""

    context: ssl.SSLContext
    name: str
    """That its certificate has to be for."""


class Key(NamedTuple):
    """What a kept connection may be used for."""

    host: str
    port: int
    security: Security | None
    """``None``: no TLS."""


class HandshakeFailed(OSError):
    """There is no verified TLS connection; ``cause``: why."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class NotHttp(Exception):
    """What came is not HTTP, or ended too early."""

    def __init__(self) -> None:
        super().__init__("what came is not HTTP, or ended too early")


class _ProbeConnection(asyncio.Protocol):
    """One connection; at most one exchange at a time."""

    def __init__(self) -> None:
        self.address = ""
        self.judged_by: address_policy.AddressPolicy | None = None
        """The policy that let it be dialled."""
        self.until = 0.0
        """When it is too old to be used again, monotonic."""
        self.is_open = False
        self.keeps = False
        """Whether another exchange may follow the last one."""
        self.heard = False
        """Whether a byte of the present answer has come."""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._status = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none of asyncio's classes
        self.is_open = True

    def ask(self, request: bytes, most_bytes: int, *, is_head: bool) -> "asyncio.Future[tuple[int, bytes]]":
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._status = 0
        self._framed = False
        self._most_bytes = most_bytes
        self._is_head = is_head
        self.heard = self.keeps = False
        # Kept here too: a write that fails at once ends the exchange before this returns.
        answer = self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return answer

    def refuse_denied(self, host: str, port: int) -> None:
        """Raises DeniedAddress where the policy has changed and now denies this host or its address."""
        policy = address_policy.in_force()
        if policy is not self.judged_by:
            policy.refuse_host(host, port)
            policy.refuse(self.address, port)
            self.judged_by = policy

    def close(self) -> None:
        self.is_open = False
        self._transport.abort()

    # --- asyncio ---

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.close()  # nobody asked
            return
        self.heard = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._fail(NotHttp())

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if not self.heard:
            self._fail(error if isinstance(error, OSError) else EOFError())
        elif self._status and not self._framed:
            self._finish(keeps=False)  # the end of the connection is the end of its body
        else:
            self._fail(NotHttp())

    # --- httptools ---

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._framed = True

    def on_headers_complete(self) -> None:
        status: int = self._parser.get_status_code()
        if status < 200:
            self._framed = False  # the answer proper follows
            return
        self._status = status
        if self._is_head:
            self._finish(keeps=False)

    def on_body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) >= self._most_bytes:
            del self._body[self._most_bytes :]
            self._finish(keeps=False)

    def on_message_complete(self) -> None:
        if self._status:
            self._finish(keeps=bool(self._parser.should_keep_alive()) and self._status < 400)

    def _finish(self, *, keeps: bool) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            return
        self.keeps = keeps and self.is_open
        if not answer.done():
            answer.set_result((self._status, bytes(self._body)))

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)
        if self.is_open:
            self.close()


class ProbeClient:
    """Kept connections of one event loop, ``most_kept`` at a time."""

    def __init__(self, resolve: Resolve, most_kept: int, rng: Random | None = None) -> None:
        self._resolve = resolve
        self._most_kept = most_kept
        self._rng = rng or Random()
        self._kept: dict[Key, list[_ProbeConnection]] = {}
        self._idle: dict[_ProbeConnection, Key] = {}
        """All of them, the one used longest ago first."""
        self._secure = 0
        """How many of them over TLS."""

    async def exchange(
        self,
        target: BaseUrl,
        request: ProbeRequest,
        bearer: bytes,
        most_bytes: int,
        security: Security | None = None,
    ) -> tuple[int, bytes]:
        """Status and start of the body. Whoever calls limits the time.

        Raises OSError (DeniedAddress and HandshakeFailed among them), EOFError or NotHttp.
        """
        data = encode(target, request, bearer)
        key = Key(target.host, target.port, security)
        is_head = request.method == "HEAD"
        kept = self._take(key)
        if kept is not None:
            try:
                return await self._on(kept, key, data, most_bytes, is_head)
            except (OSError, EOFError):
                if kept.heard:
                    raise
        return await self._on(await self._connect(key), key, data, most_bytes, is_head)

    async def _on(
        self, connection: _ProbeConnection, key: Key, data: bytes, most_bytes: int, is_head: bool
    ) -> tuple[int, bytes]:
        try:
            answer = await connection.ask(data, most_bytes, is_head=is_head)
        except BaseException:
            connection.close()
            raise
        if connection.keeps and connection.until > time.monotonic():
            self._keep(key, connection)
        else:
            connection.close()
        return answer

    def _take(self, key: Key) -> _ProbeConnection | None:
        """One that may be used now. Raises DeniedAddress."""
        while (kept := self._kept.get(key)) is not None:
            connection = kept[-1]
            self._forget(connection)
            if connection.is_open and connection.until > time.monotonic():
                try:
                    connection.refuse_denied(key.host, key.port)
                except OSError:
                    connection.close()
                    raise
                return connection
            connection.close()
        return None

    def _keep(self, key: Key, connection: _ProbeConnection) -> None:
        self._close_old()
        if len(self._idle) >= self._most_kept or (key.security and self._secure >= MOST_TLS):
            connection.close()
            return
        self._kept.setdefault(key, []).append(connection)
        self._idle[connection] = key
        self._secure += key.security is not None

    def _close_old(self) -> None:
        """Those that are of no use any more; the first are those that were used longest ago."""
        now = time.monotonic()
        while self._idle:
            oldest = next(iter(self._idle))
            if oldest.is_open and oldest.until > now:
                break
            self._forget(oldest)
            oldest.close()

    def _forget(self, connection: _ProbeConnection) -> None:
        key = self._idle.pop(connection)
        self._secure -= key.security is not None
        kept = self._kept[key]
        kept.remove(connection)
        if not kept:
            del self._kept[key]

    async def _connect(self, key: Key) -> _ProbeConnection:
        """To the first of its addresses that takes it. Raises OSError."""
        refused: OSError | None = None
        for address in await self._resolve(key.host, key.port):
            judged_by = address_policy.in_force()
            judged_by.refuse(address, key.port)
            try:
                connection = await _dial(address, key)
            except OSError as error:
                refused = refused or error
                continue
            connection.address, connection.judged_by = address, judged_by
            connection.until = time.monotonic() + OLDEST_S * self._rng.uniform(0.5, 1.0)
            return connection
        raise refused or OSError(f"{key.host} has no address")

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._kept.clear()
        self._idle.clear()
        self._secure = 0


async def _dial(address: str, key: Key) -> _ProbeConnection:
    """Raises OSError; HandshakeFailed where the address was reached, and TLS was not."""
    loop, security = asyncio.get_running_loop(), key.security
    if security is None:
        _, connection = await loop.create_connection(_ProbeConnection, address, key.port)
        return connection
    try:
        _, connection = await loop.create_connection(
            _ProbeConnection, address, key.port, ssl=security.context, server_hostname=security.name
        )
    except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError) as error:
        raise HandshakeFailed(error) from None
    return connection


def encode(target: BaseUrl, request: ProbeRequest, bearer: bytes) -> bytes:
    """The request as it is sent. Raises OSError where a line of it would hold a control character."""
    head = _head(request.method, request.path, request.headers, target.host_field, len(request.body))
    if bearer:
        head += b"Authorization: " + bearer + b"\r\n"
    return head + b"\r\n" + request.body


@lru_cache(maxsize=32768)
def _head(method: str, path: str, headers: tuple[tuple[str, str], ...], host: str, body_bytes: int) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers)]
    if body_bytes or method == "POST":
        lines.append(f"Content-Length: {body_bytes}")
    if any(ord(character) < 32 or ord(character) == 127 for line in lines for character in line):
        raise OSError("not sent: a control character in the request")
    return ("\r\n".join(lines) + "\r\n").encode()
