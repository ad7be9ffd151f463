"""Forms of sources on the fleet's page: tried, made, changed and undone, paused, listed again, deleted."""

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import findings
from tests.browser.following import Following
from tests.browser.site import LOOKER, OPERATOR, Site

pytestmark = pytest.mark.browser
Open = Callable[..., Page]


def write(following: Following, *names: str) -> None:
    listed = [{"name": name, "url": f"http://127.0.0.1:{9300 + ord(name)}"} for name in names]
    (following.folder / "new").write_text(json.dumps(listed))
    (following.folder / "new").rename(following.folder / "shelf.json")


def test_a_source_is_tried_made_changed_paused_and_deleted(
    open_page: Open, new_fleet: Callable[..., str], site: Site, following: Following
) -> None:
    following.all_pass()  # it runs, and has made the folder
    write(following, "a", "b", "c")
    name = new_fleet(("a",))
    page = open_page(f"/fleets/{name}")
    panel = page.get_by_role("region", name="Sources of replicas").or_(page.locator("#sources")).first
    panel = page.locator("#sources")
    expect(panel).to_contain_text("People register the replicas of this fleet")

    page.get_by_role("button", name="Add source").click()
    form = panel.locator("form")
    expect(form.get_by_label("Name", exact=True)).to_be_focused()
    form.get_by_label("Name", exact=True).fill("shelf")
    form.get_by_label("Kind").select_option("file")
    form.get_by_role("button", name="Create and follow").click()
    wrong = form.get_by_role("alert")
    expect(wrong).to_contain_text("must be the path of a file below the folder of SWITCHYARD_SOURCES_DIR")
    expect(form.get_by_label("File")).to_be_focused()
    form.get_by_label("File").fill("shelf.json")
    expect(form.locator("pre, code").first).to_contain_text('"file":{"path":"shelf.json"}')
    form.get_by_role("button", name="Try").click()
    seen = form.locator("[data-source-trial]")
    expect(seen).to_contain_text("It lists 3 replicas: 2 would be registered")
    expect(seen).to_contain_text(
        "Would be registered: b at http://127.0.0.1:9398, c at http://127.0.0.1:9399"
    )
    expect(seen).to_contain_text("Left alone: a")
    form.get_by_label("File").fill("shelf.yaml")
    expect(form.locator("[data-source-trial]")).to_contain_text("have not been tried yet")
    form.get_by_role("button", name="Try").click()
    expect(seen).to_contain_text("It does not answer: there is no file shelf.yaml")
    form.get_by_label("File").fill("shelf.json")
    assert findings(page) == []
    page.keyboard.press("Enter")

    row = page.locator('[data-source="shelf"]')
    expect(row).to_contain_text("followed")
    expect(row.locator('[data-label="Replicas"]')).to_contain_text("2")
    expect(page.locator("[data-source-done]")).to_contain_text("shelf is made")

    row.get_by_role("button", name="Edit shelf").click()
    change = page.get_by_role("region", name="Edit shelf")
    change.get_by_text("Of every replica that it lists").click()
    change.get_by_label("Site").fill("east")
    expect(change.get_by_role("button", name="Try")).to_be_enabled()
    change.get_by_role("button", name="Try").click()
    expect(change.locator("[data-source-trial]")).to_contain_text("2 would change")
    expect(change.locator("[data-source-trial]")).to_contain_text("b: site: not set → east")
    change.get_by_role("button", name="Save").click()
    done = page.locator("[data-source-done]")
    expect(done).to_contain_text("shelf is changed: replica.site: not set → east")
    expect(row.get_by_role("button", name="Edit shelf")).to_be_focused()
    done.get_by_role("button", name="Undo").click()
    expect(done).to_contain_text("shelf is as it was: replica.site: east → not set")
    assert site.api("GET", f"/fleets/{name}/sources/shelf")["replica"] == {}

    write(following, "a", "b", "c", "d")
    row.get_by_role("button", name="List shelf now").click()
    expect(done).to_contain_text("shelf was listed: 4 replicas")
    expect(row.locator('[data-label="Replicas"]')).to_contain_text("3")

    row.get_by_role("button", name="Pause shelf").click()
    expect(row).to_contain_text("paused: its replicas stay as they are")
    expect(done).to_contain_text("shelf is paused: it is not followed; its 3 replicas stay as they are")
    expect(row.get_by_role("button", name="List shelf now")).to_have_count(0)
    row.get_by_role("button", name="Resume shelf").click()
    expect(row).to_contain_text("followed")

    row.get_by_role("button", name="Delete shelf").click()
    confirm = page.get_by_role("form", name="Delete shelf")
    expect(confirm).to_contain_text("Its 3 replicas stay and go on serving, and are people's from then on")
    page.keyboard.press("Escape")
    expect(row.get_by_role("button", name="Delete shelf")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("form", name="Delete shelf").get_by_role("button", name="Delete shelf").click()
    expect(done).to_contain_text("shelf is deleted. 3 replicas of it are people's now.")
    expect(panel).to_contain_text("People register the replicas")
    expect(page.get_by_role("button", name="Add source")).to_be_focused()
    expect(page.locator('[data-replica="b"]')).not_to_contain_text("from shelf")


def test_what_a_source_says_of_a_replica_is_locked_in_its_form(
    open_page: Open, new_fleet: Callable[..., str], site: Site, following: Following
) -> None:
    following.all_pass()
    write(following, "b")
    name = new_fleet(("a",))
    site.api("POST", f"/fleets/{name}/sources", {"name": "shelf", "file": {"path": "shelf.json"}})
    page = open_page(f"/fleets/{name}")
    expect(page.locator('[data-source="shelf"]')).to_contain_text("followed")
    following.all_pass()
    expect(page.locator('[data-replica="b"]')).to_contain_text("from shelf")
    page.get_by_role("button", name="Edit b", exact=True).click()
    form = page.get_by_role("form", name="Edit b")
    expect(form).to_contain_text("change that in its file")
    for label in (
        "URL",
        "Hardware class",
        "Max concurrency",
        "Site",
        "Version",
        "LoRA adapters",
        "Credential",
    ):
        expect(form.get_by_label(label, exact=True)).to_be_disabled()
    weight = form.get_by_label("Weight", exact=True)
    expect(weight).to_be_focused()
    weight.fill("2.5")
    form.get_by_role("button", name="Save").click()
    expect(page.locator('[data-note="b"]')).to_contain_text("saved")
    page.get_by_role("button", name="Edit a", exact=True).click()
    expect(page.get_by_role("form", name="Edit a").get_by_label("URL", exact=True)).to_be_enabled()


def test_who_may_not_change_sources_sees_no_buttons_that_fail(
    open_page: Open, new_fleet: Callable[..., str], site: Site, following: Following
) -> None:
    following.all_pass()
    write(following, "b")
    name = new_fleet(("a",))
    site.api("PATCH", f"/fleets/{name}", {"labels": {"team": "search"}})
    looking = open_page(f"/fleets/{name}", LOOKER)
    expect(looking.locator('[data-replica="a"]')).to_be_visible()
    expect(looking.locator("#sources")).to_have_count(0)
    site.api("POST", f"/fleets/{name}/sources", {"name": "shelf", "file": {"path": "shelf.json"}})
    row = looking.locator('[data-source="shelf"]')
    expect(row).to_contain_text("followed")
    expect(row.get_by_role("button")).to_have_count(0)
    operating = open_page(f"/fleets/{name}", OPERATOR).locator('[data-source="shelf"]')
    expect(operating.get_by_role("button")).to_have_count(1)
    operating.get_by_role("button", name="List shelf now").click()
