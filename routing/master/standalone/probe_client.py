"""Health check client: one probe over a connection of its own, without keep-alive (asyncio)."""

import asyncio
import socket
import ssl
from typing import NamedTuple

import httptools

from routing.contract.addresses import BaseUrl, forbidden_address
from routing.contract.probe_presets import Checks, ProbeKind, ProbeRequest, conclude
from routing.contract.probe_result import MAX_BODY_BYTES, ProbeResult, down, result_of_error
from routing.contract.table import Tls
from routing.tls.certificate_names import fetch_certificate_names
from routing.tls.context_cache import CaBundleError, TlsContextCache
from routing.tls.credentials import CredentialError, Credentials, redact_token
from routing.tls.errors import describe_tls_error, is_name_mismatch

_READ_BYTES = 16 * 1024


class ProbeTarget(NamedTuple):
    """What is probed, and how its certificate is verified."""

    target: BaseUrl
    tls: Tls
    contexts: TlsContextCache
    credential: str = ""
    """Reference to the bearer token that the replica requires; empty: none."""
    credentials: Credentials | None = None

    @property
    def name(self) -> str:
        """The name that its certificate must have."""
        return self.tls.server_name or self.target.host.removesuffix(".")

    def bearer(self) -> bytes:
        """The value of Authorization; empty if it requires none. Raises CredentialError."""
        if not self.credential or self.credentials is None:
            return b""
        return self.credentials.bearer(self.credential)


class _TlsVerificationFailed(Exception):
    """Certificate verification failed; the text says why."""


async def probe(checks: Checks, place: ProbeTarget, has_passed: bool) -> ProbeResult:
    """One round of probes of a replica. Never raises because of what the replica does."""
    kind = checks.first(has_passed)
    result = await _ask(checks, kind, place)
    if checks.needs_liveness(kind, result):
        result = conclude(result, await _ask(checks, "liveness", place))
    return result


async def _ask(checks: Checks, kind: ProbeKind, place: ProbeTarget) -> ProbeResult:
    try:
        async with asyncio.timeout(checks.timeout_s):
            status, body = await _exchange(place, checks.requests[kind])
    except (_TlsVerificationFailed, CaBundleError, CredentialError) as error:
        return down(str(error))
    except (OSError, EOFError, httptools.HttpParserError) as error:
        return result_of_error(error, checks.timeout_s)
    return checks.judge(kind, status, body)


async def _exchange(place: ProbeTarget, request: ProbeRequest) -> tuple[int, bytes]:
    """Status, and as much of the body as a result needs. The token is redacted from the body of an error.

    Raises _TlsVerificationFailed, CaBundleError, CredentialError, OSError, EOFError, HttpParserError.
    """
    bearer = place.bearer()
    reader, writer = await _connect(place)
    try:
        writer.write(_encode(place.target, request, bearer))
        answer = _ProbeResponse(is_head=request.method == "HEAD")
        while not answer.complete:
            data = await reader.read(_READ_BYTES)
            if not data:
                answer.end_of_stream()
                break
            answer.feed(data)
        if bearer and answer.status >= 400:
            return answer.status, redact_token(answer.body, bearer)
        return answer.status, answer.body
    finally:
        writer.close()


async def _connect(place: ProbeTarget) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    target = place.target
    address = await _address(target)
    if target.scheme == "http":
        return await asyncio.open_connection(address, target.port)
    context = place.contexts.get(place.tls.ca)
    try:
        return await asyncio.open_connection(address, target.port, ssl=context, server_hostname=place.name)
    except (ssl.SSLError, ConnectionResetError) as error:
        names = []
        if is_name_mismatch(error):
            names = await fetch_certificate_names(address, target.port, place.tls.ca, place.name)
        raise _TlsVerificationFailed(describe_tls_error(error, place.name, names)) from None


async def _address(target: BaseUrl) -> str:
    """An address of the host, checked after the name was resolved."""
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


class _ProbeResponse:
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
        """The connection was closed, which may end a body, but not a head."""
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
