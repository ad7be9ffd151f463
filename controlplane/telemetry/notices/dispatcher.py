"""Notice dispatcher: what a leader's tick writes into the event log, each notice once."""

from collections.abc import Callable, Iterable
from typing import Any

from controlplane.telemetry.key_traffic import Limit
from controlplane.telemetry.notices import event_log
from controlplane.telemetry.notices.ejections import EjectionNotifier
from controlplane.telemetry.notices.emergency_drains import EmergencyDrainNotifier
from controlplane.telemetry.notices.failing_together import FailingTogetherNotifier
from controlplane.telemetry.notices.fallbacks import FallbackNotifier
from controlplane.telemetry.notices.handover import LeaderHandover
from controlplane.telemetry.notices.key_limits import KeyLimitNotifier
from controlplane.telemetry.notices.notice import Notifier, Observed
from controlplane.telemetry.notices.overloads import OverloadNotifier
from controlplane.telemetry.notices.worker_shortages import ShortageNotifier

KINDS: tuple[type[Notifier[Any]], ...] = (
    EjectionNotifier,
    ShortageNotifier,
    OverloadNotifier,
    FallbackNotifier,
    EmergencyDrainNotifier,
    KeyLimitNotifier,
    FailingTogetherNotifier,
)
"""In the order in which they are written."""


class NoticeDispatcher:
    """All notifiers of one leader. Each is restored when its turn comes first; none outlives the lead."""

    def __init__(self, clock: Callable[[], float], kinds: Iterable[type[Notifier[Any]]] = KINDS) -> None:
        self._clock = clock
        self._kinds = tuple(kinds)
        self._restored: dict[type[Notifier[Any]], Notifier[Any]] = {}

    def forget(self) -> None:
        """Another conductor may have led meanwhile, and published what this one does not know."""
        self._restored.clear()

    def limits_changed(self, changed: Iterable[Limit]) -> None:
        """These limits of client keys are others now."""
        for notifier in self._restored.values():
            if isinstance(notifier, KeyLimitNotifier):
                notifier.forget(changed)

    def send(
        self,
        observed: Observed,
        handover_at: Callable[[float], LeaderHandover],
        may_write: Callable[[], bool],
    ) -> None:
        """Write what is pending; once a tick. An error ends it, and what is not confirmed stays pending.

        ``handover_at``: takes monotonic seconds. ``may_write``: asked before ejections are written. False:
        nothing is written, of any kind, for another conductor may lead by now and publish it. Raises
        django.db.Error, redis.RedisError.
        """
        for kind in self._kinds:
            now = self._clock()
            handover = handover_at(now)
            notifier = self._restored.get(kind) or self._restore(kind, handover)
            pending = notifier.pending(observed, now)
            if pending and kind is EjectionNotifier and not may_write():
                return
            for notice in pending:
                event_log.record(notice)
                notifier.confirm(notice, self._clock())
            notifier.save(handover)

    def _restore(self, kind: type[Notifier[Any]], handover: LeaderHandover) -> Notifier[Any]:
        notifier = kind()
        notifier.restore(handover)
        self._restored[kind] = notifier
        return notifier
