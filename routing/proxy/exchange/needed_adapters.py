"""Needed adapters (LoRA): which adapters a request names, and which of them its replica has to serve.

A request names an adapter where it names its model: in the path of the Open Inference Protocol, else in its
body; or beside the model, as SGLang and LoRAX have it. It is looked for only in
fleets that have adapters. A body that is not read, because it is too large or encoded, names none. Names that
the fleet does not list are the replica's business.
"""

from __future__ import annotations

from routing.balancing.pool.adapter_replicas import Adapters
from routing.balancing.pool.pool import Pool
from routing.http.request_head import RequestHead
from routing.protocols import named_models
from routing.protocols.request_info import BadRequestBody
from routing.proxy.exchange.route import RequestRoute
from routing.proxy.exchange.state import ExchangeState


def named(exchange: ExchangeState, pool: Pool) -> Adapters:
    """Those of its fleet that the request names. It is read once."""
    if not pool.adapter_replicas.matter:
        return ()
    # Unset, not even None, until it is read: the other fleets' requests spend no time on it.
    found: Adapters | None = getattr(exchange, "named_adapters", None)
    if found is None:
        adapters = pool.adapters
        found = tuple(sorted({name for name in _named(exchange) if name in adapters}))
        exchange.named_adapters = found
    return found


def forget(exchange: ExchangeState) -> None:
    """The request goes to another fleet."""
    if hasattr(exchange, "named_adapters"):
        del exchange.named_adapters


def limited(exchange: ExchangeState, pool: Pool) -> Adapters:
    """Those of them that not every replica serves, as the table is now."""
    replicas = pool.adapter_replicas
    return replicas.limited(named(exchange, pool)) if replicas.are_limited else ()


def is_in_body(pool: Pool, head: RequestHead) -> bool:
    """Whether to wait for this request's body, because the adapter may be there."""
    if not pool.adapter_replicas.are_limited:
        return False
    route = head.route
    assert isinstance(route, RequestRoute)
    return head.method == b"POST" and head.has_body and not named_models.in_target(route.target).path_decides


def _named(exchange: ExchangeState) -> list[str]:
    head, body = exchange.head, exchange.body_bytes
    route = head.route
    assert isinstance(route, RequestRoute)
    found = [route.name] if route.v2 else []
    if named_models.in_target(route.target).path_decides:
        return found
    model = exchange.model
    if model and (not body or named_models.is_named_once(head.fields, body)):
        return [*found, model]
    if body:
        try:
            in_body = named_models.in_body(head.fields, body, any_content=True)
        except BadRequestBody:
            return [*found, model]
        found += [*in_body.models, *in_body.adapters]
    return found
