"""Upstream request: the bytes of a request for a replica, with X-Forwarded-For and Via."""

from __future__ import annotations

from routing.http.request_head import RequestHead
from routing.protocols import open_inference
from routing.proxy.exchange.exchange_context import ExchangeContext
from routing.proxy.exchange.route import RequestRoute
from routing.proxy.exchange.state import ExchangeState
from routing.proxy.upstream_endpoint import UpstreamEndpoint


def request_bytes(exchange: ExchangeState, endpoint: UpstreamEndpoint, body: bytes) -> bytes:
    """Head and (framed) body in one piece."""
    head = exchange.head
    route: RequestRoute = head.route  # type: ignore[assignment]
    fields = head.fields
    target = route.target
    if route.v2 or exchange.upload is not None or len(body) != head.content_length:
        target, fields = _changed(exchange, route, body)
    if endpoint.has_credential:
        fields = without_field(b"authorization:", fields)
    if head.plain:
        ours = exchange.client.forwarding_fields
    else:
        ours = _continued_fields(head, exchange.client.peer, exchange.proxy)
    return b"".join(
        (
            head.method,
            endpoint.before_target,
            target,
            endpoint.host_line,
            fields,
            ours,
            exchange.request_id,
            exchange.trace,
            b"\r\n\r\n",
            body,
        )
    )


def forwarding_fields(peer: bytes, scheme: bytes, via_name: bytes) -> bytes:
    """The fields that the proxy adds, made once a client connection, up to the value of X-Request-Id."""
    return b"\r\nX-Forwarded-For: %b\r\nX-Forwarded-Proto: %b\r\nVia: 1.1 %b\r\nX-Request-Id: " % (
        peer,
        scheme,
        via_name,
    )


def _changed(exchange: ExchangeState, route: RequestRoute, body: bytes) -> tuple[bytes, bytes]:
    """Target and fields of a request whose model name or framing is not the client's own."""
    head, target, fields = exchange.head, route.target, exchange.head.fields
    pool = exchange.pool
    assert pool is not None
    if route.v2:
        model = pool.served_model or pool.name
        if model != route.name and route.name not in pool.adapters:
            target = open_inference.with_model(target, model)
    if exchange.upload is not None:
        if head.chunked:
            fields += b"\r\nTransfer-Encoding: chunked"
        elif exchange.upload.grown:
            length = head.content_length + exchange.upload.grown
            fields = without_field(b"content-length:", fields) + b"\r\nContent-Length: %d" % length
    elif len(body) != head.content_length:
        fields = without_field(b"content-length:", fields) + b"\r\nContent-Length: %d" % len(body)
    return target, fields


def _continued_fields(head: RequestHead, peer: bytes, proxy: ExchangeContext) -> bytes:
    """The fields that the proxy adds to a head that is not plain: HTTP/1.0, an upgrade, Max-Forwards, or
    fields of other proxies, whose values are continued."""
    via = b"1.%d %b" % (head.minor, proxy.via_name)
    fields = b"\r\nX-Forwarded-For: %b\r\nX-Forwarded-Proto: %b\r\nVia: %b" % (
        peer if head.forwarded_for is None else head.forwarded_for + b", " + peer,
        proxy.scheme,
        via if head.via is None else head.via + b", " + via,
    )
    if head.upgrade:
        fields += b"\r\nConnection: Upgrade\r\nUpgrade: websocket"
    if head.max_forwards > 0:
        fields += b"\r\nMax-Forwards: %d" % (head.max_forwards - 1)
    return fields + b"\r\nX-Request-Id: "


def without_field(name: bytes, fields: bytes) -> bytes:
    """``fields`` less those of this lower-case name, which ends with its colon."""
    lowered, name = fields.lower(), b"\r\n" + name
    at = lowered.find(name)
    while at >= 0:
        end = lowered.find(b"\r\n", at + 2)
        fields = fields[:at] + (fields[end:] if end >= 0 else b"")
        lowered = fields.lower()
        at = lowered.find(name, at)
    return fields
