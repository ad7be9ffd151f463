"""Early error responses (408, 413, 429, 503): what the web process answers before Django sees a request."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

import orjson

from controlplane.api import errors
from controlplane.asgi_types import Receive, Scope, Send

API = "/api/"
LINGER_S = 1.0
"""A connection that is closed while bytes arrive is reset, and the client never reads why."""


class Refusal(NamedTuple):
    status: int
    detail: str
    """A sentence, with the cure."""
    headers: Mapping[str, str] = {}


class Refused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


async def refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    """A problem for the API, a line of text elsewhere. The connection is closed, its unread body with it."""
    if scope["path"].startswith(API):
        kind, body = errors.CONTENT_TYPE, orjson.dumps(errors.body(refusal.status, refusal.detail))
    else:
        kind, body = "text/plain; charset=utf-8", f"{refusal.detail}\n".encode()
    headers = {
        "Content-Type": kind,
        "Content-Length": str(len(body)),
        "Connection": "close",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        **refusal.headers,
    }
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            await _discard(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard(receive: Receive) -> None:
    more = True
    while more:
        message = await receive()
        more = message["type"] == "http.request" and bool(message.get("more_body"))
