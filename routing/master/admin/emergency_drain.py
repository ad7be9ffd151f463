"""Emergency drain: replicas that an operator drains at this proxy only.

The master keeps the drains and sends them to every worker. Each drain expires, so that it does not outlive
the emergency and contradict the control plane for ever.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

DEFAULT_S = 3600.0
MIN_S, MAX_S = 1, 86_400
_SECONDS = re.compile(r"for_s=([0-9]{1,9})\Z")


class EmergencyDrain(NamedTuple):
    """One override."""

    fleet: str
    replica: str
    expires_at: float
    """Monotonic seconds."""


class EmergencyDrains:
    """All overrides of one proxy. ``now`` is ``time.monotonic()``."""

    def __init__(self) -> None:
        self._expiry: dict[tuple[str, str], float] = {}

    def drain(self, fleet: str, replica: str, now: float, duration_s: float = DEFAULT_S) -> EmergencyDrain:
        """Start a drain, or change when it ends."""
        self._expiry[fleet, replica] = now + duration_s
        return EmergencyDrain(fleet, replica, now + duration_s)

    def restore(self, drained: Iterable[tuple[str, str, float]], now: float) -> None:
        """Replace all drains: fleet, replica, and the seconds that are left."""
        self._expiry = {(fleet, replica): now + left_s for fleet, replica, left_s in drained}

    def undrain(self, fleet: str, replica: str) -> bool:
        """End a drain. False: there was none."""
        return self._expiry.pop((fleet, replica), None) is not None

    def expire(self, now: float) -> list[EmergencyDrain]:
        """Remove those that have expired, and return them."""
        expired = [drained for drained in self.all() if drained.expires_at <= now]
        for fleet, replica, _ in expired:
            del self._expiry[fleet, replica]
        return expired

    def all(self) -> list[EmergencyDrain]:
        return [
            EmergencyDrain(fleet, replica, expiry)
            for (fleet, replica), expiry in sorted(self._expiry.items())
        ]


def duration_s(query: str) -> float:
    """Duration of a drain, from the request's query. Raises ValueError with a message."""
    if not query:
        return DEFAULT_S
    found = _SECONDS.match(query)
    if found is None or not MIN_S <= int(found[1]) <= MAX_S:
        raise ValueError(
            f"set ?for_s=600: whole seconds from {MIN_S} to {MAX_S}; without it, {DEFAULT_S:.0f}"
        )
    return float(found[1])
