"""Replicas by page: register with a trial at once, change in the row, undo, remove and bring back."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from routing.contract.fleet_file.replica_rules import REPLICA
from tests.browser.conftest import Watched
from tests.browser.site import LOOKER, Site
from tests.proxy_process import Replica, free_port

pytestmark = pytest.mark.browser
Open = Callable[..., Page]


@pytest.fixture
def server() -> Iterator[Replica]:
    """A model server that answers ``/health``."""
    running = Replica("new")
    yield running
    running.stop()


def row(page: Page, replica: str) -> Locator:
    return page.locator(f"tr[data-replica='{replica}']")


def registering(page: Page) -> Locator:
    page.get_by_role("button", name="Register replica").click()
    form = page.get_by_role("region", name="Register a replica")
    expect(form.get_by_label("URL")).to_be_focused()
    return form


def test_the_trial_speaks_and_the_row_comes_live(
    open_page: Open, new_fleet: Callable[..., str], site: Site, server: Replica
) -> None:
    name = new_fleet(("a",))
    site.api("PATCH", f"/fleets/{name}", {"probe": {"preset": "http", "path": "/health"}})
    page = open_page(f"/fleets/{name}")
    form = registering(page)
    page.keyboard.type(server.url)
    expect(form.get_by_label("Name")).to_have_value("127.0.0.1")
    page.keyboard.press("Tab")
    expect(form.locator("[data-trial]")).to_contain_text("200")
    expect(form.locator("[data-trial]")).to_have_attribute("data-trial", "ready")
    form.get_by_label("Name").fill("new")
    form.get_by_label("Max concurrency").fill("4")
    command = form.get_by_label("The same as a command")
    expect(command).to_contain_text(f'"name":"new","url":"{server.url}","max_concurrency":4')
    page.keyboard.press("Enter")
    expect(form.get_by_role("status").last).to_contain_text("new is registered.")
    expect(row(page, "new")).to_contain_text(server.url.removeprefix("http://"))
    expect(form.get_by_label("URL")).to_have_value("")
    assert site.api("GET", f"/fleets/{name}/replicas/new")["max_concurrency"] == 4


def test_a_probe_that_would_fit_is_offered(
    open_page: Open, new_fleet: Callable[..., str], site: Site, server: Replica
) -> None:
    name = new_fleet(("a",))
    site.api("PATCH", f"/fleets/{name}", {"probe": {"preset": "http", "path": "/health"}})
    server.health_status = 404
    page = open_page(f"/fleets/{name}")
    form = registering(page)
    page.keyboard.type(server.url)
    form.get_by_role("button", name="Try").click()
    expect(form.locator("[data-trial]")).to_contain_text("this server has no such path")
    form.get_by_role("button", name="Use this probe for the fleet").click()
    expect(form.locator("[data-trial]")).to_have_attribute("data-trial", "ready")
    assert site.api("GET", f"/fleets/{name}")["probe"]["path"] != "/health"


def test_weights_that_do_not_fit_are_told_at_their_field(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    """Found closed, the fields of memory open where something is wrong, and stay open while it is typed."""
    name, device = new_fleet(("a",)), "shared/gpu0"
    site.api("POST", "/accelerators", {"name": device, "memory_bytes": 10 * 2**30, "headroom_percent": 0})
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Edit a", exact=True).click()
    form = page.get_by_role("form", name="Edit a")
    memory = form.get_by_text("Memory on accelerators")
    memory.click()
    form.get_by_role("checkbox", name=device).check()
    field = form.get_by_label("Held memory")
    field.fill("12 GiB")
    memory.click()
    expect(field).to_be_hidden()
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("2 GiB too much")
    expect(field).to_be_focused()
    field.fill("")
    page.keyboard.type("6,5gib")
    expect(memory).to_contain_text(f"{device} · 6,5gib")
    page.keyboard.press("Enter")
    expect(form).to_be_hidden()
    saved = site.api("GET", f"/fleets/{name}/replicas/a")
    assert (saved["accelerators"], saved["memory_bytes"]) == ([device], 6.5 * 2**30)
    page.get_by_role("button", name="Edit a", exact=True).click()
    expect(memory).to_contain_text(f"{device} · 6.5 GiB")


def test_what_is_wrong_stands_at_its_field_and_nothing_typed_is_lost(
    open_page: Open, new_fleet: Callable[..., str]
) -> None:
    page = open_page(f"/fleets/{new_fleet(('a',))}")
    form = registering(page)
    page.keyboard.type("ftp://10.0.0.9")
    form.get_by_label("Name").fill("a")
    expect(form.get_by_role("alert")).to_contain_text('the scheme "ftp" is not supported')
    form.get_by_label("URL").fill(f"http://127.0.0.1:{free_port()}")
    form.get_by_label("Weight").fill("heavy")
    expect(form.locator("[data-trial]")).to_contain_text("connection refused")
    page.keyboard.press("Enter")
    expect(form.get_by_label("Weight")).to_be_focused()
    expect(form.get_by_label("Weight")).to_have_attribute("aria-invalid", "true")
    form.get_by_label("Weight").fill("")
    page.keyboard.press("Enter")
    expect(form.get_by_label("Name")).to_be_focused()
    expect(form.get_by_role("alert")).to_contain_text("has a replica a already")
    page.keyboard.press("Escape")
    expect(form).to_be_hidden()
    expect(page.get_by_role("button", name="Register replica")).to_be_focused()
    registering(page)
    expect(form.get_by_label("Name")).to_have_value("a")


def test_a_server_that_is_away_costs_nothing_that_was_typed(
    open_page: Open, watched: Watched, new_fleet: Callable[..., str], site: Site, server: Replica
) -> None:
    watched.expected += ["ERR_CONNECTION_REFUSED", "WebSocket connection"]
    name = new_fleet(("a",))
    page = open_page(f"/fleets/{name}")
    form = registering(page)
    page.keyboard.type(server.url)
    form.get_by_label("Name").fill("late")
    expect(form.locator("[data-trial]")).to_be_visible()
    site.stop()
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_have_text("The server cannot be reached.")
    site.start()
    expect(form.get_by_label("URL")).to_have_value(server.url)
    form.get_by_role("button", name="Register").click()
    expect(form.get_by_role("status").last).to_contain_text("late is registered.")


def test_is_changed_in_its_row_and_back(open_page: Open, new_fleet: Callable[..., str], site: Site) -> None:
    name = new_fleet(("a", "b"))
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Edit b").click()
    form = page.get_by_role("form", name="Edit b")
    expect(form.get_by_label("URL")).to_be_focused()
    form.get_by_label("URL").fill("http://127.0.0.1:1/base")
    form.get_by_label("Max concurrency").fill("7")
    form.get_by_label("URL").press("Enter")
    expect(page.get_by_role("button", name="Edit b")).to_be_focused()
    expect(row(page, "b")).to_contain_text("127.0.0.1:1/base")
    path = f"/fleets/{name}/replicas/b"
    assert site.api("GET", path)["max_concurrency"] == 7
    page.get_by_role("button", name="Undo the change of b").click()
    expect(row(page, "b")).to_contain_text("127.0.0.1:9001")
    assert site.api("GET", path)["max_concurrency"] is None


def test_is_removed_after_saying_what_that_does_and_brought_back(
    open_page: Open, new_fleet: Callable[..., str]
) -> None:
    page = open_page(f"/fleets/{new_fleet(('a', 'b'))}")
    page.get_by_role("button", name="Edit b").click()
    page.get_by_role("button", name="Remove …").click()
    form = page.get_by_role("form", name="Remove b")
    expect(form).to_contain_text(
        "3 requests in flight finish, no new requests go there. 1 eligible replica remains"
    )
    expect(form.get_by_role("button", name="Remove b")).to_be_focused()
    page.keyboard.press("Enter")
    expect(row(page, "b")).to_have_count(0)
    page.get_by_role("button", name="Undo the removal of b").click()
    expect(row(page, "b")).to_contain_text("127.0.0.1:9001")


def test_what_is_brought_back_has_all_its_settings(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet(("a", "b"))
    path = f"/fleets/{name}/replicas/b"
    site.api("POST", "/hardware-classes", {"name": "kept", "weight": 2.0})
    site.api("POST", "/accelerators", {"name": "kept/gpu0", "memory_bytes": 10 * 2**30})
    site.api("PATCH", f"/fleets/{name}", {"adapters": ["sql", "support"]})
    settings = {
        "hardware": "kept",
        "weight": 3.0,
        "max_concurrency": 7,
        "accelerators": ["kept/gpu0"],
        "memory_bytes": 2**30,
        "request_bytes": 2**20,
        "request_bytes_per_work": 2.5,
        "adapters": ["sql"],
        "site": "berlin",
        "version": "v2",
        "credential": "env:REPLICA_B_KEY",
        "admin_state": "draining",
        "move": True,
    }
    assert settings.keys() | {"name", "url"} == REPLICA.fields.keys()
    before = site.api("PATCH", path, settings)
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Edit b").click()
    page.get_by_role("button", name="Remove …").click()
    page.get_by_role("button", name="Remove b").click()
    expect(row(page, "b")).to_have_count(0)
    page.get_by_role("button", name="Undo the removal of b").click()
    expect(row(page, "b")).to_contain_text("127.0.0.1:9001")
    after = site.api("GET", path)
    assert after["uid"] != before["uid"]
    assert {one: after[one] for one in REPLICA.fields} == {one: before[one] for one in REPLICA.fields}
    assert settings.items() <= after.items()


def test_activating_and_weighing_can_be_undone(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet(("a", "b"))
    path = f"/fleets/{name}/replicas/a"
    site.api("PATCH", path, {"admin_state": "maintenance"})
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Activate a").click()
    page.get_by_role("button", name="Undo the change of a").click()
    expect(page.locator("tr[data-note='a']")).to_contain_text("undone")
    expect(page.get_by_role("button", name="Activate a")).to_be_visible()
    expect(row(page, "a")).to_contain_text("maintenance")
    assert site.api("GET", path)["admin_state"] == "maintenance"
    page.get_by_role("button", name="Weight of a: 1.0. Change").click()
    field = page.get_by_label("Weight of a", exact=True)
    field.fill("3")
    field.press("Enter")
    expect(page.get_by_role("button", name="Weight of a: 3.0. Change")).to_be_visible()
    page.get_by_role("button", name="Undo the change of a").click()
    expect(page.locator("tr[data-note='a']")).to_contain_text("undone")
    assert site.api("GET", path)["weight"] is None


def test_a_viewer_sees_no_forms(open_page: Open, new_fleet: Callable[..., str]) -> None:
    page = open_page(f"/fleets/{new_fleet(('a',))}", user=LOOKER)
    expect(row(page, "a")).to_contain_text("ready")
    for name in ("Register replica", "Edit fleet", "Edit a", "Roll back to revision 1"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
