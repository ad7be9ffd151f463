"""Trial probe: one address is probed at once, as its probes will do, and the result is explained.

The same requests, presets and address policy as the probes of :mod:`.prober`, with two questions more
where the response does not fit: does another preset pass, and is TLS spoken there? A trial writes nothing.
All of it takes at most LIMIT_S.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

import aiohttp

from controlplane.probes import prober, trial_text
from controlplane.probes.trial_text import FittingProbe, TrialReply
from routing.contract.address_policy import DeniedAddress
from routing.contract.addresses import parse_base_url
from routing.contract.probe import Probe
from routing.contract.probe_presets import (
    Checks,
    ProbeKind,
    ProbeRequest,
    checks_of,
    conclude,
    preset_named,
    resolve,
)
from routing.contract.probe_result import ProbeResult
from routing.contract.table import ApiProtocol, Tls

LIMIT_S = 5.0
"""The whole trial."""
FIRST_S = 3.5
"""The question itself, also where the probe's own time limit is longer: a person waits."""
TLS_S = 1.0
V1_S = 1.0
V2_READY = "/v2/health/ready"
OLLAMA = "/api/version"

ProbeOutcome = Literal["ready", "unready", "down", "refused"]


@dataclass(frozen=True, slots=True)
class TrialTarget:
    """What to try."""

    url: str
    """Normalised."""
    protocol: ApiProtocol
    model: str
    """Name that it serves the model under; empty: not known."""
    probe: Probe
    tls: Tls = field(default_factory=Tls)
    credential: str = ""
    """Reference to the bearer token that it requires; empty: none."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    outcome: ProbeOutcome
    """``refused``: the address is one at which no replica may be; nothing was sent there."""
    words: str
    url: str
    asked: str
    """``GET /health``: the request that the words are about."""
    preset: str
    """The probe's, also where without a model's name another request of it was sent."""
    status: int | None
    """None: no answer in HTTP."""
    latency_ms: float | None
    """From connecting to the whole answer; None: there was none."""
    fits: FittingProbe | None
    """Another probe that this server passes; None: none is needed, or none was found."""


def run(subject: TrialTarget) -> TrialResult:
    """As :func:`attempt`, from a thread without an event loop. Raises ValueError as ``checks_of``."""
    return asyncio.run(attempt(subject))


def run_all(subjects: Sequence[TrialTarget]) -> list[TrialResult]:
    """All of them at once, in their order; as long as one takes."""

    async def attempts() -> list[TrialResult]:
        return await asyncio.gather(*(attempt(subject) for subject in subjects))

    return asyncio.run(attempts())


async def attempt(subject: TrialTarget) -> TrialResult:
    """Try one address. Raises ValueError when the probe's settings contradict each other."""
    checks = _checks(subject)
    began = time.monotonic()
    async with prober.new_session([_connect_noted()]) as session:
        reply = await _ask(session, subject, checks.requests["readiness"], min(checks.timeout_s, FIRST_S))
        left_s = max(LIMIT_S - (time.monotonic() - began), 0.1)
        return await _concluded(session, subject, checks, reply, left_s)


async def _concluded(
    session: aiohttp.ClientSession, subject: TrialTarget, checks: Checks, reply: TrialReply, left_s: float
) -> TrialResult:
    verdict = _judged(checks, "readiness", reply)
    more = _More()
    ends = time.monotonic() + left_s
    if not verdict.passed:
        try:
            async with asyncio.timeout(left_s):
                await _look_further(session, subject, checks, reply, more)
        except TimeoutError:
            pass  # What is not found out in time stays unknown.
        if more.liveness is not None:
            verdict = conclude(verdict, more.liveness)
    request = checks.requests["readiness"]
    refused = isinstance(reply.cause, DeniedAddress)
    live = more.liveness is not None and more.liveness.passed
    words = trial_text.sentence(
        subject.url,
        subject.model,
        request,
        reply,
        verdict,
        fits=more.fits,
        tls=more.tls,
        live=live,
        credential=subject.credential,
    )
    outcome: ProbeOutcome = "refused" if refused else verdict.hint
    if await _doubles_v1(session, subject, reply, max(ends - time.monotonic(), 0.1)):
        words = f"{words}; {trial_text.doubled_v1(subject.url)}"
        outcome = "unready" if outcome == "ready" else outcome
    return TrialResult(
        outcome=outcome,
        words=words,
        url=subject.url,
        asked=f"{request.method} {request.path}",
        preset=resolve(subject.probe, subject.protocol).preset,
        status=reply.status,
        latency_ms=None if reply.status is None else round(reply.took_s * 1000, 1),
        fits=more.fits,
    )


def _checks(subject: TrialTarget) -> Checks:
    """Without a model's name a server of many models can only be asked for itself."""
    probe = resolve(subject.probe, subject.protocol)
    preset = preset_named(probe.preset)
    if preset.without_model is not None and not subject.model:
        timeout_s = preset.timeout_s if probe.timeout_s is None else probe.timeout_s
        probe = Probe(path=preset.without_model, timeout_s=timeout_s)
    return checks_of(probe, subject.protocol, subject.url, subject.model)


@dataclass(slots=True)
class _More:
    """What was found out after an answer that does not fit."""

    liveness: ProbeResult | None = None
    tls: bool = False
    fits: FittingProbe | None = None


async def _look_further(
    session: aiohttp.ClientSession, subject: TrialTarget, checks: Checks, reply: TrialReply, more: _More
) -> None:
    if checks.needs_liveness("readiness", _judged(checks, "readiness", reply)):
        alive = await _ask(session, subject, checks.requests["liveness"], checks.timeout_s)
        more.liveness = _judged(checks, "liveness", alive)
        if more.liveness.passed:
            return
    if subject.url.startswith("http://") and trial_text.may_be_tls(reply):
        more.tls = await _speaks_tls(session, subject.url)
    if not more.tls and reply.status is not None and 300 <= reply.status < 500:
        more.fits = await _fitting(session, subject, checks)


def _judged(checks: Checks, kind: ProbeKind, reply: TrialReply) -> ProbeResult:
    if reply.status is not None:
        return checks.judge(kind, reply.status, reply.body)
    assert reply.error is not None
    return prober.verdict_of(reply.error, reply.limit_s)


async def _ask(
    session: aiohttp.ClientSession, subject: TrialTarget, request: ProbeRequest, limit_s: float
) -> TrialReply:
    noted = SimpleNamespace(connected=False)
    began = time.perf_counter()
    status, body, error = None, b"", None
    try:
        async with asyncio.timeout(limit_s):
            status, body = await prober.exchange(
                session, subject.url, request, subject.tls, subject.credential, noted
            )
    except (OSError, TimeoutError, aiohttp.ClientError) as raised:
        error = raised
    return TrialReply(status, body, error, time.perf_counter() - began, limit_s, noted.connected)


def _connect_noted() -> aiohttp.TraceConfig:
    """Tells a host that drops packets from a server that takes the request and is silent."""

    async def connected(session: aiohttp.ClientSession, context: Any, parameters: Any) -> None:
        noted = context.trace_request_ctx
        if noted is not None:
            noted.connected = True

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(connected)
    return trace


async def _speaks_tls(session: aiohttp.ClientSession, url: str) -> bool:
    """Whether a TLS handshake gets an answer; certificates do not matter for that."""
    try:
        async with (
            asyncio.timeout(TLS_S),
            session.head(f"https://{parse_base_url(url).authority}/", ssl=False, allow_redirects=False),
        ):
            return True
    except aiohttp.ClientConnectorError as error:
        # A server that wants a client's certificate refuses the handshake in TLS's own words.
        return "ALERT" in str(getattr(error.os_error, "reason", ""))
    except (OSError, TimeoutError, aiohttp.ClientError):
        return False


async def _doubles_v1(
    session: aiohttp.ClientSession, subject: TrialTarget, reply: TrialReply, left_s: float
) -> bool:
    """Whether the address ends in the ``/v1`` that OpenAI clients' paths begin with, and the server does not
    know the path that comes of both. Its probes may pass all the same."""
    prefix = parse_base_url(subject.url).path_prefix
    if subject.protocol != "openai" or not prefix.endswith("/v1") or reply.status is None:
        return False
    models = await _ask(session, subject, _get(f"{prefix}/v1/models"), min(left_s, V1_S))
    return models.status == 404


# --- Which other probe would pass ---

_OTHER_PATHS = (V2_READY, OLLAMA, "/health", "/healthz", "/v1/models", "/ping", "/")
"""The most telling first; the last says only that something answers there."""


async def _fitting(
    session: aiohttp.ClientSession, subject: TrialTarget, checks: Checks
) -> FittingProbe | None:
    """The first of the other probes that this server passes."""
    prefix = parse_base_url(subject.url).path_prefix
    asked = checks.requests["readiness"].path
    paths = [path for path in _OTHER_PATHS if prefix + path != asked]
    replies = await asyncio.gather(
        *(_ask(session, subject, _get(prefix + path), checks.timeout_s) for path in paths)
    )
    for path, reply in zip(paths, replies, strict=True):
        if reply.status == 200:
            return FittingProbe(_probe_for(path, reply.body), f"GET {prefix}{path}")
    return None


def _get(path: str) -> ProbeRequest:
    return ProbeRequest("GET", path, (("User-Agent", "switchyard-probe"), ("Accept", "*/*")))


def _probe_for(path: str, body: bytes) -> dict[str, Any]:
    """As a fleet's ``probe`` is written: some servers are known by what only they answer."""
    if path == V2_READY:
        return {"preset": "kserve-v2"}
    if path == OLLAMA:
        return {"preset": "ollama"}
    if path == "/health" and body.replace(b" ", b"").startswith(b'{"status":"ok"'):
        return {"preset": "llama.cpp"}
    return {"preset": "http", "path": path}
