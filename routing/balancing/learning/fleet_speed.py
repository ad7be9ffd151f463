"""What one fleet has learned in one worker: mean sizes, response times, tokens per unit of work, p99.

Keeps every replica's :class:`LearnedSpeed` up to date, in seconds per unit of *estimated* work.

Where answers tell how many tokens they had, the work really done is known: a request counts
by its tokens, divided by the fleet's mean tokens per unit of estimated work, so that speeds learned
from requests with and without a token count stay comparable. Streams are learned from as they pass,
not only at their end.
"""

from collections.abc import Iterable, Sequence
from math import exp, inf, log, sqrt
from statistics import fmean
from typing import Final

from routing.balancing.learning import learned_speed, shared_evidence
from routing.balancing.learning.cost_calibration import LEAST, CostCalibration
from routing.balancing.learning.failure_penalty import failure_seconds, rejection_seconds
from routing.balancing.learning.latency_by_load import LatencyByLoad
from routing.balancing.learning.latency_ewma import LatencyTracker, MeanLatency, PeakLatency, expected_seconds
from routing.balancing.learning.p99_tracker import P99Tracker
from routing.balancing.learning.predictions import Predictions
from routing.balancing.learning.service_shape import ServiceShape
from routing.balancing.learning.shared_learning import SharedLearning
from routing.balancing.learning.tail_weight import TailWeight
from routing.balancing.replica.state import Replica
from routing.contract.learned_service import EVIDENCE_REQUESTS

SMOOTHING: Final = 0.02
"""Share of the newest request in the running means: a memory of about 50 requests."""
ANSWER_SMOOTHING: Final = 0.005
"""The same of the mean length of answers."""
GUESSED_ANSWER_TOKENS: Final = 256.0
"""While no answer has told its length."""
SAMPLES: Final = 8
"""Answers that the correction of estimates learns from between two refreshes: those that come first."""
SHAPED: Final = 4
"""Of these, how many are measured for how load slows them."""
DEPTH_POWER: Final = 0.8
"""How the number of requests counts at batching servers whose responses tell their tokens: a lower one has
shorter tails at usual load, a higher one copes better where the batch or its memory is full."""
LONG_REST: Final = 0.05
"""Evidence that has decayed this far is of a time before a long rest: three times the memory."""
FIRST_ANSWERS: Final = 3
"""After a start or a long rest: until a replica has given so many, slow responses are not its speed."""
SLOW: Final = 2.0
"""Times what is expected."""
MOST_TIMES: Final = 8.0
"""An answer counts for so many times what is expected of it and of a usual one at most: one that was stuck
does not show how fast the replica is."""
LEAST_VARIANCE: Final = 0.01
"""Of the logarithm of a learned speed: what differs by a tenth may as well be equal."""
SURELY_EQUAL: Final = exp(-sqrt(LEAST_VARIANCE)), exp(sqrt(LEAST_VARIANCE))
UNEQUAL_REQUESTS: Final = 2.25
"""Times the variance that as many equal requests would have."""
_TRACKERS: dict[str, type[LatencyTracker]] = {
    "mean": MeanLatency,
    "peak": PeakLatency,
    "tail": TailWeight,
    "by load": LatencyByLoad,
}


class FleetSpeed:
    """Running means of one fleet, and the learning of its replicas' speeds."""

    __slots__ = (
        "_answers_with_tokens",
        "_evidence",
        "_memory",
        "_p99",
        "_p99_due",
        "_sampled",
        "_shape_due",
        "_tracker_due",
        "answer_tokens",
        "base",
        "calibration",
        "differences",
        "latency_tracker",
        "mean_seconds",
        "mean_work",
        "most_differences",
        "p99_s",
        "predictions",
        "samples",
        "shape",
        "smoothing",
        "tau",
        "tokens_per_work",
    )

    def __init__(self) -> None:
        self.base: float | None = None
        """Median seconds per unit of work at weight 1; ``None`` while nothing is known."""
        self.mean_work = 1.0
        self.mean_seconds = 0.0
        self.tokens_per_work = 0.0
        """0 while no answer has told its tokens."""
        self.tau = learned_speed.SHORTEST_TAU_S
        self.p99_s = 0.0
        """Of the last answers (:mod:`routing.balancing.learning.p99_tracker`); 0 while there were none."""
        self.latency_tracker: LatencyTracker | None = None
        """``None`` unless the strategy in force goes by answer times."""
        self.calibration = CostCalibration()
        self.answer_tokens = GUESSED_ANSWER_TOKENS
        """Mean length of answers: what a request counts for that does not limit its own."""
        self.shape = ServiceShape()
        self.predictions = Predictions()
        self.samples = SAMPLES
        """How many more answers to learn estimates from until the next refresh."""
        self.smoothing = 1.0
        """Share of the newest request in the running means, more while there have been few."""
        self._sampled = 0
        self._answers_with_tokens = 0
        self._memory: tuple[float, str] | None = None
        self._p99 = P99Tracker()
        self._evidence: list[tuple[float, float]] = []
        self.differences = 0.0
        """Variance of the logarithm of the replicas' speeds at weight 1, without what is chance."""
        self.most_differences = inf
        """The same, one standard error larger; inf while nothing is known."""
        self._p99_due = self._tracker_due = self._shape_due = False

    def answered(self, replica: Replica, seconds: float, work: float, now: float) -> None:
        """One answer in full: ``work`` estimated."""
        smoothing = self.smoothing
        self.mean_work += smoothing * (work - self.mean_work)
        self.mean_seconds += smoothing * (seconds - self.mean_seconds)
        self.learn(replica, seconds, work, now)
        if self.latency_tracker is not None:
            self.latency_tracker.learn(replica, seconds, work, now)

    def seen(self, replica: Replica, seconds: float, work: float, done: float, now: float) -> None:
        """Renew the running means by one answer, whose speed is learned apart. ``work`` was estimated, and so
        much was ``done``: answers that were longer than usual do not look slow."""
        smoothing = self.smoothing
        self.mean_work += smoothing * (work - self.mean_work)
        self.mean_seconds += smoothing * (seconds - self.mean_seconds)
        if self.latency_tracker is not None and not self.latency_tracker.passing:
            self.latency_tracker.learn(replica, seconds, done, now)

    def heard(self, replica: Replica, seconds: float, units: float, now: float) -> None:
        """Learn from what a stream has brought since it was looked at last, at its end what is left."""
        self.learn(replica, seconds, units, now)
        if self.latency_tracker is not None and self.latency_tracker.passing:
            self.latency_tracker.learn(replica, seconds, units, now)

    @property
    def known_answer_tokens(self) -> float:
        """Mean length of answers; 0 while none has reported its own."""
        return self.answer_tokens if self._answers_with_tokens else 0.0

    def estimated(self, work: float) -> float:
        """What a request of estimated ``work`` counts as in :meth:`routing.balancing.pool.pool.Pool.begin`,
        uncorrected."""
        if work > 0.0:
            return work
        return self.answer_tokens - work if work else self.mean_work

    def sample(self, replica: Replica, seconds: float, estimated: float, tokens: int, now: float) -> None:
        """Learn from one answer what estimates are worth, how long answers are, and how load slows them;
        while :attr:`samples`."""
        if self.samples > SAMPLES - SHAPED:
            usual_units = self.answer_tokens if tokens else self.mean_work
            self.shape.learn(replica, seconds, tokens or estimated, usual_units, now)
        self.samples -= 1
        self._sampled = sampled = self._sampled + 1
        self.smoothing = max(SMOOTHING, 1.0 / (sampled + 1))
        if tokens:
            if not self._answers_with_tokens:
                # What was learned till now was in seconds.
                self.calibration = CostCalibration()
            self._answers_with_tokens = answers = self._answers_with_tokens + 1
            share = max(ANSWER_SMOOTHING, 1.0 / answers)
            self.answer_tokens += share * (tokens - self.answer_tokens)
            self.calibration.learn(estimated, tokens)
            return
        slots = replica.concurrency
        usual = self.tokens_per_work or self.base
        if usual and seconds > 0.0 and (slots is None or replica.load < slots):
            # Nobody waited there: what it took is its own.
            self.calibration.learn(estimated, seconds * usual / replica.seconds_per_work)

    def scale(self, tokens: int, work: float) -> float:
        """Tokens per unit of estimated work, renewed by one answer; the first one defines the scale."""
        ratio = tokens / work
        known = self.tokens_per_work
        self.tokens_per_work = known = known + SMOOTHING * (ratio - known) if known else ratio
        return known

    def learn(self, replica: Replica, seconds: float, units: float, now: float) -> None:
        """Fold so many seconds for so many units of work into a replica's speed."""
        speed = replica.speed
        # learned_speed.learn written out: this runs for every answer.
        if seconds > speed.usual_s:
            seconds = self._plausible(replica, seconds, units, now)
            if seconds < 0.0:
                return
        keep = exp((speed.at - now) / self.tau)
        speed.at = now
        speed.seconds = seconds = speed.seconds * keep + seconds
        speed.units = units = speed.units * keep + units
        replica.seconds_per_work = (seconds + speed.prior_seconds) / (units + speed.prior_units)

    def _plausible(self, replica: Replica, seconds: float, units: float, now: float) -> float:
        """Of a response that took long, or is among the first, so many seconds as are the replica's speed.
        Below 0 if it is left out.

        Left out is what was sent before the replica had given its first responses after a start or a long
        rest, and is slow, as it is while kernels are compiled and caches filled."""
        speed, base = replica.speed, self.base
        if speed.warm_at == inf:
            speed.first_answers += 1
            if speed.first_answers >= FIRST_ANSWERS:
                speed.warm_at, speed.first_answers = now, 0
                # The rest is over, whether or not they are learned from.
                keep = exp((speed.at - now) / self.tau)
                speed.at, speed.seconds, speed.units = now, speed.seconds * keep, speed.units * keep
        if (
            now - seconds < speed.warm_at
            and base is not None
            and seconds * (replica.spec.weight or 1.0) > SLOW * base * units
        ):
            return -1.0
        return min(seconds, MOST_TIMES * (units + self.mean_work) * replica.seconds_per_work)

    def failed(self, replica: Replica, elapsed_s: float, now: float) -> None:
        """A failure is learned as a slow answer of mean size."""
        self._penalise(replica, failure_seconds(elapsed_s, self.p99_s), now)

    def rejected(self, replica: Replica, elapsed_s: float, now: float) -> None:
        """So is a rejection, less slow."""
        self._penalise(replica, rejection_seconds(elapsed_s, self.p99_s), now)

    def _penalise(self, replica: Replica, seconds: float, now: float) -> None:
        speed = replica.speed
        speed.warm_at = 0.0
        replica.seconds_per_work = known = learned_speed.learn(speed, seconds, self.mean_work, now, self.tau)
        # At once: whoever fails at once would be asked hundreds of times before it is renewed.
        replica.cost = known / replica.ramp
        if self.latency_tracker is not None:
            self.latency_tracker.learn(replica, seconds, self.mean_work, now)

    def track_latency(self, memory: tuple[float, str] | None) -> None:
        """Begin, or stop, keeping what the strategy in force wants kept: ``(tau_s, kept)``."""
        if memory != self._memory:
            self._memory = memory
            self.latency_tracker = None if memory is None else _TRACKERS[memory[1]](memory[0])

    # --- on the slow timer, in this order; those with replicas for some at a time -------------------

    def exchange_means(self, replicas: Sequence[Replica], learning: SharedLearning, now: float) -> None:
        """Bring together what the workers of this host have learned of the fleet."""
        if learning.is_due(now):
            own = (
                self.mean_work,
                self.mean_seconds,
                self.tokens_per_work,
                self.known_answer_tokens,
                self._p99.p99_s,
                self.calibration.all.estimated,
                self.calibration.all.taken,
                self.shape.own_growth,
            )
            found = learning.means(own, sum(replica.succeeded for replica in replicas), now)
            self.mean_work, self.mean_seconds, self.tokens_per_work, tokens, p99_s, estimated, taken = found[
                :-1
            ]
            self.shape.growth = found[-1]
            self._p99.p99_s = p99_s
            if tokens:
                if not self._answers_with_tokens:
                    # What was learned till now was in seconds.
                    self.calibration = CostCalibration()
                    self._answers_with_tokens = LEAST
                self.answer_tokens = tokens
            if estimated and taken:
                self.calibration.follow(estimated, taken)
                learning.octaves(self.calibration)
                self.calibration.refresh()

    def introduce(self, replicas: Iterable[Replica]) -> None:
        """Those of them that are new begin at what is expected of the others: beside these they will be
        compared before they are renewed."""
        base = 1.0 if self.base is None else self.base
        for replica in replicas:
            if replica.weighed_by is None:
                replica.seconds_per_work = replica.cost = base / (replica.spec.weight or 1.0)
                if self.latency_tracker is not None:
                    self.latency_tracker.introduce(replica)

    def exchange(self, replicas: Sequence[Replica], now: float) -> None:
        """Bring together what they have learned of replicas."""
        shared_evidence.exchange_speeds(replicas, now, self.tau)
        if self.latency_tracker is not None:
            self.latency_tracker.exchange(replicas, now)

    def begin_refresh(self, now: float) -> None:
        """Memory, corrections; what else is due."""
        self.tau = learned_speed.tau_s(self.mean_seconds)
        if self.samples < SAMPLES:
            self.samples = SAMPLES
            self.calibration.refresh()
        self._evidence = []
        self._shape_due = self.shape.is_due(now)
        self._p99_due = self._p99.is_due(now)

    def look(self, replicas: Sequence[Replica], now: float) -> None:
        """Take note of what the pool's median and its p99 are made of."""
        least_units = self.mean_work * EVIDENCE_REQUESTS
        self._evidence += learned_speed.evidence_at_weight_1(replicas, now, self.tau, least_units)
        if self._shape_due:
            self.shape.look(replicas, now)
        if self._p99_due:
            self._p99.look(replicas)

    def compare(self, now: float) -> bool:
        """All have been looked at: the median, the p99. Whether :meth:`renew_latency` is due as well."""
        if self._p99_due:
            self._p99.read(now)
        self.p99_s = self._p99.p99_s
        known = learned_speed.median_of([pace for pace, _ in self._evidence])
        if known is not None:
            self.base = known
            usual, noise = max(known, learned_speed.LEAST_PACE), self.noise
            found = fmean(log(max(pace, learned_speed.LEAST_PACE) / usual) ** 2 for pace, _ in self._evidence)
            chance = noise * fmean(1.0 / units for _, units in self._evidence)
            self.differences = differences = max(0.0, found - chance)
            # A variance found of n values has this standard error.
            self.most_differences = differences + max(found, chance) * sqrt(2.0 / len(self._evidence))
        self._evidence = []
        if self._shape_due:
            self.shape.compare()
        tracker = self.latency_tracker
        self._tracker_due = tracker is not None and tracker.is_due(self.mean_seconds, now)
        return self._tracker_due

    def renew(self, replicas: Sequence[Replica], now: float) -> None:
        """Each replica's drift towards the median."""
        tau, mean_work, base = self.tau, self.mean_work, self.base if self.base is not None else 1.0
        prior_units = learned_speed.PRIOR_REQUESTS * mean_work
        batching, noise, differences = self.shape.batching, self.noise, self.differences
        lowest, highest = SURELY_EQUAL
        for replica in replicas:
            speed = replica.speed
            speed.prior_units = units = prior_units + speed.peer_units
            weight = replica.spec.weight or 1.0
            speed.prior_seconds = seconds = prior_units * base / weight + speed.peer_seconds
            if speed.units:
                # learned_speed.estimate written out.
                keep = exp((speed.at - now) / tau)
                if keep < LONG_REST:
                    speed.warm_at = inf
                seconds += speed.seconds * keep
                units += speed.units * keep
            replica.seconds_per_work = known = seconds / units
            speed.usual_s = SLOW * mean_work * known if speed.warm_at < inf else -1.0
            usual = max(base / weight, learned_speed.LEAST_PACE)
            ratio = max(known, learned_speed.LEAST_PACE) / usual
            if not lowest < ratio < highest:
                # Empirical Bayes: of a difference as much is kept as replicas differ more than by chance.
                usual *= ratio ** (differences / (differences + LEAST_VARIANCE + noise / units))
            replica.cost = usual / replica.ramp
            power = DEPTH_POWER if replica.output_tokens else 1.0
            replica.depth_power = power if replica.concurrency is None else power * batching
        if self._tracker_due and self.latency_tracker is not None:
            least_units = mean_work * EVIDENCE_REQUESTS
            expected = expected_seconds(replicas, now, tau, mean_work, least_units)
            self.latency_tracker.look(replicas, expected, now)

    @property
    def noise(self) -> float:
        """Variance of the logarithm of a learned speed, times the units of work that it was learned from."""
        return UNEQUAL_REQUESTS * self.shape.spread**2 * self.mean_work

    def compare_latency(self) -> None:
        """All have been renewed."""
        if self.latency_tracker is not None:
            self.latency_tracker.compare()

    def renew_latency(self, replicas: Sequence[Replica], now: float) -> None:
        """Likewise what the strategy in force goes by, where :meth:`compare` has said so."""
        if self.latency_tracker is not None:
            self.latency_tracker.renew(replicas, now)
