"""Alerts by page: what fires first, counted on every page; silence and undo; destinations and their test."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import findings
from tests.browser.site import LOOKER, Site
from tests.controlplane.alerts.receivers import HttpReceiver, http_receiver
from tests.proxy_process import ROOT

pytestmark = pytest.mark.browser
Open = Callable[..., Page]

_EVALUATE = """
import json, sys, time
import django; django.setup()
from controlplane.alerts.evaluator import Evaluator
from controlplane.alerts.picture import SeenDevice
from controlplane.models import Alert
from tests.controlplane.alerts.pictures import fleet, picture, replica, worker
said = json.loads(sys.argv[1])
if said:
    replicas = [replica(name, state) for name, state in said["replicas"].items()]
    seen = picture(fleet(*replicas), proxies=[worker(), worker("short", "gpu-2/7/0")])
else:
    seen = picture()
began = int(time.time()) - 90
for turn in range(19):
    Evaluator(clock=lambda: began + 5 * turn, look=lambda now: seen).evaluate()
"""


@pytest.fixture
def evaluate(site: Site) -> Iterator[Callable[..., None]]:
    """Looks at replicas in these states for 90 s, as a conductor would; at none: all is well."""

    def run(**replicas: str) -> None:
        said = json.dumps({"replicas": replicas} if replicas else {})
        command = [sys.executable, "-c", _EVALUATE, said]
        done = subprocess.run(
            command, cwd=ROOT, env=site.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    yield run
    run()
    for silence in site.api("GET", "/alerts/silences")["results"]:
        if silence["active"]:
            site.api("DELETE", f"/alerts/silences/{silence['id']}")
    for name in [one["name"] for one in site.api("GET", "/alerts/destinations")["results"]]:
        site.api("DELETE", f"/alerts/destinations/{name}")


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as running:
        yield running


def test_what_fires_comes_first_is_counted_everywhere_and_silenced(
    open_page: Open, evaluate: Callable[..., None]
) -> None:
    hardware = open_page("/hardware")
    expect(hardware.locator("[data-alert-count]")).to_be_hidden()
    evaluate(a="down", b="unready")
    expect(hardware.locator("[data-alert-count]")).to_have_text("1 critical, 1 warning")
    page = open_page("/alerts")
    expect(page.locator(".banner")).to_contain_text("1 critical alert")
    rows = page.locator("tr[data-alert]")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("No eligible replica")
    expect(rows.nth(0).get_by_role("link", name="llm")).to_have_attribute("href", "/fleets/llm")
    expect(rows.nth(1)).to_contain_text("gpu-2/7/0")
    expect(rows.nth(2)).to_contain_text("pending")
    assert findings(page) == []
    opener = rows.nth(0).get_by_role("button", name="Silence No eligible replica")
    opener.click()
    form = page.get_by_role("form", name="Silence No eligible replica")
    expect(form.get_by_label("Why")).to_be_focused()
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_have_text("say why, for whoever wonders at the silence")
    form.get_by_label("Why").fill("rack move")
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-alert]").nth(0)).to_contain_text("critical, silenced")
    expect(page.locator("[data-alert-count]")).to_have_text("1 warning")
    silences = page.get_by_role("region", name="Silences")
    silences.get_by_role("button", name="End now the silence of no_eligible_replica of llm").click()
    expect(page.locator("[data-alert-count]")).to_have_text("1 critical, 1 warning")
    silences.get_by_role("button", name="Undo").click()
    expect(page.locator("tr[data-alert]").nth(0)).to_contain_text("critical, silenced")
    evaluate()
    expect(page.locator(".banner")).to_contain_text("Nothing fires")
    expect(page.locator("[data-alert-count]")).to_be_hidden()
    page.get_by_text("Resolved lately").click()
    expect(page.get_by_role("group")).to_contain_text("No eligible replica")


def test_a_destination_shows_its_secret_once_and_says_what_a_test_answered(
    open_page: Open, evaluate: Callable[..., None], receiver: HttpReceiver
) -> None:
    page = open_page("/alerts")
    expect(page.get_by_text("Nobody is told of alerts.")).to_be_visible()
    expect(page.locator(".banner")).to_contain_text("Alerts are not evaluated")
    page.get_by_role("button", name="New destination").click()
    form = page.get_by_role("region", name="New destination")
    expect(form.get_by_label("Name")).to_be_focused()
    page.keyboard.type("pager")
    form.get_by_label("URL").fill("http://169.254.169.254/")
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("nothing is sent there")
    expect(form.get_by_label("URL")).to_be_focused()
    form.get_by_label("URL").fill(f"{receiver.url}/hook/topsecret")
    page.keyboard.press("Enter")
    expect(page.get_by_label("The signing secret")).to_have_text(re.compile("whsec_"))
    page.get_by_role("button", name="I have copied it").click()
    row = page.locator("tr[data-destination='pager']")
    expect(row).to_contain_text(f"{receiver.url}/…")
    row.get_by_role("button", name="Test pager").click()
    expect(row).to_contain_text("test taken it answered 200 OK: ok")
    receiver.status = lambda: 500
    row.get_by_role("button", name="Test pager").click()
    expect(row).to_contain_text("test failed it answered 500")
    assert "topsecret" not in page.content()
    assert "whsec_" not in page.content()
    row.get_by_role("button", name="Switch off pager").click()
    expect(row).to_contain_text("off")
    row.get_by_role("button", name="Delete pager").click()
    page.get_by_role("form", name="Delete pager").get_by_role("button", name="Delete pager").click()
    expect(row).to_have_count(0)


def test_a_threshold_is_made_and_a_rule_switched_off(
    open_page: Open, evaluate: Callable[..., None], site: Site
) -> None:
    page = open_page("/alerts")
    page.get_by_role("button", name="New threshold").click()
    form = page.get_by_role("region", name="New threshold")
    form.get_by_label("Name").fill("slow-chat")
    form.get_by_label("Value").fill("800 km")
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("use s, ms, min")
    form.get_by_label("Value").fill("800 ms")
    page.keyboard.press("Enter")
    row = page.locator("tr[data-rule='slow-chat']")
    expect(row).to_contain_text("p99_s above 800 ms")
    row.get_by_role("button", name="Switch off").click()
    expect(row.get_by_role("button", name="Switch on")).to_be_visible()
    assert site.api("GET", "/alerts/rules/slow-chat")["enabled"] is False
    row.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)


def test_who_may_only_read_sees_and_changes_nothing(open_page: Open, evaluate: Callable[..., None]) -> None:
    evaluate(a="down")
    page = open_page("/alerts", user=LOOKER)
    expect(page.locator("tr[data-alert]").first).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Silence|New|Test|Switch"))).to_have_count(0)
