"""Signing in: one-time passwords, and too many wrong ones."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client
from redis.exceptions import ConnectionError as RedisAway

from controlplane.datastores import guess_buckets
from controlplane.models import ForcedPasswordChange
from controlplane.services import accounts, guess_limits
from tests.controlplane.conftest import Api

PASSWORD = "violet-otter-9182"
ELSEWHERE = "198.51.100.7"


@pytest.fixture(autouse=True)
def _no_guesses_yet() -> None:
    guess_buckets._local._full_at.clear()


@pytest.fixture
def slow_return(monkeypatch: pytest.MonkeyPatch) -> None:
    """No guess of an address comes back while a busy machine compares thirty passwords."""
    monkeypatch.setattr(guess_limits, "PER_ADDRESS", (guess_limits.PER_ADDRESS[0], 1000.0))


@pytest.fixture(params=["with Redis", "without Redis"])
def counters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where guesses are counted."""
    if request.param == "without Redis":

        def away(*_: object) -> None:
            raise RedisAway

        monkeypatch.setattr(guess_buckets, "_run", away)


def attempt(client: Client, password: str, name: str = "anna", address: str = ELSEWHERE) -> int:
    form = {"username": name, "password": password}
    return client.post("/login", form, REMOTE_ADDR=address).status_code


def test_ten_wrong_passwords_from_anywhere_lock_new_browsers_out(counters: None) -> None:
    User.objects.create_user("anna", password=PASSWORD)
    User.objects.create_user("otto", password=PASSWORD)
    assert [attempt(Client(), "wrong", address=f"192.0.2.{each}") for each in range(10)] == [200] * 10
    locked = Client().post("/login", {"username": "anna", "password": PASSWORD}, REMOTE_ADDR="192.0.2.77")
    assert locked.status_code == 429
    assert 80 <= int(locked["Retry-After"]) <= 90
    assert b"Wait 90 s" in locked.content
    assert attempt(Client(), PASSWORD, "otto") == 302


def test_a_browser_in_which_the_owner_has_signed_in_is_not_locked_out(counters: None) -> None:
    User.objects.create_user("anna", password=PASSWORD)
    owner = Client()
    assert attempt(owner, PASSWORD) == 302
    owner.post("/logout")
    while attempt(Client(), "wrong") != 429:
        pass
    assert attempt(owner, "mistyped") == 200
    assert attempt(owner, PASSWORD) == 302
    owner.post("/logout")
    # Its own limit holds nevertheless, and its cookie is for this account alone.
    assert [attempt(owner, "wrong") for _ in range(10)].count(429) == 1
    assert attempt(Client(), PASSWORD, address="203.0.113.1") == 429


def test_the_cookie_ends_with_the_password_and_cannot_be_made_up() -> None:
    user = User.objects.create_user("anna", password=PASSWORD)
    owner = Client()
    assert attempt(owner, PASSWORD) == 302
    (name,) = [name for name in owner.cookies if name.startswith("device_")]
    cookie = owner.cookies[name]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/login")
    user.set_password("something else entirely")
    user.save()
    for value in (cookie.value, cookie.value[:-3] + "abc", "nonsense"):
        forged = Client()
        forged.cookies[name] = value
        seen = [attempt(forged, "wrong") for _ in range(11)]
        assert 429 in seen


def test_the_cookie_outlives_a_secret_key_while_the_former_one_is_named(
    settings: Any, counters: None
) -> None:
    """Else a rotation let anybody lock the owners out."""
    User.objects.create_user("anna", password=PASSWORD)
    owner = Client()
    assert attempt(owner, PASSWORD) == 302
    former, settings.SECRET_KEY = settings.SECRET_KEY, "another-" * 10
    settings.SECRET_KEY_FALLBACKS = ["no such key, but long enough for one " * 2, former]
    owner.post("/logout")
    while attempt(Client(), "wrong") != 429:
        pass
    assert attempt(owner, PASSWORD) == 302
    # That renewed the cookie: the former key is needed no longer.
    owner.post("/logout")
    settings.SECRET_KEY_FALLBACKS = []
    while attempt(Client(), "wrong") != 429:
        pass
    assert attempt(owner, PASSWORD) == 302


def test_one_address_cannot_try_many_names(counters: None, slow_return: None) -> None:
    seen = [attempt(Client(), "wrong", f"name{each}") for each in range(31)]
    assert seen == [200] * 30 + [429]
    assert attempt(Client(), "wrong", "another", "::ffff:198.51.100.7") == 429
    assert attempt(Client(), "wrong", "another", "203.0.113.1") == 200


def test_an_ipv6_subscriber_is_one_address(slow_return: None) -> None:
    seen = [attempt(Client(), "wrong", f"name{each}", f"2001:db8::{each + 1:x}") for each in range(31)]
    assert seen[-1] == 429


def test_many_names_from_many_addresses_have_a_limit_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guess_limits, "IN_ALL", (5, 100.0))
    seen = [attempt(Client(), "wrong", f"name{each}", f"192.0.2.{each}") for each in range(7)]
    assert seen == [200] * 5 + [429] * 2


def test_logins_that_succeed_and_those_refused_use_nothing_up(counters: None) -> None:
    User.objects.create_user("anna", password=PASSWORD)
    assert [attempt(Client(), PASSWORD) for _ in range(40)] == [302] * 40
    assert attempt(Client(), "") == 200
    seen = [attempt(Client(), "wrong") for _ in range(30)]
    assert seen == [200] * 10 + [429] * 20
    # The twenty that were refused took nothing of the address's: twenty are left for other names.
    assert [attempt(Client(), "wrong", f"name{each}") for each in range(20)] == [200] * 20


def test_a_database_that_is_away_is_no_wrong_password(counters: None) -> None:
    User.objects.create_user("anna", password=PASSWORD)

    def away(execute: Any, sql: str, *rest: Any) -> Any:
        if "auth_user" in sql:
            raise OperationalError("the server closed the connection")
        return execute(sql, *rest)

    with connection.execute_wrapper(away):
        browser = Client(raise_request_exception=False)
        assert [attempt(browser, PASSWORD) for _ in range(15)] == [503] * 15
    assert attempt(Client(), PASSWORD) == 302


def test_a_name_is_one_name_in_each_of_its_forms() -> None:
    forms = ["anna", "ANNA", " anna ", "\uff41\uff4e\uff4e\uff41"]  # the last one in full-width letters
    assert [attempt(Client(), "wrong", forms[each % 4]) for each in range(10)] == [200] * 10
    assert attempt(Client(), "wrong") == 429


def test_a_locked_name_still_works_by_token(api: Api) -> None:
    while attempt(Client(), "wrong") != 429:
        pass
    assert api.get("/fleets").status_code == 200


def test_unknown_tokens_are_limited_and_valid_ones_are_not(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guess_limits, "TOKENS_PER_ADDRESS", (3, 100.0))
    stranger = Api("sy_unknown")
    assert [stranger.get("/fleets").status_code for _ in range(5)] == [401] * 3 + [429] * 2
    refused = stranger.get("/fleets")
    assert int(refused["Retry-After"]) > 90
    assert "unknown API tokens" in refused.json()["detail"]
    assert api.get("/fleets").status_code == 200


def test_the_present_password_cannot_be_guessed_in_an_open_session() -> None:
    user = User.objects.create_user("anna", password=PASSWORD)
    client, other = Client(), Client()
    client.force_login(user)
    other.force_login(user)

    def change(session: Client, old: str, new: str) -> int:
        return session.post(
            "/password", {"old_password": old, "new_password1": new, "new_password2": new}
        ).status_code

    assert [change(client, PASSWORD, "short") for _ in range(12)] == [200] * 12
    assert [change(client, "wrong", "a-much-longer-one-7712") for _ in range(11)] == [200] * 10 + [429]
    assert change(client, PASSWORD, "a-much-longer-one-7712") == 429
    assert change(other, PASSWORD, "a-much-longer-one-7712") == 302


def test_a_one_time_password_must_be_replaced_first() -> None:
    password = accounts.ensure_administrator("admin", "tests")
    assert password is not None
    assert len(password) >= 20
    client = Client()
    assert attempt(client, password, "admin") == 302
    page = client.get("/", headers={"accept": "text/html"})
    assert (page.status_code, page["Location"]) == (302, "/password")
    call = client.get("/api/v1/fleets")
    assert call.status_code == 403
    assert "/password" in call.json()["detail"]

    form = {"old_password": password, "new_password1": PASSWORD, "new_password2": PASSWORD}
    assert client.post("/password", form).status_code == 302
    assert not ForcedPasswordChange.objects.exists()
    assert client.get("/api/v1/fleets").status_code == 200


def test_there_is_only_one_first_administrator() -> None:
    assert accounts.ensure_administrator("admin", "tests")
    assert accounts.ensure_administrator("other", "tests") is None
