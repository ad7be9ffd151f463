"""Router: finds the fleet of a request by its head or its body, or the reason why there is none.

A body is buffered, within bounds, until it is complete if it is needed: to find the fleet, to replace the
model's name, or to estimate the request's cost. The buffered body is what is sent, and what is sent again if
the request is retried.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table
from routing.http.request_head import RequestHead
from routing.protocols import multipart, openai, openai_body
from routing.protocols.open_inference_server import ServerQuery
from routing.protocols.request_info import BadRequestBody, RequestInfo
from routing.proxy.errors import RoutingError
from routing.proxy.exchange import affinity_key, model_guard, needed_adapters
from routing.proxy.exchange.request_body_buffer import RequestBodyBuffer
from routing.proxy.exchange.request_cost import request_info_of
from routing.proxy.exchange.retry_policy import replay_is_safe
from routing.proxy.exchange.route import IN_BODY, NAMED, STICKY, RequestRoute
from routing.proxy.exchange.state import ExchangeState
from routing.proxy.limits.body_budget import COUNTED_BYTES
from routing.proxy.limits.request_limits import set_body_limits, too_large

DefaultFleet = Callable[[], Pool | None]
"""Returns the fleet for requests of this caller that name none. Called only if the request names none."""

WORTH_COLLECTING_BYTES: Final = 65_536
"""A body up to this size comes in a few segments. A larger one is streamed once its fleet is known."""
BUSY_RETRY_S: Final = 1.0
_NAME_IT_OUTSIDE: Final = (
    "name the fleet in the path (/fleets/{name}/v1/…) or in the field X-Switchyard-Fleet"
)


def receive(exchange: ExchangeState, body: bytes, complete: bool) -> None:
    """Begin with the part of the body that came with the request's head. Raises :class:`RoutingError` if
    there is no memory for a whole one. Others are counted once it is known what becomes of them."""
    if complete:
        exchange.body_bytes = body
        if len(body) > COUNTED_BYTES:
            _count(exchange, len(body), whole=True, known=False)
    else:
        exchange.upload = RequestBodyBuffer(exchange.head.chunked, body, exchange.client.head_s)


def begin_collecting(exchange: ExchangeState, known: bool) -> None:
    """The rest of the body is awaited. ``known``: the request's fleet is. Raises :class:`RoutingError` if
    there is no memory for it."""
    assert exchange.upload is not None
    _count(exchange, exchange.upload.held, whole=False, known=known)


def begin_streaming(exchange: ExchangeState) -> None:
    """The body is forwarded as it comes."""
    assert exchange.upload is not None
    exchange.body_charge = exchange.proxy.bodies.stream(exchange, exchange.upload.held)


def _count(exchange: ExchangeState, size: int, whole: bool, known: bool) -> None:
    """Count a body in the worker's budget. Raises :class:`RoutingError`."""
    head, budget = exchange.head, exchange.proxy.bodies
    exchange.body_charge = budget.begin(exchange, size, head.content_length, whole, known, monotonic())
    if exchange.body_charge is None:
        raise no_memory()


def receive_tunnel(exchange: ExchangeState) -> None:
    """After an upgrade: what the client sends from now on is forwarded unchanged."""
    exchange.upload = RequestBodyBuffer(False, b"")
    if exchange.body_charge is None:
        begin_streaming(exchange)


def drop_body(exchange: ExchangeState) -> None:
    """Free the memory of a body that will not be sent again."""
    exchange.body_bytes = b""
    if exchange.body_charge is not None:
        body_sent(exchange)


def replace_body(exchange: ExchangeState, body: bytes) -> None:
    """Another request is sent in place of the client's own, which was answered in part."""
    exchange.body_bytes = body


def readdress(exchange: ExchangeState, head: RequestHead, body: bytes, model: str) -> None:
    """The same request, in the words of another fleet. ``model``: as the body names it now, if it was read
    for that before."""
    exchange.head = head
    exchange.body_bytes = body
    if exchange.model:
        exchange.model = model
    affinity_key.forget(exchange)
    needed_adapters.forget(exchange)


def body_sent(exchange: ExchangeState) -> None:
    """The connection to the replica has taken more of the body, or no copy is kept any more: release what was
    counted, as far as nothing is held."""
    charge, upstream = exchange.body_charge, exchange.upstream
    assert charge is not None
    unsent_bytes = 0 if upstream is None else upstream.unsent_bytes
    if exchange.upload is not None:
        exchange.proxy.bodies.resize(charge, exchange.upload.held + unsent_bytes)
    elif not exchange.body_bytes and not unsent_bytes:
        release_budget(exchange)


# --- by the head -------------------------------------------------------------------------------------


def resolve(table: Table, route: RequestRoute, default_of_caller: DefaultFleet) -> Pool:
    """The fleet for a route that needs no body. Raises :class:`RoutingError`."""
    if route.by_name:
        pool = table.by_name.get(route.name)
        if pool is None:
            raise _unknown(route.name)
        return pool
    default = default_of_caller()
    if default is None:
        words = "the request names no fleet, and there is no default fleet"
        raise RoutingError(404, "no_fleet_named", words, lists_fleets=True)
    return default


def use_stated_work(exchange: ExchangeState, pool: Pool, now: float) -> None:
    """Have the request's replica picked by the work that its client states. Not where requests reserve
    memory: who states too little would crash a server."""
    stated = exchange.head.work
    assert stated is not None
    # In another fleet it may have been used before.
    own = exchange.estimated_work
    if pool.reserves_memory(now):
        exchange.work, exchange.own_work = own, None
    else:
        exchange.work, exchange.own_work = stated, own


def is_worth_collecting(protocol: str, head: RequestHead) -> bool:
    """Whether to buffer the body of a request whose fleet its head names: an inference call, whose cost is in
    the body, and which can be retried from the buffer."""
    return (
        head.method == b"POST"
        and 0 < head.content_length <= WORTH_COLLECTING_BYTES
        and replay_is_safe(head, protocol, "auto")
    )


def route_by_head(exchange: ExchangeState, route: RequestRoute, body: bytes, complete: bool) -> Pool | None:
    """The fleet that the head names, or the default one; also estimates the request's cost. ``None``: the
    body is needed for that or for the model, and is buffered. Raises :class:`RoutingError`."""
    pool = resolve(exchange.proxy.table, route, exchange.default_fleet)
    if complete:
        if len(body) > pool.max_body_bytes:
            raise too_large(pool)
    else:
        _limit_upload(exchange, pool)
        if (
            is_worth_collecting(pool.protocol, exchange.head)
            or (pool.renames and _may_name_a_model(exchange.head, body))
            or affinity_key.is_in_body(pool, exchange.head)
            or needed_adapters.is_in_body(pool, exchange.head)
            or model_guard.body_is_needed(pool, exchange.head)
        ):
            return None
    model, exchange.stream, exchange.work = request_info_of(pool.protocol, exchange.head, body, complete)
    # Only names of the fleet are replaced. Any other name is a further model that the replicas serve.
    if (
        model
        and model != (pool.served_model or pool.name)
        and exchange.proxy.table.by_name.get(model) is pool
        and model not in pool.adapters
    ):
        exchange.body_bytes = _renamed(exchange, body, pool.served_model or pool.name)
    return pool


def _limit_upload(exchange: ExchangeState, pool: Pool) -> None:
    """Hold a body that is still coming to its fleet's limits. Raises :class:`RoutingError`."""
    upload = exchange.upload
    assert upload is not None
    size = max(exchange.head.content_length, upload.held)
    upload.max_bytes = set_body_limits(exchange.client, pool, exchange.proxy.settings, size)


def _may_name_a_model(head: RequestHead, body: bytes) -> bool:
    """Whether the body, of which ``body`` has come, may have a model's name that is to be replaced."""
    return head.method == b"POST" and head.has_body and openai_body.may_name_a_model(head.fields, body)


# --- by the body -------------------------------------------------------------------------------------


def route_by_body(exchange: ExchangeState) -> Pool:
    """The fleet of the model that the complete body names. Raises :class:`RoutingError`."""
    body, table = exchange.body_bytes, exchange.proxy.table
    try:
        model, exchange.stream, exchange.work = _read(exchange.head, body, exchange.default_fleet)
        pool = table.by_name.get(model) or _resolve_default(model, exchange.default_fleet())
    except RoutingError:
        own = _default_with_own_path(exchange)
        if own is None:
            raise
        _, exchange.stream, exchange.work = request_info_of(own.protocol, exchange.head, body, True)
        model, pool = "", own
    if len(body) > pool.max_body_bytes:
        raise too_large(pool)
    expected = pool.served_model or pool.name
    if model != expected and model and model not in pool.adapters:
        exchange.body_bytes = _renamed(exchange, body, expected)
        model = expected
    exchange.model = model
    return pool


def _read(head: RequestHead, body: bytes, default_of_caller: DefaultFleet) -> RequestInfo:
    """Model, streaming and cost from a complete body. Raises :class:`RoutingError`."""
    try:
        if body[:1] == b"{":
            return openai.read(head.target, body)
        return openai_body.read(head.target, head.fields, body)
    except BadRequestBody as error:
        if openai_body.is_encoded(head.fields):
            return _encoded(default_of_caller())
        raise RoutingError(400, "bad_body", str(error)) from None


def _resolve_default(model: str, default: Pool | None) -> Pool:
    """The default fleet, for a body that names no model. Raises :class:`RoutingError`, also if the body does
    name a ``model``: no fleet has that name."""
    if model:
        raise _unknown(model)
    if default is None:
        words = "the body names no model, and there is no default fleet"
        raise RoutingError(400, "model_missing", words, lists_fleets=True)
    return default


def _renamed(exchange: ExchangeState, body: bytes, model: str) -> bytes:
    """The body with the model's name that the replicas know. Raises :class:`RoutingError`."""
    try:
        return openai_body.with_model(exchange.head.fields, body, model)
    except BadRequestBody as error:
        raise RoutingError(400, "bad_body", str(error)) from None


def _default_with_own_path(exchange: ExchangeState) -> Pool | None:
    """The default fleet, if it does not speak the OpenAI API: then a path outside ``/v1/`` may be its own,
    and only by chance the same as one of that API."""
    route, default = exchange.head.route, exchange.default_fleet()
    assert isinstance(route, RequestRoute)
    return default if route.bare and default is not None and default.protocol != "openai" else None


# --- by a body that comes in pieces ------------------------------------------------------------------


def collect(exchange: ExchangeState, size: int) -> Pool | None:
    """Called when ``size`` more bytes are in the exchange's buffer. ``None``: wait for the rest. A fleet:
    forward what has come, and stream the rest. Raises :class:`RoutingError` if only the body names the fleet
    and it is too large to be searched."""
    upload, proxy, route = exchange.upload, exchange.proxy, exchange.head.route
    assert upload is not None
    assert isinstance(route, RequestRoute)
    stateless = route.stateless or route
    if max(upload.held, exchange.head.content_length) > proxy.settings.peek_bytes:
        return (
            _route_by_beginning(exchange)
            if stateless.kind == IN_BODY
            else _stream_through(exchange, stateless)
        )
    if stateless.kind == IN_BODY or upload.complete or upload.held != size or not size:
        return None
    if route.kind == STICKY and stateless.kind != NAMED:
        return None
    if route.server_query is ServerQuery.INDEX:
        return None
    # The first bytes of the body have just come.
    pool = route_by_head(exchange, stateless, upload.peek(), False)
    if pool is None or route.kind == STICKY:
        return None
    stop_collecting(exchange)
    return pool


def _route_by_beginning(exchange: ExchangeState) -> Pool | None:
    """The fleet of a body that is too large to be collected: a form that names its model before its file.
    ``None``: wait for more of it. Raises :class:`RoutingError`."""
    upload, proxy, head = exchange.upload, exchange.proxy, exchange.head
    assert upload is not None
    most = proxy.settings.peek_bytes
    if upload.held < min(upload.look_again_at, most + 1):
        return None
    pool = _default_with_own_path(exchange)
    boundary = openai_body.boundary_of(head.fields) if pool is None else None
    if boundary is not None:
        model, exchange.stream = multipart.read(upload.peek(), boundary)
        if model:
            pool = proxy.table.by_name.get(model) or _resolve_default(model, exchange.default_fleet())
            expected = pool.served_model or pool.name
            if model != expected and model not in pool.adapters:
                upload.replace(multipart.with_model(upload.peek(), boundary, expected))
            else:
                exchange.model = model
        elif upload.held <= most:
            # Each search starts at the beginning. With doubled sizes all together cost at most two.
            upload.look_again_at = 2 * upload.held
            return None
    if pool is None:
        pool = exchange.fleet_of_key()
    if pool is None:
        raise _too_large_to_search(most, form=boundary is not None)
    stop_collecting(exchange)
    _limit_upload(exchange, pool)
    _, _, exchange.work = request_info_of(pool.protocol, head, b"", False)
    return pool


def _stream_through(exchange: ExchangeState, route: RequestRoute) -> Pool:
    if route.server_query is ServerQuery.INDEX:
        most = exchange.proxy.settings.peek_bytes
        words = f"a request for the repository index has a body of at most {most} bytes"
        raise RoutingError(413, "body_too_large", words, closes=True)
    stop_collecting(exchange)
    pool = resolve(exchange.proxy.table, route, exchange.default_fleet)
    _limit_upload(exchange, pool)
    _, exchange.stream, exchange.work = request_info_of(pool.protocol, exchange.head, b"", False)
    return pool


def route_collected(exchange: ExchangeState) -> Pool | None:
    """The fleet of a request whose body is complete now. ``None``: it may depend on which replica stores the
    response that the request names; or the proxy itself may be asked for an index. Raises
    :class:`RoutingError`."""
    upload, route = exchange.upload, exchange.head.route
    assert upload is not None
    assert isinstance(route, RequestRoute)
    exchange.body_bytes = upload.take()
    exchange.upload = None
    stop_collecting(exchange)
    if route.kind == IN_BODY:
        return route_by_body(exchange)
    if route.kind == STICKY or route.server_query is ServerQuery.INDEX:
        return None
    pool = route_by_head(exchange, route, exchange.body_bytes, True)
    assert pool is not None
    return pool


def stop_collecting(exchange: ExchangeState) -> None:
    """The request goes its way, with its whole body or with what has come of it."""
    if exchange.body_charge is not None:
        exchange.proxy.bodies.run(exchange.body_charge, exchange.upload is not None)


def release_budget(exchange: ExchangeState) -> None:
    """Nothing of the body is held any more."""
    charge = exchange.body_charge
    if charge is not None:
        exchange.body_charge = None
        exchange.proxy.bodies.release(charge)


# --- reasons why there is none -----------------------------------------------------------------------


def no_memory() -> RoutingError:
    words = "the proxy holds as many request bodies as its memory for them allows; try again"
    return RoutingError(503, "busy", words, BUSY_RETRY_S)


def _unknown(name: str) -> RoutingError:
    words = f"there is no fleet or alias named {name!r} here"
    return RoutingError(404, "model_not_found", words, lists_fleets=True)


def ambiguous_path(target: bytes) -> RoutingError:
    """The error for a path with dot segments, in one of the forms in which a server may read it."""
    shown = target.partition(b"?")[0][:200].decode("latin-1")
    words = (
        f"the path {shown} has dot segments, or characters that make it readable in two ways: send the "
        "path that it leads to"
    )
    return RoutingError(400, "ambiguous_path", words)


def _encoded(default: Pool | None) -> RequestInfo:
    """An encoded body names no model; the default fleet may take it. Raises :class:`RoutingError`."""
    if default is not None:
        return ("", False, 0.0)
    words = f"an encoded body is not decoded to find its model: {_NAME_IT_OUTSIDE}"
    raise RoutingError(415, "encoded_body", words)


def _too_large_to_search(peek_bytes: int, form: bool) -> RoutingError:
    """``form``: it is a form, and its beginning names no model."""
    words = f"a body of more than {peek_bytes} bytes is not searched for its model: {_NAME_IT_OUTSIDE}"
    if form:
        words = (
            f"the first {peek_bytes} bytes of the form do not hold its field model: put that before the "
            f"file, or {_NAME_IT_OUTSIDE}"
        )
    return RoutingError(413, "body_too_large_to_search", words)
