"""Success rate outlier: ejects a replica that fails often, though never five times in a row.

Theory. A replica is an outlier when, over the last 15 to 30 s and at least 20 responses, less than 80 % were
successes, while the pool's other replicas together reach 80 %. It must also fail so much more often than they
do that it is not by chance: where a seventh of all requests fail, every seventh replica has five or more
failures of twenty. If the whole pool fails, the requests are at fault, or something behind all replicas is;
ejecting some would only load the others. Where responses are rare the windows are longer, until each has 20
responses, 10 minutes together at most. A replica that responds once in ten seconds is judged by 200 to 400 s.

The workers of a host count together, as of the last slow timer.

If the replica would do well without the failures of one client, the question is whose fault those are
(:mod:`routing.balancing.outlier.poison_clients`).

Source: Envoy's outlier detection (success rate), with a fixed threshold besides the deviation. The deviation
is that of the binomial distribution, not the one between replicas.
"""

from collections import Counter
from collections.abc import Callable, Iterable
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
    """Start new windows where the present ones are full. To be called every few seconds at least."""
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
    """Start new windows: for a replica that was let back."""
    window = replica.ejection.windows
    _read(replica)
    window.succeeded = window.earlier_succeeded = window.all_succeeded
    window.failed = window.earlier_failed = window.all_failed
    window.earlier_by_client = window.by_client = {}


def failed_by(replica: Replica, client: int) -> None:
    """The replica failed with a request of this client."""
    counts = replica.ejection.windows.by_client
    if client in counts or len(counts) < MOST_CLIENTS:
        counts[client] = counts.get(client, 0) + 1


def by_one_client(replica: Replica) -> int:
    """The client without whose failures the replica does well enough; 0: there is none."""
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
    """Share of failures among these replicas' recent responses together; 0 if there were none."""
    succeeded, failed = answers(replicas)
    return failed / (succeeded + failed) if failed else 0.0


def answers(replicas: Iterable[Replica]) -> tuple[int, int]:
    """Recent successes and failures of all together."""
    counts = [_counted(replica) for replica in replicas]
    return sum([succeeded for succeeded, _ in counts]), sum([failed for _, failed in counts])


def is_outlier(replica: Replica, of_all: Callable[[], tuple[int, int]]) -> bool:
    """Whether the replica fails often while the others do not. ``of_all()``: :func:`answers` of the pool."""
    window = replica.ejection.windows
    if window.all_failed == window.earlier_failed:
        return False  # it has not failed: the usual case
    succeeded, failed = _counted(replica)
    if not failed or succeeded + failed < LEAST_ANSWERS or succeeded >= THRESHOLD * (succeeded + failed):
        return False
    good, bad = of_all()
    good, bad = good - succeeded, max(0, bad - failed)
    if good <= 0 or good < THRESHOLD * (good + bad):
        return False
    usual, count = bad / (good + bad), succeeded + failed
    return failed - usual * count > DEVIATIONS * sqrt(usual * (1 - usual) * count)


def words(replica: Replica) -> str:
    """Why the replica was ejected, in words."""
    succeeded, failed = _counted(replica)
    return f"{failed} of {succeeded + failed} answers failed lately, while other replicas did well"


def _read(replica: Replica) -> None:
    """Read what all workers of the host have counted."""
    window, cells = replica.ejection.windows, replica.cells
    succeeded, failed = replica.succeeded, replica.failed - window.before_return
    if cells is not None:
        # Written out: this runs for all replicas of a fleet, ten times a second.
        view, own = cells.view, cells.own
        if view[own + SUCCEEDED] != succeeded:
            view[own + SUCCEEDED] = succeeded
        if view[own + FAILED] != failed:
            view[own + FAILED] = failed
        for sibling in cells.siblings:
            if theirs := view[sibling + SUCCEEDED]:
                succeeded += int(theirs)
            if theirs := view[sibling + FAILED]:
                failed += int(theirs)
    if window.all_succeeded != succeeded:
        window.all_succeeded = succeeded
    if window.all_failed != failed:
        window.all_failed = failed


def _is_filled(replica: Replica) -> bool:
    """Whether the present window alone has enough responses: it is the shortest that is judged by."""
    window = replica.ejection.windows
    answers = window.all_succeeded - window.succeeded + window.all_failed - window.failed
    return answers >= LEAST_ANSWERS


def _counted(replica: Replica) -> tuple[int, int]:
    window = replica.ejection.windows
    return window.all_succeeded - window.earlier_succeeded, window.all_failed - window.earlier_failed
