"""Silencing: which alerts nobody is told of for a while. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.alerts.lifecycle import OpenAlert


@dataclass(frozen=True, slots=True)
class Silenced:
    """What one silence is for; empty: any. Times are Unix seconds."""

    id: int
    until: float
    rule: str = ""
    fleet: str = ""
    replica: str = ""
    part: str = ""

    def covers(self, alert: OpenAlert, now: float) -> bool:
        subject = alert.subject
        pairs = (
            (self.rule, alert.rule),
            (self.fleet, subject.fleet),
            (self.replica, subject.replica),
            (self.part, subject.part),
        )
        return now < self.until and all(wanted in ("", is_there) for wanted, is_there in pairs)


def silence_of(alert: OpenAlert, silences: Sequence[Silenced], now: float) -> Silenced | None:
    """The one of those that cover it that lasts longest; ``None``: there is none."""
    return max(
        (one for one in silences if one.covers(alert, now)), key=lambda one: (one.until, one.id), default=None
    )
