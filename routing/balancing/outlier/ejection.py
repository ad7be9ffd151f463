"""Outlier ejection: live traffic takes a failing replica out for a while. One probe request lets it back.

Rules.

- ``consecutive_failures`` failures in a row eject. Overload (429), cancelled requests and the client's own
  errors neither count nor end the row. Any success ends it. If one client or a few made the whole row, it may
  be their fault: :mod:`routing.balancing.outlier.poison_clients`.
- The first ejection lasts ``base_s``. Each one that follows soon after the last lasts twice as long, with
  ±20 % jitter, at most 300 s. "Soon" is within ``base_s`` plus the length of the last ejection, or within the
  replica's next 20 responses (and 300 s), so that it means the same where responses are rare.
- Then the replica is on probation: one probe request at a time on this host. A response lets it back, a
  failure ejects it again.
- In the first minute of an ejection one probe request is due every ``TRIAL_EVERY_S`` seconds, and later every
  ``LATER_TRIAL_EVERY_S``, however long the back-off, so that a replica that heals is seen. Those that fail
  before the end of the back-off leave it as it is.
- What was sent before a return says nothing after it: such failures count nowhere.
- At most ``max_ejected_percent`` of the pool's replicas are ejected at once on this host. A worker claims an
  ejection: it writes it to shared memory, reads what the others wrote, and takes it back if all together are
  beyond the limit. If two workers claim at once, both take it back; the next failure decides. A pool of one
  never loses its replica.
- A stall ejects too: requests in flight, and no byte for ``stall_s``. The next byte lets the replica back.

Source: Envoy's outlier detection (consecutive 5xx, base time, percentage). Probation in place of full return
is what circuit breakers do.
"""

from random import Random

from routing.balancing.replica.client_source import ClientSource
from routing.balancing.replica.outlier_state import EjectionState
from routing.contract.telemetry import SAID_BY_ANOTHER

FAILURES, SILENCE, UNREACHABLE, NOT_VERIFIED, DENIED, NO_RESULT = range(6)
"""What a replica is ejected for."""
UNCONNECTED = frozenset({UNREACHABLE, NOT_VERIFIED, DENIED})
"""Nothing is expected of a probe request before a connection has been made."""
ADOPTED = {
    FAILURES: f"{SAID_BY_ANOTHER} saw it fail",
    SILENCE: f"{SAID_BY_ANOTHER} heard nothing from it",
    UNREACHABLE: f"{SAID_BY_ANOTHER} found that nothing listens there",
    NOT_VERIFIED: f"{SAID_BY_ANOTHER} found that it cannot be verified (TLS)",
    DENIED: f"{SAID_BY_ANOTHER} found that the address policy denies its address",
    NO_RESULT: f"{SAID_BY_ANOTHER} saw it respond with what is no answer",
}
TRIAL_EVERY_S = 4.5
"""With the slow timer's delay, less than 5 s."""
TRIALS_FOR_S = 60.0
LATER_TRIAL_EVERY_S = 10.0
LEAST_PAUSE_S = 0.5
"""Between a probe request that failed late and the next one."""
LONGEST_S = 300.0
JITTER = 0.2
SOON_ANSWERS = 20


def failed(state: EjectionState, limit: int, source: ClientSource | None = None) -> bool:
    """Count one failure. Returns whether there are now as many in a row as eject. ``source``: whose request
    it was, which may be at fault."""
    if not state.failures:
        state.failure_run.begin()
    state.failures += 1
    state.failure_run.add(source)
    return state.failures >= limit


def allowed(replicas: int, max_percent: float) -> int:
    """How many of so many replicas may be ejected at once."""
    return min(int(replicas * max_percent / 100), max(0, replicas - 1))


def eject(
    state: EjectionState,
    now: float,
    base_s: float,
    rng: Random,
    reason: str,
    cause: int = FAILURES,
    stalled: bool = False,
    answers: int = 0,
    tried_at: float | None = None,
) -> None:
    """Eject from ``now`` on. ``answers``: responses that this worker has had from the replica, failures
    included. ``tried_at``: when the probe request was sent that has failed; ``None``: it was none."""
    if not state.until:
        state.since = now
    # Little of a back-off is as good as none of it.
    if not state.until or state.back_off_until - now <= TRIAL_EVERY_S / 2:
        _back_off(state, now, base_s, rng, answers)
    state.until = state.back_off_until
    every_s = TRIAL_EVERY_S if now - state.since < TRIALS_FOR_S else LATER_TRIAL_EVERY_S
    due = max(now + LEAST_PAUSE_S, (now if tried_at is None else tried_at) + every_s)
    state.until = min(state.until, due)
    state.claimed_at = state.probed_at = now
    state.reason = reason
    state.cause = cause
    state.stalled = stalled
    state.probing = False
    state.adopted = False
    state.count += 1


def _back_off(state: EjectionState, now: float, base_s: float, rng: Random, answers: int) -> None:
    """Begin the back-off anew, twice as long as the one before if that was lately."""
    soon_s = base_s + state.lasted_s
    if answers - state.returned_after < SOON_ANSWERS:
        soon_s = max(soon_s, LONGEST_S)
    soon = state.until > 0 or now - state.returned_at < soon_s
    state.consecutive_ejections = (
        state.consecutive_ejections + 1 if state.consecutive_ejections and soon else 1
    )
    jitter = 1 + JITTER * (2 * rng.random() - 1)
    # The exponent is bounded: 2^60 times any base is past the cap already.
    state.lasted_s = min(LONGEST_S, base_s * 2.0 ** min(state.consecutive_ejections - 1, 60) * jitter)
    state.back_off_until = now + state.lasted_s


def undo(state: EjectionState) -> None:
    """The claim was beyond the host's limit: restore the state before it, except for the failures counted."""
    state.until = state.claimed_at = state.since = state.back_off_until = 0.0
    state.reason = ""
    state.consecutive_ejections -= 1
    state.count -= 1


def adopt(state: EjectionState, other: EjectionState) -> None:
    """Another worker of this host has ejected the replica: follow it here. ``other``: as it is there."""
    state.until = other.until
    state.since = other.since
    state.back_off_until = other.back_off_until
    state.claimed_at = other.claimed_at
    state.consecutive_ejections = other.consecutive_ejections
    state.lasted_s = other.lasted_s
    state.cause = other.cause
    state.reason = ADOPTED[state.cause]
    state.stalled = False
    state.adopted = True


def try_now(state: EjectionState, now: float) -> None:
    """There is news of an ejected replica: its probe request is due."""
    state.until = min(state.until, now)


def postpone(state: EjectionState, now: float, seconds: float) -> None:
    """A probe request would be in vain: none is due for so many seconds."""
    state.until = max(state.until, now + seconds)


def lift(state: EjectionState, now: float, answers: int = 0) -> None:
    """End the ejection; the replica is back in full. ``answers``: as for :func:`eject`."""
    state.until = state.claimed_at = state.since = state.back_off_until = 0.0
    state.reason = ""
    state.cause = FAILURES
    state.failures = 0
    state.probing = False
    state.adopted = False
    state.returned_at = now
    state.returned_after = answers
    # What was sent before may stay silent: it finishes nothing, and says nothing any more.
    state.progress.finished_at = max(state.progress.finished_at, now)


def stalled(in_flight: int, quiet_since: float, now: float, stall_s: float, pool_p99_s: float) -> bool:
    """Whether there are requests in flight and no byte for longer than ``stall_s``, and than three slow
    responses of the pool."""
    return in_flight > 0 and now - quiet_since > max(stall_s, 3 * pool_p99_s)
