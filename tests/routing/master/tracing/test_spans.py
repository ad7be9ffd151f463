"""Spans by the conventions: names, statuses and attributes, and that docs/tracing.md has all of them."""

import re
from random import Random
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace.status import StatusCode

from routing.master import export_settings
from routing.master.tracing.spans import SpanMaker, resource_of
from tests.proxy_process import ROOT
from tests.routing.ipc.finished import finished_attempt, finished_trace

PAGE = (ROOT / "docs" / "tracing.md").read_text()
CHAT: dict[str, Any] = {"method": "POST", "path": "/v1/chat/completions", "protocol": "openai", "model": "m"}


def spans(*attempts: Any, **fields: Any) -> list[ReadableSpan]:
    maker = SpanMaker(resource_of("s", "p", {}), Random(1))
    return list(maker.spans_of(finished_trace(attempts=list(attempts), **fields)))


@pytest.mark.parametrize(
    ("method", "path", "name", "route"),
    [
        ("POST", "/v1/chat/completions", "POST /v1/chat/completions", "/v1/chat/completions"),
        (
            "POST",
            "/fleets/a/v1/embeddings",
            "POST /fleets/{fleet}/v1/embeddings",
            "/fleets/{fleet}/v1/embeddings",
        ),
        ("POST", "/v2/models/m/infer", "POST /v2/models/{model}/infer", "/v2/models/{model}/infer"),
        ("GET", "/v2/models/m", "GET /v2/models/{model}", "/v2/models/{model}"),
        (
            *("POST", "/v2/models/m/versions/3/infer"),
            *(
                "POST /v2/models/{model}/versions/{version}/infer",
                "/v2/models/{model}/versions/{version}/infer",
            ),
        ),
        ("GET", "/v1/responses/resp_1", "GET", None),
        ("GET", "/v1/what/ever", "GET", None),
        ("GET", "/fleets/a", "GET", None),
        ("BREW", "/pot", "HTTP", None),
    ],
)
def test_names_are_few(method: str, path: str, name: str, route: str | None) -> None:
    (request,) = spans(method=method, path=path)
    assert request.name == name
    assert request.attributes is not None
    assert request.attributes.get("http.route") == route
    assert request.attributes["url.path"] == path


@pytest.mark.parametrize(
    ("path", "protocol", "operation", "provider"),
    [
        ("/v1/chat/completions", "openai", "chat", "openai"),
        ("/v1/responses", "openai", "chat", "openai"),
        ("/v1/messages", "openai", "chat", "anthropic"),
        ("/fleets/a/v1/completions", "openai", "text_completion", "openai"),
        ("/openai/v1/embeddings", "openai", "embeddings", "openai"),
        ("/v1/rerank", "openai", None, None),
        ("/v1/chat/completions", "generic", None, None),
        ("/v2/models/m/infer", "open-inference", None, None),
    ],
)
def test_what_is_asked_of_a_model(
    path: str, protocol: str, operation: str | None, provider: str | None
) -> None:
    both = spans(finished_attempt(), method="POST", path=path, protocol=protocol, model="m")
    for span in both:
        assert span.attributes is not None
        assert span.attributes.get("gen_ai.operation.name") == operation
        assert span.attributes.get("gen_ai.provider.name") == provider
    assert both[1].name == (f"{operation} m" if operation else "POST")


@pytest.mark.parametrize(
    ("fields", "failed", "error"),
    [
        ({"status": 200, "ending": "answered"}, False, None),
        ({"status": 404, "ending": "error", "code": "model_not_found"}, False, "model_not_found"),
        ({"status": 503, "ending": "error", "code": "queue_full"}, True, "queue_full"),
        ({"status": 500, "ending": "answered"}, True, "500"),
        ({"status": 422, "ending": "answered"}, False, None),
        ({"status": 200, "ending": "cut", "code": "replica_lost"}, True, "replica_lost"),
        ({"status": 200, "ending": "cut"}, True, "cut"),
        ({"status": 0, "ending": "client_left"}, False, "client_left"),
        ({"status": 200, "ending": "client_left"}, False, "client_left"),
    ],
)
def test_what_is_an_error_of_a_request(fields: dict[str, Any], failed: bool, error: str | None) -> None:
    (request,) = spans(**fields)
    assert (request.status.status_code is StatusCode.ERROR) is failed
    assert request.attributes is not None
    assert request.attributes.get("error.type") == error


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"outcome": "success"}, None),
        ({"outcome": "cancelled", "status": 0}, None),
        ({"outcome": "beaten", "status": 0}, None),
        ({"outcome": "client_error", "status": 400}, "400"),
        ({"outcome": "failed", "status": 500}, "500"),
        ({"outcome": "failed", "status": 0}, "failed"),
        ({"outcome": "without_result", "status": 200}, "without_result"),
        ({"outcome": "timeout", "status": 0}, "timeout"),
    ],
)
def test_what_is_an_error_of_an_attempt(fields: dict[str, Any], error: str | None) -> None:
    _, attempt = spans(finished_attempt(**fields))
    assert (attempt.status.status_code is StatusCode.ERROR) is (error is not None)
    assert attempt.attributes is not None
    assert attempt.attributes.get("error.type") == error


def test_times_are_of_the_wall_clock() -> None:
    request, wait, attempt = spans(
        finished_attempt(started=1.5, ended=1.75),
        unix_offset_ns=10**18,
        waits=[(1.25, 1.5)],
        first_token=1.625,
        stream=True,
        **CHAT,
    )
    seconds = [(one.start_time or 0) / 1e9 - 1e9 for one in (request, wait, attempt)]
    assert seconds == pytest.approx([1.0, 1.25, 1.5], abs=1e-5)
    assert (request.end_time or 0) - (attempt.end_time or 0) == 250_000_000
    assert request.events[0].timestamp == 10**18 + 1_625_000_000
    assert request.attributes is not None
    assert request.attributes["gen_ai.response.time_to_first_chunk"] == 0.625


def test_every_attribute_is_on_the_page() -> None:
    retry = finished_attempt(outcome="failed", status=500, reason="status_503")
    whole = spans(
        *(finished_attempt(), retry),
        **{**CHAT, "status": 500, "answered_by": "m", "stream": True, "first_token": 1.5},
        input_tokens=1,
        output_tokens=1,
        fleet="f",
        asked_fleet="g",
    )
    strange = spans(method="BREW", path="/")
    found: dict[str, set[str]] = {}
    for span in (*whole, *strange):
        for name in span.attributes or {}:
            found.setdefault(name, set()).add(span.kind.name.lower())
    documented = {
        name: set(kinds.split(", "))
        for names, kinds in re.findall(r"^\| (`[^|]+`) \| ((?:server|client)[^|]*) \|", PAGE, re.M)
        for name in re.findall(r"`([^`]+)`", names)
    }
    documented["http.request.method_original"] = documented["http.request.method"] & {"server"}
    documented["http.route"] = found["http.route"] = {"server"}
    assert found == documented


def test_every_setting_is_on_the_page() -> None:
    source = (ROOT / "routing" / "master" / "export_settings.py").read_text()
    assert export_settings.ENDPOINT in source
    named = set(re.findall(r'"(OTEL_[A-Z_]+[A-Z])"', source))
    named |= {
        f"OTEL_EXPORTER_OTLP_{name}" for name in re.findall(r'said\.(?:of_traces|file)\("([A-Z_]+)"', source)
    }
    assert named == set(re.findall(r"^\| `(OTEL_[A-Z_]+)`", PAGE, re.M))
