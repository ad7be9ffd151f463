"""Attainment, budget and burn over series of counts, in simulated time."""

from collections.abc import Callable
from random import Random

import pytest

from controlplane.objectives.burn_rate import DAY_S, HOUR_S, ObjectiveTarget, status
from controlplane.objectives.count_series import CountPoint, CountSeries

NOW = 1_800_000_000.0
STEP_S = 10.0
SUCCESS = ObjectiveTarget("success", 0.999, None, 30 * DAY_S)
LATENCY = ObjectiveTarget("latency", 0.99, 2.0, 30 * DAY_S)


def fed(
    series: CountSeries, since: float, until: float, rps: float, bad: Callable[[int], int]
) -> CountSeries:
    """``bad``: of so many requests of a step."""
    at = since
    while at < until:
        at += STEP_S
        total = round(rps * STEP_S)
        series.add(at, total - bad(total), total)
    return series


def steady(share: float) -> Callable[[int], int]:
    return lambda total: round(total * share)


def test_a_window_is_exact_to_its_step() -> None:
    series = fed(CountSeries(), NOW - 7200, NOW, 50, steady(0.0))
    series.add(NOW + 5, 0, 7)
    hour = series.window(NOW + 5, 3600)
    assert (hour.bad, hour.total) == (7, 361 * 500 + 7 - 500)
    assert series.window(NOW, 10 * DAY_S).covered_s == pytest.approx(7210, abs=20)
    assert CountSeries().window(NOW, 60) == (0, 0, 0.0)


def test_what_is_older_than_a_day_is_kept_each_five_minutes_and_stays_exact() -> None:
    series = fed(CountSeries(), NOW - 3 * DAY_S, NOW, 1, steady(0.0))
    assert len(series.points) < DAY_S / 10 + 2 * DAY_S / 300 + 2 * 360
    assert series.window(NOW, 2 * DAY_S).total == pytest.approx(2 * DAY_S, abs=300)
    assert series.points[-1].total - series.points[0].total == pytest.approx(3 * DAY_S, abs=310)


def test_attainment_and_budget() -> None:
    series = fed(CountSeries(), NOW - HOUR_S, NOW, 50, steady(0.002))
    found = status(LATENCY, series, NOW)
    assert found.attained == pytest.approx(0.998)
    assert found.budget_left == pytest.approx(0.8)
    assert found.burn["5m"] == pytest.approx(0.2)
    overdrawn = status(SUCCESS, series, NOW)
    assert overdrawn.budget_left == pytest.approx(-1.0)


def test_too_little_traffic_has_no_verdict() -> None:
    series = CountSeries([CountPoint(NOW - 600, 0, 0)])
    for minute in range(9):
        series.add(NOW - 540 + 60 * minute, 0, 1)  # nine requests, all bad
    found = status(SUCCESS, series, NOW)
    assert (found.attained, found.budget_left, found.burning) == (None, None, None)
    assert status(SUCCESS, CountSeries(), NOW).burn == {"5m": None, "1h": None, "6h": None, "30d": None}


@pytest.mark.parametrize(
    ("target", "share", "lasts_s", "rule"),
    [
        (SUCCESS, 1.0, 40, "outage"),
        (LATENCY, 1.0, 40, "outage"),
        (LATENCY, 1.0, 20, None),
        (SUCCESS, 0.03, 2400, "fast"),
        (SUCCESS, 0.03, 600, None),
        (SUCCESS, 0.008, 6 * 3600, "slow"),
        (SUCCESS, 0.002, 2.5 * DAY_S, "lasting"),
        (SUCCESS, 0.0005, 2 * DAY_S, None),
        (ObjectiveTarget("latency", 0.8, 1.0, DAY_S), 0.9, 3500, "outage"),
        (ObjectiveTarget("latency", 0.8, 1.0, DAY_S), 0.3, 3500, None),
    ],
)  # fmt: skip
def test_each_rule_fires_at_its_burn(
    target: ObjectiveTarget, share: float, lasts_s: float, rule: str | None
) -> None:
    """After three days on which all was well, at 5 requests a second."""
    series = fed(CountSeries(), NOW - lasts_s - 3 * DAY_S, NOW - lasts_s, 5, steady(0.0))
    fed(
        series,
        NOW - lasts_s,
        NOW,
        5,
        lambda total: min(total, round(total * share + 0.499)) if share == 1 else _spread(total, share),
    )
    found = status(target, series, NOW)
    assert (found.burning.name if found.burning else None) == rule


_carry = [0.0]


def _spread(total: int, share: float) -> int:
    """Of small steps, so many that the share comes out in the end."""
    _carry[0] += total * share
    whole = int(_carry[0])
    _carry[0] -= whole
    return whole


def test_it_no_longer_burns_soon_after_the_trouble_is_over() -> None:
    series = fed(CountSeries(), NOW - DAY_S, NOW - 1800, 50, steady(0.0))
    fed(series, NOW - 1800, NOW, 50, steady(0.5))
    assert status(SUCCESS, series, NOW).burning is not None
    for minutes in (4, 6):
        fed(series, series.points[-1].at, NOW + 60 * minutes, 50, steady(0.0))
    burning = status(SUCCESS, series, NOW + 360).burning
    assert burning is not None
    assert burning.name == "slow"


def test_a_month_of_chance_within_the_objective_burns_nothing() -> None:
    """Failures by chance, a third of what is allowed, at a rate that changes with the day."""
    rng, series, burnt = Random(5), CountSeries(), set[str]()
    for step in range(int(2 * DAY_S / 60)):
        at = NOW + 60 * step
        total = rng.randrange(0, 240)
        bad = sum(rng.random() < 0.001 / 3 for _ in range(total))
        series.add(at, total - bad, total)
        if found := status(SUCCESS, series, at).burning:
            burnt.add(found.name)
    assert burnt == set()
