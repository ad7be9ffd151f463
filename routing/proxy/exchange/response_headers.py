"""Response headers: what the proxy adds to every replica's response, and the bytes for the client.

A replica's own field of one of these names is dropped by :mod:`routing.http.response_head`.
"""

from __future__ import annotations

from routing.balancing.replica.state import Replica
from routing.proxy.exchange.state import ExchangeState
from routing.proxy.upstream_endpoint import UpstreamEndpoint


def replica_fields(replica: Replica, via_name: str) -> bytes:
    """What is the same for all responses of a replica, joined once, up to the value of X-Request-Id."""
    return f"\r\nVia: 1.1 {via_name}\r\nx-switchyard-replica: {replica.name}\r\nX-Request-Id: ".encode()


def proxied_response(
    exchange: ExchangeState, endpoint: UpstreamEndpoint, block: bytes, ending: bytes, body: bytes
) -> bytes:
    """Head and (framed) body in one piece. ``block``: the replica's head. ``ending``: the last fields, for
    framing and the connection."""
    ours, request_id, retries = endpoint.response_fields, exchange.request_id, exchange.retry_fields
    return b"".join((block, ours, request_id, retries, ending, body))
