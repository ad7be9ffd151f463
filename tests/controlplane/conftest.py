"""Fixtures of the control plane's tests: a database that really commits, a real Redis, a caller."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from controlplane.publishing import installation, publisher
from controlplane.services import fleets, tokens


@pytest.fixture
def fresh_stores(transactional_db: None, redis_server: Any) -> None:
    """Writes commit, so that what happens on commit happens; every test begins like a new process."""
    publisher._contents_compared.clear()
    installation._place_checked.clear()
    installation._Held.instance = ""


class Api:
    """Calls ``/api/v1`` as a script does, with a token."""

    def __init__(self, token: str | None) -> None:
        self.client = Client(raise_request_exception=False)
        self.headers = {} if token is None else {"authorization": f"Token {token}"}

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        options: dict[str, Any] = {"headers": {**self.headers, **named}}
        if body is not None:
            options |= {"data": body, "content_type": "application/json"}
        if method in ("post", "patch") and body is None:
            options |= {"content_type": "application/json"}
        return getattr(self.client, method)(f"/api/v1{path}", **options)

    def get(self, path: str, **headers: str) -> HttpResponse:
        return self("get", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> HttpResponse:
        return self("post", path, body, **headers)

    def patch(self, path: str, body: Any, **headers: str) -> HttpResponse:
        return self("patch", path, body, **headers)

    def delete(self, path: str, **headers: str) -> HttpResponse:
        return self("delete", path, **headers)


@pytest.fixture
def operator() -> User:
    return User.objects.create_user("anna", is_staff=True)


@pytest.fixture
def api(operator: User) -> Api:
    """A staff user's token."""
    return Api(tokens.create(operator, "tests", "tests")[1])


@pytest.fixture
def reader() -> Api:
    """The token of somebody with read-only access."""
    user = User.objects.create_user("rolf")
    return Api(tokens.create(user, "tests", "tests")[1])


@pytest.fixture
def anonymous() -> Api:
    return Api(None)


LLM: dict[str, Any] = {
    "name": "llm",
    "protocol": "openai",
    "aliases": ["chat"],
    "probe": {"preset": "llama.cpp"},
    "replicas": [
        {"name": "a", "url": "http://127.0.0.1:9101"},
        {"name": "b", "url": "http://127.0.0.1:9102", "weight": 2.0},
    ],
}


@pytest.fixture
def llm() -> str:
    """A fleet of two replicas; its name."""
    fleets.create(LLM, "tests")
    return "llm"


@pytest.fixture
def make_fleet() -> Callable[..., str]:
    def make(name: str, **settings: Any) -> str:
        fleets.create({"name": name, "protocol": "openai", **settings}, "tests")
        return name

    return make
