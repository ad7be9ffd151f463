"""Upstream request: the bytes of a request for a replica, with X-Forwarded-For and Via."""

from __future__ import annotations

from typing import Final

from routing.http.interfaces import Client
from routing.http.request_head import RequestHead
from routing.http.response_handler import ResponseHandler
from routing.http.upstream_connection import UpstreamConnection
from routing.protocols import open_inference
from routing.proxy.exchange.exchange_context import ExchangeContext
from routing.proxy.exchange.route import RequestRoute
from routing.proxy.exchange.state import ExchangeState
from routing.proxy.upstream_endpoint import UpstreamEndpoint

JOINED_BYTES: Final = 65_536
"""Up to this size a body is written in one piece with its head."""


def request_bytes(
    exchange: ExchangeState, endpoint: UpstreamEndpoint, body: bytes, head_alone: bool = False
) -> bytes:
    """Head and (framed) body in one piece. ``head_alone``: the head of a request with this body."""
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
        ours = _continued_fields(head, exchange.client, exchange.proxy)
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
            b"" if head_alone else body,
        )
    )


def send_request(
    exchange: ExchangeState,
    handler: ResponseHandler,
    endpoint: UpstreamEndpoint,
    upstream: UpstreamConnection,
) -> None:
    """Send a request whose whole body is here. ``handler``: of its response."""
    body, is_head = exchange.body_bytes, exchange.head.method == b"HEAD"
    if len(body) <= JOINED_BYTES:
        upstream.send(handler, request_bytes(exchange, endpoint, body), is_head, False)
    else:
        # The copy for a retry and what the connection has still to take are the same bytes.
        upstream.send(handler, request_bytes(exchange, endpoint, body, head_alone=True), is_head, False)
        upstream.send_large(body)


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


def _continued_fields(head: RequestHead, client: Client, proxy: ExchangeContext) -> bytes:
    """The fields that the proxy adds to a head that is not plain: HTTP/1.0, an upgrade, Max-Forwards, or
    fields of other proxies. Via is continued whoever sends it, the others if that is a trusted proxy."""
    via = b"1.%d %b" % (head.minor, proxy.via_name)
    said = head.forwarded if client.trusts is not None else None
    fields = b"\r\nX-Forwarded-For: %b\r\nX-Forwarded-Proto: %b\r\nVia: %b" % (
        client.peer if said is None or not said.chain else said.chain + b", " + client.peer,
        proxy.scheme if said is None or not said.scheme else said.scheme,
        via if head.via is None else head.via + b", " + via,
    )
    if said is not None:
        fields += said.others
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
