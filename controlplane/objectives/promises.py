"""Promises: the objectives of a policy. Pure."""

from controlplane.objectives.burn_rate import DAY_S, ObjectiveTarget
from routing.contract.policy import Slo


def of_policy(slo: Slo) -> list[ObjectiveTarget]:
    """In the order in which they are shown; empty: nothing is promised."""
    window_s, share = slo.window_days * DAY_S, slo.percentile / 100
    found = []
    if slo.availability_percent is not None:
        found.append(ObjectiveTarget("success", slo.availability_percent / 100, None, window_s))
    if slo.latency_s is not None:
        found.append(ObjectiveTarget("latency", share, slo.latency_s, window_s))
    if slo.first_token_s is not None:
        found.append(ObjectiveTarget("first_token", share, slo.first_token_s, window_s))
    return found


def series_key(target: ObjectiveTarget) -> str:
    """Of the series that counts for it: with another limit, what was counted before says nothing."""
    return target.kind if target.within_s is None else f"{target.kind}:{target.within_s:g}"
