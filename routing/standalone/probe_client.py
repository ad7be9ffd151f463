"""Sends one probe over a connection of its own and reads the answer; asyncio, no keep-alive."""

import asyncio
import socket
import ssl
from typing import NamedTuple

import httptools

from routing.contract.addresses import BaseUrl, forbidden_address
from routing.contract.presets import Checks, Kind, ProbeRequest, conclude
from routing.contract.table import Tls
from routing.contract.verdict import MAX_BODY_BYTES, Verdict, down, verdict_of_error
from routing.tls import words
from routing.tls.contexts import Contexts, Untrusted
from routing.tls.credentials import Credentials, NoCredential, without_token
from routing.tls.names import names_at

_READ_BYTES = 16 * 1024


class Place(NamedTuple):
    """What is probed, and how it is verified where it is spoken to over TLS."""

    target: BaseUrl
    tls: Tls
    contexts: Contexts
    credential: str = ""
    """Reference to the token that it wants; empty: none."""
    credentials: Credentials | None = None

    @property
    def name(self) -> str:
        """What its certificate must be for."""
        return self.tls.server_name or self.target.host.removesuffix(".")

    def bearer(self) -> bytes:
        """The value of Authorization; nothing where it wants none. Raises NoCredential."""
        if not self.credential or self.credentials is None:
            return b""
        return self.credentials.bearer(self.credential)


class _NotVerified(Exception):
    """The text says why."""


async def probe(checks: Checks, place: Place, has_passed: bool) -> Verdict:
    """One round of probes of the replica there. Never raises for what a replica does."""
    kind = checks.first(has_passed)
    verdict = await _ask(checks, kind, place)
    if checks.needs_liveness(kind, verdict):
        verdict = conclude(verdict, await _ask(checks, "liveness", place))
    return verdict


async def _ask(checks: Checks, kind: Kind, place: Place) -> Verdict:
    try:
        async with asyncio.timeout(checks.timeout_s):
            status, body = await _exchange(place, checks.requests[kind])
    except (_NotVerified, Untrusted, NoCredential) as error:
        return down(str(error))
    except (OSError, EOFError, httptools.HttpParserError) as error:
        return verdict_of_error(error, checks.timeout_s)
    return checks.judge(kind, status, body)


async def _exchange(place: Place, request: ProbeRequest) -> tuple[int, bytes]:
    """Status and as much of the body as a verdict needs, an error's without the token that it may quote.

    Raises _NotVerified, Untrusted, NoCredential, OSError, EOFError, HttpParserError.
    """
    bearer = place.bearer()
    reader, writer = await _connect(place)
    try:
        writer.write(_encode(place.target, request, bearer))
        answer = _Answer(is_head=request.method == "HEAD")
        while not answer.complete:
            data = await reader.read(_READ_BYTES)
            if not data:
                answer.end_of_stream()
                break
            answer.feed(data)
        if bearer and answer.status >= 400:
            return answer.status, without_token(answer.body, bearer)
        return answer.status, answer.body
    finally:
        writer.close()


async def _connect(place: Place) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    target = place.target
    address = await _address(target)
    if target.scheme == "http":
        return await asyncio.open_connection(address, target.port)
    context = place.contexts.get(place.tls.ca)
    try:
        return await asyncio.open_connection(address, target.port, ssl=context, server_hostname=place.name)
    except (ssl.SSLError, ConnectionResetError) as error:
        names = []
        if words.name_is_wrong(error):
            names = await names_at(address, target.port, place.tls.ca, place.name)
        raise _NotVerified(words.words_of(error, place.name, names)) from None


async def _address(target: BaseUrl) -> str:
    """An address of the host, checked after the name was looked up."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    address = str(found[0][4][0])
    words = forbidden_address(address)
    if words is not None:
        raise OSError(words)
    return address


def _encode(target: BaseUrl, request: ProbeRequest, bearer: bytes) -> bytes:
    lines = [f"{request.method} {request.path} HTTP/1.1", f"Host: {target.host_field}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    if request.body or request.method == "POST":
        lines.append(f"Content-Length: {len(request.body)}")
    head = "\r\n".join(lines).encode("latin-1")
    if bearer:
        head += b"\r\nAuthorization: " + bearer
    return head + b"\r\n\r\n" + request.body


class _Answer:
    """Collects one response."""

    def __init__(self, *, is_head: bool) -> None:
        self.status = 0
        self.body = b""
        self.complete = False
        self._is_head = is_head
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def end_of_stream(self) -> None:
        """A body may end with it; a head may not."""
        if not self.status:
            raise EOFError

    def on_headers_complete(self) -> None:
        status: int = self._parser.get_status_code()
        if status >= 200:
            self.status = status
            self.complete = self._is_head

    def on_body(self, data: bytes) -> None:
        self.body += data
        self.complete |= len(self.body) >= MAX_BODY_BYTES

    def on_message_complete(self) -> None:
        self.complete |= bool(self.status)
