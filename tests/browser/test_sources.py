"""Sources on the fleet's page: who put a replica there, how sources are, what stays without their word."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.following import Following
from tests.browser.site import Site

pytestmark = pytest.mark.browser


def test_owners_and_sources_say_what_stays_without_a_word(
    open_page: Callable[..., Page], new_fleet: Callable[..., str], site: Site, following: Following
) -> None:
    def write(*names: str) -> None:
        listed = [{"name": name, "url": f"http://127.0.0.1:{9300 + ord(name)}"} for name in names]
        (following.folder / "new").write_text(json.dumps(listed))
        (following.folder / "new").rename(following.folder / "rack.json")

    write("b", "c", "d")
    name = new_fleet(("a",))
    source = {"name": "rack", "file": {"path": "rack.json"}, "resync_s": 1}
    site.api("POST", f"/fleets/{name}/sources", source)
    page = open_page(f"/fleets/{name}")
    panel = page.locator('[data-source="rack"]')
    expect(panel).to_contain_text("followed")
    expect(panel).to_contain_text("the fleet has what it lists")
    following.all_pass()
    rows = {each: page.locator(f'[data-replica="{each}"]') for each in "abc"}
    expect(rows["b"]).to_contain_text("from rack")
    expect(rows["a"]).not_to_contain_text("from rack")

    rows["b"].get_by_role("button", name="Edit b").click()
    form = page.get_by_role("form", name="Edit b")
    expect(form).to_contain_text("Source rack put it there and says what it is")
    expect(form.get_by_role("button", name="Remove …")).to_have_count(0)
    page.keyboard.press("Escape")

    write("b")
    expect(panel).to_contain_text("frozen")
    expect(panel.locator('[data-label="Frozen"]')).to_contain_text("2for")
    expect(rows["c"].locator("[data-frozen]")).to_contain_text("rack · frozen")
    (following.folder / "rack.json").unlink()
    expect(panel).to_contain_text("there is no file rack.json")
    expect(rows["b"].locator("[data-frozen]")).to_have_attribute(
        "title", re.compile(r"It has not answered for .* s: the replica stays")
    )
