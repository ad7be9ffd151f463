"""Token measures: time to first token, time between tokens, tokens used, and what a request came to.

The time between tokens is that from the first to the last, by the number of tokens less one (time per output
token). So an event costs nothing more, and each answer counts once, however long it is.
"""

from __future__ import annotations

from typing import Final

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.pool.pool import Pool
from routing.contract.sketch import bucket_of
from routing.proxy.exchange.state import ExchangeState
from routing.proxy.exchange.streaming_response import StreamingResponse

MOST_ESTIMATED_BYTES: Final = 65_536
"""The estimate of a prompt takes no body for larger than this."""
_BYTES_PER_TOKEN: Final = 4


def first_token(exchange: ExchangeState, attempt: Attempt, now: float) -> None:
    """The first content of a streamed answer has come."""
    pool = exchange.pool
    assert pool is not None
    seconds = now - exchange.started
    _count(pool.counters.first_token, seconds)
    pool.totals.stream_began(seconds)
    if exchange.quota is not None:
        _count(exchange.quota.counts.first_token, seconds)
    exchange.first_token_at = now
    attempt.first_token(now)


def answer_ended(
    exchange: ExchangeState, response: StreamingResponse, attempt: Attempt | None, now: float
) -> None:
    """A streamed answer has come to its end. ``attempt``: at the replica that has given all of it."""
    pool, began = exchange.pool, exchange.first_token_came_at
    assert pool is not None
    if not began or not response.is_events:
        return
    tokens, _ = response.used()
    if tokens > 1:
        seconds = (now - began) / (tokens - 1)
        _count(pool.counters.between_tokens, seconds)
        if attempt is not None and not response.continued:
            attempt.tokens_came(seconds)


def count_ended(
    exchange: ExchangeState, pool: Pool, answered: bool, failed: bool, now: float, code: str, status: int
) -> None:
    """An exchange has ended, otherwise than with a whole answer in one piece. The arguments are those of
    :func:`routing.proxy.exchange.local_reply.record_completion`."""
    counters, totals, response = pool.counters, pool.totals, exchange.streaming_response
    counters.in_flight -= 1
    if answered:
        counters.answered += 1
        pool.observe(now - exchange.started)
    prompt = output = 0
    if response is not None:
        prompt, output = used_by(exchange, response)
    if not failed and status < 400 and (answered or (response is not None and response.is_tunnel)):
        totals.served(now - exchange.started if answered else -1.0, prompt, output)
        return
    if prompt or output:
        totals.used(prompt, output)
    if failed:
        counters.errors += 1
        if code:
            totals.failed(code)
        else:
            totals.failed_at_replica(status)
    elif answered:
        totals.client_error()
    else:
        totals.dropped()


def used_by(exchange: ExchangeState, response: StreamingResponse) -> tuple[int, int]:
    """Tokens of the prompt and of the answer, as far as a stream has told them."""
    output, prompt = response.used()
    return (estimated_prompt(exchange) if output and not prompt else prompt), output


def estimated_prompt(exchange: ExchangeState) -> int:
    """Tokens of a prompt that the answer does not tell, from the length of the request's body; 0: of a
    protocol whose bodies are no text, or of unknown length."""
    pool = exchange.pool
    if pool is None or pool.protocol != "openai":
        return 0
    return min(max(exchange.head.content_length, 0), MOST_ESTIMATED_BYTES) // _BYTES_PER_TOKEN


def _count(sketch: dict[int, int], seconds: float) -> None:
    bucket = bucket_of(seconds)
    sketch[bucket] = sketch.get(bucket, 0) + 1
