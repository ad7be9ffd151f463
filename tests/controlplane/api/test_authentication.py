"""Nothing answers a stranger, save the two health addresses, the login page and static files."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from controlplane.models import ApiToken
from controlplane.services import tokens
from tests.controlplane.conftest import Api

OPEN = {"/livez", "/readyz", "/login"}


def every_path(patterns: Any = None, prefix: str = "/") -> Iterator[str]:
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from every_path(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield re.sub(r"<int:\w+>", "1", re.sub(r"<str:\w+>", "llm", route))


def is_nothing(answer: HttpResponse) -> bool:
    if answer.status_code == 302:
        return answer["Location"].startswith("/login")
    return answer.status_code in (401, 405) and b"llm" not in answer.content


@pytest.mark.any_database
@pytest.mark.parametrize("method", ["get", "post", "patch", "delete"])
def test_a_stranger_gets_nothing(llm: str, method: str) -> None:
    paths = sorted(set(every_path()) - OPEN)
    assert len(paths) > 30
    assert [path for path in paths if not is_nothing(getattr(Client(), method)(path))] == []


@pytest.mark.parametrize("path", sorted(OPEN))
def test_open_addresses(path: str) -> None:
    assert Client().get(path).status_code == 200


def test_a_token_is_shown_once_and_kept_as_a_keyed_hash(operator: User, settings: Any) -> None:
    row, token = tokens.create(operator, "deploy", "anna")
    assert token.startswith(row.prefix)
    assert token not in repr(ApiToken.objects.values())
    assert tokens.verify(token) == row
    assert tokens.verify(token + "x") is None
    settings.SECRET_KEY = "another installation's key, as long as it must be"
    assert tokens.verify(token) is None


@pytest.mark.any_database
@pytest.mark.parametrize(
    "header", ["Token", "Token a b", "Token sy_unknown", "Bearer sy_x", "Basic YW5uYTp4", "Token \xff"]
)
def test_wrong_credentials_are_401(llm: str, header: str) -> None:
    answer = Client().get("/api/v1/fleets", headers={"authorization": header})
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == 'Token realm="switchyard"'
    assert answer["Content-Type"] == "application/problem+json"


def test_a_disabled_user_has_no_token(api: Api, operator: User) -> None:
    assert api.get("/fleets").status_code == 200
    User.objects.filter(pk=operator.pk).update(is_active=False)
    assert api.get("/fleets").status_code == 401


def test_the_use_of_a_token_is_noted(api: Api) -> None:
    assert ApiToken.objects.get().last_used_at is None
    api.get("/fleets")
    assert ApiToken.objects.get().last_used_at is not None


def test_whoever_is_not_staff_may_only_look(reader: Api, llm: str) -> None:
    assert reader.get("/fleets/llm/policy").status_code == 200
    answer = reader.patch("/fleets/llm/policy", {"strategy": "round_robin"})
    assert answer.status_code == 403
    assert "read-only access" in answer.json()["detail"]


def test_a_session_needs_the_csrf_token_for_writes(operator: User, llm: str) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(operator)
    assert client.get("/api/v1/fleets").status_code == 200
    change = {"path": "/api/v1/fleets/llm/policy", "data": {"slow_start_s": 1}}
    refused = client.patch(**change, content_type="application/json")
    assert refused.status_code == 403
    assert "CSRF" in refused.json()["detail"]
    client.get("/login")
    operator.set_password("violet-otter-9182")
    operator.save()
    client.force_login(operator)
    client.get("/")
    csrf = client.cookies["csrftoken"].value
    accepted = client.patch(**change, content_type="application/json", headers={"x-csrftoken": csrf})
    assert accepted.status_code == 200


def test_too_many_requests_are_slowed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    from controlplane.api import throttling

    monkeypatch.setattr(throttling, "SIGNED_IN", 3)
    monkeypatch.setattr(throttling, "WINDOW_S", 100_000)
    assert [api.get("/strategies").status_code for _ in range(4)] == [200, 200, 200, 429]
    answer = api.get("/strategies")
    assert int(answer["Retry-After"]) > 0
    assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("token", [None, "sy_bogus"])
def test_strangers_are_slowed_too(
    token: str | None, redis_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from controlplane.api import throttling

    monkeypatch.setattr(throttling, "ANONYMOUS", 3)
    monkeypatch.setattr(throttling, "WINDOW_S", 100_000)
    stranger = Api(token)
    assert [stranger.get("/fleets").status_code for _ in range(5)] == [401, 401, 401, 429, 429]
