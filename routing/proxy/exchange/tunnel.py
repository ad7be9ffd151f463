"""Tunnel (upgrade, WebSocket): after a 101 the proxy forwards bytes both ways as they come.

Theory. For the client's connection, the client's bytes are a body without an end; for the replica's
connection, the replica's bytes are a response without an end. So a tunnel has the same backpressure as any
upload and any stream. When either side closes, both are closed, after the bytes that were sent before. Of the
time limits two apply: ``idle_s``, silence in both directions, and ``websocket_s``, its age. Source: RFC 6455
§4.2.2, RFC 9110 §7.8.

Where the proxy ends a tunnel itself, the client gets a close frame, if it can be put between two frames of
the replica. The replica's side is just closed, as when a client is gone.
"""

from __future__ import annotations

from collections.abc import Callable

from routing.http.response_head import ResponseHead
from routing.protocols.web_socket import GOING_AWAY, close_frame
from routing.proxy.exchange import router
from routing.proxy.exchange.response_headers import proxied_response
from routing.proxy.exchange.state import Ending, ExchangeState
from routing.proxy.exchange.streaming_response import TunnelResponse
from routing.proxy.upstream_endpoint import UpstreamEndpoint

Close = Callable[[float, Ending, str], None]
"""The exchange's own way to end its tunnel, :meth:`routing.proxy.exchange.exchange.Exchange.close_tunnel`:
with ``now``, how it ends, and the code of the reason."""

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
        exchange.upstream.pause()


def tunnel_response(exchange: ExchangeState, head: ResponseHead) -> TunnelResponse:
    """The response to an upgrade."""
    pool = exchange.pool
    assert pool is not None
    return TunnelResponse(head, pool.protocol, pool.counters)


def look_after(exchange: ExchangeState, close: Close, tunnel: TunnelResponse, now: float) -> bool:
    """Charge the key for tokens reported since the last look, and close a tunnel that is too old. Whether it
    was closed."""
    if exchange.quota is not None and (tokens := tunnel.take_tokens()):
        exchange.quota.charge(tokens)
    assert exchange.pool is not None
    limit_s = exchange.pool.policy.timeouts.websocket_s
    if not limit_s or now - exchange.started <= limit_s:
        return False
    end(exchange, close, tunnel, GOING_AWAY, f"open for the limit of {limit_s:g} s", "websocket_timeout", now)
    return True


def end(
    exchange: ExchangeState,
    close: Close,
    tunnel: TunnelResponse,
    close_code: int,
    reason: str,
    code: str,
    now: float,
) -> None:
    """The proxy ends the tunnel."""
    client = exchange.client
    sends_close = tunnel.from_replica.between_frames and not client.write_paused
    if sends_close:
        client.write(close_frame(close_code, reason))
    close(now, "cut", code)
    if sends_close:
        client.finish(now, False)
    else:
        client.abort()
