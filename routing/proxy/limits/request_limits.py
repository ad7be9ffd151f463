"""Request limits of a fleet: how slowly head and body may come, and how large the body is.

Until the fleet is known, the connection's limits are those of the most generous fleet for the head and the
body's size, and the defaults for the body's rate. The worker's own limits then bound a body as well: how long
it may stall, and how long it may take in all. A usual request, which comes in one piece, costs one comparison
of its size.
"""

from __future__ import annotations

from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table
from routing.contract.policy import Timeouts
from routing.http.interfaces import Client
from routing.http.limits import BodyLimits
from routing.proxy.errors import RoutingError
from routing.proxy.settings import ProxySettings

_UNKNOWN = Timeouts()


def default_body_limits(table: Table, settings: ProxySettings) -> BodyLimits:
    """The limits of a body whose fleet is not known yet."""
    return BodyLimits(
        table.bounds.max_body_bytes,
        _UNKNOWN.body_grace_s,
        _UNKNOWN.body_min_bytes_per_s,
        settings.bodies.stall_s,
        settings.bodies.total_s,
    )


def check_head_time(pool: Pool, seconds: float) -> None:
    """``seconds``: how long the head took. Raises :class:`RoutingError`."""
    limit = pool.policy.timeouts.head_s
    if seconds > limit:
        words = f"the request head took longer than {limit:g} s, the most that fleet {pool.name} allows"
        raise RoutingError(408, "head_timeout", words, closes=True)


def too_large(pool: Pool) -> RoutingError:
    words = f"fleet {pool.name} takes a request body of at most {pool.max_body_bytes} bytes"
    return RoutingError(413, "body_too_large", words, closes=True)


def set_body_limits(client: Client, pool: Pool, settings: ProxySettings, size: int) -> int:
    """Apply the fleet's limits to a body that is still coming. ``size``: bytes announced or received.
    Returns how large it may become. Raises :class:`RoutingError` if it is already too large."""
    if size > pool.max_body_bytes:
        raise too_large(pool)
    update_body_rate(client, pool, settings, pool.max_body_bytes)
    return pool.max_body_bytes


def update_body_rate(client: Client, pool: Pool, settings: ProxySettings, max_bytes: int) -> None:
    """Apply a changed policy to the rate of a body that is still coming. Its size limit stays. It may stall
    for the worker's time, and for the fleet's grace if that is longer."""
    timeouts = pool.policy.timeouts
    grace_s = timeouts.body_grace_s
    stall_s = max(settings.bodies.stall_s, grace_s)
    client.set_body_limits(BodyLimits(max_bytes, grace_s, timeouts.body_min_bytes_per_s, stall_s))
