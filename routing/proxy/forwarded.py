"""The bytes of a request as it goes to a replica."""

from __future__ import annotations

from routing.http.request_head import RequestHead
from routing.protocols import open_inference
from routing.proxy.host import Host
from routing.proxy.link import Link
from routing.proxy.plan import Plan
from routing.proxy.state import ExchangeState


def request_bytes(exchange: ExchangeState, link: Link, body: bytes) -> bytes:
    """Head and (framed) body in one piece."""
    head = exchange.head
    plan: Plan = head.note  # type: ignore[assignment]
    fields = head.fields
    target = plan.target
    if plan.v2 or exchange.upload is not None or len(body) != head.content_length:
        target, fields = _changed(exchange, plan, body)
    if link.authorizes:
        fields = without(b"authorization:", fields)
    if head.plain:
        ours = exchange.client.tag
    else:
        ours = _continued_fields(head, exchange.client.peer, exchange.proxy)
    return b"".join(
        (
            head.method,
            link.before_target,
            target,
            link.host_line,
            fields,
            ours,
            exchange.request_id,
            exchange.trace,
            b"\r\n\r\n",
            body,
        )
    )


def request_fields(peer: bytes, scheme: bytes, via_name: bytes) -> bytes:
    """What the proxy adds, ready-made for a client's connection, up to the value of X-Request-Id."""
    return b"\r\nX-Forwarded-For: %b\r\nX-Forwarded-Proto: %b\r\nVia: 1.1 %b\r\nX-Request-Id: " % (
        peer,
        scheme,
        via_name,
    )


def _changed(exchange: ExchangeState, plan: Plan, body: bytes) -> tuple[bytes, bytes]:
    """Target and fields where the model's name or the framing is not the client's own."""
    head, target, fields = exchange.head, plan.target, exchange.head.fields
    pool = exchange.pool
    assert pool is not None
    if plan.v2:
        model = pool.served_model or pool.name
        if model != plan.name and plan.name not in pool.adapters:
            target = open_inference.with_model(target, model)
    if exchange.upload is not None:
        if head.chunked:
            fields += b"\r\nTransfer-Encoding: chunked"
        elif exchange.upload.grown:
            length = head.content_length + exchange.upload.grown
            fields = without(b"content-length:", fields) + b"\r\nContent-Length: %d" % length
    elif len(body) != head.content_length:
        fields = without(b"content-length:", fields) + b"\r\nContent-Length: %d" % len(body)
    return target, fields


def _continued_fields(head: RequestHead, peer: bytes, proxy: Host) -> bytes:
    """What the proxy adds where other proxies came before (their values are continued) or hops count."""
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


def without(name: bytes, fields: bytes) -> bytes:
    """``fields`` less those of this lower-case name, which ends with its colon."""
    lowered, name = fields.lower(), b"\r\n" + name
    at = lowered.find(name)
    while at >= 0:
        end = lowered.find(b"\r\n", at + 2)
        fields = fields[:at] + (fields[end:] if end >= 0 else b"")
        lowered = fields.lower()
        at = lowered.find(name, at)
    return fields
