"""``/api/v1/docs`` in a real browser, under the policy that every page has."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, sync_playwright

from tests import needs
from tests.browser.axe import findings

pytestmark = pytest.mark.browser

ENABLE = "apt-get install chromium"


@pytest.fixture
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    needs.need(chromium, f"no browser here; this enables the test: {ENABLE}")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        # Playwright's loop runs in this thread; Django would take the test for asynchronous code.
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
        yield running
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
        running.close()


def test_it_renders_without_breaking_the_policy(live_server: Any, browser: Browser, operator: User) -> None:
    client = Client()
    client.force_login(operator)
    session = client.cookies["sessionid"].value
    context = browser.new_context()
    context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{live_server.url}/api/v1/docs")
    operations = page.locator(".opblock")
    operations.first.wait_for(timeout=60_000)
    described = client.get("/api/v1/schema", headers={"accept": "application/json"}).json()["paths"]
    assert operations.count() == sum(len(methods) for methods in described.values())
    assert findings(page) == []
    page.locator("#operations-strategies-list_strategies .opblock-summary-control").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    page.get_by_text("least_expected_work").first.wait_for(timeout=60_000)
    page.locator("#operations-client-keys-change_client_key .opblock-summary-control").click()
    page.locator("#operations-client-keys-list_client_keys .opblock-summary-control").click()
    page.get_by_role("button", name="Try it out").last.click()
    page.get_by_role("combobox", name="revoked").wait_for(timeout=60_000)
    assert findings(page) == []
    page.locator(".scheme-container").get_by_role("button", name="Authorize").click()
    page.get_by_role("button", name="Close", exact=True).first.wait_for(timeout=60_000)
    assert findings(page) == []
    assert complaints == []
    context.close()
