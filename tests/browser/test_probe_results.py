"""The last probe results of a replica, in its row, and a probe at once."""

import time
from collections.abc import Callable

import pytest
import redis
from playwright.sync_api import Page, expect

from controlplane.probes import keys, last_results
from tests.browser.measuring import Measuring
from tests.browser.site import Site
from tests.proxy_process import until

pytestmark = pytest.mark.browser


def put(client: "redis.Redis", uid: str, ago_s: float, answer: str, *, passed: bool) -> None:
    """As a probe's result is stored."""
    at_ms = int((time.time() - ago_s) * 1000)
    result = last_results.encode(latency_s=0.004, passed=passed, answer=answer)
    client.lpush(keys.RESULTS + uid, f"{at_ms} {result}")


def test_equal_results_are_one_line_and_a_probe_at_once_is_the_newest(
    open_page: Callable[..., Page], new_fleet: Callable[..., str], site: Site, measuring: Measuring
) -> None:
    name = new_fleet(("a", "b"))
    uid = site.api("GET", f"/fleets/{name}/replicas/a")["uid"]
    for number in range(5):
        put(measuring.redis, uid, 100.0 - number, "200 OK", passed=True)
    put(measuring.redis, uid, 3.0, "503 Loading model", passed=False)
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Probe results of a").click()
    shown = page.get_by_role("region", name="Probe results of a")
    expect(shown.locator("tbody tr")).to_have_count(2)
    newest, oldest = shown.locator("tbody tr").all()
    expect(newest).to_contain_text("failed")
    expect(newest).to_contain_text("503 Loading model")
    expect(oldest.locator("td").nth(1)).to_have_text("5")
    expect(oldest).to_contain_text("4.0 ms")
    shown.get_by_role("button", name="Probe now").click()

    def is_told() -> bool:
        # The request looks which result is the newest when it comes, so one may be too early.
        put(measuring.redis, uid, 0.0, "200 OK", passed=True)
        return shown.get_by_role("status").inner_text() == "Probed just now."

    until(is_told, "the probe's result is told")
    expect(shown.locator("tbody tr").first).to_contain_text("passed")
    page.keyboard.press("Escape")
    expect(shown).to_have_count(0)
