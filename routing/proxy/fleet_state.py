"""The Open Inference Protocol's questions about health, answered for a whole fleet.

A replica would answer for itself alone; whoever stands before the proxy (a load balancer, a KServe client)
wants to know of the fleet. So these are answered from what the pool knows: ready is a fleet of which some
replica would be asked now. What a model is like (its metadata, its versions) only a replica can say.
"""

from __future__ import annotations

from time import monotonic

from routing.pool.pool import Pool
from routing.protocols import open_inference
from routing.protocols.open_inference import Question
from routing.proxy.destination import find_planned
from routing.proxy.plan import Plan
from routing.proxy.state import ExchangeState


def state_answer(exchange: ExchangeState, plan: Plan) -> tuple[int, bytes] | None:
    """Status and body. ``None``: it is no fleet of this protocol, or not the caller's, and the request goes
    the usual way. Raises :class:`routing.proxy.destination.Unroutable`."""
    pools = _meant(exchange, plan)
    if not pools:
        return None
    if plan.asks == Question.LIVE:
        return 200, open_inference.live_body()
    if plan.asks == Question.SERVER:
        return 200, open_inference.server_body()
    now = monotonic()
    why_not = "; ".join(filter(None, (pool.why_nobody(now) for pool in pools)))
    name = plan.name if plan.asks == Question.MODEL else ""
    return 503 if why_not else 200, open_inference.ready_body(name, why_not)


def _meant(exchange: ExchangeState, plan: Plan) -> list[Pool]:
    """The fleet that is named, else the default one; where there is none, all that the caller may use."""
    table = exchange.proxy.table
    if plan.by_name or exchange.default() is not None:
        pools = [find_planned(table, plan, exchange.default)]
    else:
        pools = list(table.fleets.values())
    return [pool for pool in pools if pool.protocol == "open-inference" and exchange.may_use(pool.name)]
