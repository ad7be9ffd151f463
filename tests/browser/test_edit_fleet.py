"""Fleets by page: create, change, delete with the name typed; revisions with roll back and forward."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.site import Site
from tests.proxy_process import until

pytestmark = pytest.mark.browser
Open = Callable[..., Page]


def test_names_and_probe_are_changed_and_the_header_follows(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name, other = new_fleet(("a",)), new_fleet(("a",))
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Edit fleet").click()
    form = page.get_by_role("region", name=f"Fleet {name}")
    form.get_by_label("Aliases").fill(f"first-{name}, {other}")
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text(f"already the name of fleet {other}")
    expect(form.get_by_label("Aliases")).to_be_focused()
    form.get_by_label("Aliases").fill(f"first-{name}, second-{name}")
    form.get_by_label("Served model").fill("org/Model-8B")
    form.get_by_label("LoRA adapters").fill(f"sql-{name}, first-{name}")
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("Entry 2: ")
    form.get_by_label("LoRA adapters").fill(f"sql-{name}, code-{name}")
    form.get_by_label("Hosts and paths").fill(f"{name}.example:80/v1")
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("has a port: requests are matched by name alone")
    form.get_by_label("Hosts and paths").fill(f"{name}.example:80/v1, fine.example, b b.example")
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("Entry 1: ")
    expect(form.get_by_role("alert")).to_contain_text(". Entry 3: ")
    form.get_by_label("Hosts and paths").fill(f"{name}.example/v1, /{name}")
    form.get_by_label("CA for https").fill("file:ca.pem")
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("write the whole path")
    form.get_by_label("CA for https").fill("env:MODELS_CA")
    form.get_by_label("Probe preset").select_option("http")
    form.get_by_label("Probe path").fill("/healthz")
    expect(form.get_by_label("The same as a command")).to_contain_text(
        '"probe":{"preset":"http","path":"/healthz"}'
    )
    form.get_by_label("Served model").press("Enter")
    expect(form.get_by_role("status").last).to_contain_text("saved")
    expect(page.locator("[data-aliases]")).to_have_text(f"first-{name}, second-{name}")
    kept = site.api("GET", f"/fleets/{name}")
    expect(page.locator("[data-adapters]")).to_have_text(f"sql-{name}, code-{name}")
    assert kept["aliases"] == [f"first-{name}", f"second-{name}"]
    assert kept["adapters"] == [f"sql-{name}", f"code-{name}"]
    assert kept["match"] == [
        {"host": f"{name}.example", "path_prefix": "/v1"},
        {"host": "", "path_prefix": f"/{name}"},
    ]
    assert kept["tls"] == {"ca": "env:MODELS_CA", "server_name": ""}
    assert (kept["served_model"], kept["probe"]["path"]) == ("org/Model-8B", "/healthz")
    form.get_by_label("Probe preset").select_option("")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("button", name="Save")).to_be_disabled()
    until(
        lambda: site.api("GET", f"/fleets/{name}")["probe"]["path"] is None, "the preset's own path is back"
    )


def test_another_protocol_is_drawn_at_once_whoever_saved_it(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet(("a",))
    page = open_page(f"/fleets/{name}")
    spoken, request = page.locator("[data-spoken]"), page.get_by_label("A request through the proxy")
    expect(spoken).to_have_text("Open Inference Protocol (V2)")
    expect(request).to_contain_text(f"/v2/models/{name}")
    page.get_by_role("button", name="Edit fleet").click()
    form = page.get_by_role("region", name=f"Fleet {name}")
    form.get_by_label("Protocol").select_option("openai")
    form.get_by_role("button", name="Save").click()
    expect(spoken).to_have_text("OpenAI")
    expect(request).to_contain_text("/v1/chat/completions")
    site.api("PATCH", f"/fleets/{name}", {"protocol": "generic", "aliases": [f"also-{name}"]})
    expect(spoken).to_have_text("generic")
    expect(page.locator("[data-aliases]")).to_have_text(f"also-{name}")
    expect(request).to_contain_text(f"/fleets/{name}/")


def test_a_form_sent_after_the_session_ended_says_how_to_go_on(
    open_page: Open, new_fleet: Callable[..., str], site: Site, sessions: dict[str, object]
) -> None:
    name = new_fleet(("a",))
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Edit fleet").click()
    form = page.get_by_role("region", name=f"Fleet {name}")
    form.get_by_label("Served model").fill("kept")
    kept = page.context.cookies()
    page.context.clear_cookies()
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("You are signed out. Sign in again in another tab")
    page.context.add_cookies(kept)  # as signing in elsewhere does
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("status").last).to_contain_text("saved")
    assert site.api("GET", f"/fleets/{name}")["served_model"] == "kept"


def test_a_change_made_elsewhere_is_not_overwritten(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet(("a",))
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Edit fleet").click()
    form = page.get_by_role("region", name=f"Fleet {name}")
    form.get_by_label("Aliases").fill(f"mine-{name}")
    site.api("PATCH", f"/fleets/{name}", {"served_model": "theirs"})
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("Somebody else changed this meanwhile")
    expect(form.get_by_label("Aliases")).to_have_value(f"mine-{name}")
    expect(form.get_by_label("Served model")).to_have_value("theirs")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("status").last).to_contain_text("saved")
    kept = site.api("GET", f"/fleets/{name}")
    assert (kept["served_model"], kept["aliases"]) == ("theirs", [f"mine-{name}"])


def test_deleting_says_what_goes_and_wants_the_name(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet(("a", "b"))
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Edit fleet").click()
    page.get_by_role("button", name="Delete fleet …").click()
    form = page.get_by_role("region", name=f"Delete fleet {name}")
    expect(form).to_contain_text("2 replicas and all revisions, permanently. It serves 1")
    expect(form).to_contain_text("with 6 in flight")
    delete = form.get_by_role("button", name=f"Delete {name}")
    expect(delete).to_be_disabled()
    page.keyboard.type(name[:-1])
    expect(delete).to_be_disabled()
    page.keyboard.type(name[-1])
    page.keyboard.press("Enter")
    page.wait_for_url("**/")
    assert name not in [fleet["name"] for fleet in site.api("GET", "/fleets")["results"]]


def test_a_new_fleet_leads_to_registering_its_first_replica(open_page: Open, site: Site) -> None:
    page = open_page("/")
    page.get_by_role("button", name="New fleet").click()
    form = page.get_by_role("region", name="New fleet")
    expect(form.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type("Not A Name")
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("is not a valid name")
    form.get_by_label("Name", exact=True).fill("resnet-50")
    form.get_by_label("Protocol").select_option("open-inference")
    form.get_by_label("Strategy").select_option("round_robin")
    expect(form).to_contain_text("Takes turns")
    form.get_by_role("button", name="Create").click()
    page.wait_for_url("**/fleets/resnet-50#register")
    expect(page.get_by_label("URL")).to_be_focused()
    assert site.api("GET", "/fleets/resnet-50")["strategy"] == "round_robin"
    site.api("DELETE", "/fleets/resnet-50")


def test_a_revision_says_what_it_would_change_and_is_gone_back_to_and_forward(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet(("a",))
    site.api("PATCH", f"/fleets/{name}/policy", {"strategy": "round_robin", "slow_start_s": 12})
    site.api("PATCH", f"/fleets/{name}/replicas/a", {"weight": 2.5})
    page = open_page(f"/fleets/{name}")
    panel = page.get_by_role("region", name="Revisions")
    expect(panel.locator("[data-revision='2']")).to_contain_text(
        "strategy: least_expected_work → round_robin"
    )
    expect(panel.locator("[data-revision='3']")).to_contain_text("in force")
    preview = panel.get_by_role("form")
    panel.get_by_role("button", name="Roll back to revision 1").click()
    expect(preview).to_contain_text("strategy: round_robin → least_expected_work")
    expect(preview).to_contain_text("slow_start_s: 12 → 30")
    page.keyboard.press("Escape")
    expect(preview).to_be_hidden()
    panel.get_by_role("button", name="Roll back to revision 2").click()
    expect(preview).to_contain_text("a.weight: 2.5 → not set")
    page.keyboard.press("Escape")
    expect(panel.get_by_role("button", name="Roll back to revision 2")).to_be_focused()
    page.keyboard.press("Enter")
    expect(panel.get_by_role("button", name="Roll back", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(panel.locator("[data-revision='4']")).to_contain_text("in force")
    assert site.api("GET", f"/fleets/{name}/replicas/a")["weight"] is None
    panel.get_by_role("button", name="Roll back to revision 3").click()
    panel.get_by_role("button", name="Roll back", exact=True).click()
    expect(panel.locator("[data-revision='5']")).to_contain_text("in force")
    assert site.api("GET", f"/fleets/{name}/replicas/a")["weight"] == 2.5
