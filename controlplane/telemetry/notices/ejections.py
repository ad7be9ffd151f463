"""Notices of outlier ejections: each ejection and return once.

Pure, but for ``restore``: explicit state, ``now`` an argument.
"""

from collections.abc import Iterable, Mapping

from controlplane.models import Event
from controlplane.telemetry import durations
from controlplane.telemetry.merged_numbers import ReplicaNumbers
from controlplane.telemetry.notices import event_log
from controlplane.telemetry.notices.handover import LeaderHandover
from controlplane.telemetry.notices.notice import Notice, Notifier, Observed, ReplicaSubject

REPEAT_S = 3.0
"""Workers of one host notice a repeated ejection up to a report apart. The shortest lasts 4 s."""
EJECTED = "ejected"
BACK = "ready"


class EjectionNotifier(Notifier[str]):
    """While no worker reports a replica, nothing is known of it and the published state stays."""

    def __init__(self, ejected: Iterable[str] = ()) -> None:
        """``ejected``: uids of replicas that were last published as ejected."""
        self._ejected = set(ejected)
        self._counts: dict[str, Mapping[tuple[str, int], int]] = {}
        """Uid → (worker, incarnation) → ejections counted so far."""
        self._notified_at: dict[str, float] = {}

    def restore(self, handover: LeaderHandover) -> None:
        """Of replicas whose newest such event says ejected. Raises django.db.Error."""
        rows = event_log.with_newest_state(Event.Kind.EJECTION, EJECTED, of="replica")
        self._ejected = {str(uid) for uid in rows.values_list("replica__uid", flat=True)}

    def pending(self, observed: Observed, now: float) -> list[Notice[str]]:
        found = []
        for fleet in observed.merged.fleets.values():
            for uid, numbers in fleet.replicas.items():
                again = self._ejected_again(uid, numbers.ejections)
                if numbers.ejected_by and uid not in self._ejected:
                    found.append(_ejected(uid, numbers, "ejected"))
                elif not numbers.ejected_by and uid in self._ejected:
                    found.append(_back(uid, numbers))
                elif again and numbers.ejected_by and self._may_repeat(uid, now):
                    found.append(_ejected(uid, numbers, "ejected again"))
        self._forget_beyond(sum(len(fleet.replicas) for fleet in observed.merged.fleets.values()))
        return found

    def _forget_beyond(self, replicas: int) -> None:
        """So many are reported; what is kept of more is of replicas that are gone."""
        if len(self._counts) > 2 * replicas + 100:
            self._counts.clear()

    def confirm(self, notice: Notice[str], now: float) -> None:
        (self._ejected.add if notice.begins else self._ejected.discard)(notice.key)
        self._notified_at[notice.key] = now

    def _may_repeat(self, uid: str, now: float) -> bool:
        return now - self._notified_at.get(uid, now - REPEAT_S) >= REPEAT_S

    def _ejected_again(self, uid: str, counts: Mapping[tuple[str, int], int]) -> bool:
        before = self._counts.get(uid)
        if before is counts:
            return False
        self._counts[uid] = counts
        return before is not None and any(count > before.get(key, count) for key, count in counts.items())


def _ejected(uid: str, numbers: ReplicaNumbers, word: str) -> Notice[str]:
    text = _text(numbers, word)
    return Notice(uid, True, Event.Kind.EJECTION, text, ReplicaSubject(uid), EJECTED)


def _back(uid: str, numbers: ReplicaNumbers) -> Notice[str]:
    text = f"{numbers.name} is no longer ejected"
    return Notice(uid, False, Event.Kind.EJECTION, text, ReplicaSubject(uid), BACK)


def _text(numbers: ReplicaNumbers, word: str) -> str:
    word = f"{numbers.name} is {word}"
    reason = f": {numbers.ejection_reason}" if numbers.ejection_reason else ""
    if numbers.ejected_for_s <= 0:
        return f"{word}{reason}; on probation"
    return f"{word}{reason}; probation in {durations.words(numbers.ejected_for_s + 0.5)}"
