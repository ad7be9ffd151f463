"""The content security policy and its companions, on every answer."""

import pytest
from django.test import Client

pytestmark = pytest.mark.any_database


@pytest.mark.parametrize("path", ["/login", "/livez", "/api/v1/fleets", "/nowhere", "/static/nothing.css"])
def test_every_answer_carries_them(path: str) -> None:
    answer = Client().get(path)
    policy = dict(part.split(" ", 1) for part in answer["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'self'"
    assert policy["connect-src"] == "'self' ws://testserver"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["Referrer-Policy"] == "same-origin"
    assert "camera=()" in answer["Permissions-Policy"]


def test_session_cookie_is_kept_from_scripts_and_other_sites() -> None:
    from django.contrib.auth.models import User

    User.objects.create_user("anna", password="violet-otter-9182")
    client = Client()
    client.post("/login", {"username": "anna", "password": "violet-otter-9182"})
    cookie = client.cookies["sessionid"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"


def test_static_files_are_served_whole() -> None:
    answer = Client().get("/static/controlplane/api_docs.css")
    assert answer.status_code == 200
    assert not answer.streaming
    assert answer["Content-Type"].startswith("text/css")
    assert b"#fafafa" in answer.content
