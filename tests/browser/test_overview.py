"""The overview: numbers that move, one sentence that says what is wrong, search, empty states."""

from collections.abc import Callable

import pytest
from msgspec import structs
from playwright.sync_api import Page, expect

from controlplane.scaling.signal import ScalingSignal
from controlplane.telemetry.frames import AffinityLive, ColdLive, ErrorReasonLive, QueueLive, SiteLive
from tests.browser.measuring import Measuring
from tests.browser.site import Site
from tests.proxy_process import until

pytestmark = pytest.mark.browser
Open = Callable[..., Page]


def test_numbers_move_without_a_reload(open_page: Open, new_fleet: Callable[..., str]) -> None:
    name = new_fleet()
    page = open_page("/")
    cell = page.locator(f"tr[data-fleet='{name}'] [data-cell='rps']")
    expect(cell).to_contain_text("/s")
    seen = {cell.inner_text()}
    until(lambda: seen.add(cell.inner_text()) or len(seen) >= 3, "three different rates are shown")
    expect(page.locator("[data-badge]")).to_contain_text("live")
    expect(page.locator(".uplot")).to_have_count(2)


def test_calm_when_nothing_is_wrong(open_page: Open, new_fleet: Callable[..., str]) -> None:
    new_fleet()
    banner = open_page("/").locator(".banner")
    expect(banner).to_contain_text("All is well")
    expect(banner).to_contain_text("All 3 replicas of 1 fleet take requests, through 2 proxy workers.")


@pytest.mark.long
def test_replicas_of_weight_0_take_no_requests_and_are_named(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet()
    site.api("PATCH", f"/fleets/{name}/replicas/b", {"weight": 0})
    page = open_page("/")
    fleet = page.context.new_page()
    fleet.goto(f"/fleets/{name}")
    expect(page.locator(".banner")).to_contain_text("2 of 3 replicas take requests")
    expect(page.locator(f"tr[data-fleet='{name}']")).to_contain_text("1 with weight 0")
    expect(page.get_by_role("region", name="All fleets")).to_contain_text("1 with weight 0")
    expect(fleet.locator(".banner")).to_contain_text("b has weight 0: no new requests go there.")
    expect(fleet.locator(".banner")).to_contain_text("2 replicas take the requests.")
    for replica in "ac":
        site.api("PATCH", f"/fleets/{name}/replicas/{replica}", {"weight": 0})
    expect(page.locator(".banner.bad")).to_contain_text(f"All replicas of {name} have weight 0")
    expect(page.locator(".banner")).to_contain_text("answered with 503. 3 with weight 0.")
    expect(fleet.locator(".banner.bad")).to_contain_text("All replicas have weight 0")
    expect(fleet.locator(".banner")).to_contain_text("a, b, c have weight 0")


def test_who_waits_and_who_is_refused_is_seen_at_a_glance(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring
) -> None:
    """In words and by a mark, on both pages: a queue in use, a slow one, a full one, a fleet that loads."""
    name = new_fleet()
    measuring.queue = QueueLive(waiting=12, size=256, oldest_wait_s=1.84, timeout_s=10.0, state="waiting")
    overview = open_page("/")
    fleet = overview.context.new_page()
    fleet.goto(f"/fleets/{name}")
    row, queue = overview.locator(f"tr[data-fleet='{name}']"), fleet.get_by_role("region", name="Queue")
    expect(row.locator("[data-cell='in-flight']")).to_contain_text("9/48")
    expect(row.locator("[data-queue='waiting']")).to_contain_text("12 of 256 queued, 1.8 s")
    expect(queue).to_contain_text("12 of 256 queued, the oldest for 1.8 s")
    affinity = fleet.get_by_role("region", name="Affinity")
    expect(affinity).to_have_count(0)
    measuring.affinity = AffinityLive(kept_per_s=90.0, spilled_per_s=10.0)
    expect(affinity).to_contain_text("90 % of 100 /s keyed requests went to their own replica10 % spilled")
    sites = fleet.get_by_role("region", name="Sites")
    expect(sites).to_have_count(0)
    measuring.sites = [SiteLive(name="east", stayed_per_s=46.0, spilled_per_s=4.0)]
    expect(sites).to_contain_text("east: 92 % stayed, 8 % spilled")
    tokens, errors = (fleet.get_by_role("region", name=name) for name in ("Tokens", "Errors"))
    expect(tokens).to_have_count(0)
    expect(errors).to_have_count(0)
    measuring.tokens = {
        "output_tokens_per_s": 840.0,
        "input_tokens_per_s": 2300.0,
        "first_token_p50_s": 0.21,
        "first_token_p95_s": 0.4,
        "first_token_p99_s": 1.31,
        "between_tokens_p50_s": 0.0121,
    }
    measuring.errors = [
        ErrorReasonLive(reason="timeout", words="a time limit of the policy passed", requests=7)
    ]
    expect(tokens).to_contain_text("840 /s out, 2,300 /s in")
    expect(tokens).to_contain_text("first after 210 ms · 400 ms · 1.31 s")
    expect(tokens).to_contain_text("then each 12 ms · – · –")
    expect(errors).to_contain_text("7: a time limit of the policy passed timeout")
    measuring.tokens, measuring.errors = {}, []
    expect(errors).to_have_count(0)
    expect(tokens, "it stays, so that the page does not jump").to_contain_text("first after – · – · –")
    expect(overview.locator(".banner")).to_contain_text("All is well")

    measuring.queue = structs.replace(measuring.queue, oldest_wait_s=5.4, state="late", queued_per_s=3.2)
    expect(row.locator("[data-queue='late'] .shape.is-late")).to_be_visible()
    expect(overview.locator(".banner.warn")).to_contain_text(f"Requests to {name} wait long")
    expect(fleet.locator(".banner.warn")).to_contain_text(
        "after 10.0 s in the queue a request is answered with 503."
    )
    expect(queue).to_contain_text("3.2 /s queued")

    full = {"waiting": 256, "state": "refusing", "full_per_s": 14.2}
    measuring.queue = structs.replace(measuring.queue, **full, short_for_s=130.0)
    expect(queue).to_contain_text("no free slots for 2 min")
    expect(fleet.get_by_role("region", name="Replicas needed")).to_have_count(0)
    measuring.scaling = ScalingSignal(
        desired=5, words="9 wait", taking=2, starting=1, arrivals_per_s=40.0, expected_per_s=44.0
    )
    needed = fleet.get_by_role("region", name="Replicas needed")
    expect(needed).to_contain_text("5, 2 more")
    expect(needed).to_contain_text("2 of 5 replicas take requests, 1 starts")
    expect(row.locator("[data-queue='refusing'] .shape.is-refusing")).to_be_visible()
    expect(row).to_contain_text("256 of 256 queued, 5.4 s · 14.2 /s refused")
    expect(overview.locator(".banner.bad")).to_contain_text(
        "14.2 /s are answered with 503. The queue is full: 256 of 256 queued"
    )
    expect(fleet.locator(".banner.bad")).to_contain_text("Requests are refused")

    measuring.queue, measuring.cold = QueueLive(size=256), ColdLive(loading=3, expected_in_s=38.0)
    measuring.states = dict.fromkeys("abc", ("checking", "503 Loading model, for 1 min"))
    expect(row).to_contain_text("loading: expected in about 40 s")
    expect(overview.locator(".banner")).to_contain_text("answered with 503 and Retry-After")
    expect(fleet.locator(".banner")).to_contain_text("No replica is ready yet")
    expect(row.locator("[data-queue]")).to_have_count(0)


def test_clients_that_are_turned_away_are_seen(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring
) -> None:
    new_fleet()
    measuring.refused_per_s = 42.0
    page = open_page("/")
    expect(page.locator(".banner.notice")).to_contain_text("Requests are refused")
    expect(page.locator(".banner")).to_contain_text("42.0 /s reach no fleet")
    expect(page.get_by_role("region", name="All fleets")).to_contain_text("42.0 /s refused")
    measuring.refused_per_s = 0.5  # of more than 100 /s
    expect(page.locator(".banner")).to_contain_text("All is well")


def test_says_which_fleet_lost_a_replica_and_leads_there(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring
) -> None:
    name = new_fleet()
    measuring.states["b"] = ("ejected", "5 timeouts in 8 s")
    page = open_page("/")
    expect(page.locator(".banner")).to_contain_text("1 replica out")
    expect(page.locator(".banner")).to_contain_text("1 ejected")
    page.get_by_role("link", name=f"Open {name}").click()
    expect(page.locator(".banner")).to_contain_text("b is ejected: 5 timeouts in 8 s")


def test_a_fleet_nobody_can_reach_is_the_worst_news(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring
) -> None:
    name = new_fleet(("a",))
    measuring.states["a"] = ("down", "connection refused")
    page = open_page("/")
    banner, own = page.locator(".banner"), page.context.new_page()
    own.goto(f"/fleets/{name}")
    expect(banner).to_contain_text(f"{name} has no eligible replica")
    expect(banner).to_contain_text("answered with 503")
    expect(own.locator(".banner.bad")).to_contain_text("Requests are answered with 503. a is down")
    measuring.covered = True
    expect(page.locator(".banner.warn")).to_contain_text(f"{name} has no eligible replica")
    expect(banner).to_contain_text("Its requests fall back to another fleet")
    expect(own.locator(".banner.warn")).to_contain_text("Requests fall back to another fleet. a is down")


def test_without_proxies_it_says_that_nobody_reports(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring
) -> None:
    new_fleet()
    measuring.workers = 0
    expect(open_page("/").locator(".banner")).to_contain_text("No proxy reports")


def test_slash_finds_a_fleet_and_enter_opens_it(open_page: Open, new_fleet: Callable[..., str]) -> None:
    first, second = new_fleet(), new_fleet()
    page = open_page("/")
    expect(page.locator("tr[data-fleet]")).to_have_count(2)
    page.keyboard.press("/")
    expect(page.get_by_label("Find fleet")).to_be_focused()
    page.keyboard.type("nothing like it")
    expect(page.get_by_text("No fleet is called")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("tr[data-fleet]")).to_have_count(2)
    page.keyboard.press("/")
    page.keyboard.type(second)
    expect(page.locator("tr[data-fleet]")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(second)
    assert first != second


def test_without_fleets_it_says_how_to_make_one(open_page: Open, measuring: Measuring) -> None:
    page = open_page("/")
    expect(page.get_by_role("heading", name="No fleets yet")).to_be_visible()
    expect(page.get_by_text("curl -X POST").first).to_contain_text("/api/v1/fleets")


def test_before_anything_is_measured_it_says_so(open_page: Open) -> None:
    page = open_page("/")
    expect(page.get_by_role("heading", name="No data yet")).to_be_visible()
    expect(page.get_by_text(".venv/bin/switchyard conductor")).to_be_visible()
    expect(page.locator("[data-badge]")).to_contain_text("no data yet")


def test_the_timeline_tells_changes_as_they_happen(open_page: Open, new_fleet: Callable[..., str]) -> None:
    name = new_fleet()
    page = open_page("/")
    expect(page.locator(".timeline")).to_contain_text("registered replica c")
    expect(page.locator(".timeline")).to_contain_text(name)
