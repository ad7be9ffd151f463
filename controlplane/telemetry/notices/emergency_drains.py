"""Notices of emergency drains: replicas taken out at single proxies, over their admin listeners.

Pure, but for ``restore`` and ``save``: explicit state, ``now`` an argument. With these a leader keeps in
Redis for the next one what it has published.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from controlplane.models import Event
from controlplane.telemetry.emergency_drain_text import time_left
from controlplane.telemetry.notices.handover import LeaderHandover
from controlplane.telemetry.notices.notice import Notice, Notifier, Observed, ReplicaNameSubject
from routing.contract.telemetry import WorkerReport

NOTIFIED_KEY = "sy:live:drained_by_hand"
"""Hash: JSON of proxy, fleet and replica → when that ends, milliseconds by Redis's clock."""
GONE_AFTER_S = 60.0
"""A proxy that was silent for so long has ended, and its overrides with it."""
_NEAR_S = 3.0
"""Reports are a second apart."""

Override = tuple[str, str, str]
"""Proxy, fleet, replica."""


@dataclass(slots=True)
class NotifiedDrain:
    ends_at: float
    """Monotonic seconds."""
    seen_at: float


class EmergencyDrainNotifier(Notifier[Override]):
    def __init__(self) -> None:
        self.notified: dict[Override, NotifiedDrain] = {}
        self._saved = False
        """Whether Redis holds any."""

    def restore(self, handover: LeaderHandover) -> None:
        for key, ends_at in handover.load(NOTIFIED_KEY).items():
            override = msgspec.json.decode(key, type=Override)
            self.notified[override] = NotifiedDrain(ends_at, handover.now)
        self._saved = bool(self.notified)

    def pending(self, observed: Observed, now: float) -> list[Notice[Override]]:
        reports = [worker.report for worker in observed.merged.workers.values()]
        current = _current(reports)
        return [*self._begun(current, now), *self._ended(current, {proxy_of(each) for each in reports}, now)]

    def confirm(self, notice: Notice[Override], now: float) -> None:
        if notice.begins:
            self.notified[notice.key] = NotifiedDrain(now, now)
        else:
            self.notified.pop(notice.key, None)

    def save(self, handover: LeaderHandover) -> None:
        if self.notified or self._saved:
            ends = {msgspec.json.encode(key): drain.ends_at for key, drain in self.notified.items()}
            handover.replace(NOTIFIED_KEY, ends)
            self._saved = bool(ends)

    def _begun(self, current: dict[Override, float], now: float) -> list[Notice[Override]]:
        found = []
        for override, left_s in sorted(current.items()):
            proxy, _, replica = override
            notified = self.notified.get(override)
            if notified is None:
                text = f"emergency drain of {replica} at proxy {proxy}, for another {time_left(left_s)}"
                found.append(_notice(override, True, text))
            else:
                notified.ends_at, notified.seen_at = now + left_s, now
        return found

    def _ended(self, current: dict[Override, float], proxies: set[str], now: float) -> list[Notice[Override]]:
        """Not reported any more by their proxies, or these are gone."""
        found = []
        for override in sorted(self.notified.keys() - current.keys()):
            notified = self.notified[override]
            proxy, _, replica = override
            if proxy in proxies:
                how = "expired" if now >= notified.ends_at - _NEAR_S else "ended"
                text = f"emergency drain of {replica} at proxy {proxy} has {how}"
                found.append(_notice(override, False, text))
            elif now - notified.seen_at >= GONE_AFTER_S:
                text = f"proxy {proxy}, with an emergency drain of {replica}, no longer reports"
                found.append(_notice(override, False, text))
        return found


def proxy_of(report: WorkerReport) -> str:
    return report.worker.rpartition("/")[0]


def _notice(override: Override, begins: bool, text: str) -> Notice[Override]:
    _, fleet, replica = override
    state = "draining" if begins else "active"
    return Notice(override, begins, Event.Kind.ADMIN, text, ReplicaNameSubject(fleet, replica), state)


def _current(reports: Iterable[WorkerReport]) -> dict[Override, float]:
    found: dict[Override, float] = {}
    for report in reports:
        for one in report.drained_by_hand:
            override = (proxy_of(report), one.fleet, one.replica)
            found[override] = max(found.get(override, 0.0), one.expires_in_s)
    return found
