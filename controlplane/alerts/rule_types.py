"""What an alert rule is, and what it finds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from controlplane.alerts.picture import Picture

Severity = Literal["critical", "warning"]
"""Wakes somebody; is looked at in the morning."""
SEVERITIES: tuple[Severity, ...] = ("critical", "warning")


class AlertSubject(NamedTuple):
    """What an alert is about; empty: nothing of that kind."""

    fleet: str = ""
    replica: str = ""
    part: str = ""
    """Of Switchyard itself or of a host: a process, a proxy, an accelerator, a destination."""

    @property
    def words(self) -> str:
        return "/".join(filter(None, (self.fleet, self.replica))) or self.part


@dataclass(frozen=True, slots=True)
class Breach:
    """A rule's condition, found true of one subject."""

    subject: AlertSubject
    words: str
    """Why, as a sentence without its full stop. No figure that moves each second: it is stored."""
    value: float | None = None
    severity: Severity | None = None
    """Instead of the rule's."""
    for_s: float | None = None
    """Instead of the rule's."""


FindBreaches = Callable[[Picture, frozenset[AlertSubject]], Sequence[Breach] | None]
"""(picture, subjects of which the rule's alert is open) → where its condition holds; ``None``: unknown."""


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """One rule as it is evaluated."""

    name: str
    title: str
    """For people: what is wrong where it fires."""
    severity: Severity
    for_s: float
    """How long its condition must hold before it fires."""
    keep_s: float
    """How long its condition must be gone before its alert is resolved (hysteresis in time)."""
    find: FindBreaches
    unit: str = ""
    """Of the value that its breaches have."""
    about: str = ""
    """One sentence: when it fires."""
