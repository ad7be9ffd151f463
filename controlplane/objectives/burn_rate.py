"""Burn rate: attainment, error budget, and whether it burns too fast (multi-window, multi-burn-rate). Pure.

Theory. An objective of 99 % over 30 days leaves a budget: one request in a hundred may be bad. A burn rate of
1 uses it up in just 30 days, one of 14.4 uses 2 % of it in an hour. A rule asks two windows: the long one,
whether enough was lost to wake somebody; the short one, whether it goes on, so that the alert ends when the
trouble does (Beyer et al., The Site Reliability Workbook, ch. 5). With 99 % a broken fleet reaches 14.4 over
an hour only after nine minutes, so there is a rule for that alone: more than half of the last minute's
requests were bad.

No verdict comes from too little traffic: without :data:`LEAST_BAD` bad requests in the long window one of
them could be chance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from controlplane.objectives.count_series import CountSeries, WindowCount

ObjectiveKind = Literal["success", "latency", "first_token"]
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
SHOWN_WINDOWS: Mapping[str, float] = {
    "5m": 5 * MINUTE_S,
    "1h": HOUR_S,
    "6h": 6 * HOUR_S,
    "30d": 30 * DAY_S,
}
"""Burn rates that are told."""
LEAST_BAD = 10
"""Bad requests in a rule's long window."""
LEAST_BAD_SHORT = 3
LEAST_FOR_ATTAINMENT = 100
"""Requests in an objective's whole window, for a verdict on it."""
MOST_SHARE = 0.8
"""No rule asks for a larger share of bad requests: objectives below 94 % would never reach 14.4."""


@dataclass(frozen=True, slots=True)
class BurnRule:
    """It holds while the budget burns this fast in both windows."""

    name: str
    factor: float
    long_s: float
    short_s: float
    severity: Literal["critical", "warning"]
    least_covered_s: float
    """A window that reaches back less says nothing yet."""
    least_share: float = 0.0
    """Of bad requests, whatever the factor says."""

    def share(self, target: float) -> float:
        """Of bad requests, that must be exceeded in both windows, where ``target`` (0 to 1) is to be good."""
        return max(min(self.factor * (1.0 - target), MOST_SHARE), self.least_share)


BURN_RULES: Sequence[BurnRule] = (
    BurnRule("outage", 14.4, MINUTE_S, MINUTE_S / 2, "critical", MINUTE_S / 2, least_share=0.5),
    BurnRule("fast", 14.4, HOUR_S, 5 * MINUTE_S, "critical", 5 * MINUTE_S),
    BurnRule("slow", 6.0, 6 * HOUR_S, HOUR_S / 2, "warning", 3 * HOUR_S),
    BurnRule("lasting", 1.0, 3 * DAY_S, 6 * HOUR_S, "warning", 1.5 * DAY_S),
)
"""The most urgent first."""


@dataclass(frozen=True, slots=True)
class ObjectiveTarget:
    """What is promised."""

    kind: ObjectiveKind
    target: float
    """Share of requests that is to be good, below 1."""
    within_s: float | None
    """Until when a request, or its first token, is good; ``None`` for success."""
    window_s: float

    @property
    def words(self) -> str:
        """``99 % of requests within 2 s``."""
        share = f"{100 * self.target:.6g} %"
        if self.kind == "success":
            return f"{share} of requests do not fail"
        what = "requests served" if self.kind == "latency" else "first tokens"
        return f"{share} of {what} within {self.within_s:g} s"


@dataclass(frozen=True, slots=True)
class ObjectiveStatus:
    """How an objective stands."""

    target: ObjectiveTarget
    whole: WindowCount
    """Of its window."""
    attained: float | None
    """Share of good requests in its window; ``None``: too few to tell."""
    budget_left: float | None
    """Share of the error budget that is left: 1 is all of it, negative is overdrawn; ``None`` likewise."""
    burn: Mapping[str, float | None]
    """Window of SHOWN_WINDOWS → burn rate; ``None``: no request counted there."""
    burning: BurnRule | None
    """The most urgent rule that holds."""
    untold: str = ""
    """Why it cannot be told how it stands, in words; empty: it can, or too few requests have come."""


@dataclass(frozen=True, slots=True)
class FleetObjectives:
    """How the objectives of one fleet stand."""

    fleet: str
    objectives: Sequence[ObjectiveStatus]


def status(target: ObjectiveTarget, series: CountSeries, now: float, *, untold: str = "") -> ObjectiveStatus:
    whole = series.window(now, target.window_s)
    allowed = 1.0 - target.target
    knows = whole.total >= LEAST_FOR_ATTAINMENT
    return ObjectiveStatus(
        target,
        whole,
        whole.good / whole.total if knows else None,
        1.0 - whole.bad_share / allowed if knows else None,
        {name: _burn(series.window(now, seconds), allowed) for name, seconds in SHOWN_WINDOWS.items()},
        next((rule for rule in BURN_RULES if _holds(rule, target.target, series, now)), None),
        untold,
    )


def _burn(window: WindowCount, allowed: float) -> float | None:
    return window.bad_share / allowed if window.total else None


def _holds(rule: BurnRule, target: float, series: CountSeries, now: float) -> bool:
    long, short = series.window(now, rule.long_s), series.window(now, rule.short_s)
    if long.bad < LEAST_BAD or short.bad < LEAST_BAD_SHORT or long.covered_s < rule.least_covered_s:
        return False
    share = rule.share(target)
    return long.bad_share > share and short.bad_share > share
