"""The bytes of a request as it goes to a replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from routing.http.request_head import RequestHead

if TYPE_CHECKING:
    from routing.proxy.exchange import Exchange
    from routing.proxy.link import Link


def request_bytes(exchange: Exchange, link: Link, body: bytes) -> bytes:
    """Head and (framed) body in one piece."""
    head = exchange.head
    if head.via is None and head.forwarded_for is None and head.max_forwards < 0:
        ours = exchange.client.tag
    else:
        ours = _continued_fields(head, exchange.client.peer, exchange.proxy.via_name)
    return b"".join(
        (
            head.method,
            link.before_target,
            head.target,
            link.host_line,
            head.fields,
            exchange.framing,
            ours,
            exchange.request_id,
            b"\r\n\r\n",
            body,
        )
    )


def request_fields(peer: bytes, via_name: bytes) -> bytes:
    """What the proxy adds, ready-made for a client's connection, up to the value of X-Request-Id."""
    return b"\r\nX-Forwarded-For: %b\r\nX-Forwarded-Proto: http\r\nVia: 1.1 %b\r\nX-Request-Id: " % (
        peer,
        via_name,
    )


def _continued_fields(head: RequestHead, peer: bytes, via_name: bytes) -> bytes:
    """The same where other proxies came before (their values are continued) or hops are counted."""
    via = b"1.1 " + via_name
    fields = b"\r\nX-Forwarded-For: %b\r\nX-Forwarded-Proto: http\r\nVia: %b" % (
        peer if head.forwarded_for is None else head.forwarded_for + b", " + peer,
        via if head.via is None else head.via + b", " + via,
    )
    if head.max_forwards > 0:
        fields += b"\r\nMax-Forwards: %d" % (head.max_forwards - 1)
    return fields + b"\r\nX-Request-Id: "


def without_content_length(fields: bytes) -> bytes:
    """``fields`` (each preceded by CRLF) less Content-Length, for a body of another length."""
    lines = fields.split(b"\r\n")[1:]
    return b"".join([b"\r\n" + line for line in lines if not line.lower().startswith(b"content-length:")])
