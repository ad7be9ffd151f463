"""Slow start state: how far one replica is. :mod:`routing.balancing.outlier.slow_start` writes it, and its
pacing, :mod:`routing.balancing.outlier.slow_start_pacing`."""


class SlowStartState:
    """How far a replica is in its slow start, and what it has had in it."""

    __slots__ = ("over_share", "pending", "picked_before", "started")

    def __init__(self) -> None:
        self.pending = False
        """Whether one is to begin."""
        self.started: float | None = None
        """When it began; ``None``: the replica is in none."""
        self.over_share = 0.0
        """How many requests it has had beyond its part."""
        self.picked_before = 0
        """How many it had had when that was looked at last."""
