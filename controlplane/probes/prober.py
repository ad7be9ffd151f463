"""Prober: probes many replicas at once and hands over each result as it comes.

A probe is a request of its own with a time limit of its own (:mod:`.time_limit`); redirects are not followed
and at most MAX_BODY_BYTES of a response are read. Connections are kept between probes (:mod:`.http_client`);
a trial has a fresh one. The address policy judges what a name has been resolved to, and again each address
that is dialled.

Everything is sent by the process's one loop (:mod:`.probe_loop`).
"""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec.structs import replace
from yarl import URL

from controlplane.probes.http_client import HandshakeFailed, NotHttp, ProbeClient, Security
from controlplane.probes.probe_loop import probe_loop
from controlplane.probes.time_limit import ProberLate, TimeLimit
from routing.contract import address_policy
from routing.contract.addresses import BaseUrl, parse_base_url
from routing.contract.inference_probe import MAX_ANSWER_BYTES, conclude_with
from routing.contract.load_report import ReportedLoad
from routing.contract.metrics_pages import LOAD_PAGE_S, MAX_PAGE_BYTES
from routing.contract.probe_presets import Checks, ProbeKind, ProbeRequest, conclude
from routing.contract.probe_result import MAX_BODY_BYTES, ProbeResult, down, own_fault, result_of_error
from routing.contract.table import Tls
from routing.tls.certificate_names import fetch_certificate_names
from routing.tls.context_cache import CaBundleError, TlsContextCache
from routing.tls.credentials import CredentialError, Credentials, redact_token
from routing.tls.errors import describe_tls_error, is_name_mismatch

OVERDUE_S = 30.0
"""So much later than their time limits say, probes are given up as hanging."""

_Info = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class ReplicaProbe:
    """One round of probes of one replica."""

    uid: str
    url: str
    checks: Checks
    has_passed: bool
    wait_s: float = 0.0
    """Until it is due."""
    begin_within_s: float = float("inf")
    """Later than this nobody waits for its result any more (its claim has run out): it is not sent."""
    tls: Tls = field(default_factory=Tls)
    credential: str = ""
    """Reference to the bearer token that it requires; empty: none."""
    with_inference: bool = False
    """Whether an inference request follows readiness that has passed."""


@dataclass(slots=True)
class ReplicaProbeResult:
    """What a round found. ``took_s``: of the request that decided it, connecting included."""

    uid: str
    verdict: ProbeResult
    took_s: float
    load: ReportedLoad | None = None
    """Load from its metrics page; ``None``: the page was not read."""
    load_at: float = 0.0
    """When that came, by the monotonic clock."""
    late_s: float = 0.0
    """How much later than due it was sent."""

    def load_now(self) -> ReportedLoad | None:
        """The same with its age."""
        return self.load and replace(self.load, age_s=max(time.monotonic() - self.load_at, 0.0))


class ProbesOverdue(Exception):
    """Probes have not ended long after their own time limits: something waits without one."""


class NotSent(NamedTuple):
    """A probe that this process did not get to in time, or that failed for a reason of its own."""

    uid: str
    error: BaseException | None = None


ProbingOutcome = ReplicaProbeResult | NotSent
Deliver = Callable[[ProbingOutcome], None]
"""Called on the loop: it must not block."""


def send(questions: Sequence[ReplicaProbe], deliver: Deliver) -> None:
    """Ask all of them when each is due; exactly one outcome each, in order of arrival. Returns at once."""
    probes = probe_loop()
    asked_at = time.monotonic()

    def begin() -> None:
        for question in questions:
            work = partial(_probe, question, asked_at, deliver)
            # Begun when it is due, not before: most wait for most of a second.
            wait_s = asked_at + question.wait_s - time.monotonic()
            if wait_s <= 0:
                probes.begin(work)
            else:
                probes.loop.call_later(wait_s, probes.begin, work)

    probes.call(begin)


def probe(questions: Sequence[ReplicaProbe]) -> Iterator[ReplicaProbeResult]:
    """Ask all of them and wait for the findings. Raises ProbesOverdue."""
    results: SimpleQueue[ProbingOutcome] = SimpleQueue()
    send(questions, results.put)
    limit_s = _limit_s(questions)
    ends = time.monotonic() + limit_s
    for number in range(len(questions)):
        try:
            result = results.get(timeout=max(ends - time.monotonic(), 0.0))
        except Empty:
            missing = len(questions) - number
            raise ProbesOverdue(f"{missing} probes have not ended after {limit_s:.0f} s") from None
        if isinstance(result, ReplicaProbeResult):
            yield result
        elif result.error is not None:
            raise result.error


def _limit_s(questions: Sequence[ReplicaProbe]) -> float:
    """By when all have ended, by their own time limits."""
    longest_s = max((each.wait_s + each.checks.longest_s for each in questions), default=0.0)
    return longest_s + OVERDUE_S


async def _probe(question: ReplicaProbe, asked_at: float, deliver: Deliver) -> None:
    waited_s = time.monotonic() - asked_at
    if waited_s > question.begin_within_s:
        deliver(NotSent(question.uid))
        return
    try:
        finding = await _round(question)
    except BaseException as error:
        deliver(NotSent(question.uid, error))
        if not isinstance(error, Exception):
            raise
    else:
        finding.late_s = max(waited_s - question.wait_s, 0.0)
        deliver(finding)


@lru_cache(maxsize=1)
def _client() -> ProbeClient:
    return ProbeClient(_addresses, probe_loop().most_kept)


async def _addresses(host: str, port: int) -> list[str]:
    """Addresses that may be dialled: of an IP address it is the one. Raises OSError, also DeniedAddress."""
    address_policy.in_force().refuse_host(host, port)
    try:
        return [ipaddress.ip_address(host).compressed]
    except ValueError:
        pass
    infos = await _look_up(host, port, socket.AF_UNSPEC)
    found = tuple(dict.fromkeys(str(info[4][0]) for info in infos))
    if not found:
        raise OSError(f"{host} has no address")
    return list(address_policy.in_force().permitted(host, found, port))


def new_session(traces: Sequence[aiohttp.TraceConfig] = ()) -> aiohttp.ClientSession:
    """What every probe is sent with. Call it on the event loop that sends."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            force_close=True, limit=0, resolver=_Resolver(), socket_factory=_permitted_socket
        ),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("Accept-Encoding", "Content-Type"),
        trace_configs=list(traces),
    )


async def _round(question: ReplicaProbe) -> ReplicaProbeResult:
    if question.checks.load is None:
        return await _health(question)
    # At the same time: a page that is slow to come, or does not, costs the verdict LOAD_PAGE_S at most.
    finding, (load, at) = await asyncio.gather(_health(question), _load(question))
    finding.load, finding.load_at = load, at
    return finding


async def _load(question: ReplicaProbe) -> tuple[ReportedLoad, float]:
    """The replica's load report, or why there is none, and when it was read."""
    checks = question.checks
    page = checks.load
    assert page is not None
    limit_s = min(checks.timeout_s, LOAD_PAGE_S)
    try:
        async with asyncio.timeout(limit_s):
            status, body = await _send(question, page.url, checks.load_request, MAX_PAGE_BYTES)
        load = page.judge(status, body)
    except (*_FAILURES, TimeoutError) as error:
        load = page.silent(verdict_of(error, limit_s).words)
    return load, time.monotonic()


async def _health(question: ReplicaProbe) -> ReplicaProbeResult:
    checks = question.checks
    kind = checks.first(question.has_passed)
    finding = await _ask(question, kind)
    if checks.needs_liveness(kind, finding.verdict):
        alive = await _ask(question, "liveness")
        return ReplicaProbeResult(question.uid, conclude(finding.verdict, alive.verdict), finding.took_s)
    if finding.verdict.passed and question.with_inference:
        verdict = conclude_with(finding.verdict, await _ask_inference(question))
        return ReplicaProbeResult(question.uid, verdict, finding.took_s)
    return finding


async def _ask(question: ReplicaProbe, kind: ProbeKind) -> ReplicaProbeResult:
    checks = question.checks
    sent = partial(_send, question, question.url, checks.requests[kind], MAX_BODY_BYTES)
    began = time.perf_counter()
    verdict = await _within(checks.timeout_s, sent, partial(checks.judge, kind))
    return ReplicaProbeResult(question.uid, verdict, time.perf_counter() - began)


async def _ask_inference(question: ReplicaProbe) -> ProbeResult:
    checks = question.checks
    assert checks.inference is not None
    sent = partial(_send, question, question.url, checks.inference, MAX_ANSWER_BYTES)
    return await _within(checks.probe.inference_timeout_s, sent, checks.judge_inference)


async def _within(
    limit_s: float,
    sent: Callable[[], Awaitable[tuple[int, bytes]]],
    judge: Callable[[int, bytes], ProbeResult],
) -> ProbeResult:
    """What one request found, or that it found nothing in time."""
    try:
        async with TimeLimit(probe_loop().meter, limit_s):
            status, body = await sent()
        return judge(status, body)
    except ProberLate:
        return own_fault(f"no response in {limit_s:.1f} s, but the prober itself was late")
    except (*_FAILURES, TimeoutError) as error:
        return verdict_of(error, limit_s)


_FAILURES = (OSError, EOFError, NotHttp, aiohttp.ClientError)


async def _send(
    question: ReplicaProbe, base_url: str, request: ProbeRequest, most_bytes: int
) -> tuple[int, bytes]:
    """Raises one of _FAILURES."""
    target = _target(base_url)
    bearer = _bearer(question.credential) if question.credential else b""
    if target.scheme == "http":
        status, body = await _client().exchange(target, request, bearer, most_bytes)
    else:
        status, body = await _send_over_tls(target, request, question.tls, bearer, most_bytes)
    return status, redact_token(body, bearer) if bearer and status >= 400 else body


async def _send_over_tls(
    target: BaseUrl, request: ProbeRequest, tls: Tls, bearer: bytes, most_bytes: int
) -> tuple[int, bytes]:
    """Raises one of _FAILURES; ProbeCertificateError where there is no verified connection."""
    name = _verified_name(target, tls)
    try:
        security = Security(_CONTEXTS.get(tls.ca), name)
    except CaBundleError as error:
        raise ProbeCertificateError(str(error)) from None
    try:
        return await _client().exchange(target, request, bearer, most_bytes, security)
    except HandshakeFailed as error:
        raise await _certificate_error(error.cause, target, tls.ca, name) from None


def _verified_name(target: BaseUrl, tls: Tls) -> str:
    """That its certificate has to be for."""
    return tls.server_name or target.host.removesuffix(".")


async def _certificate_error(
    cause: BaseException, target: BaseUrl, ca: str, name: str
) -> "ProbeCertificateError":
    names = await _names(target, ca, name) if is_name_mismatch(cause) else []
    return ProbeCertificateError(describe_tls_error(cause, name, names))


_target = lru_cache(maxsize=32768)(parse_base_url)


_CONTEXTS = TlsContextCache()
"""Of this process: loops that probe at the same time share them."""
_CREDENTIALS = Credentials()
"""As well."""


async def exchange(
    session: aiohttp.ClientSession,
    base_url: str,
    request: ProbeRequest,
    tls: Tls,
    credential: str = "",
    trace: object = None,
    most_bytes: int = MAX_BODY_BYTES,
) -> tuple[int, bytes]:
    """Sends one request; the response's status and start of its body, an error's without the token that it
    may quote.

    ``trace`` is handed to the session's traces. Whoever calls limits the time. Raises OSError (ProbeNotSent
    and DeniedAddress among them) or aiohttp.ClientError.
    """
    target = parse_base_url(base_url)
    address_policy.in_force().refuse_host(target.host, target.port)
    if not credential:
        return await _verified(session, target, request, tls, trace, most_bytes)
    bearer = _bearer(credential)
    field = ("Authorization", bearer.decode("ascii"))
    request = request._replace(headers=(*request.headers, field))
    try:
        status, body = await _verified(session, target, request, tls, trace, most_bytes)
    except aiohttp.ClientResponseError as error:
        raise aiohttp.ClientResponseError(error.request_info, (), message=_UNQUOTED) from None
    except aiohttp.ClientPayloadError:
        raise aiohttp.ClientPayloadError(_UNQUOTED) from None
    return status, redact_token(body, bearer) if status >= 400 else body


_UNQUOTED = "what came is not HTTP, or ended too early"
"""In place of the client's own words, which may quote any part of what came."""


async def _verified(
    session: aiohttp.ClientSession,
    target: BaseUrl,
    request: ProbeRequest,
    tls: Tls,
    trace: object,
    most_bytes: int,
) -> tuple[int, bytes]:
    """Over TLS where the replica is reached so."""
    if target.scheme == "http":
        return await _exchange(session, target, request, trace, True, None, most_bytes)
    name = _verified_name(target, tls)
    try:
        return await _exchange(session, target, request, trace, _CONTEXTS.get(tls.ca), name, most_bytes)
    except CaBundleError as error:
        raise ProbeCertificateError(str(error)) from None
    except aiohttp.ClientConnectorError as error:
        cause = error.os_error
        if not isinstance(cause, ssl.SSLError | ConnectionResetError):
            raise
        raise await _certificate_error(cause, target, tls.ca, name) from None


def _bearer(credential: str) -> bytes:
    """Raises ProbeNotSent."""
    try:
        return _CREDENTIALS.bearer(credential)
    except CredentialError as error:
        raise ProbeNotSent(str(error)) from None


class ProbeNotSent(OSError):
    """Nothing was sent; the text says why."""


class ProbeCertificateError(ProbeNotSent):
    """There is no verified TLS connection."""


def verdict_of(error: BaseException, limit_s: float) -> ProbeResult:
    """What an error of :func:`exchange`, or ``limit_s`` without an answer, means."""
    if isinstance(error, ProbeNotSent):
        return down(str(error))
    return result_of_error(
        EOFError() if isinstance(error, aiohttp.ServerDisconnectedError) else error, limit_s
    )


async def _names(target: BaseUrl, ca: str, name: str) -> list[str]:
    try:
        address = ipaddress.ip_address(target.host).compressed
    except ValueError:
        address = (await _Resolver().resolve(target.host, target.port, socket.AF_UNSPEC))[0]["host"]
    return await fetch_certificate_names(address, target.port, ca, name)


async def _exchange(
    session: aiohttp.ClientSession,
    target: BaseUrl,
    request: ProbeRequest,
    trace: object,
    context: ssl.SSLContext | bool,
    name: str | None,
    most_bytes: int,
) -> tuple[int, bytes]:
    # encoded=True: the target goes out as it was written.
    url = URL(f"{target.scheme}://{target.authority}{request.path}", encoded=True)
    async with session.request(
        request.method,
        url,
        headers=request.headers,
        data=request.body or None,
        allow_redirects=False,
        ssl=context,
        server_hostname=name,
        trace_request_ctx=trace,
    ) as response:
        body = bytearray()
        while len(body) < most_bytes:
            piece = await response.content.read(most_bytes - len(body))
            if not piece:
                break
            body += piece
        return response.status, bytes(body)


def _permitted_socket(info: aiohttp.AddrInfoType) -> socket.socket:
    """For one connection. Raises DeniedAddress."""
    family, kind, protocol, _, address = info
    host, port = address[:2]
    address_policy.in_force().refuse(str(host), int(port))
    return socket.socket(family, kind, protocol)


class _Resolver(AbstractResolver):
    """Looks names up, and drops the addresses at which no replica can be."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises OSError, also DeniedAddress."""
        found = {str(info[4][0]): info for info in await _look_up(host, port, family)}
        if not found:
            raise OSError(f"{host} has no address")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=found[address][0],
                proto=found[address][2],
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in address_policy.in_force().permitted(host, tuple(found), port)
        ]

    async def close(self) -> None:
        return None


def _look_up(host: str, port: int, family: int) -> "asyncio.Future[Sequence[_Info]]":
    """``getaddrinfo`` in a thread of its own.

    Not in a pool: names that hang would fill it and hold up others, and a pool's threads are waited
    for when the process exits.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Sequence[_Info]] = loop.create_future()

    def deliver(infos: Sequence[_Info], error: OSError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(infos)
        else:
            future.set_exception(error)

    def run() -> None:
        infos: Sequence[_Info] = ()
        failure = None
        try:
            infos = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        except OSError as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
            loop.call_soon_threadsafe(deliver, infos, failure)

    Thread(target=run, name="lookup", daemon=True).start()
    return future
