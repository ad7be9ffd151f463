"""Upgrade to a WebSocket: a tunnel through the proxy. From 101 on, bytes pass both ways as they come.

Theory. For the client's connection, the client's bytes are a body without an end; for the replica's
connection, the replica's bytes are a response without an end. So a tunnel has the same backpressure as any
upload and any stream. When either side closes, both are closed, after the bytes that were sent before. Of the
time limits only ``idle_s`` applies: silence in both directions. Source: RFC 6455 §4.2.2, RFC 9110 §7.8.
"""

from __future__ import annotations

from routing.balancing.attempt.tunnel import TunnelAttempt
from routing.http.response_head import ResponseHead
from routing.proxy.exchange import local_reply
from routing.proxy.exchange.request_body_buffer import RequestBodyBuffer
from routing.proxy.exchange.state import Ending, ExchangeState
from routing.proxy.exchange.streaming_response import TunnelResponse
from routing.proxy.upstream_endpoint import UpstreamEndpoint

_SWITCHED = b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def open_tunnel(exchange: ExchangeState, head: ResponseHead, first: bytes, now: float) -> None:
    """The replica has switched protocols. ``first``: what it sent right behind that."""
    attempt, pool, client = exchange.attempt, exchange.pool, exchange.client
    assert attempt is not None
    assert pool is not None
    endpoint: UpstreamEndpoint = attempt.replica.endpoint  # type: ignore[assignment]
    exchange.attempt = TunnelAttempt(attempt, now)
    exchange.answer = TunnelResponse(head)
    exchange.upload = RequestBodyBuffer(False, b"")
    exchange.progressed_at = now
    # To the fleet the request is answered now; how long the tunnel stays open is no latency.
    pool.counters.answered += 1
    pool.observe(now - exchange.started)
    about = exchange.request_id + exchange.retry_fields
    client.write(b"".join((head.block, endpoint.response_fields, about, _SWITCHED, first)))
    client.open_tunnel()
    if client.write_paused and exchange.upstream is not None:
        exchange.upstream.transport.pause_reading()


def close_tunnel(exchange: ExchangeState, now: float, ending: Ending) -> None:
    """The client has left, or is about to be told that the replica has."""
    attempt, upstream = exchange.attempt, exchange.upstream
    exchange.attempt = exchange.upstream = None
    if upstream is not None:
        upstream.close()
    if attempt is not None:
        attempt.settle(exchange.answer.outcome, now)  # type: ignore[union-attr]
    local_reply.record_completion(exchange, ending)
