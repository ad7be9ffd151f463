"""Takeover (failover to another cluster): whether another fleet serves a request from now on, and which.

Rules.

- The fleet that the client has asked says where its requests may go, in order, and for which causes
  (:class:`routing.contract.policy.Fallback`). The list of the fleet that has taken over is not looked at. A
  request that fails there too goes on along the first list.
- The client has got nothing yet, and the whole body is kept. Of protocols whose calls are known these are
  calls of inference, which keep no state; nothing that is bound to a replica. What a replica may have begun
  must be safe to send twice (:mod:`routing.proxy.exchange.retry_policy`).
- The request has not had its extra attempts. The one at the other fleet is such, where there was one before.
- The other fleet has an eligible replica, exposes the call, takes so large a body, and the client's key is
  for it, unless the policy says that the first fleet's is enough.
- There is room in the fallback budget of the first fleet.

A name of a model in the body, or in a path of the Open Inference Protocol, becomes that of the other fleet. A
request that names an adapter stays where it is: no other fleet has that.

It counts as a request of the fleet that takes over, too, which answers for it from then on: if that fails,
its error goes to the client.
"""

from __future__ import annotations

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica
from routing.contract.policy import Fallback, FallbackCause
from routing.http.request_head import RequestHead
from routing.protocols import open_inference, openai_body
from routing.protocols.request_info import BadRequestBody
from routing.proxy.errors import RoutingError
from routing.proxy.exchange import exposure_guard, needed_adapters, router, timeouts
from routing.proxy.exchange.failed_attempt import AttemptOwner
from routing.proxy.exchange.fallback import hopeless
from routing.proxy.exchange.fallen_back import FallbackTarget, FallenBack
from routing.proxy.exchange.retry_policy import MAX_EXTRA_ATTEMPTS, replay_is_safe
from routing.proxy.exchange.route import STICKY, RequestRoute

_NEVER_SENT = ("no_eligible_replica", "no_place", "deadline")
"""With these causes no replica has the request, if there was no attempt before."""


class _NotThere(Exception):
    """Why the request does not go to another fleet, or to one of them
    (:data:`routing.contract.telemetry.NO_FALLBACK`)."""


def takes_over(exchange: AttemptOwner, cause: FallbackCause, now: float, tried: tuple[Replica, ...]) -> bool:
    """Whether another fleet serves the request from now on. If so, an attempt that is under way is cancelled.
    ``tried``: the replicas that have had the request, that of this attempt among them."""
    target = find(exchange, cause, now, tried)
    if target is None:
        return False
    exchange.drop_attempt(Outcome.CANCELLED)
    go_to(exchange, target, cause, now, tried)
    return True


def avoids_lateness(exchange: AttemptOwner, pool: Pool, now: float) -> bool:
    """Whether another fleet serves a request that is due, and would be late at each replica of ``pool``.
    Asked before its attempt."""
    if not is_for(exchange, "deadline") or not hopeless.is_hopeless(exchange, pool, now):
        return False
    return takes_over(exchange, "deadline", now, exchange.tried)


def is_for(exchange: AttemptOwner, cause: FallbackCause) -> bool:
    """Whether the policy has another fleet for this cause."""
    return any(cause in entry.causes for entry in _left(exchange))


def find(
    exchange: AttemptOwner, cause: FallbackCause, now: float, tried: tuple[Replica, ...]
) -> FallbackTarget | None:
    """The fleet to which the request goes; ``None``: to none, which is counted if the policy has one."""
    if not is_for(exchange, cause):
        return None
    before, pool = exchange.fallen_back, exchange.pool
    assert pool is not None
    first = pool if before is None else before.first
    if exchange.streaming_response is not None or exchange.was_informed:
        return None
    if timeouts.no_time_left(exchange, now):
        return None
    try:
        _check_request(exchange, pool, cause, tried)
        target = _first_that_can(exchange, first, cause, now)
        if not first.budget.take_fallback():
            raise _NotThere("budget")
    except _NotThere as why:
        reasons = first.counters.no_fallback
        reasons[str(why)] = reasons.get(str(why), 0) + 1
        return None
    return target


def go_to(
    exchange: AttemptOwner,
    target: FallbackTarget,
    cause: FallbackCause,
    now: float,
    tried: tuple[Replica, ...],
) -> None:
    """Send the request to what :func:`find` has found. There is no attempt under way."""
    before, pool = exchange.fallen_back, exchange.pool
    assert pool is not None
    first, entries = (pool, pool.fallback) if before is None else (before.first, before.entries)
    causes = first.counters.fallbacks.setdefault(target.pool.name, {})
    causes[cause] = causes.get(cause, 0) + 1
    exchange.change_fleet(target, FallenBack(first, entries, target.position, cause, len(tried)), tried, now)


def _left(exchange: AttemptOwner) -> list[Fallback]:
    """The entries that the request has not come to."""
    before, pool = exchange.fallen_back, exchange.pool
    if before is not None:
        return before.entries[before.position + 1 :]
    return [] if pool is None else pool.fallback


def _check_request(
    exchange: AttemptOwner, pool: Pool, cause: FallbackCause, tried: tuple[Replica, ...]
) -> None:
    """Raises :class:`_NotThere` if it may go to no other fleet."""
    head = exchange.head
    route = head.route
    assert isinstance(route, RequestRoute)
    begun = bool(tried) or not exchange.repeatable
    is_bound = exchange.pinned is not None or route.kind == STICKY or head.upgrade
    if is_bound or not _is_safe(exchange, pool, cause, begun):
        raise _NotThere("not_safe")
    if exchange.upload is not None or (head.has_body and not exchange.body_bytes):
        raise _NotThere("body")
    if begun and exchange.extra_attempts >= MAX_EXTRA_ATTEMPTS:
        raise _NotThere("attempts")
    if exchange.model in pool.adapters or needed_adapters.named(exchange, pool):
        raise _NotThere("adapter")


def _is_safe(exchange: AttemptOwner, pool: Pool, cause: FallbackCause, begun: bool) -> bool:
    head, policy = exchange.head, pool.policy.retries.replay_safe
    if not begun and cause in _NEVER_SENT:
        # Nothing has been begun, so it is sent once.
        policy = "always" if pool.protocol == "generic" else "auto"
    is_call = pool.protocol == "generic" or head.method == b"POST"
    return is_call and replay_is_safe(head, pool.protocol, policy)


def _first_that_can(exchange: AttemptOwner, first: Pool, cause: FallbackCause, now: float) -> FallbackTarget:
    """Raises :class:`_NotThere` if there is none: why the last one cannot."""
    left = _left(exchange)
    before = exchange.fallen_back
    begin = 0 if before is None else before.position + 1
    why = _NotThere("fleet")
    for position, entry in enumerate(left, begin):
        if cause in entry.causes:
            try:
                return _target(exchange, first, entry, position, cause, now)
            except _NotThere as objection:
                why = objection
    raise why


def _target(
    exchange: AttemptOwner, first: Pool, entry: Fallback, position: int, cause: FallbackCause, now: float
) -> FallbackTarget:
    """The request as it would go to that fleet. Raises :class:`_NotThere` if it must not."""
    other = exchange.proxy.table.fleets.get(entry.fleet)
    if other is None or other is first or other.protocol != first.protocol:
        raise _NotThere("fleet")
    if other.rejection(now) is not None:
        raise _NotThere("fleet")
    if not entry.included and not exchange.may_use(other.name):
        raise _NotThere("key")
    if now - exchange.started > other.policy.timeouts.total_s:
        raise _NotThere("late")
    if cause == "deadline" and not hopeless.is_better(exchange, other, now):
        raise _NotThere("late")
    model = other.served_model or other.name
    body = _body_for(exchange, other, model)
    if len(body) > other.max_body_bytes:
        raise _NotThere("body")
    target = FallbackTarget(other, position, _head_for(exchange.head, other, model), body, model)
    if not _exposes(exchange, target):
        raise _NotThere("fleet")
    return target


def _exposes(exchange: AttemptOwner, target: FallbackTarget) -> bool:
    """Whether that fleet lets clients reach what the request names."""
    before = exchange.head, exchange.body_bytes, exchange.model
    if exchange.head.route.opens & target.pool.requires:  # type: ignore[attr-defined]
        return True
    router.readdress(exchange, target.head, target.body, target.model)
    try:
        exposure_guard.check(exchange, target.pool)
    except RoutingError:
        return False
    finally:
        router.readdress(exchange, *before)
    return True


def _body_for(exchange: AttemptOwner, other: Pool, model: str) -> bytes:
    """The body under that fleet's name of its model. Raises :class:`_NotThere` where it cannot be read."""
    body, fields = exchange.body_bytes, exchange.head.fields
    if other.protocol != "openai" or not body:
        return body
    if openai_body.is_encoded(fields):
        raise _NotThere("body")
    try:
        return openai_body.with_model(fields, body, model)
    except BadRequestBody:
        raise _NotThere("body") from None


def _head_for(head: RequestHead, other: Pool, model: str) -> RequestHead:
    """The head with that name in its path, where the path names a model and the route does not see to it."""
    route = head.route
    assert isinstance(route, RequestRoute)
    if other.protocol != "open-inference" or route.v2 or open_inference.model_of(route.target) is None:
        return head
    renamed, renamed_route = head.copy(), route.copy()
    renamed_route.target = open_inference.with_model(route.target, model)
    renamed.route = renamed_route
    return renamed
