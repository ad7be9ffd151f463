"""Prober: probes many replicas at once and yields each result as it comes.

A probe is a request of its own on a fresh connection, with a time limit of its own; redirects are not
followed and at most MAX_BODY_BYTES of a response are read. The address policy judges what a name has been
resolved to, and again each address that is dialled.

The event loop runs in a thread of its own, so that whoever takes the results may block (on a database,
say) without the clock of a single probe running on meanwhile.
"""

import asyncio
import contextlib
import dataclasses
import ipaddress
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec.structs import replace
from yarl import URL

from routing.contract import address_policy
from routing.contract.addresses import BaseUrl, parse_base_url
from routing.contract.load_report import ReportedLoad
from routing.contract.metrics_pages import LOAD_PAGE_S, MAX_PAGE_BYTES
from routing.contract.probe_presets import Checks, ProbeKind, ProbeRequest, conclude
from routing.contract.probe_result import MAX_BODY_BYTES, ProbeResult, down, result_of_error
from routing.contract.table import Tls
from routing.tls.certificate_names import fetch_certificate_names
from routing.tls.context_cache import CaBundleError, TlsContextCache
from routing.tls.credentials import CredentialError, Credentials, redact_token
from routing.tls.errors import describe_tls_error, is_name_mismatch

MOST_AT_ONCE = 50
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
    tls: Tls = field(default_factory=Tls)
    credential: str = ""
    """Reference to the bearer token that it requires; empty: none."""


@dataclass(frozen=True, slots=True)
class ReplicaProbeResult:
    """What a round found. ``took_s``: of the request that decided it, connecting included."""

    uid: str
    verdict: ProbeResult
    took_s: float
    load: ReportedLoad | None = None
    """Load from its metrics page; ``None``: the page was not read."""
    load_at: float = 0.0
    """When that came, by the monotonic clock."""

    def load_now(self) -> ReportedLoad | None:
        """The same with its age."""
        return self.load and replace(self.load, age_s=max(time.monotonic() - self.load_at, 0.0))


class _Crashed:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class ProbesOverdue(Exception):
    """Probes have not ended long after their own time limits: something waits without one."""


def probe(questions: Sequence[ReplicaProbe]) -> Iterator[ReplicaProbeResult]:
    """Ask all of them, at most MOST_AT_ONCE at a time; exactly one finding each, in order of arrival.

    Raises ProbesOverdue.
    """
    results: SimpleQueue[ReplicaProbeResult | _Crashed] = SimpleQueue()
    # A thread left in a name lookup that never ends must not keep the process from exiting.
    Thread(target=_run, args=(questions, results), name="probes", daemon=True).start()
    limit_s = _limit_s(questions)
    ends = time.monotonic() + limit_s
    for number in range(len(questions)):
        try:
            result = results.get(timeout=max(ends - time.monotonic(), 0.0))
        except Empty:
            missing = len(questions) - number
            raise ProbesOverdue(f"{missing} probes have not ended after {limit_s:.0f} s") from None
        if isinstance(result, _Crashed):
            raise result.error
        yield result


def _limit_s(questions: Sequence[ReplicaProbe]) -> float:
    """By when all have ended, by their own time limits: two probes each, in as many rounds as there are."""
    rounds = -(-len(questions) // MOST_AT_ONCE)
    longest_s = max((each.wait_s + 2 * each.checks.timeout_s for each in questions), default=0.0)
    return rounds * longest_s + OVERDUE_S


def _run(questions: Sequence[ReplicaProbe], results: "SimpleQueue[ReplicaProbeResult | _Crashed]") -> None:
    try:
        asyncio.run(_probe_all(questions, results))
    except BaseException as error:
        results.put(_Crashed(error))


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


_CONTEXTS = TlsContextCache()
"""Of this process: loops that probe at the same time share them."""
_CREDENTIALS = Credentials()
"""As well."""


async def _probe_all(
    questions: Sequence[ReplicaProbe], results: "SimpleQueue[ReplicaProbeResult | _Crashed]"
) -> None:
    slots = asyncio.Semaphore(MOST_AT_ONCE)
    async with new_session() as session:

        async def ask(question: ReplicaProbe) -> None:
            await asyncio.sleep(question.wait_s)
            async with slots:
                results.put(await _round(session, question))

        async with asyncio.TaskGroup() as tasks:
            for question in questions:
                tasks.create_task(ask(question))


async def _round(session: aiohttp.ClientSession, question: ReplicaProbe) -> ReplicaProbeResult:
    if question.checks.load is None:
        return await _health(session, question)
    # At the same time: a page that is slow to come, or does not, costs the verdict LOAD_PAGE_S at most.
    finding, (load, at) = await asyncio.gather(_health(session, question), _load(session, question))
    return dataclasses.replace(finding, load=load, load_at=at)


async def _load(session: aiohttp.ClientSession, question: ReplicaProbe) -> tuple[ReportedLoad, float]:
    """The replica's load report, or why there is none, and when it was read."""
    checks = question.checks
    page = checks.load
    assert page is not None
    limit_s = min(checks.timeout_s, LOAD_PAGE_S)
    try:
        async with asyncio.timeout(limit_s):
            status, body = await exchange(
                session,
                page.url,
                checks.load_request,
                question.tls,
                question.credential,
                most_bytes=MAX_PAGE_BYTES,
            )
        load = page.judge(status, body)
    except (OSError, TimeoutError, aiohttp.ClientError) as error:
        load = page.silent(verdict_of(error, limit_s).words)
    return load, time.monotonic()


async def _health(session: aiohttp.ClientSession, question: ReplicaProbe) -> ReplicaProbeResult:
    checks = question.checks
    kind = checks.first(question.has_passed)
    finding = await _ask(session, question, kind)
    if checks.needs_liveness(kind, finding.verdict):
        alive = await _ask(session, question, "liveness")
        return ReplicaProbeResult(question.uid, conclude(finding.verdict, alive.verdict), finding.took_s)
    return finding


async def _ask(session: aiohttp.ClientSession, question: ReplicaProbe, kind: ProbeKind) -> ReplicaProbeResult:
    checks = question.checks
    began = time.perf_counter()
    try:
        async with asyncio.timeout(checks.timeout_s):
            status, body = await exchange(
                session, question.url, checks.requests[kind], question.tls, question.credential
            )
        verdict = checks.judge(kind, status, body)
    except (OSError, TimeoutError, aiohttp.ClientError) as error:
        verdict = verdict_of(error, checks.timeout_s)
    return ReplicaProbeResult(question.uid, verdict, time.perf_counter() - began)


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
    name = tls.server_name or target.host.removesuffix(".")
    try:
        return await _exchange(session, target, request, trace, _CONTEXTS.get(tls.ca), name, most_bytes)
    except CaBundleError as error:
        raise ProbeCertificateError(str(error)) from None
    except aiohttp.ClientConnectorError as error:
        cause = error.os_error
        if not isinstance(cause, ssl.SSLError | ConnectionResetError):
            raise
        names = await _names(target, tls.ca, name) if is_name_mismatch(cause) else []
        raise ProbeCertificateError(describe_tls_error(cause, name, names)) from None


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
