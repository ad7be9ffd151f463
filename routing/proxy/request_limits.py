"""What a fleet allows of a request itself: how slowly its head and body come, and how large it is.

The connection keeps bounds of its own until the fleet is known: those of the most generous fleet for the head
and the body's size, the defaults for the body's rate. A usual request, which comes in one piece, costs one
comparison of its size.
"""

from __future__ import annotations

from routing.contract.policy import Policy, Timeouts
from routing.http.limits import BodyLimits
from routing.pool.pool import Pool
from routing.pool.table import Table
from routing.proxy.destination import Unroutable
from routing.proxy.state import ExchangeState

_UNKNOWN = Timeouts()


def before_the_fleet(table: Table) -> BodyLimits:
    """Of a body whose fleet is not known yet."""
    return BodyLimits(table.bounds.max_body_bytes, _UNKNOWN.body_grace_s, _UNKNOWN.body_min_bytes_per_s)


def check_head(pool: Pool, seconds: float) -> None:
    """``seconds``: what the head took. Raises :class:`Unroutable`."""
    limit = pool.policy.timeouts.head_s
    if seconds > limit:
        words = f"the request head took longer than {limit:g} s, the most that fleet {pool.name} allows"
        raise Unroutable(408, "head_timeout", words, closes=True)


def too_large(pool: Pool) -> Unroutable:
    words = f"fleet {pool.name} takes a request body of at most {pool.max_body_bytes} bytes"
    return Unroutable(413, "body_too_large", words, closes=True)


def hold_to(exchange: ExchangeState, pool: Pool) -> None:
    """The fleet's limits hold for a body that is still coming. Raises :class:`Unroutable` when it is known to
    be too large."""
    upload = exchange.upload
    assert upload is not None
    upload.max_bytes = pool.max_body_bytes
    if max(exchange.head.content_length, upload.held) > upload.max_bytes:
        raise too_large(pool)
    exchange.client.limit_body(_of_body(pool.policy, upload.max_bytes))


def follow(exchange: ExchangeState) -> None:
    """While a body comes, its rate follows the policy. It may be as large as when it was let in."""
    upload, pool = exchange.upload, exchange.pool
    if upload is not None and not upload.complete and pool is not None:
        exchange.client.limit_body(_of_body(pool.policy, upload.max_bytes))


def _of_body(policy: Policy, max_bytes: int) -> BodyLimits:
    timeouts = policy.timeouts
    return BodyLimits(max_bytes, timeouts.body_grace_s, timeouts.body_min_bytes_per_s)
