"""Lifecycle of alerts: pending while a condition holds too short, firing, resolved. Pure.

An alert is found (``pending``), fires once its condition has held for the rule's ``for_s``, and is resolved
once the condition has been gone for ``keep_s``: what comes and goes within either makes no noise. Where a
rule cannot tell, its alerts stay as they are; what was pending when that lasted too long begins anew.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from controlplane.alerts.rule_types import AlertSubject, Breach, RuleInForce, Severity

REWORD_S = 60.0
"""The words of a firing alert are written anew no more often, unless its severity changes."""
GONE_RULE = "its rule was switched off or deleted"


class AlertStep(StrEnum):
    """What happened to an alert."""

    BEGAN = "began"
    """Its condition was found; it is pending."""
    FIRED = "fired"
    DROPPED = "dropped"
    """It was pending, and its condition is gone."""
    FADED = "faded"
    """It fires, and its condition is gone since now."""
    RETURNED = "returned"
    """Its condition is back before it was resolved."""
    REWORDED = "reworded"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """One that is pending or firing. Times are Unix seconds."""

    id: str
    """Of this time that its condition holds; unique."""
    rule: str
    subject: AlertSubject
    severity: Severity
    words: str
    value: float | None
    since: float
    """When its condition was found first."""
    fired_at: float | None = None
    """``None``: it is pending."""
    gone_since: float | None = None
    """While it fires: since when its condition does not hold."""
    worded_at: float = 0.0

    @property
    def key(self) -> tuple[str, AlertSubject]:
        return self.rule, self.subject

    @property
    def is_firing(self) -> bool:
        return self.fired_at is not None


@dataclass(frozen=True, slots=True)
class AlertChange:
    step: AlertStep
    alert: OpenAlert
    """After it; of a dropped or resolved one, as it was."""
    words: str = ""
    """Why it is resolved, where that is not that its condition is gone."""


Findings = Mapping[str, Sequence[Breach] | None]
"""Rule → what it found; ``None``: it cannot tell."""


def advance(
    open_alerts: Sequence[OpenAlert],
    rules: Sequence[RuleInForce],
    findings: Findings,
    now: float,
    new_id: Callable[[], str],
    *,
    lost: frozenset[str] = frozenset(),
) -> list[AlertChange]:
    """What changes at ``now``, in the order of the rules. ``lost``: rules that could not tell for so long
    that nothing of before counts as having held without a break."""
    changes: list[AlertChange] = []
    by_rule: dict[str, dict[AlertSubject, OpenAlert]] = {}
    for alert in open_alerts:
        by_rule.setdefault(alert.rule, {})[alert.subject] = alert
    for rule in rules:
        present = by_rule.pop(rule.name, {})
        found = findings.get(rule.name)
        if found is not None:
            changes += _of_rule(rule, present, found, now, new_id, is_lost=rule.name in lost)
    for orphans in by_rule.values():
        for alert in orphans.values():
            changes.append(_ended(alert, GONE_RULE))
    return changes


def _of_rule(
    rule: RuleInForce,
    present: Mapping[AlertSubject, OpenAlert],
    found: Sequence[Breach],
    now: float,
    new_id: Callable[[], str],
    *,
    is_lost: bool,
) -> Iterator[AlertChange]:
    breaches = {breach.subject: breach for breach in found}
    for subject, breach in breaches.items():
        severity = breach.severity or rule.severity
        alert = present.get(subject)
        if alert is not None and is_lost and not alert.is_firing:
            yield AlertChange(AlertStep.DROPPED, alert)
            alert = None
        if alert is None:
            alert = OpenAlert(
                new_id(), rule.name, subject, severity, breach.words, breach.value, now, worded_at=now
            )
            yield AlertChange(AlertStep.BEGAN, alert)
        yield from _held(alert, rule, breach, severity, now)
    for subject, alert in present.items():
        if subject not in breaches:
            yield from _absent(alert, rule, now)


def _held(
    alert: OpenAlert, rule: RuleInForce, breach: Breach, severity: Severity, now: float
) -> Iterator[AlertChange]:
    """Its condition holds."""
    worded = replace(
        alert, severity=severity, words=breach.words, value=breach.value, worded_at=now, gone_since=None
    )
    if not alert.is_firing:
        wait_s = rule.for_s if breach.for_s is None else breach.for_s
        if now - alert.since >= wait_s:
            yield AlertChange(AlertStep.FIRED, replace(worded, fired_at=now))
    elif alert.gone_since is not None:
        yield AlertChange(AlertStep.RETURNED, worded)
    elif severity != alert.severity or (breach.words != alert.words and now - alert.worded_at >= REWORD_S):
        yield AlertChange(AlertStep.REWORDED, worded)


def _absent(alert: OpenAlert, rule: RuleInForce, now: float) -> Iterator[AlertChange]:
    """Its condition does not hold."""
    if not alert.is_firing:
        yield AlertChange(AlertStep.DROPPED, alert)
    elif alert.gone_since is None and rule.keep_s > 0:
        yield AlertChange(AlertStep.FADED, replace(alert, gone_since=now))
    elif alert.gone_since is None or now - alert.gone_since >= rule.keep_s:
        yield AlertChange(AlertStep.RESOLVED, alert)


def _ended(alert: OpenAlert, words: str) -> AlertChange:
    step = AlertStep.RESOLVED if alert.is_firing else AlertStep.DROPPED
    return AlertChange(step, alert, words)
