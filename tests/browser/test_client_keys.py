"""Client keys and API tokens: made on a page, shown once, used, revoked."""

import http.client
import itertools
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from controlplane.telemetry import frames
from tests.browser.axe import findings
from tests.browser.measuring import Measuring
from tests.browser.site import LOOKER, Site
from tests.browser.test_edit_setup import through
from tests.proxy_process import Proxy, until
from tests.routing.master.test_client_keys import ask as ask_for

pytestmark = pytest.mark.browser
Open = Callable[..., Page]

_numbers = itertools.count(1)


@pytest.fixture
def no_keys(site: Site) -> Iterator[Site]:
    """Other tests' proxies must not ask for keys, so all that a test makes is revoked."""
    revoke_all(site)
    yield site
    revoke_all(site)


def revoke_all(site: Site) -> None:
    for row in site.api("GET", "/client-keys")["results"]:
        site.api("DELETE", f"/client-keys/{row['id']}")
    site.api("PATCH", "/client-keys/settings", {"required": False})


def ask(port: int, key: str = "") -> int:
    return ask_for(port, key, "/v1/models")


def make(page: Page, name: str) -> str:
    """Makes the first key in the form, which says what it will do; the key as the page shows it."""
    page.get_by_role("button", name="New client key").click()
    expect(page.get_by_label("Name")).to_be_focused()
    warning = page.get_by_role("note")
    expect(warning).to_contain_text("clients without a key lose access")
    expect(warning).to_contain_text("Within a second every proxy answers 401")
    expect(page.get_by_role("heading", name="No client keys yet")).to_have_count(0)
    expect(warning).to_contain_text("for every fleet, also from clients that are served now")
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    return page.get_by_label("The client key", exact=True).inner_text()


@pytest.mark.long
def test_from_the_first_key_to_none(
    open_page: Open, no_keys: Site, proxy: Proxy, new_fleet: Callable[..., str]
) -> None:
    new_fleet()
    name = f"website {next(_numbers)}"
    port = proxy.ready().port
    page = open_page("/client-keys")
    expect(page.get_by_role("heading", name="No client keys yet")).to_be_visible()
    assert ask(port) == 200

    key = make(page, name)
    expect(page.get_by_role("heading", name=f"Client key {name} is created")).to_be_focused()
    assert re.fullmatch("sy-[0-9a-f]{48}", key)
    expect(page.locator(".edit")).to_contain_text("it cannot be shown again")
    assert findings(page) == []
    expect(page.locator(".edit")).to_contain_text("from now on every request needs a key.")
    expect(page.get_by_label("A request with it")).to_contain_text(f"export SWITCHYARD_KEY={key}")
    until(lambda: ask(port) == 401 and ask(port, key) == 200, "the proxy asks for the key", 1)

    page.get_by_role("button", name="I have copied it").click()
    expect(page.get_by_role("button", name="New client key")).to_be_focused()
    row = page.locator(f"tr[data-key='{name}']")
    expect(row).to_contain_text("every fleet")
    expect(row).to_contain_text("by anna")
    assert key not in page.content()
    page.reload()
    expect(row).to_contain_text(key[:9])
    assert key not in page.content()

    page.get_by_role("button", name=f"Revoke {name}").click()
    note = page.get_by_role("form", name=f"Revoke {name}")
    expect(note).to_contain_text("is answered 401")
    assert findings(page) == []
    expect(note).to_contain_text("It is the last key, and keys are required.")
    expect(note).to_contain_text("every proxy answers 401 to every request")
    expect(note.get_by_role("button", name=f"Revoke {name}")).to_be_focused()
    page.keyboard.press("Escape")
    expect(note).to_have_count(0)
    assert ask(port, key) == 200
    page.get_by_role("button", name=f"Revoke {name}").click()
    expect(note.get_by_role("button", name=f"Revoke {name}")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No client keys in force")).to_be_visible()
    expect(page.locator(".empty [role=status]")).to_contain_text(f"{name} is revoked")
    assert findings(page) == []
    expect(page.locator(".empty [role=status]")).to_contain_text("no request is served")
    until(lambda: ask(port, key) == 401, "the key is refused", 2)
    assert ask(port) == 401
    page.get_by_role("button", name="Turn off …").click()
    asked = page.get_by_role("form", name="Serve without client keys")
    expect(asked).to_contain_text("is served without a client key")
    expect(asked.get_by_role("button", name="Serve without client keys")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Keys required: off")).to_be_visible()
    until(lambda: ask(port) == 200, "without a key nobody is asked for one", 1)
    page.get_by_text("Revoked keys").click()
    expect(page.locator(".changes")).to_contain_text(f"{name} · {key[:9]}")


def test_a_confirmation_keeps_what_was_asked_for(open_page: Open, no_keys: Site) -> None:
    """Somebody else sets it between click and confirmation: it must not become its opposite."""
    page = open_page("/client-keys")
    page.get_by_role("button", name="Turn on …").click()
    form = page.get_by_role("form", name="Require client keys")
    expect(form).to_contain_text("Clients without a key lose access.")
    no_keys.api("PATCH", "/client-keys/settings", {"required": True})
    expect(page.get_by_role("heading", name="Keys required: on")).to_be_visible(timeout=10_000)
    form.get_by_role("button", name="Require client keys").click()
    expect(page.locator("[data-keys-required] [role=status]")).to_contain_text("it was on already")
    assert no_keys.api("GET", "/client-keys/settings")["required"] is True


def test_only_the_first_key_warns_of_what_it_does(open_page: Open, no_keys: Site) -> None:
    page = open_page("/client-keys")
    page.get_by_role("button", name="New client key").click()
    expect(page.get_by_role("note")).to_contain_text(
        "This is the first key: clients without a key lose access."
    )
    no_keys.api("POST", "/client-keys", {"name": "website"})
    page.reload()
    expect(page.locator("tr[data-key]")).to_have_count(1)
    page.get_by_role("button", name="New client key").click()
    expect(page.get_by_label("Name")).to_be_focused()
    expect(page.get_by_role("note")).to_have_count(0)


@pytest.mark.long
def test_a_fleets_page_shows_requests_as_the_proxy_wants_them(
    open_page: Open, no_keys: Site, proxy: Proxy, new_fleet: Callable[..., str]
) -> None:
    """Open while the first key is made and the last one revoked, and opened in between."""
    name = new_fleet()
    page = open_page(f"/fleets/{name}")
    request, where = page.get_by_label("A request through the proxy"), page.locator("[data-key-needed]")
    expect(request).to_contain_text(f"/v2/models/{name}")
    assert "Authorization" not in request.inner_text()
    expect(where).to_have_count(0)

    made = no_keys.api("POST", "/client-keys", {"name": "website"})
    for each in (page, open_page(f"/fleets/{name}")):
        request = each.get_by_label("A request through the proxy")
        expect(request).to_contain_text('-H "Authorization: Bearer $SWITCHYARD_KEY"')
        expect(each.locator("[data-key-needed]")).to_contain_text(f"a client key that opens {name}")
        expect(each.locator("[data-key-needed] a")).to_have_attribute("href", "/client-keys")
    port = proxy.ready().port
    until(lambda: ask(port) == 401, "the proxy asks for a key", 5)
    command = through(request.inner_text(), proxy)
    assert pasted(command) == "401"
    assert pasted(f"export SWITCHYARD_KEY={made['key']}; {command}") == "503"  # nothing has passed a probe

    no_keys.api("DELETE", f"/client-keys/{made['id']}")
    no_keys.api("PATCH", "/client-keys/settings", {"required": False})
    expect(where).to_have_count(0)
    expect(page.get_by_label("A request through the proxy")).not_to_contain_text("Authorization")


def pasted(command: str) -> str:
    """The status with which the proxy answers this line of a terminal."""
    line = command.replace("curl ", "curl -s -o /dev/null -w '%{http_code}' ", 1)
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_key_for_one_fleet_then_for_another(
    open_page: Open, no_keys: Site, new_fleet: Callable[..., str]
) -> None:
    first, second = new_fleet(), new_fleet()
    name = f"batch {next(_numbers)}"
    page = open_page("/client-keys")
    page.get_by_role("button", name="New client key").click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("every fleet, also those created later").uncheck()
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".choices .problem")).to_contain_text("or let it open every fleet")
    page.get_by_label(first, exact=True).check()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_label("A request with it")).to_contain_text(f"/v2/models/{first} ")
    page.keyboard.press("Escape")
    row = page.locator(f"tr[data-key='{name}']")
    expect(row).to_contain_text(first)
    page.get_by_role("button", name=f"Change {name}").click()
    form = page.get_by_role("form", name=f"Change {name}")
    form.get_by_label(second, exact=True).check()
    form.get_by_label(first, exact=True).uncheck()
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)
    expect(row).to_contain_text(second)
    expect(page.locator(".table-foot")).to_contain_text(f"fleets: {first} → {second}")
    assert no_keys.api("GET", "/client-keys")["results"][0]["fleets"] == [second]


def test_a_name_that_is_taken_is_said_at_the_field(open_page: Open, no_keys: Site, watched: object) -> None:
    watched.expected.append("409")  # type: ignore[attr-defined]
    name = f"taken {next(_numbers)}"
    no_keys.api("POST", "/client-keys", {"name": name})
    page = open_page("/client-keys")
    page.get_by_role("button", name="New client key").click()
    page.get_by_label("Name").fill(name)
    page.keyboard.press("Enter")
    expect(page.locator(".entry .problem")).to_contain_text("choose another name")
    expect(page.get_by_label("Name")).to_be_focused()


def test_a_token_is_made_used_and_revoked(open_page: Open, site: Site) -> None:
    name = f"laptop {next(_numbers)}"
    page = open_page("/tokens")
    page.get_by_role("button", name="New API token").click()
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type(name)
    page.get_by_label("Role").select_option("read")
    page.get_by_label("Labels").fill("team=search")
    assert findings(page) == []
    page.get_by_role("button", name="Create").click()
    token = page.get_by_label("The API token", exact=True).inner_text()
    assert token.startswith("sy_")
    expect(page.locator(".edit")).to_contain_text("Role: read · team=search. It expires in 90 days.")
    expect(page.locator(".edit")).to_contain_text("A new password ends it.")
    assert status(site, token) == 200
    page.get_by_role("button", name="I have copied it").click()
    page.reload()
    row = page.locator(f"tr[data-token='{name}']")
    expect(row).to_contain_text("just now")
    expect(row).to_contain_text("you")
    expect(row).to_contain_text("read · team=search")
    expect(row).to_contain_text("in 90 days")
    assert token not in page.content()
    page.get_by_role("button", name=f"Revoke {name} of anna").click()
    note = page.get_by_role("form", name=f"Revoke {name} of anna")
    expect(note).to_contain_text("stops working until it has another one")
    expect(note.get_by_role("button", name=f"Revoke {name}")).to_be_focused()
    page.keyboard.press("Enter")
    expect(row).to_have_count(0)
    expect(page.locator(".table-foot")).to_contain_text(f"{name} is revoked.")
    assert status(site, token) == 401


def status(site: Site, token: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(site.url).port, timeout=10)
    try:
        connection.request("GET", "/api/v1/fleets", headers={"Authorization": f"Token {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_key_that_opens_no_openai_fleet_is_tried_on_one_that_it_opens(
    open_page: Open, no_keys: Site, new_fleet: Callable[..., str]
) -> None:
    """The list of models holds only those of that protocol: it would say that the key opens nothing."""
    fleet = new_fleet(("a",))
    page = open_page("/client-keys")
    page.get_by_role("button", name="New client key").click()
    page.get_by_label("Name").fill("for one")
    page.get_by_label("every fleet, also those created later").uncheck()
    page.get_by_label(fleet, exact=True).check()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_label("A request with it")).to_contain_text(f"/v2/models/{fleet}")
    expect(page.get_by_label("A request with it")).to_contain_text("export SWITCHYARD_KEY=sy-")
    expect(page.get_by_label("List the models that it opens")).to_have_count(0)


def test_whoever_may_only_look_gets_no_forms(open_page: Open, no_keys: Site) -> None:
    no_keys.api("POST", "/client-keys", {"name": f"seen {next(_numbers)}"})
    page = open_page("/client-keys", LOOKER)
    expect(page.locator("tr[data-key]")).to_have_count(1)
    expect(page.locator("main button, main form")).to_have_count(0)


def test_whoever_may_only_look_has_tokens_of_their_own(open_page: Open, site: Site) -> None:
    page = open_page("/tokens", LOOKER)
    expect(page.get_by_role("heading", name="No API tokens yet")).to_be_visible()
    page.get_by_role("button", name="New API token").click()
    page.get_by_label("Name").fill("mine")
    page.get_by_label("Role").select_option("operate")
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".entry .problem")).to_contain_text("a token has none above it")
    page.get_by_label("Role").select_option("read")
    page.get_by_role("button", name="Create").click()
    token = page.get_by_label("The API token", exact=True).inner_text()
    assert status(site, token) == 200
    page.get_by_role("button", name="Revoke mine of leo").click()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No API tokens yet")).to_be_visible()
    assert status(site, token) == 401


@pytest.mark.long
@pytest.mark.parametrize("path", ["/client-keys", "/tokens"])
def test_nothing_is_cut_off_on_a_phone(open_page: Open, no_keys: Site, path: str) -> None:
    no_keys.api("POST", "/client-keys", {"name": "a name that is as long as names are when people mean well"})
    page = open_page(path, viewport={"width": 390, "height": 800})
    expect(page.locator("tbody tr").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_a_row_opens_into_fits_its_table(open_page: Open, no_keys: Site) -> None:
    no_keys.api("POST", "/client-keys", {"name": "website"})
    for path in ("/client-keys", "/tokens"):
        page = open_page(path, viewport={"width": 1280, "height": 800})
        page.get_by_role("button", name="Revoke").first.click()
        expect(page.locator("tr.note form")).to_be_visible()
        assert page.evaluate("(one => one.scrollWidth <= one.clientWidth)(document.querySelector('.scroll'))")


def seen(key: int, name: str, **numbers: Any) -> frames.ClientKeyLive:
    """What a frame says of a key."""
    return frames.ClientKeyLive(id=key, name=name, **numbers)


def test_what_keys_do_is_shown_against_what_they_may(
    open_page: Open, no_keys: Site, measuring: Measuring
) -> None:
    limits = {"requests_per_minute": 60, "max_concurrency": 4, "tokens_per_minute": 10_000}
    busy = no_keys.api("POST", "/client-keys", {"name": "busy", "priority": "high", **limits})["id"]
    free = no_keys.api("POST", "/client-keys", {"name": "free"})["id"]
    no_keys.api("POST", "/client-keys", {"name": "idle"})
    times = {"p50_s": 0.05, "p95_s": 0.2, "p99_s": 0.3, "first_token_p95_s": 0.012}
    measuring.client_keys = [
        seen(
            busy,
            "busy",
            rps=3.2,
            in_flight=2,
            requests=41,
            tokens=8_210,
            p50_s=0.42,
            p95_s=1.5,
            p99_s=2.0,
            errors=3,
        ),
        seen(free, "free", rps=120.0, in_flight=31, requests=7_012, tokens=1_240_000, **times),
    ]
    page = open_page("/client-keys")
    row, beside = page.locator("tr[data-key='busy']"), page.locator("tr[data-key='free']")
    expect(row).to_contain_text("in use")
    expect(row).to_contain_text("high priority")
    expect(row.locator("[data-cell=requests]")).to_have_text("3.2 /s41/60 in 60 s")
    expect(row.locator("[data-cell=in-flight]")).to_have_text("2/4p95 1.50 s")
    expect(beside.locator("[data-cell=in-flight] .sub")).to_have_attribute(
        "title", "In the last 60 s: p50 50 ms, p99 300 ms, first token p95 12 ms"
    )
    expect(row.locator("[data-cell=tokens]")).to_have_text("8.2K/10K")
    expect(beside.locator("[data-cell=requests]")).to_have_text("120 /s7K in 60 s")
    expect(beside.locator("[data-cell=tokens]")).to_have_text("1.2M")
    expect(row.locator("[data-cell=refused]")).to_have_text("0 /s3 failed")
    expect(beside.locator("[data-cell=refused]")).to_have_text("0 /s")
    expect(page.locator("tr[data-key='idle'] [data-cell=in-flight]")).to_have_text("0")
    expect(page.locator("tr[data-key='idle']")).to_contain_text("unused for 60 s")
    expect(page.locator(".banner")).to_have_count(0)

    at = {"limited_per_s": 1.5, "at_limit": ["requests_per_minute", "max_concurrency"]}
    measuring.client_keys[0] = seen(busy, "busy", rps=4.7, in_flight=4, requests=60, tokens=8_900, **at)
    expect(row.locator("[data-cell=state]")).to_contain_text("at its limit")
    expect(row.locator("[data-cell=state]")).to_contain_text(
        "60 requests per minute and 4 concurrent requests"
    )
    expect(row.locator("[data-cell=refused]")).to_have_text("1.5 /s")
    expect(page.locator(".banner")).to_contain_text("A key is at its limit")
    expect(page.locator(".banner")).to_contain_text("busy (60 requests per minute and 4 concurrent requests)")
    assert findings(page) == []

    measuring.pause()
    expect(page.locator("html")).to_have_attribute("data-live", "stale")
    expect(page.locator(".banner")).to_contain_text("Not live")
    assert "grayscale" in page.locator(".table-panel").evaluate("one => getComputedStyle(one).filter")


def test_limits_are_set_changed_and_lifted_by_keyboard(open_page: Open, no_keys: Site) -> None:
    page = open_page("/client-keys")
    page.get_by_role("button", name="New client key").click()
    page.get_by_label("Name").fill("batch")
    page.get_by_label("Priority").select_option("low")
    page.get_by_label("Weight").fill("2.5")
    page.get_by_label("Requests per minute").fill("0")
    page.keyboard.press("Enter")
    expect(page.locator(".entry .problem")).to_contain_text("must be from 1 to")
    expect(page.get_by_label("Requests per minute")).to_be_focused()
    page.get_by_label("Requests per minute").fill("60")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="I have copied it").click()
    key = no_keys.api("GET", "/client-keys")["results"][0]
    assert (key["priority"], key["weight"], key["requests_per_minute"]) == ("low", 2.5, 60)
    assert key["max_concurrency"] is None

    page.get_by_role("button", name="Change batch").click()
    form = page.get_by_role("form", name="Change batch")
    expect(form.get_by_label("Requests per minute")).to_have_value("60")
    expect(form.get_by_label("Weight")).to_have_value("2.5")
    assert findings(page) == []
    no_keys.api("PATCH", f"/client-keys/{key['id']}", {"tokens_per_minute": 9000})
    form.get_by_label("Requests per minute").fill("")
    form.get_by_label("Concurrent requests").fill("4")
    expect(form.locator("pre")).to_contain_text('{"requests_per_minute":null,"max_concurrency":4}')
    page.keyboard.press("Enter")
    expect(form).to_contain_text("Somebody else changed this meanwhile")
    expect(form.get_by_label("Tokens per minute")).to_have_value("9000")
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)
    expect(page.locator(".table-foot")).to_contain_text("requests_per_minute: 60 → not set")
    key = no_keys.api("GET", "/client-keys")["results"][0]
    assert (key["requests_per_minute"], key["max_concurrency"], key["tokens_per_minute"]) == (None, 4, 9000)
