"""Slow start, pacing: a replica that has had more than its part of the requests is left alone for a while.

Theory. Weights and places say who is to be asked, not how often. A replica that has come back is empty:
beside others with queues, one request at a time is worth several of theirs, and of four places, a tenth is
none and one a quarter. Where the rest of the fleet is nearly full, rules that go by load or by answer times
so give it more than a quarter of its fair share from the first moment (in simulation, 16 replicas of 4
places at 85 % load). So requests are counted: on the slow timer, what it was given since the last look
against its part of all that its site had, by weight and by slow start. While it has had one too many it
rests: no place where places are counted, else a hundredth of its weight.

It rests for the sake of the others' speed, so only where others can serve instead: at least half of the
replicas are not in slow start, and nobody has waited for longer than a mean answer takes. Where places are
not counted nobody is seen to wait, so the whole has to be eight times what is in slow start.

Source: our own; counting against a due is the deficit of fair queueing (Shreedhar and Varghese, "Efficient
Fair Queuing Using Deficit Round Robin", SIGCOMM 1995).
"""

from collections.abc import Sequence

from routing.balancing.replica.state import Replica

SHARE = 0.01
SEVERAL = 8
"""Times as much as those in slow start has to be there where nobody is seen to wait."""


class SlowStartPacer:
    """Of one pool in one worker."""

    __slots__ = ("_dues", "_is_hardly_missed", "_is_spared")

    def __init__(self) -> None:
        self._dues: dict[str, float] = {}
        """By site: requests for their weight that its replicas have been given since the last look."""
        self._is_spared = self._is_hardly_missed = False

    def look(self, asked: Sequence[Replica], waited_s: float, mean_answer_s: float) -> None:
        """On the slow timer, before :meth:`is_due`. ``waited_s``: by who has waited longest."""
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
        """Whether this one rests until the next look. ``share``: of its weight, in slow start;
        ``has_slots``: whether they are counted."""
        due = share * replica.spec.weight * self._dues.get(replica.spec.site, 0.0)
        replica.slow_start.over_share = max(0.0, replica.slow_start.over_share - due)
        is_spared = self._is_spared and (has_slots or self._is_hardly_missed)
        return is_spared and replica.slow_start.over_share >= 1.0
