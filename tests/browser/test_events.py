"""The events page: the timeline, filters in the address, what changed, and standing still while it grows."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Watched
from tests.browser.site import Site
from tests.proxy_process import until

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
LINES = "[data-event]"


def line(page: Page, words: str) -> Any:
    return page.locator(LINES).filter(has_text=words).first


def query(page: Page) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(page.url).query))


def test_a_line_leads_to_what_it_speaks_of(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet()
    site.api("PATCH", f"/fleets/{name}/policy", {"strategy": "round_robin"})
    page = open_page(f"/events?fleet={name}", timezone_id="Asia/Tokyo")
    expect(page.locator(LINES)).to_have_count(5)
    policy = line(page, "changed the policy")
    expect(policy.get_by_role("link", name="revision 2")).to_have_attribute(
        "href", f"/fleets/{name}#revision-2"
    )
    registered = line(page, "registered replica b")
    expect(registered.get_by_role("link", name="b", exact=True)).to_have_attribute(
        "href", f"/fleets/{name}?search=b"
    )
    expect(registered.locator(".state")).to_have_text("checking")
    at = site.api("GET", f"/events?fleet={name}&search=policy")["results"][0]["at"]
    moment = policy.locator("time")
    expect(moment).to_have_attribute("title", f"{at[:10]} {at[11:23]} UTC")
    expect(moment).to_have_text(f"{(int(at[11:13]) + 9) % 24:02d}:{at[14:19]}")


def test_what_changed_opens_in_place(open_page: Open, new_fleet: Callable[..., str], site: Site) -> None:
    name = new_fleet()
    site.api("PATCH", f"/fleets/{name}/replicas/a", {"weight": 2.5})
    page = open_page(f"/events?fleet={name}")
    opened = line(page, "changed the weight of a")
    button = opened.get_by_role("button", name="Changes: anna changed the weight of a")
    button.click()
    expect(opened.get_by_role("row", name="weight")).to_have_text("weightnot set2.5")
    expect(opened).to_contain_text(f"through the API, token {site.token[:9]}…")
    close = opened.get_by_role("button", name="Close changes: anna changed the weight of a")
    expect(close).to_have_attribute("aria-expanded", "true")
    close.click()
    expect(opened.locator(".entry-audit")).to_have_count(0)


def test_filters_stand_in_the_address_and_come_from_it(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet()
    other = new_fleet()
    site.api("PATCH", f"/fleets/{name}/replicas/a", {"admin_state": "draining"})
    page = open_page("/events")
    page.get_by_role("combobox", name="Fleet").select_option(name)
    expect(line(page, other)).to_have_count(0)
    page.get_by_role("button", name="Policy").click()
    expect(page.get_by_role("heading", name="No event matches these filters")).to_be_visible()
    page.get_by_role("button", name="Admin").click()
    page.get_by_role("combobox", name="Replica").fill("a")
    page.get_by_role("combobox", name="When").select_option("24h")
    page.get_by_label("Find event").fill("draining")
    expect(page.locator(LINES)).to_have_count(1)
    asked = {"fleet": name, "replica": "a", "kind": "policy,admin", "since": "24h", "search": "draining"}
    until(lambda: query(page) == asked, "the filters are in the address")
    same = open_page(urlsplit(page.url).path + "?" + urlsplit(page.url).query)
    expect(same.locator(LINES)).to_have_count(1)
    expect(same.get_by_role("combobox", name="Replica")).to_have_value("a")
    expect(same.get_by_role("button", name="Admin")).to_have_attribute("aria-pressed", "true")
    same.get_by_role("button", name="Clear filters").first.click()
    expect(line(same, other)).to_be_visible()
    assert query(same) == {}


@pytest.mark.long
def test_clearing_all_at_once_after_typing_clears_the_words_too(
    open_page: Open, new_fleet: Callable[..., str]
) -> None:
    name = new_fleet()
    other = new_fleet()
    page = open_page(f"/events?fleet={name}&search=registered")
    for typed in ("", "began"):  # nothing yet beside what the address brought; then other words
        if typed:
            page.get_by_label("Find event").fill(typed)
        page.get_by_role("button", name="Clear filters").first.click()
        page.evaluate("new Promise(done => setTimeout(done, 300))")  # longer than the wait for typing to end
        expect(page.get_by_label("Find event")).to_have_value("")
        expect(line(page, other)).to_be_visible()
        assert query(page) == {}


def test_new_events_come_by_themselves_and_leave_what_is_read_in_its_place(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet(tuple(f"node-{number}" for number in range(40)))
    page = open_page(f"/events?fleet={name}", viewport={"width": 1280, "height": 500})
    expect(page.locator(LINES)).to_have_count(41)
    site.api("PATCH", f"/fleets/{name}/replicas/node-1", {"admin_state": "draining"})
    expect(page.locator(LINES).first).to_contain_text("began draining node-1")
    assert page.evaluate("scrollY") == 0
    expect(page.locator(".above")).to_have_count(0)

    read = line(page, "registered replica node-20 ")
    read.evaluate("it => it.scrollIntoView({block: 'center'})")
    before = read.bounding_box()
    site.api("PATCH", f"/fleets/{name}/replicas/node-2", {"admin_state": "draining"})
    site.api("PATCH", f"/fleets/{name}/replicas/node-3", {"admin_state": "draining"})
    expect(page.locator(LINES)).to_have_count(44)
    after = read.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(after["y"] - before["y"]) <= 1
    page.get_by_role("button", name="2 new events above").click()
    expect(page.locator(LINES).first).to_be_focused()
    expect(page.locator(LINES).first).to_contain_text("node-3")
    assert page.evaluate("scrollY") == 0
    expect(page.locator(".above")).to_have_count(0)


@pytest.mark.long
def test_older_events_are_read_on_without_holes(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet(tuple(f"node-{number:03d}" for number in range(104)))
    page = open_page(f"/events?fleet={name}")
    expect(page.locator(LINES)).to_have_count(100)
    site.api("PATCH", f"/fleets/{name}/replicas/node-001", {"admin_state": "draining"})
    page.get_by_role("button", name="Older events").click()
    expect(page.locator(LINES)).to_have_count(106)
    ids = page.locator(LINES).evaluate_all("all => all.map(one => Number(one.dataset.event))")
    assert ids == sorted(set(ids), reverse=True)
    expect(page.get_by_text("No older events match these filters.")).to_be_visible()


def test_a_lost_server_makes_it_stale_and_its_return_live(
    open_page: Open, new_fleet: Callable[..., str], watched: Watched
) -> None:
    watched.expected.append("ERR_INTERNET_DISCONNECTED")
    page = open_page(f"/events?fleet={new_fleet()}")
    expect(page.locator(".badge")).to_contain_text("live")
    page.context.set_offline(True)
    expect(page.locator(".banner")).to_contain_text("Not live")
    expect(page.locator(".badge")).to_contain_text("stale")
    expect(page.locator(LINES).first).to_be_visible()
    page.context.set_offline(False)
    expect(page.locator(".badge")).to_contain_text("live")
    expect(page.locator(".banner")).to_have_count(0)


def test_when_nothing_can_be_read_it_says_so_and_tries_again(open_page: Open) -> None:
    page = open_page("/login")
    broken = {"title": "Internal Server Error", "status": 500, "detail": "Something broke.", "errors": []}
    refuse = lambda route: route.fulfill(status=500, body=json.dumps(broken))  # noqa: E731
    page.route("**/api/v1/events*", refuse)
    page.goto("/events")
    expect(page.get_by_role("heading", name="Events could not be read")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("Something broke.")
    page.unroute("**/api/v1/events*", refuse)
    page.get_by_role("button", name="Try now").click()
    expect(page.get_by_role("heading", name="Events could not be read")).to_have_count(0)


@pytest.mark.long
def test_nothing_yet_and_wrong_filters_have_words(open_page: Open) -> None:
    page = open_page("/events?fleet=never-was")
    expect(page.get_by_role("alert")).to_contain_text('There is no fleet "never-was"')
    page.get_by_role("button", name="Clear filters").first.click()
    expect(page.get_by_role("alert")).to_have_count(0)

    empty = open_page("/login")
    nothing = json.dumps({"next": None, "results": []})
    answer: Callable[[Route], None] = lambda route: route.fulfill(body=nothing)  # noqa: E731
    empty.route("**/api/v1/events*", answer)
    empty.goto("/events")
    expect(empty.get_by_role("heading", name="No events yet")).to_be_visible()


def test_by_keyboard(open_page: Open, new_fleet: Callable[..., str]) -> None:
    page = open_page(f"/events?fleet={new_fleet()}")
    expect(page.locator(LINES)).to_have_count(4)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator(LINES).nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(LINES).nth(1).locator(".entry-audit")).to_be_visible()
    page.keyboard.press("ArrowUp")
    expect(page.locator(LINES).first).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("/")
    expect(page.get_by_label("Find event")).to_be_focused()


def test_the_link_to_a_replica_finds_it_in_its_fleet(open_page: Open, new_fleet: Callable[..., str]) -> None:
    page = open_page(f"/events?fleet={new_fleet()}")
    line(page, "registered replica b").get_by_role("link", name="b", exact=True).click()
    expect(page.locator("tr[data-replica]")).to_have_count(1)
    expect(page.locator("tr[data-replica='b']")).to_be_visible()
    expect(page.get_by_label("Find replica")).to_have_value("b")
