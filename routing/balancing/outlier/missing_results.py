"""Missing results (outlier by content): a replica whose responses are no answers while its peers' are.

Theory. A response with 200 whose body is no answer of its protocol may be legal once, or be what some client
asks for. So it counts against a replica only beyond what its peers do in the same time. Over the present
window of 15 s at most, and with the counts of all workers of the host, a replica is an outlier when

- at least :data:`LEAST` of its responses were none, and a fifth of all that it gave, and
- these are more than five standard deviations beyond what its peers' share, ``(missing + 1) / (answers + 2)``
  by Laplace's rule of succession, makes likely. Five of five are enough once the peers have given five
  answers, and never while nothing is heard of them.

A window begins with the first missing result after the last one has ended, for all replicas at once, so that
all are compared over the same time. Where a fifth of the peers' responses are none, that is how this fleet
answers, and while they have given less than five, nobody knows: then such a response is a success like any
other. Else it teaches nothing about the replica's speed.

Until that is decided the replica is held to its fair share (:mod:`routing.balancing.outlier.fair_shares`).
One that answers at once would get all requests, and its peers would give nothing to compare with.

Of a large pool a part serves as peers.

Source: our own; the deviation is that of the binomial distribution, as in
:mod:`routing.balancing.outlier.success_rate`.
"""

from collections.abc import Sequence
from math import sqrt

from routing.balancing.replica.state import Replica
from routing.shared.shm_counters import MISSING_RESULTS, SUCCEEDED

WINDOW_S = 15.0
LEAST = 5
SUSPICIOUS = 1
"""After so many a request is sent elsewhere instead of handing on the next one."""
SHARE = 0.2
DEVIATIONS = 5.0
ENOUGH = 5
"""Answers of peers."""
UNDECIDED_S = 1.0
KNOWN_FOR_S = 1.0
"""How long it is not looked at again that a fleet answers so."""
MOST_PEERS = 64


class MissingResults:
    """Of one pool in one worker. ``replicas``: those in the table. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._window = 0
        self._began = 0.0
        self._usual_until = 0.0

    def is_unusual(self, replica: Replica, replicas: Sequence[Replica], now: float) -> bool:
        """Whether the other replicas answer where this one has not. If not, the response is counted here, and
        is a success; else :meth:`note` counts it."""
        self._follow(replicas, now)
        self._since(replica)
        if now >= self._usual_until:
            missing, answers = self._peers(replica, replicas)
            if answers >= ENOUGH:
                if missing < SHARE * answers:
                    return True
                self._usual_until = now + KNOWN_FOR_S
        _count(replica, now)
        return False

    def note(self, replica: Replica, replicas: Sequence[Replica], now: float) -> None:
        """A response of this replica was no answer, which is unusual."""
        self._follow(replicas, now)
        self._since(replica)
        _count(replica, now)

    def is_undecided(self, replica: Replica, now: float) -> bool:
        """Whether it may turn out to be an outlier: so many of its responses in this window were none, and it
        is not how the fleet answers. For a second after the last of them: no more may follow."""
        if now < self._usual_until or now - replica.ejection.results.missing_at > UNDECIDED_S:
            return False
        missing, answers = self._since(replica)
        return missing > 0 and missing >= SHARE * answers

    def is_suspect(self, replica: Replica) -> bool:
        """Whether it has given such a response before, so that the next one is better not handed on."""
        return self._since(replica)[0] >= SUSPICIOUS

    def outlier_words(self, replica: Replica, replicas: Sequence[Replica]) -> str:
        """Why the replica is to be ejected, in words; empty: it is not."""
        missing, answers = self._since(replica)
        if missing < LEAST or missing < SHARE * answers:
            return ""
        theirs, all_theirs = self._peers(replica, replicas)
        usual = (theirs + 1) / (all_theirs + 2)
        if all_theirs < ENOUGH:
            return ""
        if missing - usual * answers <= DEVIATIONS * sqrt(usual * (1 - usual) * answers):
            return ""
        what = f"{missing} of its last responses were no answers of their protocol"
        return f"{what}, while other replicas answered"

    def forget(self, replica: Replica) -> None:
        """What was found before says nothing of the replica that comes back."""
        self._begin(replica)

    def _follow(self, replicas: Sequence[Replica], now: float) -> None:
        """Begin a new window if the last one has ended."""
        if now - self._began >= WINDOW_S or not self._window:
            self._window += 1
            self._began = now
            for replica in _some(replicas):
                self._begin(replica)

    def _begin(self, replica: Replica) -> None:
        state = replica.ejection.results
        state.earlier_missing, state.earlier_answers = _counted(replica)
        state.window = self._window

    def _since(self, replica: Replica) -> tuple[int, int]:
        """Missing results, and all responses, of the replica in the present window."""
        state = replica.ejection.results
        if state.window != self._window:
            self._begin(replica)
        missing, answers = _counted(replica)
        return max(0, missing - state.earlier_missing), max(0, answers - state.earlier_answers)

    def _peers(self, replica: Replica, replicas: Sequence[Replica]) -> tuple[int, int]:
        found = [self._since(other) for other in _some(replicas) if other is not replica]
        return sum([missing for missing, _ in found]), sum([answers for _, answers in found])


def _count(replica: Replica, now: float) -> None:
    state = replica.ejection.results
    state.missing += 1
    state.missing_at = now
    if replica.cells is not None:
        replica.cells.write(MISSING_RESULTS, state.missing)


def _counted(replica: Replica) -> tuple[int, int]:
    """Missing results, and these with all successes, in all workers of the host. Siblings have shown their
    successes with their last slow timer."""
    missing, succeeded, cells = replica.ejection.results.missing, replica.succeeded, replica.cells
    if cells is not None:
        missing += int(cells.siblings_sum(MISSING_RESULTS))
        succeeded += int(cells.siblings_sum(SUCCEEDED))
    return missing, missing + succeeded


def _some(replicas: Sequence[Replica]) -> Sequence[Replica]:
    return replicas if len(replicas) <= MOST_PEERS else replicas[:MOST_PEERS]
