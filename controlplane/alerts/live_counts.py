"""Live counts: how many alerts fire, for the header of open pages; told over the channel layer."""

import logging
import time
from collections.abc import Mapping

import msgspec
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

from controlplane.alerts import store
from controlplane.alerts.silencing import silence_of
from controlplane.models import Alert

ALERTS_GROUP = "live.alerts"
"""Channel-layer group of all open pages; messages: ``{"type": "live.alerts", "data": {fleet: [critical,
warning]}}``, the empty name for what belongs to no fleet. Silenced ones do not count."""

logger = logging.getLogger(__name__)


class FiringCount(msgspec.Struct, frozen=True, kw_only=True):
    critical: int = 0
    warning: int = 0


def by_fleet(now: float) -> dict[str, list[int]]:
    """Of alerts that fire and are not silenced."""
    counts: dict[str, list[int]] = {}
    silences = store.silences()
    for row in Alert.objects.filter(state=Alert.AlertState.FIRING):
        alert = store.open_alert(row)
        if silence_of(alert, silences, now) is None:
            counts.setdefault(alert.subject.fleet, [0, 0])[alert.severity != "critical"] += 1
    return counts


def seen_by(counts: Mapping[str, list[int]], fleets: frozenset[str] | None) -> FiringCount:
    """``fleets``: those that may be seen; ``None``: all, and what belongs to none."""
    seen = [count for fleet, count in counts.items() if fleets is None or fleet in fleets]
    return FiringCount(critical=sum(one for one, _ in seen), warning=sum(one for _, one in seen))


def announce() -> None:
    """Tell open pages. Pages that hear nothing ask anew every few seconds, so what is lost here is late."""
    try:
        layer = get_channel_layer()
        message = {"type": "live.alerts", "data": by_fleet(time.time())}
        async_to_sync(layer.group_send)(ALERTS_GROUP, message)
    except Exception as error:
        logger.debug("open pages are not told of alerts: %s", error)
