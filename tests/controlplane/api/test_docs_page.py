"""``/api/v1/docs`` in a real browser, under the policy that every page has."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser

from tests.browser.axe import findings

pytestmark = pytest.mark.browser


@pytest.mark.long
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
    assert findings(page, ".scheme-container") == []
    assert complaints == []
    context.close()
