"""Rest (back-off, Retry-After): a replica that refuses requests gets none for a while, and is not ejected.

Rules.

- A replica that answers 429 or 503 with ``Retry-After`` rests for so long, at most ``LONGEST_S``.
- One that answers 429 without it rests ``FIRST_S``, and twice as long each time that it does so again before
  it has answered anything else with success. Persistent 503 without it are failures, and eject.
- Both are up to ``JITTER`` longer, so that workers do not come back in step.
- A resting replica is better than an ejected one or none: where nothing else is left, it is asked.
- Where more than half of those that a request could still go to have refused their last request, within
  ``REFUSING_S``, it is not retried for such an answer: the fleet is overloaded, not the replica.

Each worker sees its own part.

Source: RFC 9110 §10.2.3, RFC 6585 §4; AWS, "Exponential backoff and jitter".
"""

from collections.abc import Iterable
from random import Random

from routing.balancing.replica.outlier_state import RestState
from routing.balancing.replica.state import Replica

LONGEST_S = 60.0
FIRST_S = 0.25
JITTER = 0.2
REFUSING_S = 5.0


def refused(replica: Replica, status: int, asked_s: float, now: float, rng: Random) -> bool:
    """Note that the replica has answered with a status that says: not now. ``asked_s``: seconds that it asks
    for; below 0: it says nothing of that. Returns whether it rests from now on, or for longer than before."""
    rest: RestState = replica.ejection.rest
    rest.in_row = rest.in_row + 1 if rest.refused_at and rest.succeeded == replica.succeeded else 1
    rest.refused_at, rest.succeeded = now, replica.succeeded
    if status not in (429, 503):
        return False
    seconds = asked_s
    if seconds < 0 and status == 429:
        seconds = FIRST_S * 2.0 ** min(rest.in_row - 1, 60)
    until = now + min(LONGEST_S, seconds) * (1 + JITTER * rng.random())
    if seconds <= 0 or until <= replica.ejection.rests_until:
        return False
    replica.ejection.rests_until = until
    return True


def is_refusing(replica: Replica, now: float) -> bool:
    """Whether its last answers, a moment ago, were such."""
    rest: RestState = replica.ejection.rest
    return 0 < now - REFUSING_S < rest.refused_at and rest.succeeded == replica.succeeded


def most_refuse(replicas: Iterable[Replica], but: tuple[Replica, ...], now: float) -> bool:
    """Whether more than half of these do so, without those in ``but``."""
    others = refusing = 0
    for replica in replicas:
        if replica not in but:
            others += 1
            refusing += is_refusing(replica, now)
    return 2 * refusing > others
