"""Model guard (authorization of models): refuses a request that names a model of another fleet.

Names are enforced where fleets share a host, and where a fleet declares what its replicas call their models.
A name in the path, the query or the body must be one that belongs to the fleet, as its replicas know it, and
so must the adapters that members of a JSON body name. What has the name replaced by the proxy is judged after
that. Where a body must be read and cannot be, because it
is too large, encoded, or may be read in two ways, the request is refused.

What is said inside a WebSocket is not read.
"""

from __future__ import annotations

import re
from math import inf

from routing.balancing.pool.pool import Pool
from routing.http.request_head import RequestHead
from routing.protocols import named_models, openai_body
from routing.protocols.path_forms import forms_of, path_of
from routing.protocols.request_info import BadRequestBody
from routing.protocols.strict_form import FormScan
from routing.proxy.errors import RoutingError
from routing.proxy.exchange import report_only
from routing.proxy.exchange.request_body_buffer import RequestBodyBuffer
from routing.proxy.exchange.route import RequestRoute
from routing.proxy.exchange.state import ExchangeState

ModelNames = frozenset[str]
_CALLS = (
    *(b"/chat/completions", b"/completions", b"/messages", b"/messages/count_tokens", b"/embeddings"),
    *(b"/rerank", b"/score", b"/responses", b"/audio/transcriptions", b"/audio/translations"),
    *(b"/audio/speech", b"/images/generations", b"/images/edits", b"/classify", b"/pooling", b"/embed"),
    *(
        b"/tokenize",
        b"/detokenize",
        b"/generative_scoring",
        b"/moderations",
        b"/generate",
        b"/generate_stream",
    ),
    *(b"/encode", b"/invocations", b"/completion", b"/infill", b"/embedding", b"/reranking", b"/predict"),
    *(b"/apply-template",),
)
"""Calls in which a server takes its own default where no model is named, also below paths that are listed."""
_NO_CALL = re.compile(
    rb"/v2/repository/index|(?:/openai)?/v1/(?:(?:files|uploads|batches)(?:/.+)?|responses/[^/]+/cancel)"
)
"""All that may be posted without a model, where ``inference`` is exposed: servers have calls that are in no
list."""


def body_is_needed(pool: Pool, head: RequestHead) -> bool:
    """Whether to wait for this request's body, because the model that it names decides."""
    if pool.exposed.models is None or not pool.exposed.is_enforced:
        return False
    route = head.route
    assert isinstance(route, RequestRoute)
    return head.has_body and not named_models.in_target(route.target).path_decides


def check(exchange: ExchangeState, pool: Pool, names: ModelNames) -> None:
    """``names``: the fleet's models, as its replicas know them. Raises :class:`RoutingError`."""
    head = exchange.head
    route = head.route
    assert isinstance(route, RequestRoute)
    target = named_models.in_target(route.target)
    if not route.v2:  # there the proxy has found the fleet by the model, and replaces its name
        for rest in target.in_path:
            _check_path(rest, route, pool, names)
    for model in target.in_query:
        _check_name(model, "the query", pool, names)
    if target.path_decides:
        return
    if exchange.model in names and named_models.is_named_once(head.fields, exchange.body_bytes):
        return
    if exchange.upload is not None:
        look_at = _guard_upload if pool.exposed.is_enforced else _watch_upload
        look_at(exchange, exchange.upload, pool, names)
        return
    named = _in_body(exchange, pool) if head.has_body else named_models.NamedInBody([], [])
    for name in (*named.models, *named.adapters):
        _check_name(name, "the body", pool, names)
    if not named.models:
        _check_named(head, pool, names)


def _check_path(rest: str, route: RequestRoute, pool: Pool, names: ModelNames) -> None:
    if not named_models.begins_with_one(rest, names):
        if rest == named_models.EVERY_MODEL and route.server_query and pool.protocol == "open-inference":
            return  # an index to which the proxy itself replies, once names are enforced
        raise _not_exposed(rest.partition("/")[0].partition(":")[0], "the path", pool, names)


def _check_name(model: str, where: str, pool: Pool, names: ModelNames) -> None:
    if model not in names:
        raise _not_exposed(model, where, pool, names)


def _check_named(head: RequestHead, pool: Pool, names: ModelNames) -> None:
    """Of a request that names no model in its body: where the server's default may be another fleet's, calls
    must name one."""
    route = head.route
    assert isinstance(route, RequestRoute)
    if not pool.exposed.host_is_shared or pool.protocol == "generic" or head.method != b"POST":
        return
    target = named_models.in_target(route.target)
    if target.in_query:
        return
    forms = forms_of(path_of(route.target)) or ()
    if not any(form.endswith(_CALLS) for form in forms):
        listed = isinstance(pool.exposed.expose, list)
        if listed or target.in_path or all(_NO_CALL.fullmatch(form) for form in forms):
            return
    words = (
        f"the request names no model, and fleet {pool.name!r} shares a host with another: "
        f"send model: {_listed(names)}"
    )
    raise RoutingError(400, "model_missing", words)


def _in_body(exchange: ExchangeState, pool: Pool) -> named_models.NamedInBody:
    fields = exchange.head.fields
    _check_encoding(fields, pool)
    try:
        return named_models.in_body(fields, exchange.body_bytes, any_content=pool.protocol == "generic")
    except BadRequestBody as error:
        raise _unreadable(error, pool) from None


def _check_encoding(fields: bytes, pool: Pool) -> None:
    if openai_body.is_encoded(fields):
        words = f"an encoded body is not decoded, and fleet {pool.name!r} exposes its own models only"
        raise RoutingError(415, "encoded_body", words)


def _guard_upload(exchange: ExchangeState, upload: RequestBodyBuffer, pool: Pool, names: ModelNames) -> None:
    """A body that is too large to be collected: a form is read while it is forwarded, and cut where it names
    another fleet's model. The replica then has no complete request."""
    _check_encoding(exchange.head.fields, pool)
    try:
        scan = named_models.scan_of_form(exchange.head.fields)
    except BadRequestBody as error:
        raise _unreadable(error, pool) from None
    if scan is None:
        raise _too_large(exchange, pool)
    guard = _FormGuard(exchange.head, scan, pool, names)
    refusal = guard.read(upload.peek(), upload.complete)
    if refusal is not None:
        raise refusal
    upload.guard = guard


def _watch_upload(exchange: ExchangeState, upload: RequestBodyBuffer, pool: Pool, names: ModelNames) -> None:
    """A body that is still coming, of a fleet that refuses nothing: it is looked at as it passes."""
    head, most = exchange.head, exchange.proxy.settings.peek_bytes
    if not head.has_body:
        return
    _check_encoding(head.fields, pool)
    try:
        scan = named_models.scan_of_body(head.fields, any_content=pool.protocol == "generic")
    except BadRequestBody as error:
        raise _unreadable(error, pool) from None
    if scan is None:
        return
    is_form = isinstance(scan, FormScan)
    if not is_form and max(head.content_length, upload.held) > most:
        raise _too_large(exchange, pool)
    by_name = exchange.proxy.table.by_name

    def judge(model: str | None) -> None:
        if model is None:
            _check_named(head, pool, names)
        # An alias would have been replaced.
        elif pool.protocol != "openai" or by_name.get(model) is not pool:
            _check_name(model, "the body", pool, names)

    upload.guard = watch = report_only.BodyWatch(pool, scan, inf if is_form else most, judge)
    watch(upload.peek(), upload.complete)


class _FormGuard:
    """Looks at each piece of a form before it is forwarded."""

    __slots__ = ("_head", "_named", "_names", "_pool", "_scan")

    def __init__(self, head: RequestHead, scan: FormScan, pool: Pool, names: ModelNames) -> None:
        self._head = head
        self._scan = scan
        self._pool = pool
        self._names = names
        self._named = False

    def __call__(self, piece: bytes, complete: bool) -> RoutingError | None:
        """Why a piece of the body of a dispatched request must not be forwarded; ``None``: it may be."""
        refusal = self.read(piece, complete)
        if refusal is not None:
            self._pool.counters.not_exposed += 1
        return refusal

    def read(self, piece: bytes, complete: bool) -> RoutingError | None:
        """The same, uncounted."""
        try:
            for model in self._scan.feed(piece):
                self._named = True
                _check_name(model, "the body", self._pool, self._names)
            if complete:
                self._scan.finish()
                if not self._named:
                    _check_named(self._head, self._pool, self._names)
        except BadRequestBody as error:
            return _unreadable(error, self._pool)
        except RoutingError as refusal:
            return refusal
        return None


def _too_large(exchange: ExchangeState, pool: Pool) -> RoutingError:
    most = exchange.proxy.settings.peek_bytes
    words = (
        f"a body of more than {most} bytes is not searched for its model, and fleet {pool.name!r} "
        "exposes its own models only: send less, or have the fleet expose all"
    )
    return RoutingError(413, "body_too_large_to_search", words)


def _unreadable(error: BadRequestBody, pool: Pool) -> RoutingError:
    words = f"{error} (fleet {pool.name!r} exposes its own models only, so the body must be readable)"
    return RoutingError(400, "ambiguous_body", words)


def _not_exposed(model: str, where: str, pool: Pool, names: ModelNames) -> RoutingError:
    words = (
        f"{where} names the model {model[:200]!r}, which fleet {pool.name!r} does not expose: it exposes "
        f"{_listed(names)}; others are to be listed in its adapters, or expose set to all"
    )
    return RoutingError(403, "model_not_exposed", words)


def _listed(names: ModelNames) -> str:
    some = sorted(names)[:5]
    return ", ".join(some) + (" …" if len(names) > len(some) else "")
