"""Quiet replicas: what a frame says of a replica at which nothing happens, made once and used again.

Most of a large installation is quiet in any second: ready, its last probe passed, no request lately. What is
shown of such a replica depends on its row, on what proxies have learned of it, and on how its age reads
("3 min"). Everything else is made anew each time.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from controlplane.probes.last_results import LastProbe, UnopenedResults
from controlplane.telemetry import durations
from controlplane.telemetry.db_snapshot import FleetRow, ReplicaRow
from controlplane.telemetry.frames import ReplicaLive
from controlplane.telemetry.merged_numbers import ReplicaNumbers
from controlplane.telemetry.token_windows import NOTHING


class _Made(NamedTuple):
    row: ReplicaRow
    numbers: ReplicaNumbers | None
    """Of which it was made, as the one object that they were."""
    continues: bool
    """Of its fleet."""
    key: Any
    live: ReplicaLive
    until: float
    """When its age reads differently, Unix seconds."""


class QuietReplicas:
    """Of one conductor; used by one thread."""

    def __init__(self) -> None:
        self._known: dict[str, _Made] = {}

    def unchanged(
        self, row: ReplicaRow, of: FleetRow, numbers: ReplicaNumbers | None, now: float
    ) -> ReplicaLive | None:
        """What was made of these very objects, if that reads the same ``now``; its last probe has passed."""
        made = self._known.get(row.uid)
        if (
            made is None
            or made.row is not row
            or made.numbers is not numbers
            or made.until <= now
            or made.continues != of.continues
        ):
            return None
        return made.live

    def known(
        self, row: ReplicaRow, of: FleetRow, numbers: ReplicaNumbers | None, key: object
    ) -> ReplicaLive | None:
        """What was made of this very row with this key, with its age as it is now."""
        made = self._known.get(row.uid)
        if made is None or made.row is not row or made.key != key:
            return None
        live = made.live
        why = f"for {durations.words(row.health_for_s)}"
        if live.why != why:
            live = replace(live, why=why)
        self.keep(row, of, numbers, key, live)
        return live

    def keep(
        self, row: ReplicaRow, of: FleetRow, numbers: ReplicaNumbers | None, key: object, live: ReplicaLive
    ) -> None:
        age_s = row.health_for_s
        until = row.health_since + age_s + durations.same_words_for(age_s)
        self._known[row.uid] = _Made(row, numbers, of.continues, key, live, until)

    def forget_beyond(self, replicas: int) -> None:
        """So many there are; more that are kept were deleted meanwhile."""
        if len(self._known) > 2 * replicas + 100:
            self._known.clear()


def key_of(row: ReplicaRow, of: FleetRow, numbers: ReplicaNumbers | None) -> object | None:
    """All that its picture depends on besides its row and its age, if its last probe has passed; ``None``: it
    is not quiet. Of a quiet one nothing is said but for how long it has been ready."""
    if row.health != "ready" or row.admin_state != "active" or not row.weight or row.site or row.placed:
        return None
    if numbers is None:
        return (of.continues,)
    return None if _is_busy(numbers) else (of.continues, numbers.speeds, numbers.scales)


def failed(probes: Mapping[str, LastProbe]) -> Collection[str]:
    """Uids of those whose last probe failed, or cannot be read."""
    if isinstance(probes, UnopenedResults):
        return probes.failed
    return {uid for uid, probe in probes.items() if not probe.passed}


def _is_busy(numbers: ReplicaNumbers) -> bool:
    return bool(
        numbers.window_requests
        or numbers.in_flight
        or numbers.rps
        or numbers.errors_per_s
        or numbers.failures
        or numbers.output_tokens_per_s
        or numbers.first_token is not NOTHING
        or numbers.between_tokens is not NOTHING
        or numbers.ejected_by
        or numbers.doubt
        or numbers.reported is not None
        or numbers.drained_at
        or numbers.drained_everywhere
        or numbers.no_credential
        or numbers.moved
    )
