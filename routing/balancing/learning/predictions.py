"""Predictions: when a request's response would be complete at a replica, and when its first token would come.

Theory. Completion is the replica's learned seconds per unit of work, times the request's work, and the wait
before it where it has slots. Of streams the first token comes after the prompt has been read, which takes a
part of what a usual request takes there. How large the part is, and how it grows with the request's work
and the number of requests there, is fitted as logarithms over the fleet's replicas
(:mod:`routing.balancing.learning.decayed_regression`).

Both are *intervals*: the quantiles of how far earlier predictions were off
(:mod:`routing.balancing.learning.residuals`). What tells its length is predicted better than what does not,
so the two have quantiles of their own.

Of a request that is due at a certain time they also say how likely it is in time at a replica
(:mod:`routing.balancing.learning.odds`). Whether it was is compared with that chance: *calibration*, a
straight line through outcomes by chance. Its slope, 1 if chances are right, says how much of a difference in
chance is to be believed. It is less where the time that clients allow says itself how large their requests
are, which the estimate of their work does not know.

Only a sample of requests is learned from: the first one in every :data:`EVERY_S`. The prediction is made
when it begins, before its own load counts, and is compared with what it took when it has ended. So the
counted errors are of true predictions. A request that fails or is cancelled is not compared. That one was
cancelled still says that it would have taken longer, and widens the interval.

Failure mode: where clients leave before slow responses, only the others are compared, and of first tokens
learned from.
"""

from math import exp, inf, log
from typing import NamedTuple

from routing.balancing.learning.decayed_regression import DecayedRegression
from routing.balancing.learning.expected_time import expected_seconds
from routing.balancing.learning.odds import Odds
from routing.balancing.learning.residuals import Residuals
from routing.balancing.replica.state import Replica
from routing.contract.sketch import bucket_of
from routing.contract.telemetry import SparseSketch

EVERY_S = 0.5
LEAST_S = 1e-6
"""Seconds at least, where logarithms are taken of them."""
TRUSTED = 1.0, 5.0
"""Of how many measurements it is worth that chances are right on the whole, and their differences."""
USUAL_PART = 0.1
"""Of a usual request that passes before its first token, while none has been measured."""


class Interval(NamedTuple):
    """Seconds from the beginning of the attempt; 80 of 100 requests are between ``low`` and ``high``."""

    low: float
    median: float
    high: float


class Sample(NamedTuple):
    """What was predicted of a request when it began."""

    told: bool
    expected_s: float
    """Before any correction."""
    completion: Interval | None
    """``None``: too little was known."""
    usual_s: float
    """What a usual request takes at this replica."""
    features: tuple[float, ...]
    first_token: Interval | None
    odds: Odds | None
    """Of a request that is due."""
    chance: float
    """Of its being in time."""


class Accuracy:
    """How good the predictions of one kind were."""

    __slots__ = ("errors", "within")

    def __init__(self) -> None:
        self.errors: SparseSketch = {}
        """Relative errors: of the predicted median, in parts of what it took."""
        self.within = 0
        """How many were within their interval."""

    def count(self, predicted: Interval | None, seconds: float) -> None:
        """A prediction has come true or not."""
        if predicted is not None:
            bucket = bucket_of(abs(predicted.median / seconds - 1.0))
            self.errors[bucket] = self.errors.get(bucket, 0) + 1
            self.within += predicted.low <= seconds <= predicted.high


class Predictions:
    """Of one fleet in one worker."""

    __slots__ = ("_completion", "_first_token", "_part", "_trust", "completions", "due", "first_tokens")

    def __init__(self) -> None:
        self.due = 0.0
        """When the next request is a sample."""
        self.completions = Accuracy()
        self.first_tokens = Accuracy()
        self._completion = Residuals(), Residuals()
        """Of requests whose length is not told, and of those whose is."""
        self._first_token = Residuals()
        self._trust = DecayedRegression((0.0, 1.0), TRUSTED)
        """Whether requests were in time, by their chance."""
        self._part = DecayedRegression((log(USUAL_PART), 0.0, 0.0), (0.01, 1.0, 1.0))

    def completion(self, replica: Replica, work: float, told: bool, pace: float = 0.0) -> Interval:
        """Of a request of so much estimated work that would be sent to this replica now. ``told``: whether
        the request says how long its response may be. ``pace``: seconds per unit of work, if not what was
        learned of the replica."""
        return _interval(expected_seconds(replica, work, pace=pace), self._completion[told])

    def knows_completion(self, told: bool) -> bool:
        """Whether such predictions rest on measurements."""
        return self._completion[told].known

    def size_factor(self, work: float, mean_work: float) -> float:
        """How many times as long as a usual one a stream of so much estimated work takes until its first
        token; 1.0 while few streams were measured."""
        if not self._first_token.known:
            return 1.0
        _, by_work, _ = self._part.coefficients
        return exp(max(0.0, by_work) * log(max(work, LEAST_S) / max(mean_work, LEAST_S)))

    def first_token(self, replica: Replica, work: float, mean_work: float) -> Interval | None:
        """The same of the first token of its stream; ``None`` while few streams were measured."""
        usual_s = replica.seconds_per_work / replica.ramp * mean_work
        return self._first_token_of(usual_s, _features(work, mean_work, replica.load))

    def odds(
        self, work: float, told: bool, mean_work: float, left_s: float, first_token_left_s: float
    ) -> Odds | None:
        """How likely such a request is in time, as :meth:`completion` and :meth:`first_token`. ``left_s``:
        seconds until its end is due, ``first_token_left_s``: until its first token is; inf: never. ``None``:
        too little is known, or it is late already."""
        if left_s <= 0.0 or first_token_left_s <= 0.0:
            return None
        known, first = self._completion[told], self._first_token
        completion = known if left_s < inf and known.known else None
        if first_token_left_s == inf or not first.known:
            if completion is None:
                return None
            return Odds(work, self._trusted, left_s, completion, inf, None, 0.0, 0.0)
        usual, by_work, by_load = self._part.coefficients
        size = log(max(work, LEAST_S) / max(mean_work, LEAST_S))
        alike = usual + by_work * size + log(max(mean_work, LEAST_S))
        return Odds(work, self._trusted, left_s, completion, first_token_left_s, first, alike, by_load)

    @property
    def _trusted(self) -> float:
        """How much of differences in chance has come true, 0 to 1."""
        return min(1.0, max(0.0, self._trust.coefficients[1]))

    def sample(
        self,
        replica: Replica,
        work: float,
        told: bool,
        mean_work: float,
        now: float,
        odds: Odds | None = None,
    ) -> Sample:
        """Predict what will be learned from (:meth:`learn`): a request that has just begun there. ``odds``:
        of one that is due."""
        self.due = now + EVERY_S
        expected_s = max(expected_seconds(replica, work, counted=work), LEAST_S)
        usual_s = max(replica.seconds_per_work / replica.ramp * mean_work, LEAST_S)
        features = _features(work, mean_work, replica.load - 1)
        known = self._completion[told]
        return Sample(
            told,
            expected_s,
            _interval(expected_s, known) if known.known else None,
            usual_s,
            features,
            self._first_token_of(usual_s, features),
            odds,
            odds.at(replica) if odds is not None else 0.0,
        )

    def learn(self, sample: Sample, seconds: float, first_token_s: float) -> None:
        """It has succeeded and took so long. ``first_token_s``: 0 if it did not stream tokens."""
        seconds = max(seconds, LEAST_S)
        self._learn_chance(sample, seconds, first_token_s)
        self.completions.count(sample.completion, seconds)
        self._completion[sample.told].learn(log(seconds / sample.expected_s))
        if first_token_s > 0.0:
            first_token_s = max(first_token_s, LEAST_S)
            self.first_tokens.count(sample.first_token, first_token_s)
            part = log(first_token_s / sample.usual_s)
            self._first_token.learn(part - self._part.expected(sample.features))
            self._part.learn(sample.features, part)

    def learn_cut_off(self, sample: Sample, seconds: float) -> None:
        """It was cancelled after so long: it would have taken longer. It is not compared.

        Without these, predictions where clients do not wait long would be of the quick ones alone."""
        if sample.odds is not None and seconds >= sample.odds.left_s:
            self._learn_chance(sample, inf, inf)
        known = self._completion[sample.told]
        if known.known:
            known.learn_at_least(log(max(seconds, LEAST_S) / sample.expected_s))

    def _learn_chance(self, sample: Sample, seconds: float, first_token_s: float) -> None:
        if sample.odds is not None:
            met = sample.odds.met(seconds, first_token_s)
            self._trust.learn((1.0, sample.chance), float(met))

    def _first_token_of(self, usual_s: float, features: tuple[float, ...]) -> Interval | None:
        known = self._first_token
        return _interval(usual_s * exp(self._part.expected(features)), known) if known.known else None


def _interval(expected_s: float, known: Residuals) -> Interval:
    return Interval(expected_s * exp(known.low), expected_s * exp(known.median), expected_s * exp(known.high))


def _features(work: float, mean_work: float, requests: int) -> tuple[float, ...]:
    return 1.0, log(max(work, LEAST_S) / max(mean_work, LEAST_S)), log(max(requests, 0) + 1)
