"""Reading: the picture that the rules are evaluated on, from Redis and the database.

What the pages show is read here too, so an alert and a page say the same. Of the fleet frames only what rules
ask is decoded. What is away, or too old, is unknown.
"""

from collections.abc import Sequence

import msgspec
import redis
from django.db import Error as DatabaseError

from controlplane.alerts.picture import Picture, SeenDevice, SeenFleet, TroubledSource
from controlplane.datastores.redis import client as redis_client
from controlplane.models import DiscoverySourceStatus, SourceState
from controlplane.objectives.burn_rate import FleetObjectives
from controlplane.objectives.tracker import ObjectiveTracker, read_promises
from controlplane.system import fact_reader, report
from controlplane.system.fact_reader import InRedis
from controlplane.telemetry.frames import OVERVIEW_KEY, fleet_key
from routing.contract.decode_errors import DECODE_ERRORS

FRAME_LIMIT_S = 10.0
"""A frame that is older says nothing of now."""
AT_ONCE = 100
"""Fleet frames that are asked for in one round trip."""


class _SeenName(msgspec.Struct, frozen=True):
    name: str


class _SeenOverview(msgspec.Struct, frozen=True):
    at: float
    fleets: list[_SeenName]
    accelerators: list[SeenDevice] = []


class PictureReader:
    """Reads pictures; of what objectives count it remembers what it has seen. Used by one thread."""

    def __init__(self) -> None:
        self._objectives = ObjectiveTracker()

    def picture(self, now: float) -> Picture:
        """``now``: Unix seconds. Raises nothing for what is merely away."""
        in_redis, in_database = fact_reader.read()
        status = report.assessed(in_redis, in_database)
        overview, fleets = _frames(now)
        return Picture(
            fleets=fleets,
            devices=overview.accelerators if overview is not None else None,
            parts={part.name: part for part in status.parts if part.state != "unknown"},
            proxies=status.proxies if status.reports_known else None,
            certificates=_certificates(in_redis) if isinstance(in_redis, InRedis) else None,
            objectives=self._follow(in_redis, now) if isinstance(in_redis, InRedis) else None,
            sources=_sources(),
        )

    def _follow(self, in_redis: InRedis, now: float) -> list[FleetObjectives] | None:
        try:
            return self._objectives.follow(in_redis.heard, read_promises(), now)
        except (redis.RedisError, DatabaseError):
            return None


def _sources() -> list[TroubledSource] | None:
    troubled = DiscoverySourceStatus.objects.filter(state__in=(SourceState.FROZEN, SourceState.FAILING))
    fields = ("source__fleet__name", "source__name", "state", "reason")
    try:
        rows = list(troubled.order_by("source_id").values_list(*fields))
    except DatabaseError:
        return None
    return [TroubledSource(fleet, name, state == SourceState.FROZEN, why) for fleet, name, state, why in rows]


def _certificates(in_redis: InRedis) -> dict[str, float]:
    """Proxy → the least that one of its workers says."""
    found: dict[str, float] = {}
    for each in in_redis.heard:
        left_s = each.report.certificate_left_s
        if left_s is not None:
            proxy = each.report.worker.rpartition("/")[0]
            found[proxy] = min(found.get(proxy, left_s), left_s - each.age_s)
    return found


def _frames(now: float) -> tuple[_SeenOverview | None, list[SeenFleet] | None]:
    try:
        client = redis_client()
        overview = msgspec.json.decode(client.get(OVERVIEW_KEY) or b"", type=_SeenOverview)
        if abs(now - overview.at) > FRAME_LIMIT_S:
            return None, None
        return overview, _fleets(client, [fleet.name for fleet in overview.fleets])
    except (redis.RedisError, *DECODE_ERRORS):
        return None, None


def _fleets(client: "redis.Redis", names: Sequence[str]) -> list[SeenFleet]:
    bodies: list[bytes | str | None] = []
    for first in range(0, len(names), AT_ONCE):
        bodies += client.mget([fleet_key(name) for name in names[first : first + AT_ONCE]])
    return [msgspec.json.decode(body, type=SeenFleet) for body in bodies if body is not None]
