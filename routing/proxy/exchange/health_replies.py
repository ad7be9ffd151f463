"""Health check replies: the Open Inference Protocol's health requests, answered for a whole fleet.

A replica would answer only for itself, but a client in front of the proxy (a load balancer, a KServe client)
needs the state of the fleet. So these requests are answered from the pool: a fleet is ready if some replica
would get a request now. A model's metadata and versions come from a replica.
"""

from __future__ import annotations

from time import monotonic

from routing.balancing.pool.pool import Pool
from routing.protocols import open_inference
from routing.protocols.open_inference import HealthQuery
from routing.proxy.exchange.route import RequestRoute
from routing.proxy.exchange.router import resolve
from routing.proxy.exchange.state import ExchangeState


def health_reply(exchange: ExchangeState, route: RequestRoute) -> tuple[int, bytes] | None:
    """Status and body. ``None``: the fleet has another protocol, or the caller may not use it, so the request
    is routed as usual. Raises :class:`routing.proxy.errors.RoutingError`."""
    pools = _fleets_of_request(exchange, route)
    if not pools:
        return None
    if route.health_question == HealthQuery.LIVE:
        return 200, open_inference.live_body()
    if route.health_question == HealthQuery.SERVER:
        return 200, open_inference.server_body()
    now = monotonic()
    why_not = "; ".join(filter(None, (pool.why_nobody(now) for pool in pools)))
    name = route.name if route.health_question == HealthQuery.MODEL else ""
    return 503 if why_not else 200, open_inference.ready_body(name, why_not)


def _fleets_of_request(exchange: ExchangeState, route: RequestRoute) -> list[Pool]:
    """The fleet that the request names, else the default one; without a default, all that the caller may
    use."""
    table = exchange.proxy.table
    if route.by_name or exchange.default_fleet() is not None:
        pools = [resolve(table, route, exchange.default_fleet)]
    else:
        pools = list(table.fleets.values())
    return [pool for pool in pools if pool.protocol == "open-inference" and exchange.may_use(pool.name)]
