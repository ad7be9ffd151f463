"""Quiet replicas: what a frame says of a replica at which nothing happens, made once and used again.

Most of a large installation is quiet in any second: ready, its last probe passed, no request lately. What is
shown of such a replica depends on its row, on what proxies have learned of it, and on how its age reads
("3 min"). Everything else is made anew each time.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from controlplane.probes.last_results import LastProbe, UnopenedResults
from controlplane.telemetry import durations
from controlplane.telemetry.db_snapshot import FleetRow, ReplicaRow
from controlplane.telemetry.frames import ReplicaLive
from controlplane.telemetry.merged_numbers import ReplicaNumbers
from controlplane.telemetry.token_windows import NOTHING


class QuietReplicas:
    """Of one conductor; used by one thread."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[ReplicaRow, Any, ReplicaLive]] = {}

    def known(self, row: ReplicaRow, key: object) -> ReplicaLive | None:
        """What was made of this very row with this key, with its age as it is now."""
        known = self._known.get(row.uid)
        if known is None or known[0] is not row or known[1] != key:
            return None
        live = known[2]
        why = f"for {durations.words(row.health_for_s)}"
        if live.why != why:
            live = replace(live, why=why)
            self._known[row.uid] = (row, key, live)
        return live

    def keep(self, row: ReplicaRow, key: object, live: ReplicaLive) -> None:
        self._known[row.uid] = (row, key, live)

    def forget_beyond(self, replicas: int) -> None:
        """So many there are; more that are kept were deleted meanwhile."""
        if len(self._known) > 2 * replicas + 100:
            self._known.clear()


def key_of(
    row: ReplicaRow, of: FleetRow, numbers: ReplicaNumbers | None, probes: Mapping[str, LastProbe]
) -> object | None:
    """All that its picture depends on besides its row and its age; ``None``: it is not quiet. Of a quiet one
    nothing is said but for how long it has been ready."""
    if row.health != "ready" or row.admin_state != "active" or not row.weight or row.site or row.placed:
        return None
    if _has_failed(probes, row.uid):
        return None
    if numbers is None:
        return (of.continues,)
    return None if _is_busy(numbers) else (of.continues, numbers.speeds, numbers.scales)


def _has_failed(probes: Mapping[str, LastProbe], uid: str) -> bool:
    if isinstance(probes, UnopenedResults):
        return probes.has_failed(uid)
    probe = probes.get(uid)
    return probe is not None and not probe.passed


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
