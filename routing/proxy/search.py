"""Collecting a body, within bounds, until it is complete: to find the fleet in it, to put its model's name
right, or to know what it costs.

What was collected is what is sent, and sent again where a request may be repeated.
"""

from __future__ import annotations

from routing.http.request_head import RequestHead
from routing.pool.pool import Pool
from routing.protocols import multipart, openai_body
from routing.protocols.ask import BadAsk
from routing.proxy import affinity_key
from routing.proxy.cost import ask_of
from routing.proxy.destination import Unroutable, find_planned, find_unnamed, read_body, too_large_to_search
from routing.proxy.plan import IN_BODY, NAMED, RESPONSES, Plan
from routing.proxy.replay import replay_is_safe
from routing.proxy.request_limits import hold_to, too_large
from routing.proxy.state import ExchangeState

WORTH_COLLECTING_BYTES = 65_536
"""A body up to this size comes in a few segments; a larger one streams through once its fleet is known."""


def is_worth_collecting(protocol: str, head: RequestHead) -> bool:
    """Whether to wait for the body of a request whose fleet its head names: an inference call, which tells
    its cost in the body and can be sent again while the body is at hand."""
    return (
        head.method == b"POST"
        and 0 < head.content_length <= WORTH_COLLECTING_BYTES
        and replay_is_safe(head, protocol, "auto")
    )


def by_head(exchange: ExchangeState, plan: Plan, body: bytes, complete: bool) -> Pool | None:
    """The fleet that the head names, or the default one, and what the request costs. ``None``: the body tells
    that, or names the model, and is waited for. Raises :class:`Unroutable`."""
    pool = find_planned(exchange.proxy.table, plan, exchange.default)
    if complete:
        if len(body) > pool.max_body_bytes:
            raise too_large(pool)
    else:
        hold_to(exchange, pool)
        if (
            is_worth_collecting(pool.protocol, exchange.head)
            or (pool.renames and _may_name_a_model(exchange.head, body))
            or affinity_key.is_in_body(pool, exchange.head)
        ):
            return None
    model, exchange.stream, exchange.work = ask_of(pool.protocol, exchange.head, body, complete)
    # Any other name than the fleet's own stays: the caller means a model that the replicas know besides.
    if (
        model
        and model != (pool.served_model or pool.name)
        and exchange.proxy.table.resolve(model) is pool
        and model not in pool.adapters
    ):
        exchange.body_bytes = _renamed(exchange, body, pool.served_model or pool.name)
    return pool


def _may_name_a_model(head: RequestHead, body: bytes) -> bool:
    """Whether the body, of which so much is here, may have a model's name that is to be put right."""
    has_body = head.chunked or head.content_length > 0
    return head.method == b"POST" and has_body and openai_body.may_name_a_model(head.fields, body)


def by_body(exchange: ExchangeState) -> Pool:
    """The fleet of the model that the complete body names. Raises :class:`Unroutable`."""
    body, table = exchange.body_bytes, exchange.proxy.table
    try:
        model, exchange.stream, exchange.work = read_body(exchange.head, body, exchange.default)
        pool = table.resolve(model) or find_unnamed(model, exchange.default())
    except Unroutable:
        own = _path_of_its_own(exchange)
        if own is None:
            raise
        _, exchange.stream, exchange.work = ask_of(own.protocol, exchange.head, body, True)
        model, pool = "", own
    if len(body) > pool.max_body_bytes:
        raise too_large(pool)
    expected = pool.served_model or pool.name
    if model != expected and model and model not in pool.adapters:
        exchange.body_bytes = _renamed(exchange, body, expected)
    return pool


def _renamed(exchange: ExchangeState, body: bytes, model: str) -> bytes:
    """The body under the name that the replicas know. Raises :class:`Unroutable`."""
    try:
        return openai_body.with_model(exchange.head.fields, body, model)
    except BadAsk as error:
        raise Unroutable(400, "bad_body", str(error)) from None


def _path_of_its_own(exchange: ExchangeState) -> Pool | None:
    """The default fleet, where it does not speak the OpenAI API: a path outside ``/v1/`` may be its own, of
    which only the name is alike."""
    plan, default = exchange.head.note, exchange.default()
    assert isinstance(plan, Plan)
    return default if plan.bare and default is not None and default.protocol != "openai" else None


def collect(exchange: ExchangeState, size: int) -> Pool | None:
    """``size`` more bytes lie in the exchange's upload. ``None``: the rest is waited for. The fleet that the
    head names: what is here and the rest stream through as they are. Raises :class:`Unroutable` when the body
    alone names the fleet and is too large to be searched."""
    upload, proxy, plan = exchange.upload, exchange.proxy, exchange.head.note
    assert upload is not None
    assert isinstance(plan, Plan)
    usual = plan.usual or plan
    if max(upload.held, exchange.head.content_length) > proxy.settings.peek_bytes:
        return _by_beginning(exchange, size) if usual.kind == IN_BODY else _as_it_is(exchange, usual)
    _hold(exchange, size)
    if usual.kind == IN_BODY or upload.complete or upload.held != size or not size:
        return None
    if plan.kind == RESPONSES and usual.kind != NAMED:
        return None
    # The first bytes of the body have just come.
    pool = by_head(exchange, usual, upload.text(), False)
    if pool is None or plan.kind == RESPONSES:
        return None
    end(exchange)
    return pool


def _hold(exchange: ExchangeState, size: int) -> None:
    """So many more bytes wait for their fleet to be found. Raises :class:`Unroutable`."""
    if not exchange.proxy.peek(size):
        raise Unroutable(503, "busy", "too many large bodies are being read at once; try again", 1.0)
    exchange.upload.searched += size  # type: ignore[union-attr]


def _by_beginning(exchange: ExchangeState, size: int) -> Pool | None:
    """The fleet of a body that is too large to be collected: of a form that names its model before its file.
    ``None``: more of it is waited for. Raises :class:`Unroutable`."""
    upload, proxy, head = exchange.upload, exchange.proxy, exchange.head
    assert upload is not None
    most = proxy.settings.peek_bytes
    pool = _path_of_its_own(exchange)
    boundary = openai_body.boundary_of(head.fields) if pool is None else None
    if boundary is not None and upload.held < min(upload.look_again_at, most + 1):
        _hold(exchange, size)
        return None
    if boundary is not None:
        model, exchange.stream = multipart.read(upload.text(), boundary)
        if model:
            pool = proxy.table.resolve(model) or find_unnamed(model, exchange.default())
            expected = pool.served_model or pool.name
            if model != expected and model not in pool.adapters:
                upload.replace(multipart.with_model(upload.text(), boundary, expected))
        elif upload.held <= most:
            # Each search begins anew; doubled, they take no more than twice the time of one.
            upload.look_again_at = 2 * upload.held
            _hold(exchange, size)
            return None
    if pool is None:
        pool = exchange.named_by_key()
    if pool is None:
        raise too_large_to_search(most, form=boundary is not None)
    end(exchange)
    hold_to(exchange, pool)
    _, _, exchange.work = ask_of(pool.protocol, head, b"", False)
    return pool


def _as_it_is(exchange: ExchangeState, plan: Plan) -> Pool:
    end(exchange)
    pool = find_planned(exchange.proxy.table, plan, exchange.default)
    hold_to(exchange, pool)
    _, exchange.stream, exchange.work = ask_of(pool.protocol, exchange.head, b"", False)
    return pool


def collected(exchange: ExchangeState) -> Pool | None:
    """The upload is complete: its bytes are the exchange's body from now on. ``None``: the fleet may depend
    on who keeps what the request is about. Raises :class:`Unroutable`."""
    upload, plan = exchange.upload, exchange.head.note
    assert upload is not None
    assert isinstance(plan, Plan)
    exchange.body_bytes = upload.take()
    end(exchange)
    exchange.upload = None
    if plan.kind == RESPONSES:
        return None
    if plan.kind == IN_BODY:
        return by_body(exchange)
    pool = by_head(exchange, plan, exchange.body_bytes, True)
    assert pool is not None
    return pool


def end(exchange: ExchangeState) -> None:
    """Give back to the worker's budget what the search has taken."""
    upload = exchange.upload
    if upload is not None and upload.searched:
        exchange.proxy.peek(-upload.searched)
        upload.searched = 0
