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
    stalled: bool = False,
    answers: int = 0,
) -> None:
    """Eject from ``now`` on. ``answers``: responses that this worker has had from the replica, failures
    included."""
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
    state.until = now + state.lasted_s
    state.claimed_at = now
    state.reason = reason
    state.stalled = stalled
    state.probing = False
    state.adopted = False
    state.count += 1


def undo(state: EjectionState) -> None:
    """The claim was beyond the host's limit: restore the state before it, except for the failures counted."""
    state.until = state.claimed_at = 0.0
    state.reason = ""
    state.consecutive_ejections -= 1
    state.count -= 1


def adopt(
    state: EjectionState, until: float, claimed_at: float, consecutive_ejections: int, lasted_s: float
) -> None:
    """Another worker of this host has ejected the replica: follow it here."""
    state.until = until
    state.claimed_at = claimed_at
    state.consecutive_ejections = consecutive_ejections
    state.lasted_s = lasted_s
    state.reason = "another worker of this host saw it fail"
    state.stalled = False
    state.adopted = True


def lift(state: EjectionState, now: float, answers: int = 0) -> None:
    """End the ejection; the replica is back in full. ``answers``: as for :func:`eject`."""
    state.until = state.claimed_at = 0.0
    state.reason = ""
    state.failures = 0
    state.probing = False
    state.adopted = False
    state.returned_at = now
    state.returned_after = answers


def stalled(in_flight: int, last_heard_at: float, now: float, stall_s: float, pool_p99_s: float) -> bool:
    """Whether there are requests in flight and no byte for longer than ``stall_s``, and than three slow
    responses of the pool."""
    return in_flight > 0 and now - last_heard_at > max(stall_s, 3 * pool_p99_s)
