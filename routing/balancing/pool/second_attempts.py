"""Second attempts (hedging): when a request that waits at a replica is sent to another one as well.

Rules.

- *When.* A stream of which no content has come within the policy's limit, or the one that is learned
  (:mod:`routing.balancing.learning.first_tokens`). A request that is not streamed after a multiple of its
  predicted completion, if the policy has one: as a replica of its replica's weight usually takes, not as this
  one was learned to take, which may be the one that is silent.
- *Never while others wait*: nobody waits in the fleet's queue, in no worker.
- *Never in a busy fleet*: the eligible replicas besides its own are at most :data:`BUSY` busy. With slots
  that is their requests over their slots. Without, it is what the server itself reports: its KV cache or its
  utilization, or all if requests wait there. If it reports nothing, a server that slows down by its load is
  busy for the part ``1 - 1/s`` of the time if a unit of work takes ``s`` times as long as alone, by the
  growth that was measured (:mod:`routing.balancing.learning.service_shape`). Where it was not, nobody knows,
  and the budget alone is the bound: what is believed of such servers would call a handful of requests busy.
- *Within a budget*: :mod:`routing.balancing.admission.second_budget`.

Source: Dean and Barroso, "The Tail at Scale", CACM 56(2), 2013; processor sharing as in Kleinrock, Queueing
Systems II (1976), ch. 4. Failure mode: a batching server without reports and without a limit may be full, and
its fleet too, and get a twentieth of its requests more.
"""

from collections.abc import Sequence
from math import inf, log2

from routing.balancing.admission.admission_queue import AdmissionQueue
from routing.balancing.admission.retry_budget import RetryBudget
from routing.balancing.admission.second_budget import SecondBudget
from routing.balancing.learning import reported_load
from routing.balancing.learning.first_tokens import FirstTokens
from routing.balancing.learning.fleet_speed import FleetSpeed
from routing.balancing.replica.state import Replica
from routing.contract.policy import Policy
from routing.contract.telemetry import FleetCounters

BUSY = 0.7
MEASURED = 0.5
"""Share of what is known of the growth that must be measured."""
LOOKED_AT_EVERY_S = 0.05
"""Many may be late at once."""


class SecondAttempts:
    """Of one pool."""

    def __init__(
        self, speed: FleetSpeed, retries: RetryBudget, admission: AdmissionQueue, counters: FleetCounters
    ) -> None:
        self.of_streams = self.of_plain = False
        """Whether there are any, of requests that are streamed and of others."""
        self.are_made = False
        """The same of any."""
        self._limit_s: float | None = None
        self._factor = 0.0
        self._first_tokens = FirstTokens()
        self._speed = speed
        self._admission = admission
        self._counters = counters
        self._budget = SecondBudget(retries)
        self._busy: dict[Replica, tuple[float, float]] = {}
        self._looked_at = -inf

    def follow(self, policy: Policy) -> None:
        """The policy in force."""
        limit = policy.first_token_limit_s
        self.of_streams = limit != "off"
        self._limit_s = limit if isinstance(limit, float) else None
        self.of_plain = policy.plain_limit_factor is not None
        self._factor = policy.plain_limit_factor or 0.0
        self.are_made = self.of_streams or self.of_plain

    def began(self, seconds: float, work: float) -> None:
        """A stream of this estimated work has begun so long after it was sent, or was given up then."""
        self._first_tokens.learn(seconds, self._size_factor(work))

    def stream_limit_s(self, work: float) -> float:
        """After how many seconds without content such a stream is late; inf: that is not known."""
        if self._limit_s is not None:
            return self._limit_s
        limit_s = self._first_tokens.limit_s(self._size_factor(work))
        return inf if limit_s is None else limit_s

    @property
    def usual_limit_s(self) -> float | None:
        """The same of a stream of mean size; ``None``: there is none, or it is not known."""
        limit_s = self.stream_limit_s(self._speed.mean_work) if self.of_streams else inf
        return limit_s if limit_s < inf else None

    def plain_limit_s(self, replica: Replica, work: float, told: bool) -> float:
        """The same of one that is not streamed and was sent there. ``told``: whether it says how long its
        response may be."""
        base = self._speed.base
        if base is None or not self._speed.predictions.knows_completion(told):
            return inf
        pace = base / (replica.spec.weight or 1.0)
        return self._factor * self._speed.predictions.completion(replica, work, told, pace).median

    def objection(self, own: Replica, eligible: Sequence[Replica], now: float) -> str:
        """Why a request that waits at ``own`` must not be sent to another replica as well, as a code; empty:
        it may."""
        if self._admission.anybody_waits or self._admission.queue:
            return "queue"
        if self._is_busy(own, eligible, now):
            return "busy"
        return "" if self._budget.has_left(self._counters.requests) else "budget"

    def take(self) -> None:
        """One begins to which there was no objection."""
        self._budget.take()

    def give_back(self) -> None:
        """The one that began last reached no replica."""
        self._budget.give_back()

    def _size_factor(self, work: float) -> float:
        return self._speed.predictions.size_factor(work, self._speed.mean_work)

    def _is_busy(self, own: Replica, eligible: Sequence[Replica], now: float) -> bool:
        """Whether the others of these are more than :data:`BUSY` busy, by their shares."""
        if now - self._looked_at >= LOOKED_AT_EVERY_S:
            shape = self._speed.shape
            slowed = log2(max(1.0, shape.growth)) if shape.evidence >= MEASURED else 0.0
            self._busy = {one: (one.share, _busy(one, slowed, now)) for one in eligible}
            self._looked_at = now
        others = [known for one, known in self._busy.items() if one is not own]
        return sum(share * busy for share, busy in others) > BUSY * sum(share for share, _ in others)


def _busy(replica: Replica, slowed: float, now: float) -> float:
    """How busy it is, 0 to 1. ``slowed``: to which power of its requests it takes longer."""
    slots, requests = replica.concurrency, replica.in_flight + replica.peer_in_flight
    if slots is not None:
        return min(1.0, requests / slots)
    report = reported_load.latest(replica, now)
    if report is not None and report.age_s <= reported_load.KEPT_S:
        if report.waiting:
            return 1.0
        shares = [share for share in (report.kv_share, report.utilization) if share is not None]
        if shares:
            return min(1.0, max(shares))
    return 1.0 - float(max(1.0, requests) ** -slowed)
