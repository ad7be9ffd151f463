"""Sticky routing of OpenAI's Responses API: requests that name a stored response, or make one.

Theory. A model server stores a response in its own memory, so a request that names it must reach that
replica. The ids are learned from the replicas' responses (:mod:`routing.proxy.exchange.response_sniffer`). A
later request is routed by the first of these rules that applies:

1. This worker, another one or another host knows the replica that stores it: that replica gets the request,
   or none.
2. The request names a fleet in the usual ways: the fleet's strategy picks, and the replica responds that it
   does not have it.
3. There is only one fleet that it can be for, see :func:`_only_fleet`.

An id of a fleet that the caller's key may not use is treated as unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from routing.balancing.pool.pinned_replica import PinnedReplica
from routing.balancing.pool.pool import Pool
from routing.protocols import openai_responses
from routing.proxy.errors import RoutingError
from routing.proxy.exchange import local_reply, router, sticky_errors
from routing.proxy.exchange.response_sniffer import ResponseSniffer
from routing.proxy.exchange.route import IN_BODY, NAMED, RequestRoute
from routing.proxy.exchange.state import ExchangeState
from routing.proxy.limits.request_limits import too_large
from routing.shared.sticky_ids import ReplicaRef

Dispatch = Callable[[Pool, float], None]
"""The exchange's function that dispatches it to its fleet. Raises :class:`RoutingError`."""


def route_sticky(exchange: ExchangeState, dispatch: Dispatch) -> None:
    """Route a complete request whose route says ``STICKY``: find its fleet and, if only one replica can serve
    it, that replica. May dispatch later, after a lookup. Raises :class:`RoutingError`."""
    route = exchange.head.route
    assert isinstance(route, RequestRoute)
    assert route.stateless is not None
    if route.sticky_id:
        _route_existing(exchange, route.sticky_id, route.stateless, dispatch)
    else:
        _route_create(exchange, route.stateless, dispatch)


def _route_create(exchange: ExchangeState, stateless: RequestRoute, dispatch: Dispatch) -> None:
    """Route a request that creates a response, perhaps continuing from a stored one."""
    if stateless.kind == IN_BODY:
        pool = router.route_by_body(exchange)
    else:
        found = router.route_by_head(exchange, stateless, exchange.body_bytes, True)
        assert found is not None
        pool = found
    request = openai_responses.read(exchange.body_bytes)
    if request.stores and pool.protocol == "openai":
        exchange.client.tap_writes(exchange, ResponseSniffer(exchange))

    def on_found(replica_ref: ReplicaRef | None) -> None:
        if replica_ref is not None and replica_ref.fleet == pool.name:
            exchange.pinned = PinnedReplica(
                replica_ref.uid, replica_ref.replica, _describe(request.name), only_finishes=False
            )
        dispatch(pool, monotonic())

    if request.name and pool.protocol == "openai":
        # A fleet with only one replica needs no lookup.
        _look_up(exchange, request.name, on_found, ask=len(pool.replicas) > 1)
    else:
        dispatch(pool, exchange.started)


def _route_existing(exchange: ExchangeState, name: str, stateless: RequestRoute, dispatch: Dispatch) -> None:
    """Route a request whose path names a stored response."""
    table = exchange.proxy.table
    named = router.resolve(table, stateless, exchange.default_fleet) if stateless.kind == NAMED else None

    def on_found(replica_ref: ReplicaRef | None) -> None:
        if replica_ref is not None and (
            not exchange.may_use(replica_ref.fleet)
            or named not in (None, table.fleets.get(replica_ref.fleet))
        ):
            replica_ref = None
        pool = (
            table.fleets.get(replica_ref.fleet)
            if replica_ref is not None
            else named or _only_fleet(exchange, name)
        )
        if pool is None:
            assert replica_ref is not None
            keeper = f"replica {replica_ref.replica} of fleet {replica_ref.fleet}, which has been removed"
            raise RoutingError(
                *sticky_errors.gone(f"{_describe(name)} was stored by {keeper}", only_finishes=True)
            )
        if len(exchange.body_bytes) > pool.max_body_bytes:
            raise too_large(pool)
        if replica_ref is not None:
            exchange.pinned = PinnedReplica(
                replica_ref.uid, replica_ref.replica, _describe(name), only_finishes=True
            )
        dispatch(pool, monotonic())

    _look_up(exchange, name, on_found, ask=True)


def _only_fleet(exchange: ExchangeState, name: str) -> Pool:
    """The fleet of a request that names none and whose id is unknown: the default fleet if that speaks
    OpenAI's protocol, else the only fleet that does, else the default fleet. Raises :class:`RoutingError`."""
    table = exchange.proxy.table
    default = exchange.default_fleet()
    if default is not None and default.protocol == "openai":
        return default
    fleets = [
        pool for pool in table.fleets.values() if pool.protocol == "openai" and exchange.may_use(pool.name)
    ]
    if len(fleets) == 1:
        return fleets[0]
    if default is not None:
        return default
    words = f"no fleet is known to store {_describe(name)}"
    raise RoutingError(404, "response_not_found", f"{words}: name the fleet in the path (/fleets/NAME/v1/…)")


def _look_up(
    exchange: ExchangeState, name: str, on_found: Callable[[ReplicaRef | None], None], ask: bool
) -> None:
    """Call ``on_found`` with what this worker knows or, with ``ask``, with the result of a lookup."""
    registry = exchange.proxy.sticky_registry
    replica_ref = registry.find(name)
    task = registry.ask(name) if replica_ref is None and ask else None
    if task is None:
        on_found(replica_ref)
        return
    exchange.wait_for(_LookUp(exchange, task, on_found))


class _LookUp:
    """An exchange that waits for the lookup of a stored response. The lookup is cancelled if the client
    leaves or its timeout passes."""

    __slots__ = ("_exchange", "_on_found", "_task")

    def __init__(
        self,
        exchange: ExchangeState,
        task: asyncio.Task[ReplicaRef | None],
        on_found: Callable[[ReplicaRef | None], None],
    ) -> None:
        self._exchange = exchange
        self._task = task
        self._on_found = on_found
        task.add_done_callback(self._on_result)

    def leave(self) -> None:
        self._exchange.stop_waiting()
        self._task.cancel()

    def _on_result(self, task: asyncio.Task[ReplicaRef | None]) -> None:
        exchange = self._exchange
        if exchange.waiting is not self or task.cancelled():
            return
        exchange.stop_waiting()
        try:
            self._on_found(task.result())
        except RoutingError as error:
            local_reply.refuse(exchange, error)


def _describe(name: str) -> str:
    return f"{'conversation' if name.startswith('conv_') else 'response'} {name!r}"
