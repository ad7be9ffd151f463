"""Server replies: what the Open Inference Protocol asks of a server, answered for fleets.

A replica would answer only for itself, but a client in front of the proxy (a load balancer, Triton's client)
needs the state of the fleets. So health, metadata and index of the server are the proxy's own, and
speak for all V2 fleets that the caller may use. The server is ready if one of them would get a request to a
replica now. Of one fleet that the request names, health is answered here too. Its replicas say what they are,
and which models they have, unless that would tell of models that are not the fleet's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import monotonic
from typing import NamedTuple

from routing.balancing.admission.rejection import Rejection
from routing.balancing.pool.pool import Pool
from routing.protocols import open_inference, open_inference_server
from routing.protocols.open_inference_server import IndexEntry, ModelState, ServerQuery
from routing.protocols.request_info import BadRequestBody
from routing.proxy.errors import RoutingError
from routing.proxy.exchange.model_list import usable_models
from routing.proxy.exchange.route import RequestRoute
from routing.proxy.exchange.router import resolve
from routing.proxy.exchange.state import ExchangeState

_PROTOCOL = "open-inference"
_MOST_REASONS = 5
_NO_FLEET = "no fleet of the Open Inference Protocol is here for this client"


class ServerReply(NamedTuple):
    """``fields``: of the head, each preceded by CRLF."""

    status: int
    body: bytes
    fields: bytes = b""


def server_reply(exchange: ExchangeState, query: ServerQuery) -> ServerReply:
    """For all V2 fleets that the caller may use. Raises :class:`RoutingError`."""
    if exchange.head.method not in open_inference_server.methods_of(query):
        return _wrong_method(exchange, query)
    if query is ServerQuery.LIVE:
        return ServerReply(200, open_inference_server.live_body())
    if query is ServerQuery.METADATA:
        return ServerReply(200, open_inference_server.metadata_body())
    table, now = exchange.proxy.table, monotonic()
    if query is ServerQuery.INDEX:
        models = usable_models(table, _PROTOCOL, exchange.may_use)
        rejections = {pool: pool.rejection(now) for pool in {pool for _, pool in models}}
        return _index(exchange, ((name, rejections[pool]) for name, pool in models))
    pools = [pool for pool in table.fleets.values() if pool.protocol == _PROTOCOL]
    return _ready("", _why_none([pool for pool in pools if exchange.may_use(pool.name)], now))


def fleet_reply(exchange: ExchangeState, route: RequestRoute) -> ServerReply | None:
    """For the fleet that the request names. ``None``: its replicas answer, or the fleet has another protocol,
    or the caller may not use it: the request is routed as usual. Raises :class:`RoutingError`."""
    pool, query = resolve(exchange.proxy.table, route, exchange.default_fleet), route.server_query
    if pool.protocol != _PROTOCOL or not exchange.may_use(pool.name):
        return None
    if query is ServerQuery.LIVE:
        return ServerReply(200, open_inference_server.live_body())
    if query is ServerQuery.INDEX:
        return _index_of_fleet(exchange, pool)
    return _ready(route.name if query is ServerQuery.MODEL_READY else "", _why_none([pool], monotonic()))


def _ready(model: str, why_not: str) -> ServerReply:
    return ServerReply(503 if why_not else 200, open_inference_server.ready_body(model, why_not))


def _why_none(pools: list[Pool], now: float) -> str:
    """Why none of the pools would serve a request now; empty: one would."""
    reasons = []
    for pool in pools:
        rejection = pool.rejection(now)
        if rejection is None:
            return ""
        reasons.append(rejection.message)
    if len(reasons) > _MOST_REASONS:
        reasons[_MOST_REASONS:] = [f"and {len(reasons) - _MOST_REASONS} more fleets"]
    return "; ".join(reasons) or _NO_FLEET


def _index_of_fleet(exchange: ExchangeState, pool: Pool) -> ServerReply | None:
    """The fleet's own models, where requests may name no others; its replicas may have more. ``None``: it
    exposes all that they have, or not even the index."""
    exposed = pool.exposed
    if exposed.models is None or not exposed.is_enforced:
        return None
    if exposed.paths is not None and not exposed.lists(open_inference_server.INDEX_PATH):
        return None
    if exchange.head.method not in open_inference_server.methods_of(ServerQuery.INDEX):
        return _wrong_method(exchange, ServerQuery.INDEX)
    rejection = pool.rejection(monotonic())
    return _index(exchange, ((name, rejection) for name in sorted(exposed.models)))


def _index(exchange: ExchangeState, models: Iterable[tuple[str, Rejection | None]]) -> ServerReply:
    """``models``: names, each with what its requests would be rejected with."""
    try:
        ready_only = open_inference_server.wants_ready_only(exchange.body_bytes)
    except BadRequestBody as error:
        raise RoutingError(400, "bad_body", str(error)) from None
    return ServerReply(200, open_inference_server.index_body(_entries(models, ready_only)))


def _entries(models: Iterable[tuple[str, Rejection | None]], ready_only: bool) -> Iterator[IndexEntry]:
    for name, rejection in models:
        if rejection is None:
            yield IndexEntry(name, ModelState.READY, "")
        elif not ready_only:
            cold = rejection.code == "fleet_cold"
            state = ModelState.LOADING if cold else ModelState.UNAVAILABLE
            yield IndexEntry(name, state, rejection.message)


def _wrong_method(exchange: ExchangeState, query: ServerQuery) -> ServerReply:
    allowed = b", ".join((*open_inference_server.methods_of(query), b"OPTIONS"))
    words = f"{exchange.head.method.decode()} is no method of this path: {allowed.decode()}"
    return ServerReply(405, open_inference.error_body(words), b"\r\nAllow: " + allowed)
