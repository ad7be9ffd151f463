"""Spans: a finished trace, as OpenTelemetry's conventions say it.

A request is a server span by the conventions for HTTP, and has the attributes of those for generative AI.
Below it are a span for each wait for a slot, and a client span for each attempt at a replica.
``docs/tracing.md`` has the table, and a test compares. Sources:
https://opentelemetry.io/docs/specs/semconv/http/http-spans/ and
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/.
"""

import re
from collections.abc import Iterator, Mapping
from random import Random

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.semconv.attributes import (
    error_attributes,
    http_attributes,
    server_attributes,
    url_attributes,
)
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from routing.contract.version import VERSION
from routing.ipc.finished_traces import FinishedAttempt, FinishedTrace

FIRST_TOKEN = "gen_ai.first_token"
"""Name of an event."""
QUEUE = "queue"
"""Name of the span of a wait for a slot."""
_SCHEMA = Schemas.V1_37_0.value
_SCOPE = InstrumentationScope("switchyard", VERSION, _SCHEMA)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"))
_OTHER_METHOD = "_OTHER"

# Of the conventions for generative AI, whose names the package has only as deprecated ones.
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_MODEL = "gen_ai.response.model"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"

_OPERATIONS = {
    "/chat/completions": "chat",
    "/messages": "chat",
    "/responses": "chat",
    "/completions": "text_completion",
    "/embeddings": "embeddings",
}
_FLEET = re.compile(r"/fleets/[^/]+(?=/)")
_OPENAI = re.compile(r"(?:/openai)?/v1(/[a-z]+(?:/[a-z]+)?)\Z")
_MODEL = re.compile(r"(/v2/models/)[^/]+(/versions/)?(?(2)[^/]+)(/[a-z_]+)?\Z")
_NO_FAILURES = frozenset({"success", "switched", "beaten", "cancelled"})
"""Outcomes of attempts."""

Attributes = dict[str, str | int | float | bool]


def resource_of(service: str, proxy: str, given: Mapping[str, str]) -> Resource:
    """The proxy, as all its spans name it. ``given``: further attributes, which go before."""
    own = {"service.name": service, "service.version": VERSION, "service.instance.id": proxy}
    return Resource.create({**own, **given})


class SpanMaker:
    """Makes the spans of traces. ``resource``: the proxy."""

    def __init__(self, resource: Resource, random: Random) -> None:
        self._resource = resource
        self._random = random

    def spans_of(self, trace: FinishedTrace) -> Iterator[ReadableSpan]:
        """The request, its waits, and its attempts."""
        operation = _operation(trace)
        yield self._request(trace, operation)
        parent = _context(trace, trace.span_id)
        for began, ended in trace.waits:
            span_id = b"%016x" % self._random.randint(1, (1 << 64) - 1)
            times = began, ended
            yield self._span(trace, span_id, parent, QUEUE, SpanKind.INTERNAL, {}, times)
        for number, attempt in enumerate(trace.attempts):
            yield self._attempt(trace, attempt, number, operation, parent)

    def _request(self, trace: FinishedTrace, operation: str) -> ReadableSpan:
        method = trace.method if trace.method in _METHODS else _OTHER_METHOD
        route = _route(trace.path)
        attributes: Attributes = {
            http_attributes.HTTP_REQUEST_METHOD: method,
            url_attributes.URL_PATH: trace.path,
            url_attributes.URL_SCHEME: trace.scheme,
            "switchyard.request_id": trace.request_id,
            "switchyard.ending": trace.ending,
            **_generative(trace, operation),
        }
        if method == _OTHER_METHOD:
            attributes[http_attributes.HTTP_REQUEST_METHOD_ORIGINAL] = trace.method
        if route:
            attributes[http_attributes.HTTP_ROUTE] = route
        if trace.status:
            attributes[http_attributes.HTTP_RESPONSE_STATUS_CODE] = trace.status
        if trace.fleet:
            attributes["switchyard.fleet"] = trace.fleet
        if trace.asked_fleet:
            attributes["switchyard.asked_fleet"] = trace.asked_fleet
        events = []
        if trace.first_token:
            attributes[FIRST_CHUNK] = round(trace.first_token - trace.started, 6)
            events.append(Event(FIRST_TOKEN, timestamp=_unix_ns(trace, trace.first_token)))
        failed = trace.status >= 500 or trace.ending == "cut"
        if trace.code:
            attributes[error_attributes.ERROR_TYPE] = trace.code
        elif failed or trace.ending == "client_left":
            attributes[error_attributes.ERROR_TYPE] = (
                str(trace.status) if trace.status >= 500 else trace.ending
            )
        parent = _context(trace, trace.parent_id, is_remote=True) if trace.parent_id else None
        name = f"{'HTTP' if method == _OTHER_METHOD else method} {route}".rstrip()
        times = trace.started, trace.ended
        return self._span(
            trace, trace.span_id, parent, name, SpanKind.SERVER, attributes, times, failed, tuple(events)
        )

    def _attempt(
        self,
        trace: FinishedTrace,
        attempt: FinishedAttempt,
        number: int,
        operation: str,
        parent: SpanContext,
    ) -> ReadableSpan:
        """``number``: how many attempts came before."""
        method = trace.method if trace.method in _METHODS else _OTHER_METHOD
        attributes: Attributes = {
            http_attributes.HTTP_REQUEST_METHOD: method,
            server_attributes.SERVER_ADDRESS: attempt.host,
            server_attributes.SERVER_PORT: attempt.port,
            "switchyard.fleet": trace.fleet,
            "switchyard.replica": attempt.replica,
            "switchyard.outcome": attempt.outcome,
        }
        if operation:
            attributes.update({OPERATION: operation, PROVIDER: _provider(trace), REQUEST_MODEL: trace.model})
        if attempt.status:
            attributes[http_attributes.HTTP_RESPONSE_STATUS_CODE] = attempt.status
        if number:
            attributes[http_attributes.HTTP_REQUEST_RESEND_COUNT] = number
            attributes["switchyard.retry_reason"] = attempt.reason
        failed = attempt.outcome not in _NO_FAILURES
        if failed:
            attributes[error_attributes.ERROR_TYPE] = (
                str(attempt.status) if attempt.status >= 400 else attempt.outcome
            )
        name = f"{operation} {trace.model}" if operation else ("HTTP" if method == _OTHER_METHOD else method)
        times = attempt.started, attempt.ended
        return self._span(trace, attempt.span_id, parent, name, SpanKind.CLIENT, attributes, times, failed)

    def _span(
        self,
        trace: FinishedTrace,
        span_id: bytes,
        parent: SpanContext | None,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        times: tuple[float, float],
        failed: bool = False,
        events: tuple[Event, ...] = (),
    ) -> ReadableSpan:
        return ReadableSpan(
            name,
            _context(trace, span_id),
            parent,
            self._resource,
            attributes,
            events,
            kind=kind,
            status=Status(StatusCode.ERROR) if failed else Status(),
            start_time=_unix_ns(trace, times[0]),
            end_time=_unix_ns(trace, times[1]),
            instrumentation_scope=_SCOPE,
        )


def _context(trace: FinishedTrace, span_id: bytes, is_remote: bool = False) -> SpanContext:
    return SpanContext(int(trace.trace_id, 16), int(span_id, 16), is_remote, _SAMPLED)


def _unix_ns(trace: FinishedTrace, at: float) -> int:
    return int(at * 1e9) + trace.unix_offset_ns


def _route(path: str) -> str:
    """The path's form, of which there are few; empty: it has none that is known."""
    fleet = _FLEET.match(path)
    prefix, rest = ("", path) if fleet is None else ("/fleets/{fleet}", path[fleet.end() :])
    model = _MODEL.match(rest)
    if model is not None:
        version = "/versions/{version}" if model[2] else ""
        return f"{prefix}{model[1]}{{model}}{version}{model[3] or ''}"
    known = _OPENAI.match(rest)
    return prefix + rest if known is not None and known[1] in _ROUTES else ""


_ROUTES = frozenset(
    (
        *_OPERATIONS,
        *("/models", "/messages/count_tokens", "/rerank", "/score", "/moderations", "/images/generations"),
        *("/audio/transcriptions", "/audio/translations", "/audio/speech"),
    )
)


def _operation(trace: FinishedTrace) -> str:
    """What the request asks of a model, in the conventions' words; empty: they have no word, or it is not
    known to be such a request."""
    if trace.method != "POST" or trace.protocol != "openai":
        return ""
    path = _FLEET.sub("", trace.path, count=1)
    known = _OPENAI.match(path)
    return "" if known is None else _OPERATIONS.get(known[1], "")


def _provider(trace: FinishedTrace) -> str:
    """Whose API it is: that tells how such spans are to be read, not who serves the model."""
    return "anthropic" if trace.path.endswith("/messages") else "openai"


def _generative(trace: FinishedTrace, operation: str) -> Attributes:
    if not operation:
        return {}
    found: Attributes = {OPERATION: operation, PROVIDER: _provider(trace), REQUEST_MODEL: trace.model}
    if trace.stream:
        found[REQUEST_STREAM] = True
    if trace.answered_by:
        found[RESPONSE_MODEL] = trace.answered_by
    if trace.input_tokens:
        found[INPUT_TOKENS] = trace.input_tokens
    if trace.output_tokens:
        found[OUTPUT_TOKENS] = trace.output_tokens
    return found
