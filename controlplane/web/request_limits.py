"""Request body limit, request timeout and concurrency limit of the web process, before Django sees a request.

Django stores a body, on disk from 2.5 MB on, before it asks who sends it. Here a body is read into memory
first, up to a limit that depends on who sends it; only a request that is whole takes one of the places of
those that run. So slow senders hold no place of anybody else: while too many bodies arrive, the one that
has taken longest gives way.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from controlplane.api.parsing import LARGEST_BODY
from controlplane.asgi_types import App, Message, Receive, Scope, Send
from controlplane.web.refusals import API, Refusal, Refused, refuse

HEALTH_CHECKS = frozenset({"/livez", "/readyz"})
RETRY_AFTER = {"Retry-After": "2"}
CredentialCheck = Callable[[Scope], Awaitable[bool]]


class WebLimits(NamedTuple):
    body_bytes: int = 64 * 1024
    """Of a body, unless its sender is signed in or has an API token, and it is for the API."""
    api_body_bytes: int = LARGEST_BODY
    stall_s: float = 10.0
    """Without a byte of the body."""
    body_s: float = 60.0
    """For the whole body."""
    bodies: int = 64
    """That arrive at the same time."""
    running: int = 64
    """Requests in Django at the same time; health checks have as many places of their own."""
    queue: int = 256
    """Requests that wait for a place."""
    queue_s: float = 10.0


def busy() -> Refused:
    return Refused(Refusal(503, "The web process has too many requests now. Try again later.", RETRY_AFTER))


class ClientLeft(Exception):
    """Nobody is there to read an answer."""


class RequestLimits:
    """ASGI middleware around all of HTTP. ``has_credential``: whether a token or session is valid. It
    may raise Refused."""

    def __init__(self, app: App, has_credential: CredentialCheck, limits: WebLimits | None = None) -> None:
        self._app = app
        self._has_credential = has_credential
        self._limits = limits = limits or WebLimits()
        self._arriving: dict[asyncio.Timeout, None] = {}
        """The limit of each body that arrives now; the longest-lasting first."""
        self._places = asyncio.Semaphore(limits.running)
        self._health_places = asyncio.Semaphore(limits.running)
        self._queued = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if has_body(scope):
                receive = replayed(await self._body(scope, receive), receive)
            async with self._place(scope) as release:
                await self._app(scope, receive, releasing(send, release))
        except Refused as refused:
            await refuse(refused.refusal, scope, receive, send)
        except ClientLeft:
            return

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body. Raises Refused or ClientLeft."""
        self._make_room()
        try:
            async with asyncio.timeout(self._limits.body_s) as deadline:
                self._arriving[deadline] = None
                try:
                    return await self._read(scope, receive)
                finally:
                    del self._arriving[deadline]
        except TimeoutError:
            raise Refused(Refusal(408, "The body took too long to arrive. Send it without pauses.")) from None

    def _make_room(self) -> None:
        """Of more bodies than may arrive at a time, the one that has taken longest is given up."""
        if len(self._arriving) < self._limits.bodies:
            return
        longest = next((each for each in self._arriving if not each.expired()), None)
        if longest is not None:
            longest.reschedule(asyncio.get_running_loop().time())

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        limit = self._limits.body_bytes
        if declared_bytes(scope) > limit:
            limit = await self._larger_limit(scope, declared_bytes(scope))
        body, more = bytearray(), True
        while more:
            async with asyncio.timeout(self._limits.stall_s):
                message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > limit:
                limit = await self._larger_limit(scope, len(body))
        return bytes(body)

    async def _larger_limit(self, scope: Scope, size: int) -> int:
        """The limit of those who may send more. Raises Refused, if that is exceeded too or this is nobody."""
        limits = self._limits
        if not scope["path"].startswith(API):
            raise Refused(Refusal(413, f"A body may have at most {limits.body_bytes} bytes here."))
        if size > limits.api_body_bytes:
            raise Refused(Refusal(413, f"A body may have at most {limits.api_body_bytes} bytes."))
        if not await self._has_credential(scope):
            words = f"Without a valid API token or session a body may have at most {limits.body_bytes} bytes."
            raise Refused(Refusal(413, words))
        return limits.api_body_bytes

    @asynccontextmanager
    async def _place(self, scope: Scope) -> AsyncIterator[Callable[[], None]]:
        """A place among those that run, until the block ends or what it gives is called. Raises Refused."""
        places = self._health_places if scope["path"] in HEALTH_CHECKS else self._places
        if places.locked() and self._queued >= self._limits.queue:
            raise busy()
        self._queued += 1
        try:
            async with asyncio.timeout(self._limits.queue_s):
                await places.acquire()
        except TimeoutError:
            raise busy() from None
        finally:
            self._queued -= 1
        held = True

        def release() -> None:
            nonlocal held
            if held:
                held = False
                places.release()

        try:
            yield release
        finally:
            release()


def has_body(scope: Scope) -> bool:
    """Whether a body follows the head (RFC 9112, 6.3)."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0") != b"")
        for name, value in scope["headers"]
    )


def declared_bytes(scope: Scope) -> int:
    """The Content-Length, or 0 where there is none: the bytes are counted in any case."""
    values = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(values[0]) if values and values[0].isdigit() else 0


def replayed(body: bytes, receive: Receive) -> Receive:
    """Gives the body that has been read, then whatever comes."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return pending.pop() if pending else await receive()

    return next_message


def releasing(send: Send, release: Callable[[], None]) -> Send:
    """Gives the place back as soon as the response is made: a slow reader holds none."""

    async def send_and_release(message: Message) -> None:
        if message["type"] == "http.response.start":
            release()
        await send(message)

    return send_and_release
