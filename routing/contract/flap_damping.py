"""Flap damping: a replica that was lost again and again must pass for longer before it gets traffic again.

As routers damp routes that come and go (RFC 2439): each loss adds one to a penalty that halves every
HALF_LIFE_S; above FREE, each further one doubles the passes in a row that are needed, up to HELD_S of them.
A fleet of which less than half is ready is spared: it needs whoever passes. Pure.
"""

import math
from typing import NamedTuple

from routing.contract.probe import Probe

HALF_LIFE_S = 300.0
FREE = 2.0
"""So much is forgiven: whatever fails twice in a few minutes is back as fast as ever."""
HELD_S = 60.0
"""No replica is held back for longer than it takes to pass for so long."""
SHORT = 0.5
"""Share of a fleet's active replicas that are ready; with fewer none is held back."""


class FlapPenalty(NamedTuple):
    """What it had at a time."""

    value: float = 0.0
    at_s: float = 0.0
    """Of the last loss, by the caller's clock."""

    def now(self, now_s: float) -> float:
        return float(self.value * 0.5 ** (max(now_s - self.at_s, 0.0) / HALF_LIFE_S))

    def lost(self, now_s: float) -> "FlapPenalty":
        """After one more loss of ``ready``."""
        return FlapPenalty(self.now(now_s) + 1.0, now_s)


NEVER_LOST = FlapPenalty()


def passes_needed(probe: Probe, penalty: FlapPenalty, now_s: float) -> int:
    """Passes in a row before it is ready again; ``probe.rise`` where it is not damped."""
    above = penalty.now(now_s) - FREE
    if not probe.flap_damping or above <= 0:
        return probe.rise
    most = max(int(HELD_S / probe.period_s), probe.rise)
    doublings = min(math.ceil(above), 20)
    return min(probe.rise << doublings, most)


def is_short(ready: int, active: int) -> bool:
    """Whether a fleet needs whoever passes. ``active``: its replicas that operators want to serve."""
    return ready < active * SHORT
