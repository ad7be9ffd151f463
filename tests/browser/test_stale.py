"""What a page does when nothing comes any more: it looks old, says how old, and comes back whole."""

import re
import signal
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watched
from tests.browser.measuring import Measuring
from tests.browser.site import Site
from tests.conftest import RedisServer
from tests.proxy_process import until

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
STALE_WITHIN_MS = 4_500
"""3 s after the last frame, one tick of the page, and what a busy machine adds."""


def live(page: Page) -> None:
    expect(page.locator("html")).to_have_attribute("data-live", "live")


def test_looks_stale_when_measuring_stops_and_live_when_it_goes_on(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring
) -> None:
    page = open_page(f"/fleets/{new_fleet()}")
    live(page)
    measuring.pause()
    expect(page.locator("html")).to_have_attribute("data-live", "stale", timeout=STALE_WITHIN_MS)
    expect(page.locator("[data-badge]")).to_have_text(
        re.compile(r"stale · last update \d+(\.\d)? s ago · connected, but no new data comes")
    )
    expect(page.locator(".banner")).to_contain_text("Not live")
    expect(page.locator(".banner")).to_contain_text("the conductor sends nothing")
    assert "grayscale" in page.locator(".table-panel").first.evaluate("one => getComputedStyle(one).filter")
    measuring.resume()
    live(page)
    expect(page.locator(".banner")).to_contain_text("All is well")
    assert page.locator(".table-panel").first.evaluate("one => getComputedStyle(one).filter") == "none"


def test_comes_back_after_a_restart_of_the_server(
    open_page: Open, new_fleet: Callable[..., str], site: Site, watched: Watched
) -> None:
    page = open_page(f"/fleets/{new_fleet()}")
    live(page)
    watched.expected += ["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"]
    site.stop()
    expect(page.locator("html")).to_have_attribute("data-live", "stale", timeout=STALE_WITHIN_MS)
    expect(page.locator("[data-badge]")).to_contain_text("reconnecting")
    site.start()
    live(page)
    page.get_by_role("button", name="Drain a").click()
    expect(page.locator("tr[data-replica='a']")).to_contain_text("draining")


def test_a_page_opened_while_nothing_is_measured_is_stale_at_once(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring
) -> None:
    name = new_fleet()
    until(lambda: measuring.redis.exists(f"sy:live:fleet:{name}"), "a frame is stored")
    measuring.pause()
    stored = measuring.redis.get(f"sy:live:fleet:{name}")
    old = re.sub(rb'"at":(\d+)', lambda found: b'"at":%d' % (int(found[1]) - 3600), stored)
    measuring.redis.set(f"sy:live:fleet:{name}", old)
    page = open_page(f"/fleets/{name}")
    expect(page.locator("[data-badge]")).to_contain_text("stale · last update 60 min ago")


def test_signing_out_elsewhere_ends_the_page(
    open_page: Open, new_fleet: Callable[..., str], sessions: dict[str, object]
) -> None:
    page = open_page("/")
    new_fleet()
    live(page)
    other = page.context.new_page()
    other.goto("/")
    other.get_by_role("button", name="Sign out").click()
    sessions.clear()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.locator("[data-badge]")).to_contain_text("signed out", timeout=25_000)


@pytest.mark.long
def test_a_fleet_deleted_elsewhere_is_said_to_be_and_leaves_nothing_to_change(
    open_page: Open, empty: Site, new_fleet: Callable[..., str]
) -> None:
    name, other = new_fleet(), new_fleet()
    page = open_page(f"/fleets/{name}")
    beside = page.context.new_page()
    beside.goto(f"/fleets/{other}")
    live(page)
    expect(beside.get_by_role("navigation").get_by_role("link", name=name, exact=True)).to_be_visible()
    empty.api("DELETE", f"/fleets/{name}?confirm={name}")
    expect(page.locator(".banner")).to_contain_text(f"{name} was deleted")
    expect(page.locator("[data-badge]")).to_contain_text("this fleet was deleted")
    expect(page.locator(".timeline")).to_contain_text("deleted fleet")
    expect(page.get_by_role("button", name="Drain a")).to_have_count(0)
    expect(page.get_by_role("button", name="Edit fleet")).to_have_count(0)
    expect(beside.get_by_role("navigation").get_by_role("link", name=name, exact=True)).to_have_count(0)
    page.get_by_role("link", name="Open the overview").click()
    expect(page.locator(f"tr[data-fleet='{other}']")).to_be_visible()


def test_a_fleet_made_elsewhere_comes_into_the_navigation(
    open_page: Open, empty: Site, new_fleet: Callable[..., str]
) -> None:
    page = open_page("/hardware")
    name = new_fleet()
    expect(page.get_by_role("navigation").get_by_role("link", name=name, exact=True)).to_be_visible()


def test_while_redis_hangs_it_is_redis_that_is_named(
    open_page: Open, new_fleet: Callable[..., str], redis_server: RedisServer, measuring: Measuring
) -> None:
    """It is connected to and says nothing: neither the page nor the conductor is at fault."""
    page = open_page(f"/fleets/{new_fleet()}")
    live(page)
    assert redis_server.process is not None
    redis_server.process.send_signal(signal.SIGSTOP)
    try:
        expect(page.locator(".banner")).to_contain_text("Redis, which carries the numbers, cannot be used")
        expect(page.locator("[data-badge]")).to_contain_text("Redis cannot be used")
    finally:
        redis_server.process.send_signal(signal.SIGCONT)
    live(page)
    expect(page.locator(".banner")).not_to_contain_text("Redis")
