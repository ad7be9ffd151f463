"""Text of a trial probe: its result as one sentence that says what to do. Pure."""

import errno
import ipaddress
import re
import socket
from http import HTTPStatus
from typing import Any, NamedTuple

import aiohttp

from controlplane.probes.prober import ProbeCertificateError, ProbeNotSent
from routing.contract.address_policy import DeniedAddress
from routing.contract.addresses import parse_base_url
from routing.contract.probe_presets import ProbeRequest
from routing.contract.probe_result import ProbeResult

_PLAIN_ON_TLS = b"HTTPS port"
"""What servers say who are spoken to in plain HTTP on a TLS port (nginx, Go)."""
_PLAIN_ON_TLS_GO = b"HTTP request to an HTTPS server"


_LOADING = re.compile(r"\bload(ing|ed)?\b", re.IGNORECASE)


class TrialReply(NamedTuple):
    """What one request led to."""

    status: int | None
    body: bytes
    error: BaseException | None
    took_s: float
    limit_s: float
    connected: bool

    @property
    def cause(self) -> BaseException | None:
        """The error that the HTTP client wrapped."""
        return getattr(self.error, "os_error", self.error)


class FittingProbe(NamedTuple):
    """Another probe that suits what the server answers."""

    probe: dict[str, Any]
    """As a fleet's ``probe`` is written."""
    asked: str
    """``GET /health``."""

    @property
    def words(self) -> str:
        preset = self.probe["preset"]
        name = f"path: {self.probe['path']}" if preset == "http" else f"preset: {preset}"
        return f"{name} ({self.asked} returns 200)"


def may_be_tls(reply: TrialReply) -> bool:
    """Whether the answer is one that a server gives who expected TLS."""
    if reply.status is not None:
        return reply.status == 400 and (_PLAIN_ON_TLS in reply.body or _PLAIN_ON_TLS_GO in reply.body)
    return _closed(reply) or isinstance(reply.error, aiohttp.ClientResponseError)


def sentence(
    url: str,
    model: str,
    request: ProbeRequest,
    reply: TrialReply,
    verdict: ProbeResult,
    *,
    fits: FittingProbe | None,
    tls: bool,
    live: bool,
    credential: str = "",
) -> str:
    """What was seen, and what to look at. ``live``: liveness was asked, and passed. ``credential``: where the
    token is that was sent along."""
    place = parse_base_url(url).authority
    if tls:
        return (
            f"{place} speaks TLS: write https:// instead of http://. If its certificate is from a private "
            "CA, set the fleet's tls.ca"
        )
    if reply.status is None:
        return _no_answer(url, place, reply, verdict)
    if verdict.passed:
        return f"{verdict.words} in {reply.took_s * 1000:.0f} ms: ready"
    words = _answered(model, request, reply.status, verdict, live, credential)
    return f"{words}; a probe that fits: {fits.words}" if fits else words


def doubled_v1(url: str) -> str:
    """What to do about an address that ends in ``/v1``."""
    base = parse_base_url(url)
    return (
        f"404 at {base.path_prefix}/v1/models: leave /v1 out of the URL, because the paths of client "
        f"requests begin with it ({base.scheme}://{base.authority}{base.path_prefix.removesuffix('/v1')})"
    )


def _no_answer(url: str, place: str, reply: TrialReply, verdict: ProbeResult) -> str:
    cause, host = reply.cause, parse_base_url(url).host
    if isinstance(cause, DeniedAddress):
        return str(cause)
    if isinstance(cause, ProbeCertificateError):
        return f"{cause} - probed at {place}"
    if isinstance(cause, ProbeNotSent):
        return f"{cause}: nothing was sent to {place}"
    if isinstance(cause, socket.gaierror):
        return (
            f"the name {host} does not resolve where the control plane runs: is it spelled right? "
            "An IP address works without a name server"
        )
    if isinstance(reply.error, TimeoutError):
        return _too_late(url, place, reply)
    if _errno(cause) == errno.ECONNREFUSED or verdict.words == "connection refused":
        return f"connection refused: nothing listens at {place} - {_where_it_listens(host)}"
    if _errno(cause) in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN):
        return f"{verdict.words}: the control plane cannot reach {place} - is the address right?"
    if isinstance(reply.error, aiohttp.ClientResponseError):
        return (
            f"the server at {place} does not speak HTTP/1.1: is this its gRPC port? "
            "Give the HTTP port (Triton: 8000, not 8001)"
        )
    if _closed(reply):
        return (
            f"connection closed without a response: something listens at {place}, but it speaks another "
            "protocol or crashed - check its log"
        )
    return verdict.words


def _too_late(url: str, place: str, reply: TrialReply) -> str:
    if reply.connected:
        return (
            f"connected to {place}, but no response in {reply.limit_s:.1f} s: "
            "the server is busy, still starting, or hangs"
        )
    if parse_base_url(url).scheme == "https":
        return (
            f"no TLS connection to {place} in {reply.limit_s:.1f} s: nothing answers at that address, or the "
            "server does not speak TLS - is the host up, should the URL be http://?"
        )
    return (
        f"no connection to {place} in {reply.limit_s:.1f} s: nothing answers at that address - "
        "is it right, is the host up, does a firewall drop the packets?"
    )


def _where_it_listens(host: str) -> str:
    if _is_loopback(host):
        return f"is the server started? {host} is the machine or container of the control plane itself"
    return "is the server started, and does it listen on that address and not only on 127.0.0.1?"


def _answered(
    model: str, request: ProbeRequest, status: int, verdict: ProbeResult, live: bool, credential: str
) -> str:
    path = request.path
    if live:
        return (
            f'{verdict.words}: the server is up, but its model "{model}" is not ready - is it still loading, '
            "or should served_model be another name?"
        )
    if status == HTTPStatus.SERVICE_UNAVAILABLE and verdict.hint == "unready":
        loading = _LOADING.search(verdict.words)
        return f"{verdict.words}: the server is up and {'still loading' if loading else 'cannot serve now'}"
    if status == HTTPStatus.NOT_FOUND:
        return f"404 at {path}: this server has no such path"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"{verdict.words} at {path}: {_not_let_in(credential)}"
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"405 at {path}: the server does not accept {request.method} there"
    if 300 <= status < 400:
        return f"{verdict.words} at {path}: give the URL that it redirects to"
    if status >= 500:
        return f"{verdict.words} at {path}: the server is up but fails - check its log"
    return f"{verdict.words} at {path}"


def _not_let_in(credential: str) -> str:
    if credential:
        return f"the server does not accept the bearer token from {credential}"
    return (
        "the server requires a bearer token: set the replica's credential to where the token is, env:NAME or "
        "file:/whole/path"
    )


def _closed(reply: TrialReply) -> bool:
    return isinstance(reply.error, aiohttp.ServerDisconnectedError) or _errno(reply.cause) in (
        errno.ECONNRESET,
        errno.EPIPE,
    )


def _errno(error: BaseException | None) -> int | None:
    number: int | None = getattr(error, "errno", None)
    return number


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
