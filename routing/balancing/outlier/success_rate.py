"""Success-rate outlier: ejection of a replica that fails often, though never five times in a row.

Theory. Over the last 15 to 30 s, with at least 20 answers: below 80 % success while the other replicas of
the pool together reach 80 %, and fail so much less that it is not by chance: where a seventh of all
requests fail, every seventh replica has five or more of twenty fail. Where the whole pool fails, the
requests are at fault or something behind all replicas is, and ejecting some would only load the others.
Where answers are rare the windows are longer, until 20 answers are in each, 10 minutes together at most: a
replica that answers once in ten seconds is judged by 200 to 400 s.

The workers of a host count together, as of the last slow timer.

Where it would do well without the failures of one client, it is asked whose fault those are
(:mod:`routing.balancing.outlier.poison_clients`).

Source: Envoy's outlier detection (success rate), with a fixed threshold besides the deviation, which is
that of the binomial distribution rather than one between replicas.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import sqrt

from routing.balancing.replica.state import Replica
from routing.shared.shm_counters import FAILED, SUCCEEDED

WINDOW_S = 15.0
LONGEST_WINDOW_S = 300.0
LEAST_ANSWERS = 20
MOST_CLIENTS = 8
"""Of which failures are counted apart in one window, those that failed first."""
THRESHOLD = 0.8
DEVIATIONS = 5.0
"""Of the number of its failures, where it failed as often as the others do."""


def renew(replicas: Iterable[Replica], now: float) -> None:
    """Start new windows where the present ones are full. Call at least every few seconds."""
    for replica in replicas:
        window = replica.ejection.windows
        _read(replica)
        if window.all_succeeded < window.earlier_succeeded or window.all_failed < window.earlier_failed:
            # A worker has ended, and has taken its counts along.
            forget(replica)
        age = now - window.began
        if age >= WINDOW_S and (age >= LONGEST_WINDOW_S or _is_filled(replica)):
            window.began = now
            window.earlier_by_client, window.by_client = window.by_client, {}
            window.earlier_succeeded, window.earlier_failed = window.succeeded, window.failed
            window.succeeded, window.failed = window.all_succeeded, window.all_failed


def forget(replica: Replica) -> None:
    """Begin again: for a replica that was let back."""
    window = replica.ejection.windows
    _read(replica)
    window.succeeded = window.earlier_succeeded = window.all_succeeded
    window.failed = window.earlier_failed = window.all_failed
    window.earlier_by_client = window.by_client = {}


def failed_by(replica: Replica, client: int) -> None:
    """One of its failures was with a request of this client."""
    counts = replica.ejection.windows.by_client
    if client in counts or len(counts) < MOST_CLIENTS:
        counts[client] = counts.get(client, 0) + 1


def by_one_client(replica: Replica) -> int:
    """The client without whose failures it does well enough; 0: there is none."""
    window = replica.ejection.windows
    sums = Counter(window.earlier_by_client)
    sums.update(window.by_client)
    if not sums:
        return 0
    ((client, most),) = sums.most_common(1)
    succeeded, failed = _counted(replica)
    # Whose the failures in other workers were is taken to be as it is here.
    others = failed * (1 - most / sum(sums.values()))
    return client if succeeded >= THRESHOLD * (succeeded + others) else 0


def failed_share(replicas: Iterable[Replica]) -> float:
    """Of these replicas' answers together, which part were failures lately; 0 where there were none."""
    counts = [_counted(replica) for replica in replicas]
    succeeded, failed = sum(s for s, _ in counts), sum(f for _, f in counts)
    return failed / (succeeded + failed) if failed else 0.0


def is_outlier(replica: Replica, replicas: Sequence[Replica]) -> bool:
    """Whether it fails often while the others do not."""
    succeeded, failed = _counted(replica)
    if not failed or succeeded + failed < LEAST_ANSWERS or succeeded >= THRESHOLD * (succeeded + failed):
        return False
    others = [_counted(other) for other in replicas if other is not replica]
    good, bad = sum(s for s, _ in others), sum(f for _, f in others)
    if not good or good < THRESHOLD * (good + bad):
        return False
    usual, answers = bad / (good + bad), succeeded + failed
    return failed - usual * answers > DEVIATIONS * sqrt(usual * (1 - usual) * answers)


def words(replica: Replica) -> str:
    """Why it was ejected."""
    succeeded, failed = _counted(replica)
    return f"{failed} of {succeeded + failed} answers failed lately, while other replicas did well"


def _read(replica: Replica) -> None:
    """What all workers of the host have counted."""
    window, cells = replica.ejection.windows, replica.cells
    window.all_succeeded, window.all_failed = replica.succeeded, replica.failed
    if cells is not None:
        cells.write(SUCCEEDED, replica.succeeded)
        cells.write(FAILED, replica.failed)
        window.all_succeeded += int(cells.siblings_sum(SUCCEEDED))
        window.all_failed += int(cells.siblings_sum(FAILED))


def _is_filled(replica: Replica) -> bool:
    """Whether the present window alone has the answers that are needed: it is the least that is looked at."""
    window = replica.ejection.windows
    answers = window.all_succeeded - window.succeeded + window.all_failed - window.failed
    return answers >= LEAST_ANSWERS


def _counted(replica: Replica) -> tuple[int, int]:
    window = replica.ejection.windows
    return window.all_succeeded - window.earlier_succeeded, window.all_failed - window.earlier_failed
