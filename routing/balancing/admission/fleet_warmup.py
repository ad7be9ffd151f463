"""Warm-up (cold start) of a fleet: all its replicas are loading. The clients' rejection, and its Retry-After.

Models take minutes to load, so the rejection says what is waited for and about when that is over. A replica
is expected to take as long as the last time (``startup_s`` in the table), counted from when this worker first
knew that it is checking.
"""

from collections.abc import Iterable, Sequence

from routing.balancing.admission.rejection import Rejection
from routing.balancing.replica.state import Replica
from routing.contract.policy import Queue

RETRY_AFTER_S = 5.0
"""While it is not known how long it takes, or it takes longer than it did."""
_LONGEST_S = 300.0


def follow(replica: Replica, now: float) -> None:
    """Note since when the replica's health is ``checking``."""
    if replica.spec.health != "checking":
        replica.checking_since = None
    elif replica.checking_since is None:
        replica.checking_since = now


def is_cold(replicas: Iterable[Replica]) -> bool:
    """Whether a replica is loading that would be asked once it is ready. For a fleet that has no eligible
    replica."""
    return any(_loads(replica) for replica in replicas)


def _loads(replica: Replica) -> bool:
    """A replica that is kept from requests by its credential as well does not take any once it has loaded."""
    spec = replica.spec
    if replica.security.no_credential:
        return False
    return spec.health == "checking" and spec.admin_state == "active" and spec.weight > 0


def expected_s(replicas: Iterable[Replica], now: float) -> float | None:
    """Seconds until the first replica is ready, by how long it took before; ``None``: not known; below 0:
    overdue."""
    left = [
        replica.spec.startup_s - (now - (replica.checking_since or now))
        for replica in replicas
        if _loads(replica) and replica.spec.startup_s is not None
    ]
    return min(left, default=None)


def rejection(message: str, replicas: Sequence[Replica], queue: Queue, now: float) -> Rejection:
    """``message``: who is in which state."""
    left = expected_s(replicas, now)
    if left is None:
        words, again_s = "its startup time is not known yet", RETRY_AFTER_S
    elif left <= 0:
        words, again_s = "it takes longer than its last start", RETRY_AFTER_S
    else:
        words, again_s = (
            f"the first replica is expected to be ready in about {left:.0f} s",
            min(left, _LONGEST_S),
        )
    max_wait_s = queue.cold_timeout_s if queue.cold == "hold" else 0.0
    words = f"the model is loading, and {words}" if replicas else "its first replica is waited for"
    return Rejection("fleet_cold", f"{message}; {words}", max(1.0, again_s), max_wait_s)
