"""A fleet's objectives by page: what is promised is set in the policy; how it stands is told in numbers."""

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from controlplane.objectives import published
from controlplane.objectives.burn_rate import FleetObjectives, status
from controlplane.objectives.count_series import CountPoint, CountSeries
from controlplane.objectives.promises import of_policy
from routing.contract.policy import Slo
from tests.browser.axe import findings
from tests.browser.measuring import Measuring
from tests.browser.site import Site

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
SLO = Slo(latency_s=2.0, first_token_s=0.5, availability_percent=99.9)


def count(measuring: Measuring, fleet: str, untold: str = "") -> None:
    """As whoever counts publishes it: success well, latency overdrawn and broken now, few streams."""
    now = time.time()
    points = {
        "success": [CountPoint(now - 86_400, 0, 0), CountPoint(now, 99_960, 100_000)],
        "latency": [
            CountPoint(now - 86_400, 0, 0),
            CountPoint(now - 60, 98_000, 98_000),
            CountPoint(now, 98_000, 100_000),
        ],
        "first_token": [CountPoint(now - 600, 0, 0), CountPoint(now, 12, 12)],
    }
    stand = [
        status(target, CountSeries(points[target.kind]), now, untold=untold if target.within_s == 0.5 else "")
        for target in of_policy(SLO)
    ]
    published.publish(measuring.redis, [FleetObjectives(fleet, stand)], now)


def test_how_objectives_stand_is_told_in_numbers(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring
) -> None:
    name = new_fleet()
    count(measuring, name)
    page = open_page(f"/fleets/{name}")
    rows = page.locator("tr[data-objective]")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("99.9 % of requests do not fail, over 30 d")
    expect(rows.nth(0)).to_contain_text("met")
    expect(rows.nth(0)).to_contain_text("99.96 %")
    expect(rows.nth(0)).to_contain_text("40 bad of 100,000 requests")
    expect(rows.nth(1)).to_contain_text("broken")
    expect(rows.nth(1)).to_contain_text("-100 %")
    expect(rows.nth(2)).to_contain_text("too few requests to tell")
    count(measuring, name, untold="no streamed answer among 40 requests in 5 min: it cannot be told")
    expect(rows.nth(2)).to_contain_text("nothing streams")
    expect(rows.nth(2)).to_contain_text("no streamed answer among 40 requests in 5 min")
    assert findings(page) == []


def test_objectives_are_set_in_the_policy(open_page: Open, new_fleet: Callable[..., str], site: Site) -> None:
    name = new_fleet()
    page = open_page(f"/fleets/{name}")
    form = page.get_by_role("region", name=re.compile("^Policy"))
    form.get_by_label("Latency objective").fill("700")
    form.get_by_role("button", name="Apply").click()
    expect(form.get_by_role("alert").first).to_contain_text("must be below timeouts.total_s, which is 600")
    form.get_by_label("Latency objective").fill("2")
    form.get_by_label("Success objective").fill("99.9")
    form.get_by_role("button", name="Apply").click()
    expect(page.locator("tr[data-objective]")).to_have_count(0)  # nobody has counted yet
    expect(form.get_by_role("alert")).to_have_count(0)
    assert site.api("GET", f"/fleets/{name}/policy")["set"]["slo"] == {
        "latency_s": 2.0,
        "availability_percent": 99.9,
    }
