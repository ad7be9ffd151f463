"""Learned state: speed and latency of one replica. Written by :mod:`routing.balancing.learning`."""

from math import inf

from routing.balancing.replica.untracked import Untracked

LOAD_LEVELS = 12


class LearnedSpeed:
    """Evidence of how many seconds a unit of work takes: two sums that decay with age.

    Because both are plain sums, the evidence of several workers adds up without error.
    """

    __slots__ = (
        "at",
        "first_answers",
        "peer_seconds",
        "peer_units",
        "prior_seconds",
        "prior_units",
        "seconds",
        "units",
        "usual_s",
        "warm_at",
    )

    def __init__(self) -> None:
        self.seconds = 0.0
        self.units = 0.0
        self.at = 0.0
        """When the two sums were last decayed."""
        self.warm_at = inf
        """When it had given its first responses after a start or a long rest; inf: it has not yet."""
        self.usual_s = -1.0
        """A response that took no longer is learned from as it is; below 0: all are looked at."""
        self.first_answers = 0
        """How many of them it has given."""
        self.peer_seconds = 0.0
        self.peer_units = 0.0
        """Evidence of this host's other workers, as last read."""
        self.prior_seconds = 1.0
        self.prior_units = 1.0
        """What is taken for granted besides own evidence: the pool's median by weight, and the peers'."""

    def __repr__(self) -> str:
        return f"<LearnedSpeed {self.seconds:.4g} s / {self.units:.4g} units, at {self.at:.3f}>"


class LoadSlope:
    """Sums for a straight line through how long a unit of work takes (``pace``) by how many requests were
    there (``depth``), both as logarithms. They decay with age. Written by
    :mod:`routing.balancing.learning.service_shape`."""

    __slots__ = ("at", "count", "depth", "depth_by_pace", "depth_squared", "pace", "pace_squared")

    def __init__(self) -> None:
        self.at = 0.0
        self.count = 0.0
        self.depth = 0.0
        self.pace = 0.0
        self.depth_squared = 0.0
        self.depth_by_pace = 0.0
        self.pace_squared = 0.0

    def __repr__(self) -> str:
        return f"<LoadSlope of {self.count:.4g} measurements>"


class SpeedByLoad:
    """Evidence of how many seconds a unit of work takes, apart by how many requests were there: 0, 1, 2–3,
    4–7 and so on, the last level everything from 1024 on."""

    __slots__ = ("at", "reading", "seconds", "units")

    def __init__(self) -> None:
        self.seconds = [0.0] * LOAD_LEVELS
        self.units = [0.0] * LOAD_LEVELS
        """Both decayed."""
        self.at = 0.0
        """When they were last decayed."""
        self.reading = [1.0] * LOAD_LEVELS
        """Seconds per unit of work to be expected at each level, longer in slow start."""

    def __repr__(self) -> str:
        return f"<SpeedByLoad {', '.join(f'{seconds:.4g}' for seconds in self.reading)}>"


UNKNOWN_BY_LOAD = SpeedByLoad()
"""What every replica has of which nothing was kept yet; nothing is noted in it."""


class LatencyTail(Untracked):
    """How the responses of the last two windows were spread: buckets of seconds per unit of work."""

    began: float = 0.0
    """Beginning of the newer window."""
    newer: dict[int, int] = {}
    older: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<LatencyTail {sum(self.newer.values())} and {sum(self.older.values())} answers>"


class LatencyMemory:
    """What is kept of the times of responses."""

    __slots__ = ("evidence", "peak_at", "peak_s", "tail")

    def __init__(self) -> None:
        self.evidence = LearnedSpeed()
        """Of response times, whatever their work; its units are responses."""
        self.peak_s = 0.0
        self.peak_at = 0.0
        """Last response that the peak was learned from; 0: none."""
        self.tail = LatencyTail()
