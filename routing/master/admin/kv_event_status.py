"""KV event status: what is heard of replicas' KV caches, on ``/status`` and as metrics."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from routing.master.admin.exposition import Exposition, LabelPairs


class KvEventStatus(NamedTuple):
    """One replica whose fleet names a port for KV events."""

    fleet: str
    replica: str
    state: str
    """``waiting``: nothing was heard yet; ``heard``; ``silent``: it answers requests, and publishes none."""
    problem: str
    """Why it cannot be heard; empty: nothing is known against it."""
    heard_s_ago: float | None
    """``None`` while waiting or silent."""
    tokens_held: int
    block_age_s: float | None
    clears: int
    missed: int


def kv_event_row(status: KvEventStatus) -> dict[str, Any]:
    """For ``/status``."""
    return {
        "state": status.state,
        "problem": status.problem,
        "heard_s_ago": None if status.heard_s_ago is None else round(status.heard_s_ago, 1),
        "tokens_held": status.tokens_held,
        "block_age_s": None if status.block_age_s is None else round(status.block_age_s, 1),
        "clears": status.clears,
        "missed": status.missed,
    }


def kv_event_metrics(out: Exposition, statuses: Iterable[KvEventStatus]) -> None:
    found: list[tuple[LabelPairs, KvEventStatus]] = [
        ((("fleet", one.fleet), ("replica", one.replica)), one) for one in statuses
    ]
    if not found:
        return
    heard = [(labels, int(one.state == "heard")) for labels, one in found]
    help_text = "1 while the replica's KV events are heard; only of fleets with kv_events_port."
    out.family("switchyard_replica_kv_events_heard", "gauge", help_text, heard)
    held = [(labels, one.tokens_held) for labels, one in found if one.state == "heard"]
    help_text = "Tokens in the replica's KV cache, as far as its events tell."
    out.family("switchyard_replica_kv_tokens_held", "gauge", help_text, held)
    ages = [(labels, one.block_age_s) for labels, one in found if one.block_age_s is not None]
    help_text = "Median age at which the replica's KV cache drops blocks."
    out.family("switchyard_replica_kv_block_age_seconds", "gauge", help_text, ages)
    clears = [(labels, one.clears) for labels, one in found]
    help_text = "How often the replica's KV cache was emptied, or the replica started again."
    out.family("switchyard_replica_kv_clears_total", "counter", help_text, clears)
