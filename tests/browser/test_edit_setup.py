"""From an empty install to the first answer on one page, never reloaded: real conductor, probes and proxy."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.axe import findings
from tests.browser.measuring import Measuring
from tests.browser.site import LOOKER, Site
from tests.proxy_process import ROOT, Proxy, Replica

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
STEP_LIMIT_MS = 30_000


@pytest.fixture
def server() -> Iterator[Replica]:
    """A model server that still loads."""
    running = Replica("first")
    running.health_status = 503
    yield running
    running.stop()


@pytest.fixture
def behind(empty: Site, proxy: Proxy, tmp_path: Path) -> Iterator[None]:
    """What stands behind a page: the conductor, and Celery with its beat."""
    celery = [sys.executable, "-m", "celery", "-A", "controlplane.celery", "worker", "--beat"]
    celery += ["--schedule", str(tmp_path / "beat"), "--pool", "threads", "--concurrency", "2"]
    celery += ["--loglevel", "warning", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    commands = [[sys.executable, "manage.py", "conductor"], celery]
    with (tmp_path / "behind.log").open("wb") as log:
        running = [
            subprocess.Popen(command, cwd=ROOT, env=empty.environment, stdout=log, stderr=log)
            for command in commands
        ]
    yield
    for process in running:
        process.terminate()
    for process in running:
        process.wait(20)


def press_slowly(button: Locator) -> None:
    """As people do: what leaving a field begins is done before the button is let go."""
    place = button.bounding_box()
    assert place is not None
    mouse = button.page.mouse
    mouse.move(place["x"] + 20, place["y"] + place["height"] / 2)
    mouse.down()
    button.page.wait_for_timeout(700)
    mouse.up()


def pasted(command: str) -> str:
    """What a terminal prints when this is pasted into it."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_proxies_refuse_stands_above_the_first_steps(
    empty: Site, measuring: Measuring, open_page: Open
) -> None:
    """As after the database was lost: the new one has no fleets, and proxies route for the other one."""
    measuring.refused = "it is of installation new, and this proxy routes for old"
    page = open_page("/")
    expect(page.get_by_text("three steps to the first response")).to_be_visible()
    expect(page.locator(".banner")).to_contain_text("refused a newer routing table")
    expect(page.locator(".banner")).to_contain_text(measuring.refused)
    expect(page.locator(".banner").get_by_role("link", name="System")).to_have_attribute("href", "/system")


@pytest.mark.long
def test_one_command_registers_turns_green_and_another_asks(
    open_page: Open, empty: Site, behind: None, proxy: Proxy, server: Replica
) -> None:
    page = open_page("/")
    expect(page.get_by_role("heading", name="No fleets yet")).to_be_visible(timeout=STEP_LIMIT_MS)
    page.evaluate("window.neverReloaded = true")
    expect(page.get_by_text("Waiting for the first replica …")).to_be_visible()
    page.get_by_label("Server URL").fill(server.url)
    page.get_by_label("Model name").fill("first-model")
    expect(page.locator("[data-trial]")).to_be_visible(timeout=STEP_LIMIT_MS)
    press_slowly(page.get_by_role("button", name="Put a new API token into the command"))
    command = page.get_by_label("Register from a terminal")
    expect(command).to_contain_text("export TOKEN=sy_")

    assert findings(page) == []

    assert '"name":"first-model"' in pasted(command.inner_text())
    expect(page.get_by_role("heading", name="first-model is registered")).to_be_visible(timeout=STEP_LIMIT_MS)
    expect(page.locator("[data-first]")).to_contain_text("checking")
    expect(page.locator("[data-trial]")).to_contain_text("503")
    assert findings(page) == []

    server.health_status = 200
    expect(page.locator("[data-first] .state")).to_have_text("ready", timeout=STEP_LIMIT_MS)
    expect(page.get_by_role("heading", name="first-model takes requests")).to_be_visible()
    request = page.get_by_label("A request through the proxy")
    assert "Authorization" not in request.inner_text()
    with client_key(empty) as key:
        expect(request).to_contain_text('-H "Authorization: Bearer $SWITCHYARD_KEY"', timeout=STEP_LIMIT_MS)
        expect(page.locator("[data-key-needed]")).to_contain_text("a client key that opens first-model")
        assert findings(page) == []
        command = through(request.inner_text(), proxy).replace("curl", "curl -s -f", 1)
        assert pasted(f"export SWITCHYARD_KEY={key}\n{command}") == "first"
    expect(page.get_by_text("The first request has come through.")).to_be_visible(timeout=STEP_LIMIT_MS)
    assert findings(page) == []
    page.get_by_role("button", name="Go to the overview").click()
    expect(page.locator("tr[data-fleet='first-model']")).to_be_visible()
    assert page.evaluate("window.neverReloaded")


@contextmanager
def client_key(site: Site) -> Iterator[str]:
    """A key that opens every fleet, in force meanwhile: other tests' proxies must not ask for one."""
    made = site.api("POST", "/client-keys", {"name": "first steps"})
    try:
        yield made["key"]
    finally:
        site.api("DELETE", f"/client-keys/{made['id']}")


def through(command: str, proxy: Proxy) -> str:
    """The page names the port of the settings; this proxy listens where the kernel chose."""
    return re.sub(r"(curl http://127\.0\.0\.1):\d+", rf"\1:{proxy.port}", command)


def test_the_form_registers_too_and_reloading_goes_on_where_it_was(
    open_page: Open, empty: Site, measuring: Measuring, server: Replica
) -> None:
    page = open_page("/")
    page.get_by_label("Server URL").fill(server.url)
    page.get_by_role("button", name="Try").click()
    expect(page.locator("[data-trial]")).to_have_attribute("data-trial", "unready")
    assert findings(page) == []
    page.get_by_label("Model name").fill("Bad Name")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("is not a valid name")
    expect(page.get_by_label("Model name")).to_be_focused()
    assert findings(page) == []
    page.get_by_label("Replica name").fill("Also Bad")
    page.get_by_label("Model name").fill("by-form")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Replica name")).to_be_focused()
    page.get_by_label("Replica name").fill("one")
    measuring.fleets.append("by-form")
    page.keyboard.press("Enter")
    expect(page.locator("[data-first='one']")).to_contain_text("not probed yet")
    page.reload()
    expect(page.get_by_role("heading", name="by-form is registered")).to_be_visible()
    page.get_by_role("button", name="Go to the overview").click()
    expect(page.locator("tr[data-fleet='by-form']")).to_be_visible()


BLUR_AT_ONCE = """
for (const { prototype } of [HTMLInputElement, HTMLSelectElement, HTMLButtonElement]) {
  const { get, set } = Object.getOwnPropertyDescriptor(prototype, "disabled");
  Object.defineProperty(prototype, "disabled", { configurable: true, get, set(value) {
    set.call(this, value);
    if (value && document.activeElement === this) this.blur();
  } });
}
"""
"""Some browsers fire ``blur`` inside the assignment that disables the field with the focus, others later."""


def test_a_refused_form_is_enabled_again_where_disabling_blurs_at_once(
    open_page: Open, empty: Site, measuring: Measuring, server: Replica
) -> None:
    page = open_page("/")
    page.add_init_script(BLUR_AT_ONCE)
    page.reload()
    page.get_by_label("Server URL").fill(server.url)
    page.get_by_role("button", name="Try").click()
    expect(page.locator("[data-trial]")).to_have_attribute("data-trial", "unready")
    page.get_by_label("Model name").fill("Bad Name")
    page.keyboard.press("Enter")  # disables this field; leaving it asks the server once more
    expect(page.get_by_role("alert")).to_contain_text("is not a valid name")
    expect(page.get_by_label("Model name")).to_be_focused()
    expect(page.locator("form.edit")).to_have_count(1)
    expect(page.locator("form.edit :disabled")).to_have_count(0)
    expect(page.locator("[data-trial]")).to_have_attribute("data-trial", "unready")


SHORT_LIMIT = (
    "const { timeout } = AbortSignal; AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms / 10);"
)
BAD_ANSWERS = {
    "none": "new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason)))",
    "half": """new Response(new ReadableStream({ start(body) {
      body.enqueue(new TextEncoder().encode('{"name":'));
      signal.addEventListener("abort", () => body.error(signal.reason));
    } }), { status: 201 })""",
    "of another server": "new Response('<html>', { status: 200 })",
}


@pytest.mark.parametrize(
    ("answer", "words"),
    [("none", "No response within"), ("half", "No response within"), ("of another server", "not JSON")],
)
def test_a_form_is_enabled_again_whatever_answer_comes(
    open_page: Open, empty: Site, measuring: Measuring, answer: str, words: str
) -> None:
    page = open_page("/")
    page.add_init_script(
        f"""{SHORT_LIMIT}
        const ask = window.fetch;
        window.fetch = (url, options = {{}}) => {{
          const {{ method, signal }} = options;
          return method === "POST" && url.endsWith("/fleets") ? {BAD_ANSWERS[answer]} : ask(url, options);
        }};"""
    )
    page.reload()
    page.get_by_label("Model name").fill("first-model")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text(words)
    expect(page.locator("form.edit :disabled")).to_have_count(0)


def test_a_trial_is_of_what_is_typed_now(
    open_page: Open, empty: Site, measuring: Measuring, server: Replica
) -> None:
    """This one speaks V2: what fits it brings its protocol along."""
    server.health_status = 404
    page = open_page("/")
    trial = page.locator("[data-trial]")
    page.get_by_label("Server URL").fill(server.url)
    page.get_by_label("Model name").fill("gamma")
    page.keyboard.press("Tab")  # a trial that was under way when this was typed does not count
    page.get_by_role("button", name="Use Open Inference Protocol (V2) and this probe").click()
    expect(page.get_by_label("Protocol")).to_have_value("open-inference")
    expect(trial).to_have_attribute("data-trial", "ready")
    expect(page.get_by_label("Register from a terminal")).to_contain_text('"protocol":"open-inference"')

    page.get_by_label("Model name").press_sequentially("-2")
    expect(trial).to_have_attribute("data-trial", "overtaken")
    expect(trial).to_contain_text("have not been tried yet")
    page.get_by_label("Served model").fill("gamma-v1")
    page.keyboard.press("Tab")
    expect(trial).to_contain_text("/v2/models/gamma-v1/ready")
    expect(page.get_by_label("Register from a terminal")).to_contain_text('"served_model":"gamma-v1"')

    page.get_by_label("Protocol").select_option("openai")
    expect(trial).to_have_attribute("data-trial", "unready")
    expect(trial).to_contain_text("GET /health")
    assert findings(page) == []


def test_the_first_steps_lead_to_what_a_wrong_probe_needs(
    open_page: Open, empty: Site, measuring: Measuring, server: Replica
) -> None:
    measuring.fleets.append("delta")
    page = open_page("/")
    page.get_by_label("Server URL").fill(server.url)
    page.get_by_label("Model name").fill("delta")
    page.keyboard.press("Enter")
    expect(page.locator("[data-trial]")).to_contain_text("503")
    page.get_by_role("link", name="edit the fleet").click()
    expect(page.get_by_role("region", name="Fleet delta").get_by_label("Served model")).to_be_visible()


def test_a_viewer_is_told_who_can(open_page: Open, empty: Site, measuring: Measuring) -> None:
    page = open_page("/", user=LOOKER)
    expect(page.get_by_text("Your account has read-only access.")).to_be_visible()
    expect(page.get_by_role("textbox", name="Server URL")).to_have_count(0)
    assert findings(page) == []
