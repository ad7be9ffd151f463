"""Spans of requests: what a receiver of traces gets, through a real proxy and real sockets."""

import json
from collections.abc import Callable
from pathlib import Path

from routing.contract.version import VERSION
from tests.otlp_receiver import Receiver, Span
from tests.proxy_process import Proxy, until
from tests.routing.master.tracing.model_server import (
    CALLER,
    CHAT,
    MODEL,
    SECRET,
    TRACE,
    ModelServer,
    ask,
    parent,
)

Start = Callable[..., Proxy]
ROUND = {"strategy": "round_robin", "slow_start_s": 0}
ONE_SLOT = {**ROUND, "max_concurrency": 1}


def by_kind(spans: list[Span], kind: str) -> list[Span]:
    return [span for span in spans if span.kind == kind]


def test_a_request(receiver: Receiver, servers: list[ModelServer], traced: Start) -> None:
    proxy = traced(
        "--name", "east-1", environment={"OTEL_RESOURCE_ATTRIBUTES": "team=a%20b,service.name=llm"}
    )
    assert ask(proxy)[0] == 200
    request, attempt = receiver.trace(2)
    assert (request.kind, request.name, request.parent_id) == ("server", f"POST {CHAT}", "")
    assert not request.failed
    said = {**request.attributes}
    assert len(said.pop("switchyard.request_id")) > 10
    assert said == {
        "http.request.method": "POST",
        "http.route": CHAT,
        "http.response.status_code": 200,
        "url.path": CHAT,
        "url.scheme": "http",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": MODEL,
        "gen_ai.response.model": MODEL,
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "switchyard.ending": "answered",
        "switchyard.fleet": "chat",
    }
    server = next(one for one in servers if one.served)
    assert (attempt.kind, attempt.name, attempt.failed) == ("client", f"chat {MODEL}", False)
    assert (attempt.parent_id, attempt.trace_id) == (request.span_id, request.trace_id)
    assert attempt.attributes == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "server.address": "127.0.0.1",
        "server.port": int(server.url.rpartition(":")[2]),
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": MODEL,
        "switchyard.fleet": "chat",
        "switchyard.replica": server.name,
        "switchyard.outcome": "success",
    }
    assert request.began_ns <= attempt.began_ns <= attempt.ended_ns <= request.ended_ns
    resource = request.resource
    assert (resource["service.name"], resource["service.version"]) == ("llm", VERSION)
    assert (resource["service.instance.id"], resource["team"]) == ("east-1", "a b")
    assert server.heads[-1]["traceparent"] == f"00-{request.trace_id}-{attempt.span_id}-01"
    assert receiver.posts[0]["path"] == "/v1/traces"
    assert receiver.posts[0]["Content-Encoding"] == "gzip"


def test_a_stream(receiver: Receiver, servers: list[ModelServer], traced: Start) -> None:
    for server in servers:
        server.streams, server.pause_s = True, 0.1
    assert ask(traced(), stream=True)[0] == 200
    request, _ = receiver.trace(2)
    said = request.attributes
    assert said["gen_ai.request.stream"] is True
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (7, 3)
    assert said["gen_ai.response.model"] == MODEL
    first_s = (request.events["gen_ai.first_token"] - request.began_ns) / 1e9
    assert abs(first_s - said["gen_ai.response.time_to_first_chunk"]) < 1e-3
    assert 0.1 <= first_s < request.seconds - 0.09


def test_a_retried_request(receiver: Receiver, servers: list[ModelServer], traced: Start) -> None:
    proxy = traced()
    servers[0].status = 503
    until(lambda: ask(proxy)[0] == 200 and servers[0].served, "one comes to the server that fails")
    spans = receiver.trace(3)
    retried = next(span for span in by_kind(spans, "client") if span.attributes["switchyard.replica"] == "a")
    ours = receiver.trace(3, retried.trace_id)
    first, second = by_kind(ours, "client")
    assert first.failed
    assert (first.attributes["error.type"], first.attributes["http.response.status_code"]) == ("503", 503)
    assert "http.request.resend_count" not in first.attributes
    assert not second.failed
    assert second.attributes["http.response.status_code"] == 200
    assert second.attributes["http.request.resend_count"] == 1
    assert second.attributes["switchyard.retry_reason"] == "status_503"
    assert first.ended_ns <= second.began_ns
    (request,) = by_kind(ours, "server")
    assert not request.failed
    seen = [servers[0].heads[-1]["traceparent"], servers[1].heads[-1]["traceparent"]]
    assert seen == [f"00-{request.trace_id}-{one.span_id}-01" for one in (first, second)]


def test_a_queued_request(
    tmp_path: Path, receiver: Receiver, servers: list[ModelServer], traced: Start
) -> None:
    proxy = traced(policy={**ONE_SLOT, "queue": {"size": 8, "timeout_s": 30}})
    for server in servers:
        server.pause_s = 0.2
    clients = [_begin(proxy) for _ in range(3)]
    for client in clients:
        assert client.getresponse().read()
        client.close()
    spans = receiver.trace(7)
    (wait,) = by_kind(spans, "internal")
    assert wait.name == "queue"
    request = next(span for span in spans if span.span_id == wait.parent_id)
    (attempt,) = [span for span in by_kind(spans, "client") if span.parent_id == request.span_id]
    assert 0.05 < wait.seconds < request.seconds
    assert wait.ended_ns == attempt.began_ns


def _begin(proxy: Proxy):  # type: ignore[no-untyped-def]
    client = proxy.client()
    client.request("POST", CHAT, json.dumps({"model": "chat"}), {"Content-Type": "application/json"})
    return client


def test_a_refused_request(receiver: Receiver, servers: list[ModelServer], traced: Start) -> None:
    proxy = traced(policy={**ONE_SLOT, "queue": {"size": 0, "timeout_s": 1}})
    for server in servers:
        server.held.clear()
    held = [_begin(proxy) for _ in servers]
    until(lambda: all(server.served for server in servers), "both are busy")
    assert ask(proxy)[0] == 503
    (request,) = receiver.trace(1)
    assert request.failed
    assert request.attributes["error.type"] == "queue_full"
    assert request.attributes["http.response.status_code"] == 503
    assert request.attributes["switchyard.ending"] == "error"
    for client in held:
        client.close()


def test_a_client_that_leaves(receiver: Receiver, servers: list[ModelServer], traced: Start) -> None:
    proxy = traced()
    for server in servers:
        server.held.clear()
    client = _begin(proxy)
    until(lambda: any(server.served for server in servers), "it is at a server")
    client.close()
    request, attempt = receiver.trace(2)
    assert not request.failed
    assert request.attributes["error.type"] == request.attributes["switchyard.ending"] == "client_left"
    assert "http.response.status_code" not in request.attributes
    assert not attempt.failed
    assert attempt.attributes["switchyard.outcome"] == "cancelled"


def test_a_lost_replica(receiver: Receiver, servers: list[ModelServer], traced: Start) -> None:
    proxy = traced(policy={**ROUND, "ejection": {"consecutive_failures": 99}})
    servers[0].stop()
    for _ in range(2):
        assert ask(proxy)[0] == 200
    failed = until(lambda: [span for span in receiver.spans if span.failed], "a failed attempt")
    assert failed[0].kind == "client"
    assert failed[0].attributes["error.type"] == failed[0].attributes["switchyard.outcome"] == "refused"


def test_what_the_replica_says_is_the_clients_fault(
    receiver: Receiver, servers: list[ModelServer], traced: Start
) -> None:
    for server in servers:
        server.status = 422
    assert ask(traced())[0] == 422
    request, attempt = receiver.trace(2)
    assert not request.failed
    assert request.attributes["http.response.status_code"] == 422
    assert attempt.failed
    assert attempt.attributes["error.type"] == "422"


def test_a_clients_own_trace_goes_on(receiver: Receiver, servers: list[ModelServer], traced: Start) -> None:
    proxy = traced(environment={"OTEL_TRACES_SAMPLER": "parentbased_always_off"})
    assert ask(proxy, Traceparent=parent("00"), Tracestate="a=1")[0] == 200
    assert ask(proxy)[0] == 200
    assert ask(proxy, Traceparent=parent("01"), Tracestate="a=1")[0] == 200
    request, attempt = receiver.trace(2)
    assert (request.trace_id, request.parent_id) == (TRACE, CALLER)
    heads = [head for server in servers for head in server.heads]
    unsampled = next(head for head in heads if head["traceparent"] == parent("00"))
    assert unsampled["tracestate"] == "a=1"
    sampled = next(head for head in heads if head["traceparent"] == f"00-{TRACE}-{attempt.span_id}-01")
    assert sampled["tracestate"] == "a=1"
    begun = next(head for head in heads if TRACE not in head["traceparent"])
    assert begun["traceparent"].endswith("-00")
    assert len(heads) == 3
    assert len(receiver.spans) == 2


def test_equal_heads_are_not_mixed_up(receiver: Receiver, servers: list[ModelServer], traced: Start) -> None:
    """A connection keeps a head that comes again: a sampled one is changed, others are not."""
    proxy = traced("--traces-per-second", "0.01")
    client = proxy.client()
    for _ in range(3):
        headers = {"Content-Type": "application/json", "traceparent": parent()}
        client.request("POST", CHAT, json.dumps({"model": "chat"}), headers)
        assert client.getresponse().read()
    client.close()
    seen = [head["traceparent"] for server in servers for head in server.heads]
    assert sorted(value == parent() for value in seen) == [False, True, True]
    assert len(receiver.trace(2)) == 2


def test_nothing_of_prompt_answer_or_key_is_exported(
    receiver: Receiver, servers: list[ModelServer], traced: Start
) -> None:
    proxy = traced()
    secret = "sy-" + "k" * 43
    assert ask(proxy, CHAT + "?api_key=topsecret", Authorization=f"Bearer {secret}")[0] == 200
    for server in servers:
        server.streams = True
    assert ask(proxy, stream=True)[0] == 200
    for server in servers:
        server.streams, server.status = False, 500
    assert ask(proxy)[0] == 500
    receiver.trace(7)
    for word in (SECRET.encode(), b"topsecret", secret.encode()):
        assert word not in receiver.raw


def test_a_second_replica(receiver: Receiver, servers: list[ModelServer], traced: Start) -> None:
    """Both get the request with the span of their own attempt."""
    limits = {"first_token_limit_s": 0.3, "retries": {"budget_percent": 100}}
    proxy = traced(policy={**ROUND, **limits})
    for server in servers:
        server.streams = True
    servers[0].held.clear()
    until(lambda: ask(proxy, stream=True)[0] == 200 and servers[0].served, "one server hangs")
    beaten = until(
        lambda: [one for one in receiver.spans if one.attributes.get("switchyard.outcome") == "beaten"],
        "an attempt is beaten",
    )[0]
    request, first, second = receiver.trace(3, beaten.trace_id)
    assert not request.failed
    assert first == beaten
    assert not first.failed
    assert second.attributes["switchyard.outcome"] == "success"
    assert second.attributes["http.response.status_code"] == 200
    assert second.attributes["switchyard.retry_reason"] == "first_token_limit"
    assert first.began_ns < second.began_ns < first.ended_ns
    seen = [server.heads[-1]["traceparent"] for server in servers]
    assert seen == [f"00-{request.trace_id}-{one.span_id}-01" for one in (first, second)]


def test_beside_an_access_log(
    tmp_path: Path, receiver: Receiver, servers: list[ModelServer], traced: Start
) -> None:
    log = tmp_path / "access"
    proxy = traced("--access-log", str(log), "--log-format", "json")
    assert ask(proxy)[0] == 200
    request, _ = receiver.trace(2)
    line = json.loads(until(log.read_text, "a line"))
    assert line["trace_id"] == request.trace_id
    assert line["request_id"] == request.attributes["switchyard.request_id"]
    assert (line["status"], line["retries"]) == (200, 0)
    assert line["replica"] == next(server.name for server in servers if server.served)
