"""What one fleet has learned from its answers in one worker: sizes, memory, slow answers.

Keeps every replica's :class:`LearnedSpeed` up to date, in seconds per unit of *estimated* work.

Where answers tell how many tokens they had, the work really done is known: a request counts
by its tokens, divided by the fleet's mean tokens per unit of estimated work, so that speeds learned
from requests with and without a token count stay comparable. Streams are learned from as they pass,
not only at their end.
"""

from collections.abc import Sequence
from math import exp

from routing.policies import learned_speed
from routing.policies.answer_by_load import AnswersByLoad
from routing.policies.answer_tail import TailAnswers
from routing.policies.answer_time import AnswerTimes, MeanAnswers, PeakAnswers, expected_seconds
from routing.policies.failure_penalty import failure_seconds, rejection_seconds
from routing.policies.slow_answers import SlowAnswers
from routing.replica import Replica

SMOOTHING = 0.02
"""Share of the newest request in the running means: a memory of about 50 requests."""
EVIDENCE_REQUESTS = 0.5
"""How much decayed evidence counts as knowing a replica, in requests of mean size."""
_KEEPERS: dict[str, type[AnswerTimes]] = {
    "mean": MeanAnswers,
    "peak": PeakAnswers,
    "tail": TailAnswers,
    "by load": AnswersByLoad,
}


class FleetSpeed:
    """Running means of one fleet, and the learning of its replicas' speeds."""

    __slots__ = (
        "_slow",
        "answer_times",
        "base",
        "mean_seconds",
        "mean_work",
        "p99_s",
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
        """Of the last answers (:mod:`routing.policies.slow_answers`); 0 while there were none."""
        self.answer_times: AnswerTimes | None = None
        """``None`` unless the strategy in force goes by answer times."""
        self._slow = SlowAnswers()

    def answered(self, replica: Replica, seconds: float, work: float, now: float) -> None:
        """One answer in full: ``work`` estimated."""
        self.mean_work += SMOOTHING * (work - self.mean_work)
        self.mean_seconds += SMOOTHING * (seconds - self.mean_seconds)
        self.learn(replica, seconds, work, now)
        if self.answer_times is not None:
            self.answer_times.learn(replica, seconds, work, now)

    def seen(self, replica: Replica, seconds: float, work: float, now: float) -> None:
        """Renew the running means by one answer, whose speed is learned apart."""
        self.mean_work += SMOOTHING * (work - self.mean_work)
        self.mean_seconds += SMOOTHING * (seconds - self.mean_seconds)
        if self.answer_times is not None:
            self.answer_times.learn(replica, seconds, work, now)

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
        keep = exp((speed.at - now) / self.tau)
        speed.at = now
        speed.seconds = seconds = speed.seconds * keep + seconds
        speed.units = units = speed.units * keep + units
        replica.seconds_per_work = known = (seconds + speed.prior_seconds) / (units + speed.prior_units)
        replica.cost = known / replica.ramp

    def failed(self, replica: Replica, elapsed_s: float, now: float) -> None:
        """A failure is learned as a slow answer of mean size."""
        self._penalise(replica, failure_seconds(elapsed_s, self.p99_s), now)

    def rejected(self, replica: Replica, elapsed_s: float, now: float) -> None:
        """So is a rejection, less slow."""
        self._penalise(replica, rejection_seconds(elapsed_s, self.p99_s), now)

    def _penalise(self, replica: Replica, seconds: float, now: float) -> None:
        self.learn(replica, seconds, self.mean_work, now)
        if self.answer_times is not None:
            self.answer_times.learn(replica, seconds, self.mean_work, now)

    def keep_answer_times(self, memory: tuple[float, str] | None) -> None:
        """Begin, or stop, keeping what the strategy in force wants kept: ``(tau_s, kept)``."""
        self.answer_times = None if memory is None else _KEEPERS[memory[1]](memory[0])

    def refresh(self, replicas: Sequence[Replica], now: float) -> None:
        """On the slow timer: memory, p99, the pool's median, and each replica's drift towards it."""
        self.tau = learned_speed.tau_s(self.mean_seconds)
        self._slow.refresh(replicas, now)
        self.p99_s = self._slow.p99_s
        least_units = self.mean_work * EVIDENCE_REQUESTS
        known = learned_speed.pool_seconds_per_work(replicas, now, self.tau, least_units)
        if known is not None:
            self.base = known
        base = self.base if self.base is not None else 1.0
        prior_units = learned_speed.PRIOR_REQUESTS * self.mean_work
        for replica in replicas:
            speed = replica.speed
            speed.prior_units = prior_units + speed.peer_units
            speed.prior_seconds = prior_units * base / (replica.spec.weight or 1.0) + speed.peer_seconds
            replica.seconds_per_work = learned_speed.estimate(speed, now, self.tau)
            replica.cost = replica.seconds_per_work / replica.ramp
        if self.answer_times is not None:
            expected = expected_seconds(replicas, now, self.tau, self.mean_work, least_units)
            self.answer_times.refresh(replicas, now, expected, self.mean_seconds)
