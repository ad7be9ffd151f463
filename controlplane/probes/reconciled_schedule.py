"""Reconciled schedule: whether rows and schedule may differ, told without reading all of either.

Every write that a probe must know of makes the table version of its fleet grow. While no version has changed
since the last look, and the schedule is as large as it was, there is nothing to do; when one has, the
replicas of that fleet alone are read. Every ALL_EVERY_S everything is compared all the same.
"""

import threading
import time
from collections.abc import Callable
from random import Random

import redis

from controlplane.probes import schedule, targets
from controlplane.probes.schedule import Timing
from controlplane.publishing.snapshots import current_state, fleet_versions

ALL_EVERY_S = 15.0


class ReconciledSchedule:
    """What this process knows of both. One thread at a time looks; others need not wait for it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._versions: dict[int, tuple[int, int]] = {}
        self._epoch = 0
        self._timings: dict[int, dict[str, Timing]] = {}
        self._compared_at = float("-inf")
        self._lock = threading.Lock()

    def reconcile(self, client: "redis.Redis", rng: Random) -> bool:
        """Make the schedule hold exactly the replicas that there are; whether it was changed.

        Raises redis.RedisError and django.db.Error; then the next one compares everything."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self._reconcile(client, rng)
        except BaseException:
            self._compared_at = float("-inf")
            raise
        finally:
            self._lock.release()

    def _reconcile(self, client: "redis.Redis", rng: Random) -> bool:
        epoch = current_state().epoch
        versions = fleet_versions(epoch)
        scheduled = schedule.size(client)
        all_again = (
            epoch != self._epoch
            or self._clock() - self._compared_at >= ALL_EVERY_S
            or scheduled != sum(map(len, self._timings.values()))
        )
        if not all_again and versions == self._versions:
            return False
        changed = {pk for pk, version in versions.items() if all_again or self._versions.get(pk) != version}
        gone = self._versions.keys() - versions.keys()
        before = {uid for pk in changed | gone for uid in self._timings.get(pk, ())}
        now = targets.timings_by_fleet(None if all_again else changed)
        timings = {uid: timing for of in now.values() for uid, timing in of.items()}
        if all_again:
            corrected = schedule.reconcile(client, timings, rng)
            self._timings, self._compared_at = now, self._clock()
        else:
            corrected = schedule.reconcile_some(client, timings, before - timings.keys(), rng)
            for pk in changed | gone:
                self._timings.pop(pk, None)
            self._timings.update(now)
        self._versions, self._epoch = versions, epoch
        return corrected
