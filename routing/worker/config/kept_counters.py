"""Kept counters: what a report says of a replica at which nothing happens, encoded once and sent again.

What was learned of a replica fades with every second, so its counters would be other bytes each time, to be
encoded here, and decoded and merged by whoever reads them. Of ten thousand replicas most have nothing to do
in any second: what is said of them is at most KEPT_S old. Whatever happens at one is in the next report.
"""

from random import Random

import msgspec

from routing.balancing.learning.fleet_speed import FleetSpeed
from routing.balancing.pool.report import replica_counters
from routing.balancing.replica.state import Replica
from routing.contract.telemetry import ReplicaCounters

KEPT_S = 10.0
"""At most, and at least half of it: not all of a table are encoded anew in the same second."""


class KeptCounters:
    """Of one worker. Its dicts hold nothing that the garbage collector has to look at."""

    def __init__(self, rng: Random | None = None) -> None:
        self._rng = rng or Random()
        self._encoded: dict[str, bytes] = {}
        self._states: dict[str, tuple[object, ...]] = {}
        self._until: dict[str, float] = {}

    def encoded(self, replica: Replica, speed: FleetSpeed, now: float) -> msgspec.Raw:
        """A replica's part of a report. ``speed``: what its fleet has learned."""
        uid, state = replica.uid, _state(replica)
        if self._states.get(uid) == state and self._until[uid] > now:
            return msgspec.Raw(self._encoded[uid])
        counters = replica_counters(replica, speed, now)
        encoded = msgspec.json.encode(counters)
        if _is_quiet(counters):
            self._encoded[uid], self._states[uid] = encoded, state
            self._until[uid] = now + KEPT_S * self._rng.uniform(0.5, 1.0)
        else:
            self._states.pop(uid, None)
        return msgspec.Raw(encoded)

    def forget_beyond(self, replicas: int) -> None:
        """So many there are; more that are kept have left."""
        if len(self._encoded) > 2 * replicas + 100:
            self._encoded.clear()
            self._states.clear()
            self._until.clear()


def _state(replica: Replica) -> tuple[object, ...]:
    """What is another one as soon as anything happens."""
    ejection = replica.ejection
    return (
        id(replica),
        replica.picked,
        replica.in_flight,
        ejection.until,
        ejection.count,
        ejection.failures,
        replica.external_load,
        replica.security.no_credential,
    )


def _is_quiet(counters: ReplicaCounters) -> bool:
    """Whether all that time alone changes is what was learned."""
    return not (
        counters.in_flight
        or counters.ejected_for_s is not None
        or counters.doubt
        or counters.reported is not None
        or counters.staying
    )
