"""Pages for a role in some fleets: what is not for it is not there, and what it may do is."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.site import OPERATOR, Site

pytestmark = pytest.mark.browser
Open = Callable[..., Page]


def test_labels_are_given_in_the_form(open_page: Open, new_fleet: Callable[..., str], site: Site) -> None:
    name = new_fleet(("a",))
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Edit fleet").click()
    form = page.get_by_role("region", name=f"Fleet {name}")
    form.get_by_label("Labels").fill("Team=search")
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("is not a valid label")
    form.get_by_label("Labels").fill("team=search, env=prod")
    page.keyboard.press("Enter")
    expect(form.get_by_role("status").last).to_contain_text("saved")
    assert site.api("GET", f"/fleets/{name}")["labels"] == {"team": "search", "env": "prod"}


def test_a_team_operates_its_fleets_and_sees_no_others(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    own, other = new_fleet(("a",)), new_fleet(("a",))
    site.api("PATCH", f"/fleets/{own}", {"labels": {"team": "search"}})
    page = open_page("/", user=OPERATOR)
    navigation = page.get_by_role("navigation", name="Pages")
    expect(navigation.get_by_role("link", name=own)).to_be_visible()
    expect(page.get_by_role("main").get_by_role("link", name=own).first).to_be_visible()
    expect(page.get_by_role("link", name=other)).to_have_count(0)
    for missing in ("Client keys", "System"):
        expect(navigation.get_by_role("link", name=missing)).to_have_count(0)
    expect(page.get_by_role("button", name="New fleet")).to_have_count(0)
    page.goto(f"/fleets/{own}")
    expect(page.get_by_role("button", name="Drain a")).to_be_visible()
    expect(page.get_by_label("Strategy")).to_be_enabled()
    expect(page.get_by_role("button", name="Edit fleet")).to_have_count(0)
    missing_page = page.goto(f"/fleets/{other}")
    assert missing_page is not None
    assert missing_page.status == 404
    refused = page.goto("/system")
    assert refused is not None
    assert refused.status == 403
    expect(
        page.get_by_text("This page needs a role for all fleets; yours is operate team=search.")
    ).to_be_visible()
