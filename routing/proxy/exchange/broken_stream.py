"""Broken stream (truncation): an event stream that has ended well in HTTP, though its answer has not ended.

The client must not take it for a whole answer. :func:`routing.proxy.exchange.local_reply.break_off` ends what
the client has begun to get.
"""

from __future__ import annotations

from routing.http.response_head import ResponseHead
from routing.protocols.answer_shape import is_json, is_judged
from routing.protocols.openai_body import is_encoded
from routing.protocols.stream_end import StreamEnd, follows
from routing.protocols.stream_start import begins_with_failure
from routing.proxy.errors import LocalReply
from routing.proxy.exchange.sent_tail import tail_of
from routing.proxy.exchange.state import ExchangeState
from routing.proxy.exchange.streaming_response import StreamingResponse

TRUNCATED = "truncated"
"""The code of an answer that ended well in HTTP, and not in its protocol."""


def is_truncated(response: StreamingResponse, last: bytes) -> bool:
    """Whether a stream that has ended well in HTTP is none that ends so in its protocol. ``last``: the bytes
    that came with its end."""
    return response.is_truncated(last)


def is_truncated_whole(exchange: ExchangeState, head: ResponseHead, body: bytes) -> bool:
    """The same of a response that came in one piece. Nothing of it has been sent."""
    pool = exchange.pool
    assert pool is not None
    if b"text/event-stream" not in head.block:
        return False
    mark: bytes = exchange.head.route.result_mark  # type: ignore[attr-defined]
    tail = tail_of(mark, pool.protocol, head.status, head.block, False)
    return tail is not None and tail.end(body) is StreamEnd.TRUNCATED


def is_truncated_object(exchange: ExchangeState, head: ResponseHead, body: bytes) -> bool:
    """The same of a whole response of the OpenAI API that should be one JSON object. Looks at its last byte
    only: what breaks off just behind an inner object is not seen."""
    pool = exchange.pool
    assert pool is not None
    mark: bytes = exchange.head.route.result_mark  # type: ignore[attr-defined]
    return (
        pool.protocol == "openai"
        and not body.endswith(b"}\n")
        and is_judged(mark, pool.protocol, head.status, head.block)
        and is_json(head.block)
        and not body.rstrip().endswith(b"}")
    )


def is_failure_alone(exchange: ExchangeState, head: ResponseHead, body: bytes) -> bool:
    """Whether a response that came in one piece is a stream with no content, and an error of its server."""
    pool = exchange.pool
    assert pool is not None
    mark: bytes = exchange.head.route.result_mark  # type: ignore[attr-defined]
    return (
        pool.protocol == "openai"
        and head.status == 200
        and follows(mark)
        and b"text/event-stream" in head.block
        and not is_encoded(head.block)
        and begins_with_failure(mark, body)
    )


def failure_in_stream(replica: str) -> LocalReply:
    """What is said of a stream that begins with an error."""
    return LocalReply(502, "error_event", f"replica {replica} sent an error event instead of an answer")


def malformation(replica: str) -> LocalReply:
    """What is said of a stream that begins with what is no event of its protocol."""
    return LocalReply(502, "bad_response", f"replica {replica} sent an event that is no JSON")


def truncation(replica: str) -> LocalReply:
    """What is said of it. ``replica``: its name."""
    words = f"replica {replica} ended its response before the answer was complete"
    return LocalReply(502, TRUNCATED, words)
