"""Timeouts (connect, first byte, idle, total): the policy's and the client's own, of a request in flight."""

from __future__ import annotations

from math import inf

from routing.balancing.attempt.attempt import LEARN_STREAM_EVERY_S
from routing.balancing.pool.due_pick import Due
from routing.balancing.pool.pool import Pool
from routing.proxy.exchange.state import ExchangeState

LOOK_AT_STREAM_S = LEARN_STREAM_EVERY_S
SHORT_S = 10 * LOOK_AT_STREAM_S


class ExceededTimeout:
    """A timeout that has passed. ``final``: no other replica may be tried."""

    __slots__ = ("final", "message")

    def __init__(self, message: str, final: bool) -> None:
        self.message = message
        self.final = final


def client_gave_up(exchange: ExchangeState, now: float) -> bool:
    """Whether the client's own timeout, given in its request, has passed."""
    limit = exchange.head.time_limit_s
    return limit > 0 and now - exchange.started > limit


def due(exchange: ExchangeState, pool: Pool) -> Due | None:
    """When the request is to be done: by its client's own timeout, and if it is a stream, by the fleet's
    objective for first tokens. ``None``: neither is set."""
    limit_s, first_token_s = exchange.head.time_limit_s, pool.first_token_s
    is_stream = first_token_s > 0 and exchange.stream
    if not limit_s and not is_stream:
        return None
    since = exchange.started
    return Due(since + limit_s if limit_s else inf, since + first_token_s if is_stream else inf)


def no_time_left(exchange: ExchangeState, now: float) -> bool:
    """Whether no further attempt is worth beginning: the whole request has taken too long."""
    assert exchange.pool is not None
    return client_gave_up(exchange, now) or now - exchange.started > exchange.pool.policy.timeouts.total_s


def check_interval_s(exchange: ExchangeState) -> float:
    """Seconds until the next check of a response that has begun."""
    assert exchange.pool is not None
    limits = exchange.pool.policy.timeouts
    shortest_s = min(limits.idle_s, limits.total_s, limits.first_byte_s)
    is_short = exchange.head.time_limit_s > 0 or shortest_s < SHORT_S
    return 0.0 if is_short else LOOK_AT_STREAM_S


def exceeded(exchange: ExchangeState, now: float) -> ExceededTimeout | None:
    """The timeout that this exchange has passed at ``now`` (``time.monotonic()`` seconds), if any."""
    if exchange.pool is None or exchange.attempt is None:
        return None
    limits = exchange.pool.policy.timeouts
    still = now - exchange.progressed_at
    response = exchange.streaming_response
    if now - exchange.started > limits.total_s and not (response is not None and response.is_tunnel):
        return ExceededTimeout(f"the request took longer than its limit of {limits.total_s:g} s", True)
    if exchange.cancel_connecting is not None:
        if still > limits.connect_s:
            why = exchange.proxy.endpoint(exchange.attempt.replica).waits_for
            return ExceededTimeout(f"no connection within {limits.connect_s:g} s{why}", False)
    elif response is not None:
        if response.start is not None and exchange.stream:
            if still > limits.first_byte_s and not exchange.client.write_paused:
                return ExceededTimeout(f"the replica sent no content for {limits.first_byte_s:g} s", True)
        elif still > limits.idle_s and not exchange.client.write_paused:
            return ExceededTimeout(f"the replica stopped sending for {limits.idle_s:g} s", True)
    elif exchange.upload is None or exchange.upload.complete:
        if exchange.held is not None and exchange.held.start is None:
            if still > limits.idle_s:
                return ExceededTimeout(f"the replica stopped sending for {limits.idle_s:g} s", False)
        elif exchange.stream and still > limits.first_byte_s:
            what = "nothing" if exchange.held is None else "no content"
            final = exchange.held is None and 504 not in exchange.pool.policy.retries.statuses
            return ExceededTimeout(f"the replica sent {what} for {limits.first_byte_s:g} s", final)
    elif still > limits.idle_s and exchange.upstream is not None and exchange.upstream.write_paused:
        return ExceededTimeout(f"the replica read nothing of the request for {limits.idle_s:g} s", True)
    return None
