"""Hopeless request (deadline-based load shedding): one that would be late at each replica of its fleet.

By the predictions that replicas are picked by where a request is due
(:mod:`routing.balancing.learning.odds`): its client's own time limit, and for a stream the fleet's objective
for first tokens. While too little is known, no request is hopeless.
"""

from __future__ import annotations

from routing.balancing.pool.pool import Pool
from routing.proxy.exchange import timeouts
from routing.proxy.exchange.state import ExchangeState

HOPELESS = 0.1
"""Chance of being in time at the best replica, below which it is: the end that is due lies before the
interval in which 80 % of such requests end."""
BETTER = 0.5
"""Chance at another fleet that is worth going there. One of which nothing is known is tried."""


def is_hopeless(exchange: ExchangeState, pool: Pool, now: float) -> bool:
    """Whether its own fleet will be late."""
    chance = _chance(exchange, pool, now)
    return chance is not None and chance < HOPELESS


def is_better(exchange: ExchangeState, other: Pool, now: float) -> bool:
    """Whether another fleet will most likely be in time."""
    chance = _chance(exchange, other, now)
    return chance is None or chance >= BETTER


def _chance(exchange: ExchangeState, pool: Pool, now: float) -> float | None:
    due = timeouts.due(exchange, pool)
    return None if due is None else pool.chance_in_time(exchange.work, now, due)
