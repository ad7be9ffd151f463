"""Slow start, pacing: a replica in slow start that has had more than its share gets nothing for a while.

Theory. Weights and limits say how much a replica may have at once, not how often it is picked. A replica that
has come back is empty. Beside others with queues, one slot of it is worth several of theirs, and with four
slots there is no tenth: it has one slot, a quarter. So where the rest of the fleet is nearly full, strategies
that go by load or by response times give it more than a quarter of its fair share from the first moment (in
simulation, 16 replicas of 4 slots at 85 % load). The slow timer therefore counts: the requests that the
replica was sent since the last timer, against its due, which is its part of all requests of its site by
weight and slow start. While it is one request or more above its due, it is paused: it has no slot, or a
hundredth of its weight where there are no limits.

The pause keeps response times short, so it needs others that can serve instead: at least half of the
replicas are not in slow start, and no request has waited for longer than a mean response time. Without
limits nothing is seen to wait, so the whole pool must have eight times the weight of what is in slow start.

Source: our own. Counting against a due is the deficit of fair queueing (Shreedhar and Varghese, "Efficient
Fair Queuing Using Deficit Round Robin", SIGCOMM 1995).
"""

from collections.abc import Sequence

from routing.balancing.replica.state import Replica

SHARE = 0.01
SEVERAL = 8
"""Without limits: so many times the weight of those in slow start must be there."""


class SlowStartPacer:
    """Counts the requests of replicas in slow start, for one pool in one worker."""

    __slots__ = ("_dues", "_is_hardly_missed", "_is_spared")

    def __init__(self) -> None:
        self._dues: dict[str, float] = {}
        """By site: requests for their weight that its replicas have been given since the last look."""
        self._is_spared = self._is_hardly_missed = False

    def look(self, asked: Sequence[Replica], waited_s: float, mean_answer_s: float) -> None:
        """On the slow timer, before :meth:`is_due`. ``waited_s``: how long the oldest request of the queue
        has waited."""
        started = [replica for replica in asked if replica.slow_start.started is not None]
        self._is_spared = 0 < 2 * len(started) <= len(asked) and waited_s <= mean_answer_s
        if not started:
            return
        missing, whole = (sum([one.spec.weight for one in some]) for some in (started, asked))
        self._is_hardly_missed = SEVERAL * missing <= whole
        sums: dict[str, tuple[int, float]] = {}
        for replica in asked:
            spec = replica.spec
            given = replica.picked - replica.slow_start.picked_before
            replica.slow_start.picked_before = replica.picked
            if replica.slow_start.started is not None:
                replica.slow_start.over_share += given
            picked, weight = sums.get(spec.site, (0, 0.0))
            sums[spec.site] = picked + given, weight + spec.weight
        self._dues = {site: picked / weight for site, (picked, weight) in sums.items()}

    def is_due(self, replica: Replica, share: float, *, has_slots: bool) -> bool:
        """Whether a pause of this replica is due until the next timer. ``share``: part of its weight that
        slow start leaves. ``has_slots``: whether there is a limit."""
        if not replica.slow_start.over_share:
            return False
        due = share * replica.spec.weight * self._dues.get(replica.spec.site, 0.0)
        replica.slow_start.over_share = max(0.0, replica.slow_start.over_share - due)
        is_spared = self._is_spared and (has_slots or self._is_hardly_missed)
        return is_spared and replica.slow_start.over_share >= 1.0
