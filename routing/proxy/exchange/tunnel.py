"""Tunnel (upgrade, WebSocket): after a 101 the proxy forwards bytes both ways as they come.

Theory. For the client's connection, the client's bytes are a body without an end; for the replica's
connection, the replica's bytes are a response without an end. So a tunnel has the same backpressure as any
upload and any stream. When either side closes, both are closed, after the bytes that were sent before. Of the
time limits only ``idle_s`` applies: silence in both directions. Source: RFC 6455 §4.2.2, RFC 9110 §7.8.
"""

from __future__ import annotations

from routing.http.response_head import ResponseHead
from routing.proxy.exchange import router
from routing.proxy.exchange.response_headers import proxied_response
from routing.proxy.exchange.state import ExchangeState
from routing.proxy.upstream_endpoint import UpstreamEndpoint

_SWITCHED = b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def open_tunnel(exchange: ExchangeState, head: ResponseHead, first: bytes, now: float) -> None:
    """The replica has switched protocols. ``first``: the bytes that it sent right after its 101."""
    attempt, pool, client = exchange.attempt, exchange.pool, exchange.client
    assert attempt is not None
    assert pool is not None
    endpoint: UpstreamEndpoint = attempt.replica.endpoint  # type: ignore[assignment]
    router.receive_tunnel(exchange)
    # The fleet counts the request as answered now: how long the tunnel stays open is no latency.
    pool.counters.answered += 1
    pool.observe(now - exchange.started)
    client.write(proxied_response(exchange, endpoint, head.block, _SWITCHED, first))
    client.open_tunnel()
    if client.write_paused and exchange.upstream is not None:
        exchange.upstream.transport.pause_reading()
