"""Grouping: when a destination is told, and of what in one message. Pure.

Alerts of one rule in one fleet are one group: a rack that fails is one message, not one for each replica.
A new group waits a little for more of the same; one that was told is told again when it changes, at most once
an interval, when all of it is over, and now and then while it lasts. What has been told is remembered by the
alerts' ids and severities, so that nothing is told twice and nothing is left out: an alert that fires and is
not in there yet is due, whatever was lost meanwhile.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from controlplane.alerts.lifecycle import OpenAlert
from controlplane.alerts.rule_types import Severity


class GroupKey(NamedTuple):
    rule: str
    fleet: str


@dataclass(frozen=True, slots=True)
class GroupTiming:
    """Seconds."""

    wait_s: float = 10.0
    interval_s: float = 60.0
    repeat_s: float = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Told:
    """What of a group one destination was told last."""

    at: float
    severities: Mapping[str, Severity] = field(default_factory=dict)
    """Id of an alert → its severity as told."""


@dataclass(frozen=True, slots=True)
class Audience:
    """One destination, as far as it decides what it is told."""

    timing: GroupTiming = field(default_factory=GroupTiming)
    only_critical: bool = False
    fleets: frozenset[str] = frozenset()
    """Empty: all, and what belongs to none."""

    def wants(self, alert: OpenAlert) -> bool:
        if self.only_critical and alert.severity != "critical":
            return False
        return not self.fleets or alert.subject.fleet in self.fleets


@dataclass(frozen=True, slots=True)
class DueMessage:
    group: GroupKey
    firing: Sequence[OpenAlert]
    """By subject; new ones and those told before."""
    resolved: Sequence[str]
    """Ids of those that were told, and are over."""
    told: Told
    """What the destination was told, once this is."""


def due_messages(
    audience: Audience,
    firing: Sequence[OpenAlert],
    silenced: frozenset[str],
    told: Mapping[GroupKey, Told],
    busy: frozenset[GroupKey],
    now: float,
) -> Iterator[DueMessage]:
    """What one destination is to be told at ``now``.

    ``firing``: all that fire. ``silenced``: ids of those that are silenced: they are not told of, but that
    one told before is over is. ``busy``: groups of which a message has not been taken yet: not repeated.
    """
    groups: dict[GroupKey, list[OpenAlert]] = {key: [] for key in told}
    for alert in firing:
        groups.setdefault(GroupKey(alert.rule, alert.subject.fleet), []).append(alert)
    for key, alerts in sorted(groups.items()):
        before = told.get(key)
        message = _of_group(audience, key, alerts, silenced, before, now, repeats=key not in busy)
        if message is not None:
            yield message


def _of_group(
    audience: Audience,
    key: GroupKey,
    alerts: Sequence[OpenAlert],
    silenced: frozenset[str],
    before: Told | None,
    now: float,
    *,
    repeats: bool,
) -> DueMessage | None:
    known = before.severities if before is not None else {}
    heard = [one for one in alerts if one.id not in silenced and (one.id in known or audience.wants(one))]
    fresh = [one for one in heard if known.get(one.id) != one.severity]
    still = {one.id for one in alerts}
    over = sorted(id for id in known if id not in still)
    if not _is_due(
        audience.timing, before, fresh, over, heard, now, is_over=len(over) == len(known), repeats=repeats
    ):
        return None
    severities = {id: severity for id, severity in known.items() if id in still}
    severities |= {one.id: one.severity for one in heard}
    return DueMessage(key, sorted(heard, key=lambda one: one.subject), over, Told(now, severities))


def _is_due(
    timing: GroupTiming,
    before: Told | None,
    fresh: Sequence[OpenAlert],
    over: Sequence[str],
    heard: Sequence[OpenAlert],
    now: float,
    *,
    is_over: bool,
    repeats: bool,
) -> bool:
    if before is None:
        return bool(fresh) and now - min(_fired_at(one, now) for one in fresh) >= timing.wait_s
    if over and is_over:
        return True
    if fresh or over:
        return now - before.at >= timing.interval_s
    return bool(heard) and repeats and now - before.at >= timing.repeat_s


def _fired_at(alert: OpenAlert, now: float) -> float:
    return now if alert.fired_at is None else alert.fired_at
