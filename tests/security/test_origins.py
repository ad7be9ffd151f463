"""Other sites in an operator's browser: their requests change nothing, and they read no response."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from controlplane.api import throttling
from controlplane.models import ApiToken, Fleet
from controlplane.services import tokens
from tests.controlplane.conftest import Api
from tests.security import routes
from tests.security.access_matrix import WEB

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("fresh_stores", "llm")]

OTHER_SITES = ("https://evil.example", "http://testserver.evil.example", "http://testserver:8000", "null")
PASSWORD = "violet-otter-9182"


@pytest.fixture
def browser() -> Client:
    """Of an operator who is signed in. It has the cookie of the CSRF token, as browsers send it along."""
    User.objects.create_user("anna", password=PASSWORD, is_staff=True)
    client = Client(enforce_csrf_checks=True)
    page = client.get("/login")
    form = {"username": "anna", "password": PASSWORD, "csrfmiddlewaretoken": page.cookies["csrftoken"].value}
    assert client.post("/login", form).status_code == 302
    return client


@pytest.mark.parametrize("origin", OTHER_SITES)
def test_no_write_of_another_site(browser: Client, origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even with a token that is right, which another site cannot know: the origin is looked at by itself."""
    monkeypatch.setattr(throttling, "ANONYMOUS", 10_000)
    token = browser.cookies["csrftoken"].value
    before = Session.objects.count()
    for route, methods in WEB.items():
        for method in methods:
            if method == "GET":
                continue
            for proof in ({}, {"x-csrftoken": token}):
                for kind in ("text/plain", "application/json", "application/x-www-form-urlencoded"):
                    answer = browser.generic(
                        method, routes.path(route), b"{}", kind, headers={"origin": origin, **proof}
                    )
                    assert answer.status_code == 403, (method, route, kind)
    assert Fleet.objects.filter(name="llm").exists()
    assert Session.objects.count() == before


@pytest.mark.parametrize("origin", OTHER_SITES)
def test_no_response_is_shared_with_another_site(browser: Client, origin: str) -> None:
    for route in WEB:
        for method in ("GET", "OPTIONS"):
            asked = {"origin": origin, "access-control-request-method": "PATCH"}
            answer = browser.generic(method, routes.path(route), headers=asked)
            assert not [name for name in answer.headers if name.lower().startswith("access-control")]
            assert answer["X-Frame-Options"] == "DENY"
            assert "frame-ancestors 'none'" in answer["Content-Security-Policy"]
            assert answer["Cross-Origin-Opener-Policy"] == "same-origin"


def test_pages_run_no_script_of_their_own_text(browser: Client) -> None:
    """The content security policy forbids it, so a page that had some would not work."""
    for route in WEB:
        page = browser.get(routes.path(route)).content.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)(?![^>]*type=\"application/json\")[^>]*>", page), route
        assert not re.search(r"<[^>]+\son[a-z]+\s*=", page), route


# --- What has been taken back opens nothing, from the next request on ---


def status(api: Api) -> int:
    return api.get("/fleets").status_code


def made_token(user: User) -> tuple[ApiToken, Api]:
    row, token = tokens.create(user, "tests", "tests")
    return row, Api(token)


def test_a_revoked_token_opens_nothing(browser: Client) -> None:
    user = User.objects.get(username="anna")
    row, api = made_token(user)
    _, other = made_token(user)
    assert status(api) == 200
    assert other.delete(f"/tokens/{row.pk}").status_code == 204
    assert (status(api), status(other)) == (401, 200)


@pytest.mark.parametrize("end", [{"is_active": False}, {"is_staff": False}])
def test_what_an_account_loses_its_tokens_and_sessions_lose(browser: Client, end: dict[str, Any]) -> None:
    _, api = made_token(User.objects.get(username="anna"))
    User.objects.filter(username="anna").update(**end)
    change = api.patch("/fleets/llm", {"aliases": []})
    expected = 401 if "is_active" in end else 403
    assert change.status_code == expected
    page = browser.get("/")
    assert page.status_code == (302 if "is_active" in end else 200)
    token = browser.cookies["csrftoken"].value
    kept = browser.delete("/api/v1/fleets/llm?confirm=llm", headers={"x-csrftoken": token})
    assert kept.status_code == expected


def test_a_new_password_ends_all_other_sessions(browser: Client) -> None:
    elsewhere = Client()
    elsewhere.force_login(User.objects.get(username="anna"))
    assert elsewhere.get("/").status_code == 200
    form = {
        "old_password": PASSWORD,
        "new_password1": "amber-heron-4471",
        "new_password2": "amber-heron-4471",
    }
    proof = {"csrfmiddlewaretoken": browser.cookies["csrftoken"].value}
    assert browser.post("/password", {**form, **proof}).status_code == 302
    assert browser.get("/").status_code == 200
    assert elsewhere.get("/").status_code == 302
