"""axe-core over every page, in both themes: nothing serious keeps anybody out."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import findings
from tests.browser.conftest import Watched
from tests.browser.measuring import Measuring
from tests.browser.pages import Address, addresses, each, parameters, wait_until_drawn
from tests.browser.site import Site

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
OPEN_DETAILS = "() => document.querySelectorAll('details').forEach((it) => { it.open = true; })"


@pytest.fixture
def busy_fleet(new_fleet: Callable[..., str], measuring: Measuring, site: Site) -> str:
    """One with something of each kind on its page."""
    name = new_fleet(("a", "b", "c", "d"))
    site.api("PATCH", f"/fleets/{name}/replicas/a", {"admin_state": "draining"})
    site.api("PATCH", f"/fleets/{name}/replicas/c", {"weight": 2.5})
    measuring.states["b"] = ("ejected", "5 timeouts in 8 s; probation in 6 s. Probe: 200 in 31 ms")
    measuring.states["d"] = ("down", "Refused: nothing listens at 127.0.0.1:9003.")
    return name


@each(addresses())
def test_nothing_serious(open_page: Open, watched: Watched, busy_fleet: str, address: Address) -> None:
    path = address.path(parameters(busy_fleet, "a"))
    if address.stranger:
        page = watched.page()
        page.goto(path)
    else:
        page = open_page(path)
    wait_until_drawn(page)
    page.evaluate(OPEN_DETAILS)
    assert findings(page) == []
    for index in range(page.locator("[data-panel]").count()):
        opener = page.locator("[data-panel]").nth(index)
        if opener.is_visible() and opener.is_enabled():
            opener.click()
            assert findings(page) == []
            page.keyboard.press("Escape")


def test_nothing_serious_where_something_went_wrong(watched: Watched) -> None:
    page = watched.page()
    page.goto("/login")
    page.get_by_label("Name").fill("nobody")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert findings(page) == []


def test_nothing_serious_in_what_an_event_changed(open_page: Open, busy_fleet: str) -> None:
    page = open_page(f"/events?fleet={busy_fleet}&since=24h&search=a")
    page.get_by_role("button", name="Changes").first.click()
    expect(page.locator(".entry-audit").first).to_be_visible()
    page.get_by_role("combobox", name="When").select_option("between")
    page.get_by_role("button", name="Admin").click()
    expect(page.get_by_role("button", name="Admin")).to_have_attribute("aria-pressed", "true")
    assert findings(page) == []


def test_axe_finds_what_is_wrong(watched: Watched) -> None:
    """Otherwise the tests above would say nothing."""
    page = watched.page()
    page.goto("/login")
    page.evaluate("() => { const it = document.forms[0].username; it.closest('label').replaceWith(it); }")
    assert [finding.split(":")[1] for finding in findings(page)] == [" critical label"] * 2
