"""Predicted attempt: a sample of which it was predicted how long it would take, and which is learned from."""

from routing.balancing.attempt.attempt import WRITTEN_OFF, Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.learning.predictions import Sample


class PredictedAttempt(Attempt):
    """Replaces an attempt that has just begun, and is settled in its place."""

    __slots__ = ("_first_token_at", "_sample")

    def __init__(self, attempt: Attempt, sample: Sample) -> None:
        """Takes over ``attempt``, which counts at its replica as before."""
        self.take_over(attempt)
        self._sample = sample
        self._first_token_at = 0.0

    def heard(self, now: float, tokens: int = 0) -> None:
        if tokens and not self._first_token_at:
            self._first_token_at = now
        super().heard(now, tokens)

    def settle(self, outcome: Outcome, now: float, output_tokens: int = 0, *, at_once: bool = False) -> int:
        is_lost = self.mode == WRITTEN_OFF
        bucket = super().settle(outcome, now, output_tokens, at_once=at_once)
        if is_lost:
            return bucket
        if outcome is Outcome.SUCCESS:
            first_at = self._first_token_at
            first_token_s = first_at - self.started if first_at else 0.0
            self._speed.predictions.learn(self._sample, now - self.started, first_token_s)
        elif outcome is Outcome.CANCELLED:
            self._speed.predictions.learn_cut_off(self._sample, now - self.started)
        return bucket
