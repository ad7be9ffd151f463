"""Every role asks every address by every method, and gets what the access matrix says."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpResponse
from django.test import Client

from controlplane.access.grants import ADMINISTER_ALL, Grant
from controlplane.access.selectors import parse_selector
from controlplane.api import probes
from controlplane.models import Fleet, ForcedPasswordChange
from controlplane.services import accounts, tokens
from controlplane.services.token_rules import TokenSettings
from tests.security import routes
from tests.security.access_matrix import (
    ADMINISTER,
    API,
    FORMS_POSTED_WITHOUT_JSON,
    READ,
    WEB,
    WEBSOCKETS,
    Need,
    Role,
)

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "OPTIONS")
TABLES = ("controlplane", "auth")
"""Apps whose rows nobody may change who was refused."""

pytestmark = pytest.mark.any_database


class Caller:
    """An account with one role, by one kind of credential; or a stranger."""

    def __init__(self, grant: str, credential: str, limit: str = "") -> None:
        """``grant``: as ``createaccount --role`` takes it; empty: no account. ``limit``: that of the token,
        which is as the account's or lower, written in the same way."""
        self.grant, self.credential, self.limit = grant, credential, limit
        word, _, self.labels = (limit or grant).partition(":")
        self.role = Role[word.upper()] if grant else Role.NOBODY
        self.client = Client(raise_request_exception=False)
        self.headers: dict[str, str] = {}
        if not grant:
            return
        name = "-".join(each.translate(NO_PUNCTUATION) for each in (credential, grant, limit))
        accounts.create(name, "tests", [Grant.parse(grant)])
        ForcedPasswordChange.objects.all().delete()
        user = User.objects.get(username=name)
        if credential == "session":
            self.client.force_login(user)
        else:
            role, selector = Grant.parse(limit) if limit else ADMINISTER_ALL
            settings = TokenSettings("tests", role, selector)
            self.headers = {"authorization": f"Token {tokens.create(user, settings, 'tests')[1]}"}

    def ask(self, method: str, route: str) -> HttpResponse:
        is_form = route in FORMS_POSTED_WITHOUT_JSON
        kind = "application/x-www-form-urlencoded" if is_form else "application/json"
        body = b"" if is_form or method in ("GET", "HEAD") else b"{}"
        if route == "/api/v1/fleets" and self.labels and method == "POST":
            # Whoever has a role by label makes fleets with that label.
            body = json.dumps({"labels": parse_selector(self.labels)}).encode()
        return self.client.generic(method, routes.path(route), body, kind, headers=self.headers)

    def role_at(self, wanted: Need, route: str) -> Role:
        """What the role is there: a token is nobody at a page, a role by label nobody elsewhere."""
        if self.credential == "token" and route not in API:
            return Role.NOBODY
        if self.labels and (wanted.all_fleets or (is_of_a_fleet(route) and self.labels != LABEL)):
            return Role.NOBODY
        if wanted.whole_token and self.limit and self.role < Role.ADMINISTER:
            return Role.NOBODY
        return self.role

    def may(self, wanted: Need | None, route: str) -> bool:
        return wanted is not None and self.role_at(wanted, route) >= wanted.role

    def __repr__(self) -> str:
        limit = f" limited to {self.limit}" if self.limit else ""
        return f"{self.grant or 'a stranger'} by {self.credential}{limit}"


NO_PUNCTUATION = str.maketrans(":=,", "___")
LABEL = "team=search"
"""Of the fleet ``llm``."""
CALLERS = (
    ("", "nothing"),
    ("read", "token"),
    ("read", "session"),
    ("operate", "token"),
    ("administer", "token"),
    ("administer", "session"),
    (f"operate:{LABEL}", "token"),
    (f"administer:{LABEL}", "session"),
    ("administer:team=ads", "token"),
    ("administer:team=ads", "session"),
    ("administer", "token", "read"),
    ("administer", "token", "operate"),
    ("administer", "token", f"operate:{LABEL}"),
    ("administer", "token", "administer:team=ads"),
    (f"administer:{LABEL}", "token", f"read:{LABEL}"),
    (f"administer:{LABEL}", "token", f"administer:{LABEL},env=prod"),
)


def is_of_a_fleet(route: str) -> bool:
    return "fleets/<str:" in route


@pytest.fixture
def callers(fresh_stores: None, llm: str) -> list[Caller]:
    Fleet.objects.filter(name=llm).update(labels={"team": "search"})
    return [Caller(*caller) for caller in CALLERS]


def test_the_matrix_has_every_address() -> None:
    assert set(routes.of_pages_and_api()) == set(WEB)
    assert set(routes.of_websockets()) == set(WEBSOCKETS)


@pytest.mark.parametrize("route", WEB)
def test_everybody_gets_what_the_matrix_says(
    callers: list[Caller], route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "WAIT_S", 0.0)  # nobody probes here
    wrong = []
    for caller in callers:
        wanted = {method: WEB[route].get("GET" if method == "HEAD" else method) for method in METHODS}
        admitted = [method for method in METHODS if caller.may(wanted[method], route)]
        before = rows()
        answers = {method: caller.ask(method, route) for method in METHODS if method not in admitted}
        assert rows() == before, f"{caller} was refused at {route}, and rows have changed"
        for method in admitted:
            with undone():
                answers[method] = caller.ask(method, route)
        # Without a body nothing says why; it is as GET all the same.
        head = answers.pop("HEAD").status_code
        if head != answers["GET"].status_code:
            wrong.append(f"{caller}, HEAD {route}: {head}, as GET: {answers['GET'].status_code}")
        for method, answer in answers.items():
            found = outcome(answer)
            if found not in expected(caller, method, wanted[method], route):
                wrong.append(f"{caller}, {method} {route}: {found} ({answer.status_code})")
    assert wrong == []


def expected(caller: Caller, method: str, wanted: Need | None, route: str) -> tuple[str, ...]:
    if caller.may(wanted, route):
        return ("let in",)
    signed_in = caller.role != Role.NOBODY and (caller.credential == "session" or route in API)
    if route == "/login" and caller.credential == "session":
        return ("let in",)  # whatever the method, sent on to the pages
    not_theirs = is_of_a_fleet(route) and not caller.may(READ, route)
    if wanted is None:
        # Who may not ask at all is told so first; OPTIONS says nothing but the methods that there are.
        silent = ("let in",) if method == "OPTIONS" else ()
        if caller.may(ADMINISTER, route) and not caller.labels:
            return ("no such method", *silent)
        return ("login", "forbidden", "no such method", *silent, *(("not there",) if not_theirs else ()))
    if not signed_in:
        return ("login",)
    return ("not there",) if not_theirs else ("forbidden",)


def outcome(answer: HttpResponse) -> str:
    if answer.status_code == 401 or answer.get("Location", "").startswith("/login?"):
        return "login"
    if answer.status_code in (403, 405) or is_of_a_missing_fleet(answer):
        # A refusal is words, never a part of what was asked for.
        assert b"127.0.0.1:910" not in answer.content
        return {403: "forbidden", 405: "no such method", 404: "not there"}[answer.status_code]
    return "let in" if answer.status_code < 500 or answer.status_code == 503 else "failed"


def is_of_a_missing_fleet(answer: HttpResponse) -> bool:
    """Not of a revision, key or device that is missing in a fleet, or at an address, that may be asked."""
    words = (b"no fleet", b"There is nothing at", b"No Fleet matches")
    return answer.status_code == 404 and any(said in answer.content for said in words)


@contextmanager
def undone() -> Iterator[None]:
    """The next caller finds all as it was."""
    with transaction.atomic():
        point = transaction.savepoint()
        yield
        transaction.savepoint_rollback(point)


def rows() -> Mapping[str, Any]:
    """Table → digest of its rows, without when a token or account was last seen."""
    found = {}
    for app in TABLES:
        for model in apps.get_app_config(app).get_models():
            names = [
                field.attname for field in model._meta.concrete_fields if not field.name.startswith("last_")
            ]
            said = repr(sorted(map(repr, model._default_manager.values_list(*names))))
            found[model._meta.label] = hashlib.sha256(said.encode()).hexdigest()
    return found
