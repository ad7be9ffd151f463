"""Signing in: one-time passwords, and too many wrong ones."""

from django.contrib.auth.models import User
from django.test import Client

from controlplane.models import ForcedPasswordChange
from controlplane.services import accounts

PASSWORD = "violet-otter-9182"


def attempt(client: Client, password: str, name: str = "anna") -> int:
    return client.post("/login", {"username": name, "password": password}).status_code


def test_a_pair_of_name_and_address_is_locked_after_ten_wrong_passwords(settings: object) -> None:
    User.objects.create_user("anna", password=PASSWORD)
    User.objects.create_user("otto", password=PASSWORD)
    settings.AXES_FAILURE_LIMIT = 3  # type: ignore[attr-defined]
    client = Client()
    assert [attempt(client, "wrong") for _ in range(2)] == [200, 200]
    assert attempt(client, "wrong") == 429
    locked = client.post("/login", {"username": "anna", "password": PASSWORD})
    assert locked.status_code == 429
    assert locked["Retry-After"] == "900"
    assert b"Wait 15 minutes" in locked.content
    assert attempt(Client(), PASSWORD, "otto") == 302


def test_a_locked_name_still_works_by_token(settings: object, api: object) -> None:
    settings.AXES_FAILURE_LIMIT = 1  # type: ignore[attr-defined]
    assert attempt(Client(), "wrong") == 429
    assert api.get("/fleets").status_code == 200  # type: ignore[attr-defined]


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
