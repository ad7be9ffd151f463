"""Moving (migration of a request): a stream leaves a replica that is to be free, and goes on at another.

Theory. Its replica has not failed, so there is no haste: the stream goes on there until another replica has
been picked and the request is counted at it. Only then is it broken off, and continued as one that was lost
(:mod:`routing.proxy.exchange.continuation.seam`). If the other one then fails, it is such a stream. A move
takes none of a request's extra attempts, and no retry from the budget: both are for what fails.

A stream that has not begun needs no continuation. It is sent to the other one as it was, if it may be sent
twice. Plain requests stay: how far their replica is with them is not known.

Nothing bounds how often an operator drains replicas, so :data:`MOST_MOVES` does: each move costs a prompt.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica
from routing.protocols.continuation.next_request import NextRequest, next_request
from routing.protocols.continuation.refusal import NotContinuable
from routing.protocols.continuation.said import Said, said_in
from routing.protocols.openai import BYTES_PER_TOKEN
from routing.proxy.exchange import needed_adapters, timeouts
from routing.proxy.exchange.continuation.continuable_response import ContinuableResponse
from routing.proxy.exchange.continuation.targets import prefill_of, unfit
from routing.proxy.exchange.retry_policy import replay_is_safe
from routing.proxy.exchange.state import ExchangeState

MOST_MOVES = 8
"""Of one stream."""
Left = Literal["moved", "no_room", "stays"]
MOVED: Left = "moved"
NO_ROOM: Left = "no_room"
STAYS: Left = "stays"
"""For now, or for good: :func:`why_it_stays` says which."""
_PASSING = frozenset({"split_character", "partial_event", "no_time"})
"""Causes that a later moment may not have."""


class Rest(NamedTuple):
    """What another replica is to be asked for."""

    response: ContinuableResponse
    said: Said
    asked: NextRequest

    def ask(self) -> None:
        self.response.ask(self.said, self.asked, moves=True)


class Move(NamedTuple):
    """How a request can leave."""

    excluded: tuple[Replica, ...]
    """Replicas that it must not go to."""
    rest: Rest | None
    """``None``: it has not begun, and is sent again as it was."""
    prompt_tokens: int
    """That the other replica has to read, as estimated."""


def why_it_stays(exchange: ExchangeState) -> str:
    """Why the request cannot leave its replica, of :data:`routing.contract.moving.STAYS`; empty: it can, once
    another has room. Whether another can continue it is not looked at."""
    response, pool = exchange.streaming_response, exchange.pool
    assert pool is not None
    if response is not None and response.is_tunnel:
        return "tunnel"
    if not exchange.stream:
        return "plain"
    if exchange.pinned is not None:
        return "pinned"
    if isinstance(response, ContinuableResponse):
        return "moves" if response.moves >= MOST_MOVES else response.kept.cause
    if response is not None:
        return "call" if pool.policy.continuation == "auto" else "off"
    if not exchange.repeatable or exchange.upload is not None:
        return "not_repeatable"
    safe = replay_is_safe(exchange.head, pool.protocol, pool.policy.retries.replay_safe)
    return "" if safe else "not_repeatable"


def prompt_tokens(exchange: ExchangeState) -> int:
    """What another replica would have to read to continue, as estimated."""
    response = exchange.streaming_response
    if isinstance(response, ContinuableResponse):
        return _tokens_of(response.kept.body) + response.used()[0]
    return _tokens_of(exchange.body_bytes)


def next_move(
    exchange: ExchangeState, pool: Pool, away: Replica, full: Collection[Replica], now: float
) -> Move | Left:
    """How it leaves now. ``full``: replicas that must not be asked now. What is found to be impossible for
    good is noted at the response."""
    if why_it_stays(exchange) or timeouts.no_time_left(exchange, now):
        return STAYS
    response = exchange.streaming_response
    adapters = needed_adapters.limited(exchange, pool)
    if not isinstance(response, ContinuableResponse):
        excluded = (*exchange.tried, away, *full)
        if not pool.has_other_than(excluded, now, adapters=adapters):
            return NO_ROOM
        return Move(excluded, None, _tokens_of(exchange.body_bytes))
    tried = (*response.failed_at, away)
    excluded = (*unfit(pool, response.version, tried, response.call), *full)
    if not pool.has_other_than(excluded, now, adapters=adapters):
        return NO_ROOM
    kept = response.kept
    try:
        said = said_in(kept.text())
        asked = next_request(response.call, kept.body, said, prefill_of(pool))
    except NotContinuable as refusal:
        if refusal.cause not in _PASSING:
            kept.drop(refusal.cause)
        return STAYS
    if not asked.body or asked.closes:
        # It is about to end where it is.
        return STAYS
    prompt = said.prompt_tokens or _tokens_of(kept.body)
    return Move(excluded, Rest(response, said, asked), prompt + asked.tokens)


def count(pool: Pool, away: Replica, move: Move) -> None:
    """It leaves so."""
    away.moves.left(move.prompt_tokens)
    pool.counters.moved += 1
    pool.counters.moved_prompt_tokens += move.prompt_tokens


def _tokens_of(body: bytes) -> int:
    return round(len(body) / BYTES_PER_TOKEN)
