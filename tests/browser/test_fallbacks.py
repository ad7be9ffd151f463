"""A policy's fallbacks in the form of a fleet's page, and what the page says of requests that fell back."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from controlplane.telemetry.frames import FallbackLive
from tests.browser.axe import findings
from tests.browser.measuring import Measuring
from tests.browser.site import LOOKER, Site

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
USUAL = ["no_eligible_replica", "no_place", "replicas_failed", "first_token"]


@pytest.fixture
def names(new_fleet: Callable[..., str], site: Site) -> Iterator[tuple[str, str, str]]:
    """Three fleets of one protocol; the first one's page is opened."""
    first, second, third = new_fleet(), new_fleet(), new_fleet()
    yield first, second, third
    for name in (first, second):
        site.api("PATCH", f"/fleets/{name}/policy", {"fallback": []})


def policy(page: Page) -> Locator:
    return page.get_by_role("region", name=re.compile("^Policy"))


def entered(panel: Locator, number: int) -> Locator:
    """The field of a new entry, which has the focus once it is there."""
    field = panel.get_by_label(f"Fallback {number}", exact=True).and_(panel.page.get_by_role("combobox"))
    expect(field).to_be_focused()
    return field


def stored(site: Site, fleet: str) -> object:
    return site.api("GET", f"/fleets/{fleet}/policy")["set"].get("fallback", [])


def test_fallbacks_are_added_ordered_and_taken_away(
    open_page: Open, names: tuple[str, str, str], site: Site
) -> None:
    name, second, third = names
    page = open_page(f"/fleets/{name}")
    panel = policy(page)
    apply = panel.get_by_role("button", name="Apply")
    expect(panel.get_by_label("Fallback budget")).to_have_count(0)
    panel.get_by_role("button", name="Add a fallback").click()
    field = entered(panel, 1)
    expect(page.locator("#fallback-fleets option")).not_to_have_count(0)
    offered = page.locator("#fallback-fleets option").evaluate_all("all => all.map(one => one.value)")
    assert name not in offered
    assert {second, third} <= set(offered)
    field.fill(second)
    entry = panel.get_by_role("group", name="Fallback 1")
    entry.get_by_label("too long for the model").check()
    entry.get_by_label("no first token in time").uncheck()
    entry.get_by_label("a client key for this fleet is enough").check()
    panel.get_by_label("Fallback budget").fill("25")
    expect(panel.get_by_label("The same as a command")).to_contain_text(f'"fallback":[{{"fleet":"{second}"')
    assert findings(page) == []
    apply.click()
    expect(panel).to_contain_text("revision 2")
    causes = ["no_eligible_replica", "no_place", "replicas_failed", "context_length_exceeded"]
    one = {"fleet": second, "causes": causes, "included": True}
    assert stored(site, name) == [one]
    assert site.api("GET", f"/fleets/{name}/policy")["set"]["fallback_budget_percent"] == 25.0

    panel.get_by_role("button", name="Add another fallback").click()
    entered(panel, 2)
    page.keyboard.type(third)
    panel.get_by_role("button", name="Try Fallback 2 earlier").click()
    apply.click()
    expect(panel).to_contain_text("revision 3")
    assert stored(site, name) == [{"fleet": third}, one]

    panel.get_by_role("button", name="Remove Fallback 1").click()
    panel.get_by_role("button", name="Remove Fallback 1").click()
    apply.click()
    expect(panel).to_contain_text("revision 4")
    assert stored(site, name) == []
    panel.get_by_role("button", name="back to revision 3").click()
    expect(panel.get_by_role("group", name="Fallback 2")).to_be_visible()
    assert stored(site, name) == [{"fleet": third}, one]


def test_what_is_wrong_stands_at_each_entry(open_page: Open, names: tuple[str, str, str], site: Site) -> None:
    name, second, _ = names
    site.api("PATCH", f"/fleets/{second}/policy", {"fallback": [{"fleet": name}]})
    page = open_page(f"/fleets/{name}")
    panel = policy(page)
    panel.get_by_role("button", name="Add a fallback").click()
    entered(panel, 1)
    page.keyboard.type("nothing like it ")
    expect(page.locator(":focus")).to_have_value("nothing like it ")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type(" nothing-like-it ")
    panel.get_by_role("button", name="Add another fallback").click()
    entered(panel, 2)
    page.keyboard.type(second)
    panel.get_by_role("button", name="Apply").click()
    first = panel.get_by_label("Fallback 1", exact=True).and_(page.get_by_role("combobox"))
    expect(first).to_have_attribute("aria-invalid", "true")
    expect(first).to_have_accessible_description(re.compile('unknown fleet "nothing-like-it"'))
    expect(first).to_be_focused()
    loop = panel.get_by_role("group", name="Fallback 2").get_by_role("alert")
    expect(loop).to_have_text(re.compile(f"leads back to fleet {name}"))
    assert findings(page) == []

    panel.get_by_role("button", name="Remove Fallback 1").click()
    expect(panel.get_by_role("alert")).to_have_count(0)
    entry = panel.get_by_role("group", name="Fallback 1")
    for box in entry.get_by_role("group", name="When").get_by_role("checkbox").all():
        box.uncheck()
    panel.get_by_role("button", name="Apply").click()
    expect(entry.get_by_role("alert").first).to_have_text("needs at least 1 of the causes")
    panel.get_by_role("button", name="Discard").click()
    expect(entry).to_have_count(0)
    assert stored(site, name) == []


def test_who_may_only_read_sees_them(open_page: Open, names: tuple[str, str, str], site: Site) -> None:
    name, second, _ = names
    site.api("PATCH", f"/fleets/{name}/policy", {"fallback": [{"fleet": second}]})
    panel = policy(open_page(f"/fleets/{name}", user=LOOKER))
    entry = panel.get_by_role("group", name="Fallback 1")
    expect(entry.get_by_role("combobox")).to_have_value(second)
    expect(entry.get_by_role("combobox")).to_be_disabled()
    expect(panel.get_by_role("button", name="Add another fallback")).to_be_disabled()


def test_requests_that_fell_back_are_counted_by_cause(
    open_page: Open, names: tuple[str, str, str], measuring: Measuring
) -> None:
    name, second, _ = names
    try:
        page = open_page(f"/fleets/{name}")
        panel = page.get_by_role("region", name="Fallbacks")
        expect(page.get_by_role("region", name="Queue")).to_be_visible()
        expect(panel).to_have_count(0)
        causes = {"no_place": 12, "replicas_failed": 1234}
        measuring.fallbacks = [FallbackLive(fleet=second, per_s=2.5, causes=causes)]
        expect(panel).to_contain_text(
            f"to {second}: the replicas failed 1.2K, no place in the queue in time 12"
        )
        expect(panel).to_contain_text("now")
        expect(panel.get_by_role("link", name=second)).to_have_attribute("href", f"/fleets/{second}")
        measuring.fallbacks, measuring.no_fallback = [], {"budget": 3}
        expect(panel).to_contain_text("stayed: over the budget 3")
        assert findings(page) == []
    finally:
        measuring.fallbacks, measuring.no_fallback = [], {}
