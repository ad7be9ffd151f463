"""Attempt span: one attempt of a request that is recorded. It hears how the attempt ends."""

from __future__ import annotations

from routing.balancing.attempt.attempt import Attempt, OutcomeListener
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.replica.client_source import ClientSource
from routing.balancing.replica.state import Replica
from routing.ipc.finished_traces import FinishedAttempt


class AttemptSpan:
    """Implements :class:`routing.balancing.attempt.attempt.OutcomeListener`, and passes all on to the one
    that was told before."""

    __slots__ = ("_before", "_ended", "_outcome", "_reason", "_replica", "_started", "span_id", "status")

    def __init__(self, attempt: Attempt, span_id: bytes, reason: str) -> None:
        """``reason``: why there is another attempt; empty: it is the first."""
        self.span_id = span_id
        self.status = 0
        """Of the replica's response; 0: none, or not known."""
        self._replica = attempt.replica
        self._started = attempt.started
        self._ended = 0.0
        self._outcome = Outcome.SUCCESS
        self._reason = reason
        self._before: OutcomeListener = attempt.tell(self)

    @property
    def is_open(self) -> bool:
        """Whether it has ended in no other way than with success, so far."""
        return not self._ended

    def finished(self, now: float) -> FinishedAttempt:
        """``now``: when its request has ended."""
        address = self._replica.address
        return FinishedAttempt(
            span_id=self.span_id,
            started=self._started,
            ended=self._ended or now,
            replica=self._replica.name,
            host=address.host,
            port=address.port,
            outcome=self._outcome.value,
            status=self.status,
            reason=self._reason,
        )

    def answered(self, attempt: Attempt, now: float) -> None:
        self._before.answered(attempt, now)

    def not_answered(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        # After a switch of protocols the tunnel goes on.
        if outcome is not Outcome.SWITCHED:
            self._outcome = outcome
            self._ended = now
        self._before.not_answered(attempt, outcome, now)

    def on_drained(self, replica: Replica) -> None:
        self._before.on_drained(replica)

    def succeeded(self, source: ClientSource, replica: Replica, now: float) -> None:
        self._before.succeeded(source, replica, now)
