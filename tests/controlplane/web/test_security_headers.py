"""The content security policy and its companions, on every answer."""

import os
import subprocess
import sys

import pytest
from django.test import Client

from tests.proxy_process import ROOT

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


@pytest.mark.parametrize(
    "path", ["/api/v1/fleets", "/api/v1/system", "/api/v1/schema", "/", "/fleets/one", "/login"]
)
def test_answers_are_stored_nowhere(path: str) -> None:
    from django.contrib.auth.models import User

    client = Client()
    for _ in range(2):
        assert "no-store" in client.get(path)["Cache-Control"]
        client.force_login(User.objects.get_or_create(username="anna")[0])


def test_an_object_keeps_its_etag(api: object) -> None:
    api.post("/fleets", {"name": "one", "protocol": "openai"})  # type: ignore[attr-defined]
    answer = api.get("/fleets/one")  # type: ignore[attr-defined]
    assert answer["ETag"].startswith('"')
    assert answer["Cache-Control"] == "no-store"


def test_static_files_may_be_kept() -> None:
    assert "no-store" not in Client().get("/static/controlplane/api_docs.css")["Cache-Control"]


@pytest.mark.parametrize(("secure", "sent"), [(True, "max-age=31536000"), (False, None)])
def test_https_is_remembered_by_browsers(secure: bool, sent: str | None) -> None:
    """With settings of their own: they are read once, when Django starts."""
    code = (
        "import django; django.setup()\n"
        "from django.test import Client\n"
        f"print(Client().get('/livez', secure={secure}).get('Strict-Transport-Security'))"
    )
    assert production(["-c", code]).stdout.strip() == str(sent)


def test_django_finds_nothing_to_complain_of_in_production() -> None:
    done = production(["manage.py", "check", "--deploy", "--fail-level", "WARNING"])
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout + done.stderr


def production(command: list[str]) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {
        "SWITCHYARD_SECRET_KEY": "0123456789abcdefghij" * 4,
        "SWITCHYARD_ALLOWED_HOSTS": "fleet.example.com,testserver",
        "SWITCHYARD_TLS": "1",
        "SWITCHYARD_TRUSTED_PROXIES": "127.0.0.1",
    }
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
