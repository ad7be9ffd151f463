"""The system page: every part in words, live, also when half of it is gone and when Redis is."""

import signal
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.site import Site
from tests.conftest import RedisServer
from tests.proxy_process import Proxy, until

pytestmark = pytest.mark.browser
Open = Callable[..., Page]


def test_what_runs_and_what_is_missing(open_page: Open, proxy: Proxy) -> None:
    page = open_page("/")
    page.get_by_role("link", name="System", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("System")
    expect(page.locator("[data-worker]")).to_have_count(2)
    expect(page.locator("[data-part='proxies']")).to_contain_text("1 proxy with 2 workers reports.")
    expect(page.locator("[data-part='redis']")).to_contain_text("MiB")
    expect(page.locator("[data-part='database']")).to_contain_text("well")
    worker = page.locator("[data-part='worker']")
    expect(worker).to_contain_text("missing")
    expect(worker).to_contain_text("Start one: .venv/bin/celery")
    expect(worker.locator("svg.is-down")).to_have_count(1)  # a shape besides the colour
    expect(page.locator("[data-process^='web/']")).to_contain_text("well")
    expect(page.locator(".banner")).to_contain_text("Conductor, Celery workers, Beat")
    expect(page.locator("[data-badge]")).to_contain_text("live")


def test_it_moves_and_can_be_searched(open_page: Open, proxy: Proxy) -> None:
    page = open_page("/system")
    cell = page.locator("[data-worker] td[data-label='Up']").first
    expect(cell).to_contain_text(" s")
    seen = {cell.inner_text()}
    until(lambda: seen.add(cell.inner_text()) or len(seen) >= 3, "three different ages are shown")
    page.keyboard.press("/")
    page.keyboard.type(page.locator("[data-worker]").nth(1).get_attribute("data-worker") or "")
    expect(page.locator("[data-worker]")).to_have_count(1)
    page.keyboard.type(" nothing like it")
    expect(page.get_by_text("No proxy worker matches")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("[data-worker]")).to_have_count(2)


def test_while_redis_is_away(open_page: Open, proxy: Proxy, redis_server: RedisServer, watched: Any) -> None:
    page = open_page("/system")
    expect(page.locator("[data-worker]")).to_have_count(2)
    redis_server.stop()
    expect(page.locator("[data-part='redis']")).to_contain_text("away")
    expect(page.locator("[data-part='proxies']")).to_contain_text("unknown")
    expect(page.locator(".banner")).to_contain_text("proxies route from their last table")
    expect(page.get_by_text("Unknown while Redis does not answer: reports go through it")).to_be_visible()
    redis_server.start()
    expect(page.locator("[data-worker]")).to_have_count(2)


def test_while_redis_hangs_the_verdict_stays(
    open_page: Open, site: Site, proxy: Proxy, redis_server: RedisServer
) -> None:
    """The answers say so, and soon. In the end the server gives none at all: the page is not live, and says
    why all the same."""
    page = open_page("/system")
    expect(page.locator("[data-worker]")).to_have_count(2)
    assert redis_server.process is not None
    assert site.process is not None
    redis_server.process.send_signal(signal.SIGSTOP)
    try:
        banner = page.locator(".banner")
        expect(banner).to_contain_text("Redis")
        site.process.send_signal(signal.SIGSTOP)
        expect(banner).to_contain_text("Not live:")
        expect(banner).to_contain_text("Redis")
        expect(banner).to_contain_text("The server does not answer; trying again")
    finally:
        redis_server.process.send_signal(signal.SIGCONT)
        site.process.send_signal(signal.SIGCONT)


def test_while_the_server_is_gone(open_page: Open, site: Site, watched: Any) -> None:
    watched.expected += ["ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET"]
    page = open_page("/system")
    expect(page.locator("[data-part='database']")).to_contain_text("well")
    site.stop()
    expect(page.locator(".banner")).to_contain_text("Not live")
    expect(page.locator("[data-badge]")).to_contain_text("stale")
    site.start()
    expect(page.locator("[data-badge]")).to_contain_text("live")


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_sticks_out(open_page: Open, proxy: Proxy, width: int) -> None:
    page = open_page("/system", viewport={"width": width, "height": 800})
    expect(page.locator("[data-worker]")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") == width
