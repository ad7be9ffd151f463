"""Local replies (Envoy): exchanges that end without a replica's response; what every completion records."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from routing.balancing.admission.rejection import Rejection
from routing.contract.ended_requests import reason_of, reason_of_status
from routing.contract.policy import FallbackCause
from routing.contract.sketch import bucket_of
from routing.contract.telemetry import FleetCounters
from routing.http.local_response import response_bytes
from routing.protocols.errors import error_content
from routing.proxy.errors import LocalReply, RoutingError
from routing.proxy.exchange import router, sticky_errors, token_measures
from routing.proxy.exchange.model_list import known_names, model_list_reply
from routing.proxy.exchange.route import LOCAL, RequestRoute
from routing.proxy.exchange.server_replies import ServerReply, fleet_reply, server_reply
from routing.proxy.exchange.state import Ending, ExchangeState

_CHALLENGE = b'\r\nWWW-Authenticate: Bearer realm="switchyard"'
_CHALLENGE_ANEW = _CHALLENGE + b', error="invalid_token"'
"""RFC 6750 §3: the challenge to a request without a key, and to one with an unknown key."""

CLIENT_TIMEOUT = "request_timeout"
_NO_PLACE = ("queue_", "memory_", "busy")
"""How the codes of rejections begin where replicas are eligible."""


def record_completion(
    exchange: ExchangeState,
    ending: Ending,
    *,
    answered: bool = False,
    failed: bool = False,
    now: float = 0.0,
    code: str = "",
    status: int = 200,
) -> None:
    """Count and log the end of an exchange. Called once, right before ``client.finish`` or ``client.abort``.
    ``answered``: it counts as a response of the fleet. ``failed``: with an error that was not the client's.
    ``code``: of the proxy's own error. ``status``: of the response."""
    router.release_budget(exchange)
    if exchange.quota is not None:
        if answered:
            exchange.quota.counts.answered(bucket_of(now - exchange.started))
        if failed:
            exchange.quota.counts.failed(reason_of(code) if code else reason_of_status(status))
        _settle_quota(exchange)
    if exchange.streaming_response is not None:
        exchange.streaming_response.ended()
    pool = exchange.pool
    if pool is not None:
        token_measures.count_ended(exchange, pool, answered, failed, now, code, status)
    if exchange.record is not None:
        exchange.record.completed(ending, code)


def _settle_quota(exchange: ExchangeState) -> None:
    response, pool = exchange.streaming_response, exchange.pool
    if response is None or pool is None:
        exchange.settle_quota(0)
        return
    output, prompt = response.used()
    exchange.settle_quota(
        output + prompt, prompt_tokens_unknown=not prompt and output > 0 and pool.protocol == "openai"
    )


def send_local_reply(exchange: ExchangeState, failure: LocalReply) -> None:
    """Respond instead of a replica, in the format of the client's protocol. A response that has begun, and
    waits to go on elsewhere, is broken off."""
    response, pool = exchange.streaming_response, exchange.pool
    if response is not None:
        if pool is not None:
            response.give_up("no_time" if failure.code == CLIENT_TIMEOUT else "no_place", pool.counters)
        break_off(exchange, failure)
        return
    client, head = exchange.client, exchange.head
    protocol = client_protocol(exchange)
    keep = head.keep_alive and not failure.closes and client.may_keep_alive(True)
    request_id = exchange.request_id.decode("latin-1")
    content_type, body = error_content(
        protocol, failure.status, failure.code, failure.message, request_id, failure.kind
    )
    fields = b"\r\nVia: 1.1 %b\r\nX-Request-Id: %b%b%b" % (
        exchange.proxy.via_name,
        exchange.request_id,
        exchange.retry_fields,
        failure.fields,
    )
    if protocol == "anthropic":
        fields += b"\r\nrequest-id: " + exchange.request_id
    if failure.status == 401:
        fields += _CHALLENGE if failure.code == "client_key_missing" else _CHALLENGE_ANEW
    if failure.retry_after_s:
        fields += b"\r\nRetry-After: %d" % max(1, round(failure.retry_after_s))
    client.write(
        response_bytes(
            failure.status,
            content_type,
            body,
            fields=fields,
            close=not keep,
            head_only=head.method == b"HEAD",
        )
    )
    now = monotonic()
    record_completion(
        exchange,
        "error",
        answered=failure.is_answer,
        failed=failure.is_error,
        now=now,
        code=failure.code,
        status=failure.status,
    )
    client.finish(now, keep)


def break_off(exchange: ExchangeState, failure: LocalReply) -> None:
    """End a response that has begun so that no client takes it for a whole one: with an error event, where
    the protocol has one, and so that its framing is not complete (RFC 9112 §8)."""
    response, client = exchange.streaming_response, exchange.client
    assert response is not None
    request_id = exchange.request_id.decode("latin-1")
    last = response.broken_off(failure.status, failure.code, failure.message, request_id)
    record_completion(exchange, "cut", failed=failure.is_error and not response.is_tunnel, code=failure.code)
    if last:
        client.write(last)
    if last and response.chunks:
        # Without the last chunk. The event reaches a client that reads slowly, too.
        client.finish(monotonic(), False)
    else:
        client.abort(response.ends_with_connection)


def client_protocol(exchange: ExchangeState) -> str:
    """The protocol of a reply to the client: the fleet's, if it is known. For a fleet of OpenAI's protocol
    the path decides whether the client speaks Anthropic's instead."""
    head, pool = exchange.head, exchange.pool
    if head.route is None:
        head.route = exchange.proxy.routes.route_of(head)
    assert isinstance(head.route, RequestRoute)
    by_path = head.route.protocol
    if pool is None or (pool.protocol == "openai" and by_path == "anthropic"):
        return by_path
    return pool.protocol


def reply_client_timeout(exchange: ExchangeState) -> None:
    """Reply after the client's own time limit has passed. That says nothing about replica or fleet."""
    words = f"the request's own time limit of {exchange.head.time_limit_s:g} s has passed"
    failure = LocalReply(504, CLIENT_TIMEOUT, words)
    failure.is_error = failure.is_answer = False
    if exchange.pool is not None:
        exchange.pool.counters.cancelled += 1
    send_local_reply(exchange, failure)


def refuse(exchange: ExchangeState, error: RoutingError) -> None:
    """Reply to a request that is not dispatched to any fleet."""
    proxy, message = exchange.proxy, error.message
    proxy.rejected += 1
    if error.lists_fleets:
        message = f"{message}; {known_names(proxy.table, exchange.may_use)}"
    failure = LocalReply(error.status, error.code, message, error.retry_after_s)
    failure.closes = error.closes
    send_local_reply(exchange, failure)


def reply_no_replica(exchange: ExchangeState, refusal: Rejection, failure: LocalReply | None) -> None:
    """Reply if the pool has no replica for the request (any more), and no other fleet takes it. ``failure``:
    the reply after the attempt before, which says more."""
    assert exchange.pool is not None
    if exchange.falls_back(cause_of(refusal, failure), monotonic(), exchange.tried):
        return
    if exchange.pinned is not None:
        failure = LocalReply(*sticky_errors.sticky_error(refusal, exchange.pinned.only_finishes))
    elif failure is None:
        _count(exchange.pool.counters, refusal.code)
        failure = LocalReply(refusal.status, refusal.code, refusal.message, refusal.retry_after_s or 0.0)
    send_local_reply(exchange, failure)


def cause_of(refusal: Rejection, failure: LocalReply | None) -> FallbackCause:
    """What such a request falls back for. ``failure``: as above."""
    if failure is not None:
        return "replicas_failed"
    return "no_place" if refusal.code.startswith(_NO_PLACE) else "no_eligible_replica"


def _count(counters: FleetCounters, code: str) -> None:
    """Requests rejected by a full queue are counted by the queue itself."""
    if code == "fleet_cold":
        counters.cold += 1
    elif not code.startswith("queue_"):
        counters.no_replica += 1


def reply_locally(exchange: ExchangeState, route: RequestRoute) -> bool:
    """Reply to a request that is for the proxy, or for a V2 fleet as a whole. False: a replica of that fleet
    is to reply. Raises :class:`RoutingError`."""
    query = route.server_query
    if query is None:
        table, head, may_use = exchange.proxy.table, exchange.head, exchange.may_use
        _reply(exchange, lambda fields, close: model_list_reply(table, head, fields, close, may_use))
        return True
    reply = server_reply(exchange, query) if route.kind == LOCAL else fleet_reply(exchange, route)
    if reply is not None:
        _reply_for_server(exchange, reply)
    return reply is not None


def _reply_for_server(exchange: ExchangeState, reply: ServerReply) -> None:
    head_only = exchange.head.method == b"HEAD"
    status, body, own_fields = reply

    def response(fields: bytes, close: bool) -> bytes:
        return response_bytes(
            status, "application/json", body, fields=own_fields + fields, close=close, head_only=head_only
        )

    _reply(exchange, response)


def _reply(exchange: ExchangeState, response: Callable[[bytes, bool], bytes]) -> None:
    """Send a reply that counts as none of a fleet. ``response``: makes the whole response from these header
    fields, each preceded by CRLF, and from whether the connection is closed after it."""
    client = exchange.client
    keep = exchange.head.keep_alive and client.may_keep_alive(True)
    client.write(response(b"\r\nX-Request-Id: " + exchange.request_id, not keep))
    record_completion(exchange, "local")
    client.finish(monotonic(), keep)
