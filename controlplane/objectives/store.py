"""Store: what objectives count, in Redis for 24 h each 10 s, and in the database for 90 days each 5 min.

Redis may be emptied at any moment: whoever counts goes on from memory. If nobody did, the last minutes are
missing: the database alone lacks up to five.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from controlplane.datastores.redis import client as redis_client
from controlplane.models import ObjectiveCount
from controlplane.objectives.count_series import COARSE_S, FINE_REACH_S, FINE_S
from controlplane.objectives.counting import Counts, SeenByWorker
from routing.contract.decode_errors import DECODE_ERRORS

SEEN_KEY = "sy:objectives:seen"
"""Redis string: SeenByOne as JSON."""
SEEN_S = 7 * 86_400
FINE_POINTS = int(FINE_REACH_S / FINE_S)


def fine_key(fleet: str) -> str:
    """Redis list, oldest first: KeptCounts as JSON, one each 10 s with requests."""
    return f"sy:objectives:10s:{fleet}"


class SeenByOne(msgspec.Struct):
    by: str
    """Who counted last."""
    seen: SeenByWorker


class KeptCounts(msgspec.Struct, array_like=True, frozen=True):
    """Requests that ended until ``at`` (Unix seconds), since the one before: by objective with its limit."""

    at: float
    counts: dict[str, Counts]


def load_seen() -> SeenByOne | None:
    """``None``: nobody has counted, or Redis was emptied. Raises redis.RedisError."""
    try:
        return msgspec.json.decode(redis_client().get(SEEN_KEY) or b"", type=SeenByOne)
    except DECODE_ERRORS:
        return None


def load_counts(fleet: str, fleet_id: int, since: float) -> tuple[list[KeptCounts], float]:
    """A fleet's counts since then, oldest first, and until when the database has them. Raises
    redis.RedisError, django.db.Error."""
    fine = [
        msgspec.json.decode(text, type=KeptCounts) for text in redis_client().lrange(fine_key(fleet), 0, -1)
    ]
    rows = ObjectiveCount.objects.filter(fleet_id=fleet_id, at__gt=datetime.fromtimestamp(since, UTC))
    newest = rows.order_by("-at").values_list("at", flat=True).first()
    if fine:
        # One that began before the first of these is partly in them: better a gap than twice.
        rows = rows.filter(at__lte=datetime.fromtimestamp(fine[0].at, UTC))
    kept = rows.order_by("at").values_list("at", "counts")
    coarse = [
        KeptCounts(at.timestamp(), {key: (good, total) for key, (good, total) in counts.items()})
        for at, counts in kept
    ]
    return [*coarse, *fine], newest.timestamp() if newest is not None else 0.0


def keep(by: str, seen: SeenByWorker, fine: Mapping[str, KeptCounts]) -> None:
    """In Redis, all of it or nothing. Raises redis.RedisError."""
    pipeline = redis_client().pipeline(transaction=True)
    pipeline.set(SEEN_KEY, msgspec.json.encode(SeenByOne(by, seen)), ex=SEEN_S)
    for fleet, counts in fine.items():
        pipeline.rpush(fine_key(fleet), msgspec.json.encode(counts))
        pipeline.ltrim(fine_key(fleet), -FINE_POINTS, -1)
        pipeline.expire(fine_key(fleet), int(FINE_REACH_S))
    pipeline.execute()


def keep_coarse(rows: Sequence[tuple[int, KeptCounts]]) -> None:
    """(fleet's id, counts of five minutes), in the database. Raises django.db.Error."""
    ObjectiveCount.objects.bulk_create(
        [
            ObjectiveCount(fleet_id=pk, at=datetime.fromtimestamp(kept.at, UTC), counts=kept.counts)
            for pk, kept in rows
        ],
        ignore_conflicts=True,
    )


def coarse_slot(at: float) -> float:
    """The end of the five minutes that hold this time."""
    return (at // COARSE_S + 1) * COARSE_S
