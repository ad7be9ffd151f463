"""Refresh cycle (slow timer): brings a pool's state that depends on time up to date, some replicas at a time.

Theory. Each replica takes a few microseconds: its weight in slow start, what sibling workers have there and
have learned of it, whether it is silent or fails too often, how its learned speed drifts. Thousands of them
at once would hold up the requests that come meanwhile. So a cycle is a row of passes over all replicas, each
in steps of :data:`PART`. What a pass compares a replica with (the pool's median speed, its p99, the usual
load) is summed up in the pass before. Between two steps requests are picked by what is known by then: what
is new of one replica does not wait for the others.

A pool of up to :data:`WHOLE` replicas has one step a pass, and all of them are done at once.
"""

from collections.abc import Generator, Sequence

from routing.balancing.admission import fleet_warmup
from routing.balancing.admission.admission_queue import AdmissionQueue
from routing.balancing.learning.fleet_speed import FleetSpeed
from routing.balancing.learning.reported_load import Correction, ReportContext
from routing.balancing.learning.shared_learning import SharedLearning
from routing.balancing.outlier.effective_weight import EffectiveWeights
from routing.balancing.outlier.outlier_detector import OutlierDetector
from routing.balancing.pool.endpoint_set import EndpointSet
from routing.balancing.pool.prefix_columns import PrefixColumns
from routing.balancing.replica import sibling_load
from routing.balancing.replica.state import Replica
from routing.contract.policy import Queue
from routing.contract.probe import Probe
from routing.contract.table import FleetSnapshot
from routing.shared.quota_share import QuotaShare

WHOLE = 64
PART = 64
"""Replicas of one step: some 0.1 ms, and half a millisecond beside fifteen sibling workers."""
REPAIRED_IN = 8
"""In how many cycles the shared cells of all replicas of a large pool are checked."""

Steps = Generator[None, float, None]
"""Wants the time with each step; the first ``next`` does nothing yet."""


class RefreshCycle:
    """Of one pool."""

    def __init__(
        self,
        endpoints: EndpointSet,
        speed: FleetSpeed,
        admission: AdmissionQueue,
        detector: OutlierDetector,
        host_share: QuotaShare,
        learning: SharedLearning | None,
        columns: PrefixColumns,
    ) -> None:
        """``learning``: ``None``: there are no shared counts."""
        self.limited = False
        """Whether requests may have to wait: for a slot, or for the first replica. As of the last cycle."""
        self.reserves = False
        """Whether requests reserve memory at any replica. As of the last cycle."""
        self._endpoints = endpoints
        self._weights = EffectiveWeights(host_share, admission.slot_freed)
        self._speed = speed
        self._admission = admission
        self._outlier_detector = detector
        self._host_share = host_share
        self._learning = learning
        self._columns = columns
        self._cycles = 0
        self._reporting = False
        """Whether any replica reports its load. As of the last cycle."""
        self._probe = Probe()
        self._queue = Queue()

    def follow(self, snapshot: FleetSnapshot) -> None:
        """The snapshot in force."""
        self._weights.policy = snapshot.policy
        self._probe, self._queue = snapshot.probe, snapshot.policy.queue

    def number_of_steps(self) -> int:
        """About how many steps a cycle has. A fleet that was removed has no replicas."""
        return 4 * max(1, -(-self.replicas // PART))

    @property
    def replicas(self) -> int:
        """How many there are."""
        return len(self._endpoints.listed)

    def weigh(self, eligible: Sequence[Replica], now: float) -> None:
        """Only the weights and limits of all replicas: enough to pick by them."""
        self._look_at_queue(eligible, now)
        self._hold_or_not(self._weights.update_known(self._endpoints.listed, now))

    def introduce(self, replicas: Sequence[Replica], joins: bool) -> None:
        """Those of them that are new begin as the others are. They are not in use yet. ``joins``: as for
        :meth:`EffectiveWeights.introduce`."""
        self._speed.introduce(replicas)
        self._weights.introduce(replicas, joins)

    def steps(self, eligible: Sequence[Replica]) -> Steps:
        """One cycle. ``eligible``: the replicas that requests were picked from since the last one. Ends when
        all is done but for sorting out who is eligible now. Of no use any more when the list of replicas is
        replaced meanwhile."""
        now = yield
        parts = self._parts()
        reports = self._correction() if self._reporting or self._reports(parts[0]) else None
        self._look_at_queue(eligible, now)
        limited = False
        for part in parts:
            limited |= self._weights.update(part, now)
            for replica in part:
                if replica.checking_since is not None or replica.spec.health == "checking":
                    fleet_warmup.follow(replica, now)
            if reports is not None:
                reports.look(part, now)
            now = yield
        self._hold_or_not(limited)
        self._admit(now)
        if reports is not None:
            reports.apply()
            now = yield
        yield from self._review(parts, now)

    def _review(self, parts: Sequence[Sequence[Replica]], now: float) -> Steps:
        """The passes after the first."""
        speed, learning = self._speed, self._learning
        self._cycles += 1
        if learning is not None:
            speed.exchange_means(self._endpoints.listed, learning, now)
        speed.begin_refresh(now)
        reserves = reporting = False
        for number, part in enumerate(parts):
            if learning is not None:
                if len(parts) == 1 or (number + self._cycles) % REPAIRED_IN == 0:
                    self._endpoints.repair_cells(part)
                sibling_load.read_counts(part)
                speed.exchange(part, now)
            self._outlier_detector.review(part, now, begins=number == 0)
            self._columns.touch(part, now, begins=number == 0)
            speed.look(part, now)
            reserves = reserves or any(replica.memory is not None for replica in part)
            reporting = reporting or self._reports(part)
            now = yield
        self.reserves, self._reporting = reserves, reporting
        by_latency = speed.compare(now)
        for part in parts:
            speed.renew(part, now)
            now = yield
        if by_latency:
            speed.compare_latency()
            for part in parts:
                speed.renew_latency(part, now)
                now = yield

    def _parts(self) -> list[Sequence[Replica]]:
        listed = self._endpoints.listed
        if len(listed) <= WHOLE:
            return [listed]
        return [listed[at : at + PART] for at in range(0, len(listed), PART)]

    @staticmethod
    def _reports(part: Sequence[Replica]) -> bool:
        """Whether one of them reports its load."""
        return any(replica.load_reports.history is not None for replica in part)

    def _correction(self) -> Correction:
        period_s, proxies = self._probe.period_s, self._host_share.count
        return Correction(ReportContext(period_s, self._speed.mean_work, proxies))

    def _look_at_queue(self, eligible: Sequence[Replica], now: float) -> None:
        since = self._admission.queue.since
        self._weights.look(eligible, now - since if since else 0.0, self._speed.mean_seconds)

    def _hold_or_not(self, limited: bool) -> None:
        self.limited = limited or self._queue.cold == "hold"

    def _admit(self, now: float) -> None:
        admission = self._admission
        admission.size = self._host_share.share_of(self._queue.size)
        if self.limited:
            admission.refresh(now)
        else:
            admission.look_at_peers()
