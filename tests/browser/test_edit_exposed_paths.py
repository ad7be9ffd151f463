"""What a fleet exposes, by page: chosen in the form; a fleet from before the setting says so."""

import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.measuring import Measuring
from tests.browser.site import Site
from tests.proxy_process import until

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
PICTURES = os.environ.get("PICTURES", "")
"""A folder for pictures of the form, to look at."""


def picture(page: Page, name: str) -> None:
    for scheme in ("light", "dark") if PICTURES else ():
        page.evaluate(f"document.documentElement.dataset.theme = '{scheme}'")
        page.screenshot(path=Path(PICTURES) / f"{name}-{scheme}.png", full_page=True)


def test_paths_are_chosen_and_each_choice_says_what_it_means(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet(("a",), 9100)
    assert site.api("GET", f"/fleets/{name}")["expose"] == "inference"
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Edit fleet").click()
    form = page.get_by_role("region", name=f"Fleet {name}")
    choice = form.get_by_label("Exposed paths")
    expect(choice).to_have_value("inference")
    expect(choice.locator("option")).to_have_text(["calls of its API", "listed paths", "everything"])
    expect(form).to_contain_text("everything but known management paths")
    choice.select_option("all")
    expect(form).to_contain_text("or stop the server")
    expect(form.get_by_label("The same as a command")).to_contain_text('{"expose":"all"}')
    choice.select_option("paths")
    form.get_by_label("Paths", exact=True).fill("/v1, classify")
    picture(page, "expose-form")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text('"classify" does not begin with a slash')
    form.get_by_label("Paths", exact=True).fill("/v1, /classify")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("status").last).to_contain_text("saved")
    assert site.api("GET", f"/fleets/{name}")["expose"] == ["/v1", "/classify"]
    choice.select_option("inference")
    form.get_by_role("button", name="Save").click()
    until(lambda: site.api("GET", f"/fleets/{name}")["expose"] == "inference", "it is saved")


def is_from_before(site: Site, name: str) -> None:
    with sqlite3.connect(Path(site.environment["SWITCHYARD_DATA_DIR"]) / "db.sqlite3") as database:
        database.execute("UPDATE controlplane_fleet SET expose = NULL WHERE name = ?", (name,))
    database.close()


def test_a_fleet_from_before_names_its_replicas_out_of_service_first(
    open_page: Open, new_fleet: Callable[..., str], site: Site, measuring: Measuring
) -> None:
    name = new_fleet(("a", "b"), 9200)
    is_from_before(site, name)
    site.api("PATCH", f"/fleets/{name}/replicas/b", {"admin_state": "maintenance"})
    measuring.would_refuse = 0
    banner = open_page(f"/fleets/{name}").locator(".banner")
    expect(banner).to_contain_text("Not all replicas take requests")
    expect(banner).to_contain_text(
        re.compile(
            r"b is maintenance.* 1 replica takes the requests\. Clients reach every path of the replicas\."
        )
    )


def test_a_fleet_from_before_says_so_until_it_is_set(
    open_page: Open, new_fleet: Callable[..., str], site: Site, measuring: Measuring
) -> None:
    name = new_fleet(("a",), 9300)
    is_from_before(site, name)
    measuring.would_refuse = 7
    page = open_page(f"/fleets/{name}")
    expect(page.get_by_text("Clients reach every path of the replicas")).to_be_visible()
    expect(page.get_by_text("7 requests since the proxies started would be refused")).to_be_visible()
    page.get_by_role("button", name="Edit fleet").click()
    form = page.get_by_role("region", name=f"Fleet {name}")
    choice = form.get_by_label("Exposed paths")
    expect(choice).to_have_value("")
    expect(form).to_contain_text("is counted")
    picture(page, "expose-before")
    # Another change leaves it open as it was.
    form.get_by_label("Aliases").fill(f"alias-of-{name}")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("status").last).to_contain_text("saved")
    assert site.api("GET", f"/fleets/{name}")["expose"] is None
    choice.select_option("inference")
    form.get_by_role("button", name="Save").click()
    until(lambda: site.api("GET", f"/fleets/{name}")["expose"] == "inference", "it is saved")
    measuring.would_refuse = None
    expect(page.get_by_text("Clients reach every path of the replicas")).to_be_hidden()
