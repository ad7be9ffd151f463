"""A form that brings fleets to one host, of which one exposes more than inference, is confirmed."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.site import Site
from tests.proxy_process import free_port

pytestmark = pytest.mark.browser
Open = Callable[..., Page]


@pytest.fixture
def taken(site: Site) -> Iterator[str]:
    """A URL at which a fleet exposes everything."""
    url = f"http://127.0.0.1:{free_port()}"
    rows = [{"name": "a", "url": url}]
    site.api(
        "POST",
        "/fleets?trial=no",
        {"name": "taken", "protocol": "generic", "expose": "all", "replicas": rows},
    )
    yield url
    site.api("DELETE", "/fleets/taken?confirm=taken")


def asks(page: Page, name: str) -> None:
    words = page.get_by_role("alert")
    expect(words).to_contain_text(f"{name} (exposes inference), taken (exposes all).")
    expect(words).to_contain_text("Do it once more to confirm.")
    expect(words).not_to_contain_text("?confirm=")


def test_a_replica_is_registered(
    open_page: Open, new_fleet: Callable[..., str], site: Site, taken: str
) -> None:
    """Also where the form has tried it already, and says so in the address that it sends to."""
    name = new_fleet(("a",))
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Register replica").click()
    form = page.get_by_role("region", name="Register a replica")
    form.get_by_label("URL").fill(taken)
    form.get_by_role("button", name="Try").click()
    expect(form.locator("[data-trial]")).to_contain_text("nothing listens")
    form.get_by_label("Name").fill("new")
    with page.expect_request(lambda request: request.method == "POST" and "replicas?trial=no" in request.url):
        form.get_by_role("button", name="Register", exact=True).click()
    asks(page, name)
    form.get_by_role("button", name="Register", exact=True).click()
    expect(form.get_by_role("status").last).to_contain_text("new is registered.")
    assert site.api("GET", f"/fleets/{name}/replicas/new")["url"] == taken


def test_a_url_is_changed_and_that_is_undone_and_a_removal_too(
    open_page: Open, new_fleet: Callable[..., str], site: Site, taken: str
) -> None:
    name = new_fleet(("a", "b"))
    path = f"/fleets/{name}/replicas/b"
    page = open_page(f"/fleets/{name}")

    def save(url: str) -> None:
        page.get_by_role("button", name="Edit b").click()
        field = page.get_by_role("form", name="Edit b").get_by_label("URL")
        field.fill(url)
        field.press("Enter")

    save(taken)
    asks(page, name)
    page.get_by_role("form", name="Edit b").get_by_label("URL").press("Enter")
    row = page.locator("tr[data-replica='b']")
    expect(row).to_contain_text(taken.removeprefix("http://"))
    save("http://127.0.0.1:1/elsewhere")
    expect(row).to_contain_text("/elsewhere")
    undo = page.get_by_role("button", name="Undo the change of b")
    undo.click()
    expect(page.get_by_text("Do it once more to confirm.")).to_be_visible()
    undo.click()
    expect(row).to_contain_text(taken.removeprefix("http://"))
    assert site.api("GET", path)["url"] == taken

    page.get_by_role("button", name="Edit b").click()
    page.get_by_role("button", name="Remove …").click()
    page.get_by_role("button", name="Remove b").click()
    back = page.get_by_role("button", name="Undo the removal of b")
    back.click()
    expect(page.get_by_text("Do it once more to confirm.")).to_be_visible()
    back.click()
    expect(back).to_be_hidden()
    assert site.api("GET", path)["url"] == taken


def test_paths_are_exposed(open_page: Open, new_fleet: Callable[..., str], site: Site, taken: str) -> None:
    site.api("PATCH", "/fleets/taken", {"expose": "inference"})
    name = new_fleet(())
    site.api("POST", f"/fleets/{name}/replicas?trial=no", {"name": "a", "url": taken})
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Edit fleet").click()
    form = page.get_by_role("region", name=f"Fleet {name}")
    form.get_by_label("Exposed paths").select_option("all")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text(f"{name} (exposes all), taken (exposes inference).")
    assert site.api("GET", f"/fleets/{name}")["expose"] == "inference"
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("status").last).to_contain_text("saved")
    assert site.api("GET", f"/fleets/{name}")["expose"] == "all"
    site.api("PATCH", f"/fleets/{name}", {"expose": "inference"})
