"""Session affinity: the key of a request, read when a strategy that uses keys first picks a replica.

A header field or a cookie needs no body. A key in the body needs the whole body, which is buffered for that,
up to the proxy's own bound (``peek_bytes``), as the body of a request that names its fleet there. A request
whose body is larger, encoded, or no JSON has no such key, and is routed as one without a key.
"""

from __future__ import annotations

from routing.balancing.admission.rejection import Rejection
from routing.balancing.affinity import Affinity
from routing.balancing.pool.pool import Attempt, Pool
from routing.balancing.replica.state import Replica
from routing.http.request_head import RequestHead
from routing.protocols import session
from routing.proxy.exchange import needed_adapters, timeouts
from routing.proxy.exchange.state import ExchangeState

_PROTOCOLS_WITH_KEY = ("openai", "open-inference")
"""Protocols whose bodies can hold a key."""


def of(exchange: ExchangeState, pool: Pool) -> tuple[int, ...]:
    """The request's key, as hashes. Empty if it has none, or the fleet's strategy uses none."""
    if pool.affinity is None:
        return ()
    # Unset, not even None, until it is read: the other fleets' requests spend no time on it.
    key: tuple[int, ...] | None = getattr(exchange, "key", None)
    if key is None:
        exchange.key = key = _read(exchange, pool, pool.affinity)
    return key


def forget(exchange: ExchangeState) -> None:
    """The request goes to another fleet."""
    if hasattr(exchange, "key"):
        del exchange.key


def _read(exchange: ExchangeState, pool: Pool, affinity: Affinity) -> tuple[int, ...]:
    fields, text = exchange.head.fields, b""
    if affinity.header:
        text = session.field(fields, affinity.header)
    if affinity.cookie and not text:
        text = session.cookie(fields, affinity.cookie)
    body = exchange.body_bytes
    if not text and body and _body_may_have_key(pool):
        text = session.prompt(body) if affinity.block_bytes else session.user(body)
    if text and affinity.block_bytes and (adapters := needed_adapters.named(exchange, pool)):
        # They may stand elsewhere than in the text: in the path, or beside the model.
        text = ",".join(adapters).encode() + b"\0" + text
    return affinity.hashes(text)


def begin(
    exchange: ExchangeState, pool: Pool, now: float, excluded: tuple[Replica, ...]
) -> Attempt | Rejection:
    """An attempt by what the request says: its key, adapters that it needs, its work."""
    key, due, stated = of(exchange, pool), timeouts.due(exchange, pool), exchange.own_work is not None
    if adapters := needed_adapters.named(exchange, pool):
        return pool.begin_for_adapters(
            adapters, exchange.work, now, excluded, key=key, due=due, stated=stated
        )
    return pool.begin(exchange.work, now, excluded, key=key, due=due, stated=stated)


def is_in_body(pool: Pool, head: RequestHead) -> bool:
    """Whether to wait for this request's body, because the key can only be there."""
    affinity = pool.affinity
    if affinity is None or not _body_may_have_key(pool) or head.method != b"POST":
        return False
    if affinity.header and session.field(head.fields, affinity.header):
        return False
    if affinity.cookie and session.cookie(head.fields, affinity.cookie):
        return False
    return head.has_body


def _body_may_have_key(pool: Pool) -> bool:
    affinity = pool.affinity
    assert affinity is not None
    return pool.protocol in _PROTOCOLS_WITH_KEY and (affinity.user or affinity.block_bytes > 0)
