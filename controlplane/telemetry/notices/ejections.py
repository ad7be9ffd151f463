"""Notices of outlier ejections: each ejection and return once. Pure: explicit state, ``now`` an argument."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.telemetry import durations
from controlplane.telemetry.merge import Merged, ReplicaNumbers

REPEAT_S = 3.0
"""Workers of one host notice a repeated ejection up to a report apart. The shortest lasts 4 s."""


@dataclass(frozen=True, slots=True)
class EjectionNotice:
    """Something to write down about one replica."""

    uid: str
    ejected: bool
    """False: let back in full."""
    text: str


@dataclass(slots=True)
class NotifiedEjections:
    """The notices published so far."""

    notified: set[str] = field(default_factory=set)
    """Uids of replicas that were last published as ejected."""
    counts: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    """Uid → (worker, incarnation) → ejections counted so far."""
    notified_at: dict[str, float] = field(default_factory=dict)


def notices(state: NotifiedEjections, merged: Merged, now: float) -> list[EjectionNotice]:
    """What changed since the last call. ``now``: monotonic seconds.

    While no worker reports a replica, nothing is known of it and the published state stays. Only notices that
    are :func:`confirm`-ed are not published again.
    """
    found = []
    for fleet in merged.fleets.values():
        for uid, numbers in fleet.replicas.items():
            again = _ejected_again(state, uid, numbers.ejections)
            if numbers.ejected_by and uid not in state.notified:
                found.append(EjectionNotice(uid, True, _text(numbers, "ejected")))
            elif not numbers.ejected_by and uid in state.notified:
                found.append(EjectionNotice(uid, False, f"{numbers.name} is no longer ejected"))
            elif (
                again and numbers.ejected_by and now - state.notified_at.get(uid, now - REPEAT_S) >= REPEAT_S
            ):
                found.append(EjectionNotice(uid, True, _text(numbers, "ejected again")))
    return found


def confirm(state: NotifiedEjections, item: EjectionNotice, now: float) -> None:
    """This piece of news has been written down."""
    (state.notified.add if item.ejected else state.notified.discard)(item.uid)
    state.notified_at[item.uid] = now


def _ejected_again(state: NotifiedEjections, uid: str, counts: Mapping[tuple[str, int], int]) -> bool:
    before = state.counts.get(uid)
    state.counts[uid] = dict(counts)
    return before is not None and any(count > before.get(key, count) for key, count in counts.items())


def _text(numbers: ReplicaNumbers, word: str) -> str:
    word = f"{numbers.name} is {word}"
    reason = f": {numbers.ejection_reason}" if numbers.ejection_reason else ""
    if numbers.ejected_for_s <= 0:
        return f"{word}{reason}; on probation"
    return f"{word}{reason}; probation in {durations.words(numbers.ejected_for_s + 0.5)}"
