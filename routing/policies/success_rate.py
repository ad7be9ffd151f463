"""Ejection of a replica that fails often, though never five times in a row.

Theory. Over the last 15 to 30 s, with at least 20 answers: below 80 % success while the other
replicas of the pool together reach 80 %. Where the whole pool fails, the requests are at fault or
something behind all replicas is, and ejecting some would only load the others.

Source: Envoy's outlier detection (success rate), with a fixed threshold in place of a deviation.
"""

from collections.abc import Iterable, Sequence

from routing.replica import Replica

WINDOW_S = 15.0
LEAST_ANSWERS = 20
THRESHOLD = 0.8


def renew(replicas: Iterable[Replica], now: float) -> None:
    """Start new windows where the present ones are full. Call at least every few seconds."""
    for replica in replicas:
        window = replica.recent
        if now - window.began >= WINDOW_S:
            window.began = now
            window.earlier_succeeded, window.earlier_failed = window.succeeded, window.failed
            window.succeeded, window.failed = replica.succeeded, replica.failed


def forget(replica: Replica) -> None:
    """Begin again: for a replica that was let back."""
    window = replica.recent
    window.succeeded = window.earlier_succeeded = replica.succeeded
    window.failed = window.earlier_failed = replica.failed


def is_outlier(replica: Replica, replicas: Sequence[Replica]) -> bool:
    """Whether it fails often while the others do not."""
    succeeded, failed = _counted(replica)
    if not failed or succeeded + failed < LEAST_ANSWERS or succeeded >= THRESHOLD * (succeeded + failed):
        return False
    others = [_counted(other) for other in replicas if other is not replica]
    good, bad = sum(s for s, _ in others), sum(f for _, f in others)
    return good + bad > 0 and good >= THRESHOLD * (good + bad)


def words(replica: Replica) -> str:
    """Why it was ejected."""
    succeeded, failed = _counted(replica)
    return f"{failed} of {succeeded + failed} answers failed lately, while other replicas did well"


def _counted(replica: Replica) -> tuple[int, int]:
    window = replica.recent
    return replica.succeeded - window.earlier_succeeded, replica.failed - window.earlier_failed
