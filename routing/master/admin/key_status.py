"""Client key metrics and status: the requests of each key, by its id. Never has a key or its hash."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from routing.contract.telemetry import KeyCounters
from routing.master.admin.exposition import Exposition, LabelPairs


def key_metrics(out: Exposition, keys: Sequence[KeyCounters]) -> None:
    """For ``/metrics``. A key that has not been used has no samples."""
    named: list[tuple[LabelPairs, KeyCounters]] = [((("key", key.id),), key) for key in keys]
    requests = [(labels, key.requests) for labels, key in named]
    out.family("switchyard_key_requests_total", "counter", "Requests with the client key.", requests)
    limited = [
        ((*labels, ("limit", limit)), count)
        for labels, key in named
        for limit, count in sorted(key.limited_by.items())
    ]
    help_text = "Requests rejected because of a limit of the client key."
    out.family("switchyard_key_limited_requests_total", "counter", help_text, limited)
    tokens = [(labels, key.tokens) for labels, key in named]
    help_text = "Prompt and output tokens of the client key, as responses report them."
    out.family("switchyard_key_tokens_total", "counter", help_text, tokens)
    in_flight = [(labels, key.in_flight) for labels, key in named]
    help_text = "Requests with the client key that are in flight or waiting."
    out.family("switchyard_key_requests_in_flight", "gauge", help_text, in_flight)


def key_rows(keys: Sequence[KeyCounters]) -> list[dict[str, Any]]:
    """For ``/status``: one row a key."""
    return [
        {name: value for name, value in asdict(key).items() if name not in ("latency", "first_token")}
        for key in keys
    ]
