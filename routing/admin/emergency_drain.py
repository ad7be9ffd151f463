"""Replicas that an operator took out at this proxy, because the control plane could not be asked.

Kept by the parent, sent to every worker, and forgotten after an hour: an emergency drain must not
outlive the emergency and contradict the control plane for ever.
"""

from collections.abc import Iterable
from typing import NamedTuple

LASTS_S = 3600.0


class Drained(NamedTuple):
    """One override."""

    fleet: str
    replica: str
    expires_at: float
    """Monotonic seconds."""


class EmergencyDrains:
    """All overrides of one proxy. ``now`` is ``time.monotonic()``."""

    def __init__(self) -> None:
        self._expiry: dict[tuple[str, str], float] = {}

    def drain(self, fleet: str, replica: str, now: float) -> Drained:
        """Start or prolong one."""
        self._expiry[fleet, replica] = now + LASTS_S
        return Drained(fleet, replica, now + LASTS_S)

    def inherit(self, drained: Iterable[tuple[str, str, float]], now: float) -> None:
        """These are all: fleet, replica, and for how many seconds still."""
        self._expiry = {(fleet, replica): now + left_s for fleet, replica, left_s in drained}

    def undrain(self, fleet: str, replica: str) -> bool:
        """End one; whether there was one."""
        return self._expiry.pop((fleet, replica), None) is not None

    def expire(self, now: float) -> bool:
        """Forget what has run out; whether something had."""
        over = [key for key, expiry in self._expiry.items() if expiry <= now]
        for key in over:
            del self._expiry[key]
        return bool(over)

    def all(self) -> list[Drained]:
        return [Drained(fleet, replica, expiry) for (fleet, replica), expiry in sorted(self._expiry.items())]

    def keys(self) -> list[tuple[str, str]]:
        return sorted(self._expiry)
