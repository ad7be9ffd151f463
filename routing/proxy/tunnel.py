"""A WebSocket's way through the proxy: from 101 on, bytes pass both ways as they come.

Theory. To the client's connection its bytes are a body without an end, to the replica's connection the
replica's are an answer without an end; so a tunnel has the same backpressure as any upload and any stream.
Whoever closes first ends it for both sides, after what was sent before. Of the time limits only ``idle_s``
holds: silence in both directions. Source: RFC 6455 §4.2.2, RFC 9110 §7.8.
"""

from __future__ import annotations

from routing.attempts.tunnel import TunnelAttempt
from routing.http.response_head import ResponseHead
from routing.proxy import ends
from routing.proxy.link import Link
from routing.proxy.state import ExchangeState
from routing.proxy.streamed import TunnelledAnswer
from routing.proxy.upload import Upload

_SWITCHED = b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def open_tunnel(exchange: ExchangeState, head: ResponseHead, first: bytes, now: float) -> None:
    """The replica has switched protocols. ``first``: what it sent right behind that."""
    attempt, pool, client = exchange.attempt, exchange.pool, exchange.client
    assert attempt is not None
    assert pool is not None
    link: Link = attempt.replica.http  # type: ignore[assignment]
    exchange.attempt = TunnelAttempt(attempt, now)
    exchange.answer = TunnelledAnswer(head)
    exchange.upload = Upload(False, b"")
    exchange.moved_at = now
    # To the fleet the request is answered now; how long the tunnel stays open is no latency.
    pool.counters.answered += 1
    pool.observe(now - exchange.started)
    about = exchange.request_id + exchange.retried
    client.write(b"".join((head.block, link.response_fields, about, _SWITCHED, first)))
    client.open_tunnel()
    if client.write_paused and exchange.upstream is not None:
        exchange.upstream.transport.pause_reading()


def close_tunnel(exchange: ExchangeState, now: float) -> None:
    """The client has left, or is about to be told that the replica has."""
    attempt, upstream = exchange.attempt, exchange.upstream
    exchange.attempt = exchange.upstream = None
    if upstream is not None:
        upstream.close()
    if attempt is not None:
        attempt.settle(exchange.answer.outcome, now)  # type: ignore[union-attr]
    ends.close_books(exchange, answered=False)
