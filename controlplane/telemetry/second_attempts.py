"""Second attempts of a fleet, for pages and the API: all workers together. Pure."""

from collections import Counter
from collections.abc import Sequence
from statistics import median

from controlplane.telemetry.frames import SecondAttemptsLive
from routing.contract.telemetry import FleetCounters


def second_attempts(told: Sequence[FleetCounters]) -> SecondAttemptsLive | None:
    """``None``: no worker reports of the fleet."""
    if not told:
        return None
    results: Counter[str] = Counter()
    not_sent: Counter[str] = Counter()
    for one in told:
        results.update(one.second_attempts)
        not_sent.update(one.not_sent_twice)
    limits = [one.first_token_limit_s for one in told if one.first_token_limit_s is not None]
    return SecondAttemptsLive(
        results=dict(results), not_sent=dict(not_sent), limit_s=median(limits) if limits else None
    )
