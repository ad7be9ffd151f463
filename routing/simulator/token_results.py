"""Token latency of a run: time to first token (TTFT), normalized latency, time per output token (TPOT).

Three series beside latency, each over the requests that were answered:

- *first token* (TTFT): from the request's arrival to the first output token;
- *seconds per token*: the whole latency, waiting included, divided by the number of output tokens. The papers
  of Orca and vLLM call it normalized latency;
- *seconds between tokens* (TPOT): from the first output token to the last, divided by the number of tokens
  after the first. Only of answers with more than one token.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from routing.simulator.objectives import in_time
from routing.simulator.requests import ANSWERED, Request
from routing.simulator.results import Result, quantile


class TokenFigures(NamedTuple):
    """99th percentiles, in seconds. Field names are those of the JSON that is printed."""

    p99_first_token_s: float
    p99_s_per_token: float
    p99_s_between_tokens: float


def token_figures(requests: Sequence[Request]) -> TokenFigures | None:
    """``None``: no answer had tokens."""
    answered = [one for one in requests if one.end == ANSWERED and one.tokens]
    if not answered:
        return None
    return TokenFigures(
        _p99(one.first_byte_s - one.at_s for one in answered),
        _p99(one.latency_s / one.tokens for one in answered),
        _p99((one.ended_s - one.first_byte_s) / (one.tokens - 1) for one in answered if one.tokens > 1),
    )


def cached_share(requests: Sequence[Request]) -> float | None:
    """Of the prompt tokens of what was answered, how many servers had kept from others; ``None``: none of
    them told how its prompt begins."""
    answered = [one for one in requests if one.end == ANSWERED and one.key]
    tokens = sum(one.prompt_tokens for one in answered)
    return sum(one.cached_tokens for one in answered) / tokens if tokens else None


def figures(result: Result) -> dict[str, str | int | float]:
    """All that is written in JSON: latencies, and where answers had tokens or objectives, what became of
    those."""
    tokens = token_figures(result.requests)
    cached = cached_share(result.requests)
    found = result.figures() | (tokens._asdict() if tokens is not None else {})
    if cached is not None:
        found |= {"cached_share": cached}
    due = in_time(result.requests, result.first_token_s)._asdict()
    return found | {name: value for name, value in due.items() if value is not None}


def _p99(values: Iterable[float]) -> float:
    return quantile(sorted(values), 0.99)
