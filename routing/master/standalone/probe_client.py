"""Health check client: one probe over a connection of its own, without keep-alive (asyncio)."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import httptools

from routing.contract import address_policy
from routing.contract.addresses import BaseUrl
from routing.contract.inference_probe import MAX_ANSWER_BYTES, conclude_with
from routing.contract.probe_presets import Checks, ProbeKind, ProbeRequest, conclude
from routing.contract.probe_result import MAX_BODY_BYTES, ProbeResult, down, result_of_error
from routing.contract.table import Tls
from routing.http.name_resolver import ResolvedName
from routing.tls.certificate_names import fetch_certificate_names
from routing.tls.context_cache import CaBundleError, TlsContextCache
from routing.tls.credentials import CredentialError, Credentials, redact_token
from routing.tls.errors import describe_tls_error, is_name_mismatch

_READ_BYTES = 16 * 1024


class ProbeTarget(NamedTuple):
    """What is probed, and how its certificate is verified."""

    url: BaseUrl
    tls: Tls
    contexts: TlsContextCache
    credential: str = ""
    """Reference to the bearer token that the replica requires; empty: none."""
    credentials: Credentials | None = None
    host: ResolvedName | None = None
    """Of a host name that is to be remembered while DNS is away."""

    @property
    def name(self) -> str:
        """The name that its certificate must have."""
        return self.tls.server_name or self.url.host.removesuffix(".")

    def bearer(self) -> bytes:
        """The value of Authorization; empty if it requires none. Raises CredentialError."""
        if not self.credential or self.credentials is None:
            return b""
        return self.credentials.bearer(self.credential)


class _TlsVerificationFailed(Exception):
    """Certificate verification failed; the text says why."""


async def probe(
    checks: Checks, target: ProbeTarget, has_passed: bool, with_inference: bool = False
) -> ProbeResult:
    """One round of probes of a replica. Never raises because of what the replica does."""
    kind = checks.first(has_passed)
    result = await _ask(checks, kind, target)
    if checks.needs_liveness(kind, result):
        result = conclude(result, await _ask(checks, "liveness", target))
    if result.passed and with_inference:
        result = conclude_with(result, await _ask_inference(checks, target))
    return result


async def _ask(checks: Checks, kind: ProbeKind, target: ProbeTarget) -> ProbeResult:
    request = checks.requests[kind]
    return await _judged(target, request, MAX_BODY_BYTES, checks.timeout_s, partial(checks.judge, kind))


async def _ask_inference(checks: Checks, target: ProbeTarget) -> ProbeResult:
    assert checks.inference is not None
    limit_s = checks.probe.inference_timeout_s
    return await _judged(target, checks.inference, MAX_ANSWER_BYTES, limit_s, checks.judge_inference)


async def _judged(
    target: ProbeTarget,
    request: ProbeRequest,
    most_bytes: int,
    limit_s: float,
    judge: Callable[[int, bytes], ProbeResult],
) -> ProbeResult:
    try:
        async with asyncio.timeout(limit_s):
            status, body = await _exchange(target, request, most_bytes)
    except (_TlsVerificationFailed, CaBundleError, CredentialError) as error:
        return down(str(error))
    except (OSError, EOFError, httptools.HttpParserError) as error:
        return result_of_error(error, limit_s)
    return judge(status, body)


async def _exchange(target: ProbeTarget, request: ProbeRequest, most_bytes: int) -> tuple[int, bytes]:
    """Status, and as much of the body as a result needs. The token is redacted from the body of an error.

    Raises _TlsVerificationFailed, CaBundleError, CredentialError, OSError, EOFError, HttpParserError.
    """
    bearer = target.bearer()
    reader, writer = await _connect(target)
    try:
        writer.write(_encode(target.url, request, bearer))
        answer = _ProbeResponse(most_bytes, is_head=request.method == "HEAD")
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


async def _connect(target: ProbeTarget) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    url = target.url
    address = await _address(target)
    if url.scheme == "http":
        return await asyncio.open_connection(address, url.port)
    context = target.contexts.get(target.tls.ca)
    try:
        return await asyncio.open_connection(address, url.port, ssl=context, server_hostname=target.name)
    except (ssl.SSLError, ConnectionResetError) as error:
        names = []
        if is_name_mismatch(error):
            names = await fetch_certificate_names(address, url.port, target.tls.ca, target.name)
        raise _TlsVerificationFailed(describe_tls_error(error, target.name, names)) from None


async def _address(target: ProbeTarget) -> str:
    """An address of the host that may be dialled. Raises OSError, also DeniedAddress."""
    url, policy = target.url, address_policy.in_force()
    policy.refuse_host(url.host, url.port)
    if target.host is not None:
        return await target.host.address(url.port)
    found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    return policy.permitted(url.host, tuple(str(info[4][0]) for info in found), url.port)[0]


def _encode(url: BaseUrl, request: ProbeRequest, bearer: bytes) -> bytes:
    lines = [f"{request.method} {request.path} HTTP/1.1", f"Host: {url.host_field}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    if request.body or request.method == "POST":
        lines.append(f"Content-Length: {len(request.body)}")
    head = "\r\n".join(lines).encode("latin-1")
    if bearer:
        head += b"\r\nAuthorization: " + bearer
    return head + b"\r\n\r\n" + request.body


class _ProbeResponse:
    """Collects one response."""

    def __init__(self, most_bytes: int, *, is_head: bool) -> None:
        self._most_bytes = most_bytes
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
        self.complete |= len(self.body) >= self._most_bytes

    def on_message_complete(self) -> None:
        self.complete |= bool(self.status)
