"""Collecting a body, within bounds, until it is complete: to find the fleet in it, or what it costs.

What was collected is what is sent, and sent again where a request may be repeated.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from routing.http.request_head import RequestHead
from routing.protocols import openai
from routing.proxy.cost import ask_of
from routing.proxy.destination import Unroutable, find_named, find_planned, read_body, too_large_to_search
from routing.proxy.plan import IN_BODY, Plan
from routing.proxy.replay import replay_is_safe

if TYPE_CHECKING:
    from routing.proxy.exchange import Exchange

WORTH_COLLECTING_BYTES = 65_536
"""A body up to this size comes in a few segments; a larger one streams through once its fleet is known."""


def is_worth_collecting(protocol: str, head: RequestHead) -> bool:
    """Whether to wait for the body of a request whose fleet its head names: an inference call, which tells
    its cost in the body and can be sent again while the body is at hand."""
    return (
        protocol != "generic"
        and head.method == b"POST"
        and 0 < head.content_length <= WORTH_COLLECTING_BYTES
        and replay_is_safe(head, "auto")
    )


def collect(exchange: Exchange, size: int) -> None:
    """``size`` more bytes lie in the exchange's upload. Raises :class:`Unroutable`."""
    upload, proxy = exchange.upload, exchange.proxy
    assert upload is not None
    if max(upload.held, exchange.head.content_length) > proxy.settings.peek_bytes:
        raise too_large_to_search(proxy.settings.peek_bytes)
    if not proxy.peek(size):
        raise Unroutable(503, "busy", "too many large bodies are being read at once; try again", 1.0)
    upload.searched += size
    if upload.complete:
        exchange.body_bytes = upload.take()
        end(exchange)
        exchange.upload = None
        # Time that the client took to send it is not the replica's.
        planned = exchange.head.note
        assert isinstance(planned, Plan)
        if planned.kind == IN_BODY:
            find(exchange, monotonic())
        else:
            pool = find_planned(proxy.table, planned)
            _, exchange.stream, exchange.work = ask_of(
                pool.protocol, exchange.head, exchange.body_bytes, True
            )
            exchange.take(pool, monotonic())


def find(exchange: Exchange, now: float) -> None:
    """The body is complete: read the model in it, and begin. Raises :class:`Unroutable`."""
    body, table = exchange.body_bytes, exchange.proxy.table
    model, exchange.stream, exchange.work = read_body(table, exchange.head, body)
    pool = table.resolve(model) or find_named(table, model)
    expected = pool.served_model or pool.name
    if model != expected and model and body[:1] == b"{":
        exchange.body_bytes = openai.with_model(body, expected)
    exchange.take(pool, now)


def end(exchange: Exchange) -> None:
    """Give back to the worker's budget what the search has taken."""
    upload = exchange.upload
    if upload is not None and upload.searched:
        exchange.proxy.peek(-upload.searched)
        upload.searched = 0
