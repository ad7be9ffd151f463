"""Hardware classes and accelerators by page: create, change, delete; errors stand at their field, nothing
typed is lost."""

import itertools
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from controlplane.telemetry.frames import MovingLive, StayingLive
from tests.browser.axe import findings
from tests.browser.measuring import Measuring
from tests.browser.site import LOOKER, Site

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
_numbers = itertools.count(1)


@pytest.fixture
def new_class(site: Site) -> Callable[[float], str]:
    def make(weight: float) -> str:
        name = f"class-{next(_numbers)}"
        site.api("POST", "/hardware-classes", {"name": name, "weight": weight})
        return name

    return make


def test_is_made_after_what_was_wrong_was_said_at_its_field(open_page: Open, site: Site) -> None:
    page = open_page("/hardware")
    opener = page.get_by_role("button", name="New hardware class")
    opener.click()
    form = page.get_by_role("region", name="New hardware class")
    expect(form.get_by_label("Name")).to_be_focused()
    page.keyboard.type("tpu-v5")
    form.get_by_label("Weight").fill("-1")
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_have_text("must be from 0 to 1000, not -1")
    expect(form.get_by_label("Weight")).to_be_focused()
    expect(form.get_by_label("Weight")).to_have_attribute("aria-invalid", "true")
    expect(form.get_by_label("Name")).to_have_value("tpu-v5")
    page.keyboard.press("Escape")
    expect(form).to_be_hidden()
    expect(opener).to_be_focused()
    opener.click()
    expect(form.get_by_label("Name")).to_have_value("tpu-v5")
    form.get_by_label("Weight").fill("2,5")
    expect(form.get_by_label("The same as a command")).to_contain_text('{"name":"tpu-v5","weight":2.5}')
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-hardware='tpu-v5']")).to_contain_text("2.5")
    assert site.api("GET", "/hardware-classes/tpu-v5")["weight"] == 2.5


def test_a_taken_name_is_said_at_the_name(open_page: Open, new_class: Callable[[float], str]) -> None:
    name = new_class(1.0)
    page = open_page("/hardware")
    page.get_by_role("button", name="New hardware class").click()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text(f"There is a hardware class {name} already")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()


def test_a_weight_is_changed_in_its_row(
    open_page: Open, new_class: Callable[[float], str], site: Site
) -> None:
    name = new_class(1.0)
    page = open_page("/hardware")
    page.get_by_role("button", name=f"Change the weight of {name}").click()
    field = page.get_by_label("Weight", exact=True)
    expect(field).to_be_focused()
    field.fill("3")
    field.press("Enter")
    expect(page.locator(f"tr[data-hardware='{name}']")).to_contain_text("3.0")
    expect(page.get_by_role("button", name=f"Change the weight of {name}")).to_be_focused()
    assert site.api("GET", f"/hardware-classes/{name}")["weight"] == 3.0


def test_a_weight_of_0_for_all_that_serves_is_saved_once_more_to_confirm(
    open_page: Open, new_class: Callable[[float], str], new_fleet: Callable[..., str], site: Site
) -> None:
    name, fleet = new_class(2.0), new_fleet(("a",))
    site.api("PATCH", f"/fleets/{fleet}/replicas/a", {"hardware": name})
    page = open_page("/hardware")
    page.get_by_role("button", name=f"Change the weight of {name}").click()
    field = page.get_by_label("Weight", exact=True)
    field.fill("0")
    field.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text(f"go out at once: {fleet}/a.")
    expect(page.get_by_role("alert")).to_contain_text("Do it once more to confirm.")
    assert site.api("GET", f"/hardware-classes/{name}")["weight"] == 2.0
    field.press("Enter")
    expect(page.locator(f"tr[data-hardware='{name}']")).to_contain_text("0.0")
    assert site.api("GET", f"/hardware-classes/{name}")["weight"] == 0.0


def test_one_in_use_stays_and_says_who_uses_it(
    open_page: Open, new_class: Callable[[float], str], new_fleet: Callable[..., str], site: Site
) -> None:
    name, fleet = new_class(2.0), new_fleet(("a",))
    site.api("PATCH", f"/fleets/{fleet}/replicas/a", {"hardware": name})
    page = open_page("/hardware")
    row = page.locator(f"tr[data-hardware='{name}']")
    expect(row).to_contain_text("1 replica")
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name=f"Delete {name}", exact=True).last.click()
    expect(page.get_by_role("alert")).to_contain_text(f"in use by {fleet}/a")
    site.api("PATCH", f"/fleets/{fleet}/replicas/a", {"hardware": None})
    expect(row).to_contain_text("0 replicas")
    page.get_by_role("button", name=f"Delete {name}", exact=True).last.click()
    expect(row).to_have_count(0)


GIB = 2**30


def test_an_accelerator_is_made_filled_and_never_made_too_small(
    open_page: Open, new_fleet: Callable[..., str], site: Site, measuring: Measuring
) -> None:
    name, fleet = f"node{next(_numbers)}/gpu0", new_fleet(("a",))
    page = open_page("/hardware")
    page.get_by_role("button", name="New accelerator").click()
    form = page.get_by_role("region", name="New accelerator")
    expect(form.get_by_label("Name")).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Tab")
    page.keyboard.type("80 potatoes")
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_have_text(
        'must be an amount of memory, such as 80 GiB, 512 MiB or a number of bytes, not "80 potatoes"'
    )
    expect(form.get_by_label("Memory")).to_be_focused()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("80 gib")
    expect(form).to_contain_text("Understood as 80 GiB: 85,899,345,920 bytes.")
    page.keyboard.press("Enter")
    row = page.locator(f"tr[data-accelerator='{name}']")
    expect(row).to_contain_text("80 GiB")
    holds = {"accelerators": [name], "memory_bytes": 70 * GIB}
    site.api("PATCH", f"/fleets/{fleet}/replicas/a", holds)
    measuring.leased[name] = 3 * GIB // 2
    expect(row).to_contain_text(f"{fleet}/a 70 GiB")
    expect(row.locator("[data-label='Held all the time']")).to_have_text("70 GiB of 76 GiB")
    expect(row.locator("[data-label='Leased now']")).to_have_text("1.5 GiB of 6 GiB")
    row.get_by_role("button", name="Change").click()
    field = page.get_by_role("form", name=f"Change {name}").get_by_label("Memory")
    expect(field).to_be_focused()
    page.keyboard.type("64 GiB")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text(f"replicas hold {fleet}/a 70 GiB, 9.2 GiB too much")
    expect(field).to_be_focused()
    page.keyboard.press("Escape")
    expect(row.get_by_role("button", name="Change")).to_be_focused()
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name=f"Delete {name}", exact=True).last.click()
    expect(page.get_by_role("alert")).to_contain_text(f"in use by {fleet}/a")
    site.api("DELETE", f"/fleets/{fleet}?confirm={fleet}")
    page.get_by_role("button", name=f"Delete {name}", exact=True).last.click()
    expect(row).to_have_count(0)


def test_a_viewer_sees_no_forms(open_page: Open, new_class: Callable[[float], str]) -> None:
    name = new_class(1.0)
    page = open_page("/hardware", user=LOOKER)
    expect(page.locator(f"tr[data-hardware='{name}']")).to_be_visible()
    expect(page.get_by_role("button", name="New hardware class")).to_have_count(0)
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)


def test_all_replicas_on_an_accelerator_or_its_host_are_drained_and_activated(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring, site: Site
) -> None:
    fleet = new_fleet(("a", "b", "c", "d", "e", "f", "g"))
    number = next(_numbers)
    for index, replica in enumerate("ab"):
        device = f"rack{number}/gpu{index}"
        site.api("POST", "/accelerators", {"name": device, "memory_bytes": 80 * 2**30})
        site.api("PATCH", f"/fleets/{fleet}/replicas/{replica}", {"accelerators": [device]})
        staying = [StayingLive(reason="plain", requests=1, words="not streamed")]
        measuring.moving[replica] = MovingLive(
            movable=2, movable_prompt_tokens=600, staying=staying, moved=0, moved_prompt_tokens=0
        )
    page = open_page("/hardware")
    opener = page.get_by_role("button", name=f"Drain rack{number}/gpu0")
    opener.click()
    form = page.get_by_role("form", name=f"Drain rack{number}/gpu0")
    expect(form).to_contain_text(f"{fleet}/a active · 3 in flight")
    expect(form).to_contain_text("2 of 3 requests in flight go on at other replicas")
    form.get_by_label(f"host rack{number}").check()
    expect(form).to_contain_text(f"{fleet}/b active · 3 in flight")
    expect(form).to_contain_text("4 of 6 requests in flight go on at other replicas")
    expect(form).to_contain_text("some 1.2K prompt tokens")
    expect(form).to_contain_text("2 finish there: 2 not streamed.")
    sent = f'{{"host":"rack{number}","move":true}}'
    expect(form.get_by_label("The same as a command")).to_contain_text(sent)
    assert findings(page) == []
    form.get_by_role("button", name="Drain 2 replicas").click()
    expect(form).to_contain_text("6 requests still in flight")

    def states() -> set[tuple[str, bool]]:
        replicas = [site.api("GET", f"/fleets/{fleet}/replicas/{name}") for name in "ab"]
        return {(one["admin_state"], one["move"]) for one in replicas}

    assert states() == {("draining", True)}
    measuring.in_flight.update(a=0, b=0)
    measuring.moving.clear()
    expect(form).to_contain_text("safe to stop: nothing in flight, no new requests")
    form.get_by_role("button", name="Activate 2 replicas").click()
    expect(form.get_by_role("button", name="Drain 2 replicas")).to_be_enabled()
    assert states() == {("active", False)}
    form.get_by_label("Move streams").focus()
    page.keyboard.press("Escape")
    expect(form).to_be_hidden()
    expect(opener).to_be_focused()


def test_to_drain_most_of_what_serves_is_said_and_confirmed(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    fleet = new_fleet(("a",))
    device = f"rack{next(_numbers)}/gpu0"
    site.api("POST", "/accelerators", {"name": device, "memory_bytes": 80 * 2**30})
    site.api("PATCH", f"/fleets/{fleet}/replicas/a", {"accelerators": [device]})
    page = open_page("/hardware")
    page.get_by_role("button", name=f"Drain {device}").click()
    form = page.get_by_role("form", name=f"Drain {device}")
    form.get_by_role("button", name="Drain 1 replica").click()
    expect(form.get_by_role("alert")).to_contain_text("Do it once more to confirm.")
    assert site.api("GET", f"/fleets/{fleet}/replicas/a")["admin_state"] == "active"
    form.get_by_role("button", name="Drain 1 replica").click()
    expect(form.get_by_role("button", name="Activate 1 replica")).to_be_visible()
    assert site.api("GET", f"/fleets/{fleet}/replicas/a")["admin_state"] == "draining"
