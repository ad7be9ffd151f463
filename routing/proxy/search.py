"""Finding the fleet in the body: the body is collected, within bounds, until it is complete.

What was collected is what is sent, and sent again where a request may be repeated.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from routing.protocols import openai
from routing.proxy.destination import Unroutable, find_named, read_body, too_large_to_search

if TYPE_CHECKING:
    from routing.proxy.exchange import Exchange


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
        find(exchange, monotonic())


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
