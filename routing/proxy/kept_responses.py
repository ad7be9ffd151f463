"""Requests that name what a replica keeps, and those whose answers will be named: OpenAI's Responses API.

Theory. A model server keeps a response in its own memory, so whoever names it must come to that replica. What
a replica makes is learned from its answer (:mod:`routing.proxy.answer_ear`); a later request is routed by the
first that holds:

1. a replica is known to keep it, here or elsewhere: that one is asked, or none;
2. the request names a fleet as any other does: the fleet's strategy picks, and the replica says that it does
   not have it;
3. the one fleet that it can be for, see :func:`_only_fleet`.

An id of a fleet that the caller's key does not open is treated as one that nobody knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import monotonic

from routing.pool.one_replica import OneReplica
from routing.pool.pool import Pool
from routing.protocols import responses
from routing.proxy import ends, not_kept, search
from routing.proxy.answer_ear import AnswerEar
from routing.proxy.destination import Unroutable, find_planned
from routing.proxy.plan import IN_BODY, NAMED, Plan
from routing.proxy.request_limits import too_large
from routing.proxy.state import ExchangeState
from routing.replica_state.kept_ids import Place

Take = Callable[[Pool, float], None]
"""The exchange's own: the fleet is known. Raises :class:`Unroutable`."""


def find(exchange: ExchangeState, take: Take) -> None:
    """The request is complete, its plan says ``RESPONSES``: find its fleet and, where one replica alone can
    serve it, that. May go on later. Raises :class:`Unroutable`."""
    plan = exchange.head.note
    assert isinstance(plan, Plan)
    assert plan.usual is not None
    if plan.kept:
        _find_kept(exchange, plan.kept, plan.usual, take)
    else:
        _find_to_make(exchange, plan.usual, take)


def _find_to_make(exchange: ExchangeState, usual: Plan, take: Take) -> None:
    """For a request that makes something, maybe on top of what is kept."""
    if usual.kind == IN_BODY:
        pool = search.by_body(exchange)
    else:
        found = search.by_head(exchange, usual, exchange.body_bytes, True)
        assert found is not None
        pool = found
    asked = responses.read(exchange.body_bytes)
    if asked.stores and pool.protocol == "openai":
        exchange.client.overhear(AnswerEar(exchange))

    def go_on(place: Place | None) -> None:
        if place is not None and place.fleet == pool.name:
            exchange.tried = OneReplica(place.uid, place.replica, _called(asked.name), finishes=False)
        take(pool, monotonic())

    if asked.name and pool.protocol == "openai":
        # The only replica need not be looked for.
        _look_up(exchange, asked.name, go_on, ask=len(pool.replicas) > 1)
    else:
        take(pool, exchange.started)


def _find_kept(exchange: ExchangeState, name: str, usual: Plan, take: Take) -> None:
    """For a request whose path names what is kept."""
    table = exchange.proxy.table
    named = find_planned(table, usual, exchange.default) if usual.kind == NAMED else None

    def go_on(place: Place | None) -> None:
        if place is not None and (
            not exchange.may_use(place.fleet) or named not in (None, table.fleets.get(place.fleet))
        ):
            place = None
        pool = table.fleets.get(place.fleet) if place is not None else named or _only_fleet(exchange, name)
        if pool is None:
            assert place is not None
            keeper = f"replica {place.replica} of fleet {place.fleet}, which has been removed"
            raise Unroutable(*not_kept.gone(f"{_called(name)} was kept by {keeper}", finishes=True))
        if len(exchange.body_bytes) > pool.max_body_bytes:
            raise too_large(pool)
        if place is not None:
            exchange.tried = OneReplica(place.uid, place.replica, _called(name), finishes=True)
        take(pool, monotonic())

    _look_up(exchange, name, go_on, ask=True)


def _only_fleet(exchange: ExchangeState, name: str) -> Pool:
    """Of a request that names none and whose id nobody knows: the default fleet if that speaks OpenAI's
    protocol, else the only one that does, else the default fleet. Raises :class:`Unroutable`."""
    table = exchange.proxy.table
    default = exchange.default()
    if default is not None and default.protocol == "openai":
        return default
    fleets = [
        pool for pool in table.fleets.values() if pool.protocol == "openai" and exchange.may_use(pool.name)
    ]
    if len(fleets) == 1:
        return fleets[0]
    if default is not None:
        return default
    words = f"it is not known here which fleet keeps {_called(name)}"
    raise Unroutable(404, "response_not_found", f"{words}: name the fleet in the path (/fleets/NAME/v1/…)")


def _look_up(exchange: ExchangeState, name: str, go_on: Callable[[Place | None], None], ask: bool) -> None:
    """Go on with what is known here or, with ``ask``, elsewhere."""
    keepers = exchange.proxy.keepers
    place = keepers.find(name)
    task = keepers.ask(name) if place is None and ask else None
    if task is None:
        go_on(place)
        return
    # A client that leaves, or whose time is over, ends what is waited for.
    exchange.cancel_connecting = cancel = task.cancel
    task.add_done_callback(partial(_heard, exchange, cancel, go_on))


def _heard(
    exchange: ExchangeState,
    cancel: Callable[[], bool],
    go_on: Callable[[Place | None], None],
    task: asyncio.Task[Place | None],
) -> None:
    if exchange.cancel_connecting is not cancel or task.cancelled():
        return
    exchange.cancel_connecting = None
    try:
        go_on(task.result())
    except Unroutable as error:
        ends.refuse(exchange, error)


def _called(name: str) -> str:
    return f"{'conversation' if name.startswith('conv_') else 'response'} {name!r}"
