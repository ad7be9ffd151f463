"""Signing in and out, and the first password."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.axe import findings
from tests.browser.conftest import Watched, sign_in
from tests.browser.site import ADMIN, NEWCOMER, Site

pytestmark = pytest.mark.browser


def test_a_page_asks_for_a_login_and_comes_back_to_itself(watched: Watched) -> None:
    page = watched.page()
    page.goto("/?from=a-link")
    expect(page).to_have_url(re.compile(r"/login\?next="))
    page.get_by_label("Name").fill(ADMIN[0])
    page.get_by_label("Password").fill(ADMIN[1])
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/\?from=a-link$"))


def test_a_wrong_password_is_said_in_words(watched: Watched) -> None:
    page = watched.page()
    sign_in(page, ADMIN[0], "not it")
    expect(page.get_by_role("alert")).to_contain_text("Name and password do not match")
    expect(page.get_by_label("Name")).to_have_value(ADMIN[0])


def test_signing_out_ends_the_session(watched: Watched) -> None:
    page = watched.page()
    sign_in(page, *ADMIN)
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/login$"))
    page.goto("/")
    expect(page).to_have_url(re.compile(r"/login\?next="))


def test_a_one_time_password_must_be_replaced_first(watched: Watched, site: Site) -> None:
    page = watched.page()
    sign_in(page, NEWCOMER, site.one_time_password)
    expect(page).to_have_url(re.compile("/password$"))
    assert findings(page) == []
    page.get_by_label("Current password").fill(site.one_time_password)
    page.get_by_label("New password", exact=True).fill("short")
    page.get_by_label("New password again").fill("short")
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_role("alert").first).to_contain_text("too short")
    assert findings(page) == []

    chosen = "a password of my own 1"
    page.get_by_label("Current password").fill(site.one_time_password)
    page.get_by_label("New password", exact=True).fill(chosen)
    page.get_by_label("New password again").fill(chosen)
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_an_address_that_is_not_there_says_so_in_the_same_style(watched: Watched) -> None:
    page = watched.page()
    page.goto("/nowhere")
    expect(page.get_by_role("heading")).to_have_text("Not found")
    expect(page.get_by_text("There is nothing at /nowhere.")).to_be_visible()
