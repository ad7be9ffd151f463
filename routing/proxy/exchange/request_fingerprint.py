"""Request fingerprint: the client and a hash of the request, for failed requests and some to compare with."""

from __future__ import annotations

from hashlib import blake2b

from routing.balancing.replica.client_source import ClientSource, client_number, number_of
from routing.proxy.exchange.state import ExchangeState

_PART = 4096
"""Bytes of a body that are looked at, at its beginning and at its end: prompts often begin alike."""


def fingerprint_of(exchange: ExchangeState) -> ClientSource:
    """The caller is its key where keys are asked for, else its address. Two requests are the same where
    method, target and body are; one whose body is not at hand is like no other."""
    head, body = exchange.head, exchange.body_bytes
    digest = blake2b(head.method + b" " + head.target, digest_size=4)
    if exchange.upload is not None or exchange.answer is not None:
        digest.update(exchange.request_id)
    elif body:
        digest.update(b"%d " % len(body))
        digest.update(body[:_PART])
        digest.update(body[_PART:][-_PART:])
    return ClientSource(client_number(exchange.caller()), number_of(digest.digest()))
