"""Attempt: one request in flight at one replica (upstream), and its one settlement.

Counting begins with the attempt and ends in :meth:`Attempt.settle`, in the same object. So no way out can
forget to uncount a request, or do it twice.
"""

from typing import Final, Protocol

from routing.balancing.attempt.outcome import FAILURES, Outcome
from routing.balancing.learning.fleet_speed import FleetSpeed
from routing.balancing.replica.client_source import ClientSource
from routing.balancing.replica.state import Replica
from routing.balancing.replica.stream_times import StreamTimes
from routing.contract.sketch import bucket_of

LEARN_STREAM_EVERY_S: Final = 0.25
_SUCCESS: Final = Outcome.SUCCESS
_UNSET_ON_MOST: Final = ("_source", "proven", "uncalibrated_work")
"""Fields of an attempt."""

SETTLED: Final = 0
OPEN: Final = 1
SHORT_DEADLINE: Final = 2
UPLOADING: Final = 3
MONITORED: Final = 4
WRITTEN_OFF: Final = 5
"""Modes of an attempt. It is in one mode at a time. In all but the first and the last it is in flight at its
replica.

``OPEN`` is the usual one.

``SHORT_DEADLINE``: the client's timeout is no longer than ``stall_s``. If such requests are cancelled one
after the other without a byte of a response, that shows how long clients wait, not that the replica is
stalled. So they do not count for the stall check.

``UPLOADING``: the client is still sending its request. The replica may be waiting for the rest as well, so
its silence does not count for the stall check until the rest has come, or the replica stops reading.

``MONITORED``: if it succeeds, its client is recorded. Pools begin such attempts only while failures are held
against a client rather than against a replica (:mod:`routing.balancing.outlier.poison_clients`). A retry
after a failure is always one.

``WRITTEN_OFF``: taken for lost (:meth:`Attempt.write_off`)."""


class OutcomeListener(Protocol):
    """Called with how an attempt ended, if that says something about the replica. Outlier detection, which
    lies above attempts, implements it."""

    def answered(self, attempt: "Attempt", now: float) -> None:
        """A replica that had failures, or is ejected, has served a request."""

    def not_answered(self, attempt: "Attempt", outcome: Outcome, now: float) -> None:
        """The attempt ended with any outcome but success."""

    def on_drained(self, replica: Replica) -> None:
        """The last request of a replica that is no longer in the table has ended."""

    def succeeded(self, source: ClientSource, replica: Replica, now: float) -> None:
        """A request from this source has succeeded there. Called while attempts are monitored."""


class Attempt:
    """One request at one replica. Its holder must call :meth:`settle` exactly once, on every way out. Not
    thread-safe."""

    __slots__ = (
        "_learned_at",
        "_learned_tokens",
        "_listener",
        "_source",
        "_speed",
        "_tokens",
        "mode",
        "probe",
        "proven",
        "replica",
        "started",
        "uncalibrated_work",
        "work",
    )

    def __init__(
        self, judge: OutcomeListener, speed: FleetSpeed, replica: Replica, work: float, started: float
    ) -> None:
        """Counts the request at the replica, before it is sent."""
        self._listener = judge
        self._speed = speed
        self.replica = replica
        self.work = work
        self.started = started
        self.probe = False
        """Whether it is the one request that decides about a replica on probation (half-open)."""
        self.mode = OPEN
        """One of the modes above; only methods of this class change it."""
        self.proven: bool
        """Set to ``True`` where the response was looked at, and is an answer of its protocol."""
        self.uncalibrated_work: float
        """The estimate of its work before calibration; set only where it was calibrated."""
        self._tokens = 0
        self._learned_tokens = 0
        self._learned_at = started

        in_flight = replica.in_flight
        if in_flight == replica.stall_exempt:
            replica.awaited_since = started
        replica.in_flight = in_flight = in_flight + 1
        replica.load += 1
        replica.work += work
        replica.load_work += work
        replica.picked += 1
        view = replica.cell_view
        if view is not None:
            at = replica.cell_at
            view[at] = in_flight
            view[at + 1] = replica.work

    def take_over(self, attempt: "Attempt") -> None:
        """Stand for ``attempt`` from now on, which counts at its replica as before and is settled in its own
        place: called instead of ``__init__``, by what replaces an attempt that has just begun."""
        self._listener = attempt._listener
        self._speed = attempt._speed
        self.replica = attempt.replica
        self.work = attempt.work
        self.started = attempt.started
        self.probe = attempt.probe
        self.mode = attempt.mode
        self._tokens = attempt._tokens
        self._learned_tokens = attempt._learned_tokens
        self._learned_at = attempt._learned_at
        for name in _UNSET_ON_MOST:
            if hasattr(attempt, name):
                setattr(self, name, getattr(attempt, name))
        attempt.mode = SETTLED
        if self.replica.memory is not None:
            self.replica.memory.pass_on(attempt, self)

    def tell(self, listener: OutcomeListener) -> OutcomeListener:
        """From now on this one is told how it ends. Returns the one that was to be told."""
        before, self._listener = self._listener, listener
        return before

    @property
    def source(self) -> ClientSource | None:
        """Client and request; ``None``: unknown. Set only where it matters, before it is settled: for a
        request that has failed, and for one that is ``MONITORED``."""
        try:
            return self._source
        except AttributeError:
            # Unset, not even None, on a request that succeeds: this costs it nothing.
            return None

    @source.setter
    def source(self, source: ClientSource) -> None:
        self._source = source

    def monitor(self) -> None:
        """If it succeeds, record its client. Called right after it has begun."""
        if self.mode == OPEN:
            self.mode = MONITORED

    def stop_monitoring(self) -> None:
        """Make it a usual attempt again."""
        if self.mode == MONITORED:
            self.mode = OPEN

    def mark_short_deadline(self) -> None:
        """The client's timeout is short. Called right after it has begun. It is no longer monitored."""
        if self.mode == OPEN or self.mode == MONITORED:
            self.replica.stall_exempt += 1
        self.mode = SHORT_DEADLINE

    def wait_for_client(self) -> None:
        """The proxy waits for the client, which is still uploading."""
        if self.mode == OPEN:
            self.mode = UPLOADING
            self.replica.stall_exempt += 1

    def wait_for_replica(self, now: float) -> None:
        """The proxy waits for the replica, from ``now`` on."""
        if self.mode == UPLOADING:
            self.mode = OPEN
            replica = self.replica
            if replica.in_flight == replica.stall_exempt:
                replica.awaited_since = now
            replica.stall_exempt -= 1

    def write_off(self) -> None:
        """The replica has most likely lost it, with its connection: from now on it takes no slot and is no
        load there, though its client waits on. Should it be answered all the same, nothing is learned of
        that."""
        mode = self.mode
        if mode in (OPEN, SHORT_DEADLINE, MONITORED):
            self._uncount(self.replica)
            if mode == SHORT_DEADLINE:
                self.replica.stall_exempt -= 1
            self.mode = WRITTEN_OFF

    def request_sent(self, now: float) -> None:
        """The replica has the whole request only now: its response time counts from here."""
        self.started = self._learned_at = now

    def connection_opened(self, now: float) -> None:
        """A connection was made for it. What that took, TLS included, is not the replica's speed."""
        self._learned_at = now

    def first_byte(self, now: float) -> None:
        """The first byte of the response has come."""
        replica = self.replica
        replica.last_heard_at = now
        counts = replica.first_byte
        bucket = bucket_of(now - self.started)
        counts[bucket] = counts.get(bucket, 0) + 1

    def first_token(self, now: float) -> None:
        """The first content of a streamed answer has come."""
        counts = self._stream_times().first_token
        bucket = bucket_of(now - self.started)
        counts[bucket] = counts.get(bucket, 0) + 1

    def tokens_came(self, between_s: float) -> None:
        """A streamed answer is complete. ``between_s``: seconds between two tokens of it, on average."""
        counts = self._stream_times().between_tokens
        bucket = bucket_of(between_s)
        counts[bucket] = counts.get(bucket, 0) + 1

    def _stream_times(self) -> StreamTimes:
        replica = self.replica
        times = replica.streams
        if times is None:
            replica.streams = times = StreamTimes()
        return times

    def prompt_read(self, tokens: int) -> None:
        """The replica has read a prompt of so many tokens."""
        self.replica.input_tokens += tokens

    def heard(self, now: float, tokens: int = 0) -> None:
        """More bytes of the response have come. ``tokens``: output tokens in them, if known."""
        self.replica.last_heard_at = now
        if tokens:
            self._tokens += tokens
            if now - self._learned_at >= LEARN_STREAM_EVERY_S:
                self._learn_passing(now)

    def settle(self, outcome: Outcome, now: float, output_tokens: int = 0, *, at_once: bool = False) -> int:
        """End it: uncount it, learn from it, report it to outlier detection. ``output_tokens``: of the whole
        response, 0 if not known.

        ``at_once``: the response came in one piece, first byte and last together, so :meth:`first_byte` was
        not called. Returns the sketch's bucket of its duration. Raises RuntimeError if it was settled before.
        """
        mode = self.mode
        if not mode:
            raise RuntimeError(f"an attempt at {self.replica.name} was settled twice")
        self.mode = SETTLED
        if mode == WRITTEN_OFF:
            return self._settle_written_off(outcome, now, output_tokens)
        replica = self.replica
        self._uncount(replica)
        seconds = now - self.started
        bucket = bucket_of(seconds)
        if at_once:
            replica.last_heard_at = now
            counts = replica.first_byte
            counts[bucket] = counts.get(bucket, 0) + 1
        tokens = output_tokens or self._tokens
        if tokens:
            replica.output_tokens += tokens
        if outcome is _SUCCESS:
            replica.succeeded += 1
            replica.last_heard_at = now
            counts = replica.latency
            counts[bucket] = counts.get(bucket, 0) + 1
            speed = self._speed
            if speed.samples:
                speed.sample(replica, seconds, self._uncalibrated_work(), tokens, now)
            if tokens:
                self._learn_rest(now, tokens)
            else:
                speed.answered(replica, now - self._learned_at, self.work, now)
            state = replica.ejection
            if state.failures or state.until:
                self._listener.answered(self, now)
        else:
            _count(replica, outcome)
            self._listener.not_answered(self, outcome, now)
        if replica.leaving and not replica.in_flight:
            self._listener.on_drained(replica)
        if mode > OPEN:
            self._leave_mode(mode, outcome, now)
        return bucket

    def _settle_written_off(self, outcome: Outcome, now: float, output_tokens: int) -> int:
        replica, bucket = self.replica, bucket_of(now - self.started)
        replica.output_tokens += output_tokens or self._tokens
        if outcome is _SUCCESS:
            replica.succeeded += 1
            replica.last_heard_at = now
            replica.latency[bucket] = replica.latency.get(bucket, 0) + 1
        else:
            _count(replica, outcome)
            self._listener.not_answered(self, outcome, now)
        return bucket

    def _leave_mode(self, mode: int, outcome: Outcome, now: float) -> None:
        """The rest of :meth:`settle` for an attempt in another mode than ``OPEN``."""
        if mode != MONITORED:
            self.replica.stall_exempt -= 1
        elif outcome is _SUCCESS and self.source is not None:
            self._listener.succeeded(self.source, self.replica, now)

    def _uncount(self, replica: Replica) -> None:
        replica.in_flight = in_flight = replica.in_flight - 1
        if in_flight:
            work = self.work
            replica.work -= work
            replica.load -= 1
            replica.load_work -= work
        else:
            # Set, not subtracted: sums of floats must come back to nothing exactly.
            replica.work = 0.0
            replica.load = replica.queued + replica.peer_load
            replica.load_work = replica.queued_work + replica.peer_load_work
        view = replica.cell_view
        if view is not None:
            at = replica.cell_at
            view[at] = in_flight
            view[at + 1] = replica.work
        slot_freed = replica.slot_freed
        if slot_freed is not None:
            if replica.memory is not None:
                replica.memory.give_back(self)
            slot_freed(replica)

    @property
    def own_work(self) -> float:
        """The estimate of its work by which it is learned from: whatever its client has stated."""
        return self.work

    def _uncalibrated_work(self) -> float:
        """The estimate of its work before calibration."""
        try:
            return self.uncalibrated_work
        except AttributeError:
            # Set only where the estimate was calibrated.
            return self.work

    def _learn_passing(self, now: float) -> None:
        """Learn from a stream while it passes, once the number of tokens per unit of work is known."""
        speed = self._speed
        self.replica.told_at = now
        if speed.tokens_per_work:
            units = (self._tokens - self._learned_tokens) / speed.tokens_per_work
            speed.heard(self.replica, now - self._learned_at, units, now)
            self._learned_tokens = self._tokens
            self._learned_at = now

    def _learn_rest(self, now: float, tokens: int) -> None:
        """Learn from the rest of a stream, when it has ended."""
        speed, work = self._speed, self.work
        scale = speed.scale(tokens, work)
        speed.seen(self.replica, now - self.started, work, tokens / scale, now)
        units = max(0, tokens - self._learned_tokens) / scale
        speed.heard(self.replica, now - self._learned_at, units, now)

    def __repr__(self) -> str:
        return f"<Attempt at {self.replica.name} work={self.work:g} {'open' if self.mode else 'settled'}>"


def _count(replica: Replica, outcome: Outcome) -> None:
    """Count an outcome other than success. ``PREVENTED`` says nothing about the replica."""
    if outcome in FAILURES:
        replica.failed += 1
        by = replica.outcomes.failed_by
        by[outcome.value] = by.get(outcome.value, 0) + 1
        if outcome is Outcome.TRUNCATED:
            replica.outcomes.truncated += 1
    elif outcome is Outcome.CANCELLED:
        replica.outcomes.cancelled += 1
    elif outcome is Outcome.BEATEN:
        replica.outcomes.beaten += 1
    elif outcome is Outcome.REJECTED:
        replica.outcomes.rejected += 1
    elif outcome is Outcome.CLIENT_ERROR:
        replica.outcomes.client_errors += 1
    elif outcome is Outcome.WITHOUT_RESULT:
        replica.outcomes.without_result += 1
