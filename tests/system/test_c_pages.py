"""One person, one browser, the running stack: sign in, watch numbers move, drain, change the strategy."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import LIMIT_MS, sign_in
from tests.browser.reach import reaches_all
from tests.proxy_process import until
from tests.system.stack import Stack, Traffic

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.timeout(240)]

OWN_PASSWORD = "a password of my own 42"


def test_an_operators_first_ten_minutes(stack: Stack, browser: Browser) -> None:
    until(lambda: len(stack.eligible("digits")) == 3, "three classifiers", 90)
    context = browser.new_context(base_url=stack.url)
    context.set_default_timeout(LIMIT_MS)
    expect.set_options(timeout=LIMIT_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(error.message))
    with Traffic(stack) as traffic:
        first_sign_in(page, stack)
        page.get_by_role("link", name="digits").first.click()
        page.wait_for_url("**/fleets/digits")
        numbers_move(page)
        drain_and_undo(page, stack)
        change_strategy(page, stack)
    assert traffic.failures() == []
    assert errors == []
    context.close()


def first_sign_in(page: Page, stack: Stack) -> None:
    """The one-time password opens one door only: the one where it is replaced."""
    sign_in(page, "admin", stack.one_time_password)
    page.wait_for_url("**/password")
    fields = page.locator("input[type=password]")
    fields.nth(0).fill(stack.one_time_password)
    fields.nth(1).fill(OWN_PASSWORD)
    fields.nth(2).fill(OWN_PASSWORD)
    page.get_by_role("button", name="Change password").click()
    page.wait_for_url("**/")


def numbers_move(page: Page) -> None:
    reading = page.locator(".chart-head .big").first
    seen = {reading.inner_text()}
    until(lambda: seen.add(reading.inner_text()) or len(seen) >= 3, "three different rates are shown")


def drain_and_undo(page: Page, stack: Stack) -> None:
    row = page.locator("tr[data-replica='linear']")
    page.get_by_role("button", name="Drain linear").click()
    expect(row).to_contain_text("draining")
    assert "linear" not in stack.eligible("digits")
    page.get_by_role("button", name="Undo drain of linear").click()
    expect(row).to_contain_text("ready")
    until(lambda: "linear" in stack.eligible("digits"), "linear is eligible again")


def change_strategy(page: Page, stack: Stack) -> None:
    policy = page.get_by_role("region", name="Policy")
    policy.get_by_label("Strategy").select_option("round_robin")
    policy.get_by_role("button", name="Apply").click()
    expect(policy.locator(".result")).to_contain_text(re.compile(r"revision \d+ · [012] of 2 workers"))
    reaches_all(lambda: stack.api("PATCH", "/fleets/digits/policy", {"strategy": "round_robin"}), 2)
    assert stack.api("GET", "/fleets/digits/policy")["policy"]["strategy"] == "round_robin"
    policy.get_by_role("button", name=re.compile("back to revision")).click()
    expect(policy.get_by_label("Strategy")).to_have_value("least_expected_work")
