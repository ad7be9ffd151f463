"""Request fingerprint: client and hash of a failed request, and of some others to compare it with."""

from __future__ import annotations

from hashlib import blake2b

from routing.balancing.replica.client_source import ClientSource, client_number, number_of
from routing.proxy.exchange.state import ExchangeState

_PART = 4096
"""Bytes of a body that are hashed, at its beginning and at its end: prompts often begin alike."""


def fingerprint_of(exchange: ExchangeState) -> ClientSource:
    """The client is its key, if keys are required, else its address. Two requests are the same if method,
    target and body are. A request whose body is not in memory differs from every other."""
    head, body = exchange.head, exchange.body_bytes
    digest = blake2b(head.method + b" " + head.target, digest_size=4)
    if exchange.upload is not None or exchange.streaming_response is not None:
        digest.update(exchange.request_id)
    elif body:
        digest.update(b"%d " % len(body))
        digest.update(body[:_PART])
        digest.update(body[_PART:][-_PART:])
    elif head.content_length or head.chunked:
        digest.update(exchange.request_id)
    return ClientSource(client_number(exchange.caller()), number_of(digest.digest()))
