"""What a pool says about its replicas: to telemetry in numbers, to people in words."""

import msgspec

from routing.contract.telemetry import ReplicaCounters
from routing.policies.eligibility import obstacles
from routing.replica import Replica


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """One replica, and whether it may receive something new."""

    uid: str
    name: str
    eligible: bool
    reasons: list[str]
    """Why not, in plain words; empty when it is eligible."""


def explanation(replica: Replica, panic: bool, last_resort: bool, now: float) -> Explanation:
    reasons = obstacles(replica, panic, last_resort, now)
    return Explanation(uid=replica.uid, name=replica.name, eligible=not reasons, reasons=reasons)


def replica_counters(replica: Replica, now: float) -> ReplicaCounters:
    """A replica's part of a worker's report. The sketches are shared, not copied: encode it at once."""
    state = replica.ejection
    learned = bool(replica.speed.units or replica.speed.peer_units)
    return ReplicaCounters(
        uid=replica.uid,
        name=replica.name,
        picked=replica.picked,
        succeeded=replica.succeeded,
        failed=replica.failed,
        rejected=replica.rejected,
        cancelled=replica.cancelled,
        client_errors=replica.client_errors,
        in_flight=replica.in_flight,
        work=replica.work,
        seconds_per_work=replica.seconds_per_work if learned else None,
        output_tokens=replica.output_tokens,
        ejected_for_s=max(0.0, state.until - now) if state.until else None,
        ejection_reason=state.reason,
        ejections=state.count,
        latency=replica.latency,
        first_byte=replica.first_byte,
    )
