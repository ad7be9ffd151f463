"""HTTP/1.1 server of the admin listener, minimal: one request per connection, no request bodies.

It serves probes, Prometheus and an operator's ``curl``, but no client traffic, so it is small. Requests
that a browser on the same machine could be tricked into sending are refused: those with an ``Origin``, and on
loopback those whose Host is a name (DNS rebinding).
"""

import asyncio
import ipaddress
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple

from routing.contract import origin_check

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 5.0
MAX_HEAD_BYTES = 16 * 1024


class AdminRequest(NamedTuple):
    method: str
    path: str
    query: str
    """As it was sent, without the question mark."""
    headers: dict[str, str]
    """Lower-case names; of a repeated field the last."""
    peer_is_loopback: bool


class AdminResponse(NamedTuple):
    status: int
    content_type: str
    body: bytes


Handler = Callable[[AdminRequest], Awaitable[AdminResponse]]


def text(status: int, words: str) -> AdminResponse:
    return AdminResponse(status, "text/plain; charset=utf-8", words.encode() + b"\n")


async def serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler, loopback: bool
) -> None:
    """Serve one request of a new connection and close it. Never raises because of the peer."""
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            response = await _answer(reader, writer, handler, loopback)
            if response is not None:
                writer.write(_encode(response))
                await writer.drain()
    except (OSError, TimeoutError):
        pass
    finally:
        writer.close()


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler, loopback: bool
) -> AdminResponse | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        return text(431, f"the request head is longer than {MAX_HEAD_BYTES} bytes")
    request = _parse(head, _is_loopback(writer))
    if request is None:
        return text(400, "not an HTTP/1.1 request")
    headers = request.headers
    refusal = origin_check.refusal(headers.get("origin"), headers.get("host", ""), loopback)
    if refusal is not None:
        return text(403, refusal)
    try:
        return await handler(request)
    except Exception:
        log.exception("the admin listener failed on %s %s", request.method, request.path)
        return text(500, "internal error: see the proxy's log")


def _parse(head: bytes, peer_is_loopback: bool) -> AdminRequest | None:
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1.") or not parts[1].startswith("/"):
        return None
    headers: dict[str, str] = {}
    for line in lines[1:-2]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            return None
        headers[name.lower()] = value.strip()
    path, _, query = parts[1].partition("?")
    return AdminRequest(parts[0], path, query, headers, peer_is_loopback)


def _is_loopback(writer: asyncio.StreamWriter) -> bool:
    peer = writer.get_extra_info("peername")
    try:
        return ipaddress.ip_address(peer[0]).is_loopback
    except (TypeError, ValueError, IndexError):
        return False


def _encode(response: AdminResponse) -> bytes:
    head = (
        f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + response.body
