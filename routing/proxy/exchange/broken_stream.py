"""Broken stream (truncation): an event stream that has ended well in HTTP, though its answer has not ended.

The client must not take it for a whole answer. :func:`routing.proxy.exchange.local_reply.break_off` ends what
the client has begun to get.
"""

from __future__ import annotations

from routing.http.response_head import ResponseHead
from routing.protocols.stream_end import StreamEnd
from routing.proxy.errors import LocalReply
from routing.proxy.exchange.sent_tail import tail_of
from routing.proxy.exchange.state import ExchangeState
from routing.proxy.exchange.streaming_response import StreamingResponse

TRUNCATED = "truncated"
"""The code of an answer that ended well in HTTP, and not in its protocol."""


def is_truncated(response: StreamingResponse, last: bytes) -> bool:
    """Whether a stream that has ended well in HTTP is none that ends so in its protocol. ``last``: the bytes
    that came with its end."""
    return response.sent is not None and response.sent.end(last) is StreamEnd.TRUNCATED


def is_truncated_whole(exchange: ExchangeState, head: ResponseHead, body: bytes) -> bool:
    """The same of a response that came in one piece. Nothing of it has been sent."""
    pool = exchange.pool
    assert pool is not None
    if b"text/event-stream" not in head.block:
        return False
    mark: bytes = exchange.head.route.result_mark  # type: ignore[attr-defined]
    tail = tail_of(mark, pool.protocol, head.status, head.block, False)
    return tail is not None and tail.end(body) is StreamEnd.TRUNCATED


def truncation(replica: str) -> LocalReply:
    """What is said of it. ``replica``: its name."""
    words = f"replica {replica} ended the stream before the answer was complete"
    return LocalReply(502, TRUNCATED, words)
