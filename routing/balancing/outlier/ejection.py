"""Outlier ejection: live traffic takes a replica out for a while, and lets it back through one request.

Rules.

- ``consecutive_failures`` failures in a row eject. Load (429), cancels and the client's own errors
  neither count nor break the row; any success breaks it. A row that one client, or a few, have made may be
  their fault: :mod:`routing.balancing.outlier.poison_clients`.
- The first ejection lasts ``base_s``; each that follows soon after the last doubles it; ±20 % jitter,
  at most 300 s. Soon is within ``base_s`` and as long as the last one was, or within the replica's next 20
  answers (and 300 s), so that it means the same where answers are rare.
- After that the replica is on probation: one request at a time on this host. An answer lets it
  back, a failure ejects it again.
- At most ``max_ejected_percent`` of the pool's replicas are out at once on this host. A worker claims: it
  writes its ejection where the others see it, reads again, and takes it back if together they are
  now beyond the limit. Two that claim at once both take it back; the next failure decides. A pool of
  one never loses its replica.
- Requests in flight and nothing heard for ``stall_s`` ejects too; hearing from it again lets it back.

Source: Envoy's outlier detection (consecutive 5xx, base time, percentage), with probation in place of
full return, as circuit breakers do it.
"""

from random import Random

from routing.balancing.replica.client_source import ClientSource
from routing.balancing.replica.outlier_state import EjectionState

LONGEST_S = 300.0
JITTER = 0.2
SOON_ANSWERS = 20


def failed(state: EjectionState, limit: int, source: ClientSource | None = None) -> bool:
    """Count one failure; True: as many in a row as eject. ``source``: whose request may be at fault."""
    if not state.failures:
        state.failure_run.begin()
    state.failures += 1
    state.failure_run.add(source)
    return state.failures >= limit


def allowed(replicas: int, max_percent: float) -> int:
    """How many of so many replicas may be out at once."""
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
    """Take out from ``now`` on. ``answers``: that this worker has had from the replica, failures included."""
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
    """The claim was beyond the host's limit: as if it had not been made, but for the failures counted."""
    state.until = state.claimed_at = 0.0
    state.reason = ""
    state.consecutive_ejections -= 1
    state.count -= 1


def adopt(
    state: EjectionState, until: float, claimed_at: float, consecutive_ejections: int, lasted_s: float
) -> None:
    """Another worker of this host has ejected the replica; it is out for this one as well."""
    state.until = until
    state.claimed_at = claimed_at
    state.consecutive_ejections = consecutive_ejections
    state.lasted_s = lasted_s
    state.reason = "another worker of this host saw it fail"
    state.stalled = False
    state.adopted = True


def lift(state: EjectionState, now: float, answers: int = 0) -> None:
    """Let back in full. ``answers``: as for :func:`eject`."""
    state.until = state.claimed_at = 0.0
    state.reason = ""
    state.failures = 0
    state.probing = False
    state.adopted = False
    state.returned_at = now
    state.returned_after = answers


def stalled(in_flight: int, last_heard_at: float, now: float, stall_s: float, pool_p99_s: float) -> bool:
    """Requests in flight and silence for longer than ``stall_s`` and than three slow answers of the pool."""
    return in_flight > 0 and now - last_heard_at > max(stall_s, 3 * pool_p99_s)
