"""Message: what a destination is told of one group of alerts. Pure."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from controlplane.alerts.grouping import GroupKey
from controlplane.alerts.rule_types import AlertSubject, Severity

MOST_ALERTS = 100
"""In one message; the others are counted."""

Status = Literal["firing", "resolved"]


class ToldAlert(msgspec.Struct, frozen=True, kw_only=True):
    """Times are RFC 3339, in UTC."""

    id: str
    status: Status
    severity: Severity
    fleet: str | None
    replica: str | None
    part: str | None
    why: str
    value: float | None
    since: str
    fired_at: str
    resolved_at: str | None = None

    @property
    def subject(self) -> str:
        return AlertSubject(self.fleet or "", self.replica or "", self.part or "").words or "all fleets"


class AlertMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a generic webhook, and what the other kinds of destination are told from."""

    id: str
    """Of this message: the same however often it is sent."""
    status: Status
    """``resolved``: all of it is over."""
    severity: Severity
    """The highest of those that fire, or fired."""
    rule: str
    title: str
    fleet: str | None
    unit: str
    """Of the alerts' values; empty: they have none, or are plain numbers."""
    text: str
    """One line for people."""
    alerts: list[ToldAlert]
    more: int = 0
    """How many are left out of ``alerts``."""
    url: str | None = None
    """Of the page with all alerts."""
    test: bool = False


def message_of(
    id: str,
    group: GroupKey,
    title: str,
    unit: str,
    firing: Sequence[ToldAlert],
    resolved: Sequence[ToldAlert],
    url: str | None,
) -> AlertMessage:
    """Raises ValueError without any alert."""
    status: Status = "firing" if firing else "resolved"
    shown = firing or resolved
    if not shown:
        raise ValueError("a message tells of at least one alert")
    severity: Severity = "critical" if any(one.severity == "critical" for one in shown) else "warning"
    listed = [*firing, *resolved]
    return AlertMessage(
        id=id,
        status=status,
        severity=severity,
        rule=group.rule,
        title=title,
        fleet=group.fleet or None,
        unit=unit,
        text=_text(status, title, group.fleet, shown),
        alerts=listed[:MOST_ALERTS],
        more=max(len(listed) - MOST_ALERTS, 0),
        url=url,
    )


def test_message(id: str, destination: str, now: str, url: str | None) -> AlertMessage:
    """What the test button sends: marked as such, so that nobody gets up for it."""
    text = f"Test of destination {destination}: nothing is wrong, and notifications arrive here"
    alert = ToldAlert(
        id=id,
        status="firing",
        severity="warning",
        fleet=None,
        replica=None,
        part=destination,
        why="somebody pressed the test button",
        value=None,
        since=now,
        fired_at=now,
    )
    return AlertMessage(
        id=id,
        status="firing",
        severity="warning",
        rule="test",
        title="Test",
        fleet=None,
        unit="",
        text=text,
        alerts=[alert],
        url=url,
        test=True,
    )


def _text(status: Status, title: str, fleet: str, shown: Sequence[ToldAlert]) -> str:
    first = shown[0]
    where = first.subject if len(shown) == 1 else fleet or f"{len(shown)} parts"
    if status == "resolved":
        return f"Resolved: {title}, {where}"
    others = "" if len(shown) == 1 else f" (and {len(shown) - 1} more)"
    return f"{title}, {where}: {first.why}{others}"
