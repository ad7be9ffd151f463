"""Session ids: browsers have them, the database has their digests."""

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from controlplane.web.hashed_sessions import SessionStore, digest

PASSWORD = "violet-otter-9182"


@pytest.fixture
def signed_in() -> Client:
    User.objects.create_user("anna", password=PASSWORD)
    client = Client()
    assert client.post("/login", {"username": "anna", "password": PASSWORD}).status_code == 302
    return client


def session_id(client: Client) -> str:
    return client.cookies["sessionid"].value


def status(key: str) -> int:
    client = Client()
    client.cookies["sessionid"] = key
    return client.get("/api/v1/fleets").status_code


def test_the_database_has_no_session_id(signed_in: Client) -> None:
    [row] = Session.objects.all()
    assert session_id(signed_in) not in repr(Session.objects.values())
    assert row.session_key == digest(session_id(signed_in))
    assert status(session_id(signed_in)) == 200
    assert status(row.session_key) == 401, "what the database has opens nothing"


def test_a_session_of_before_the_upgrade_has_ended(signed_in: Client) -> None:
    Session.objects.update(session_key=session_id(signed_in))
    assert status(session_id(signed_in)) == 401


def test_signing_in_out_and_a_new_password_change_the_id(signed_in: Client) -> None:
    first = session_id(signed_in)
    form = {
        "old_password": PASSWORD,
        "new_password1": "amber-heron-4471",
        "new_password2": "amber-heron-4471",
    }
    assert signed_in.post("/password", form).status_code == 302
    second = session_id(signed_in)
    assert (first != second, status(first), status(second)) == (True, 401, 200)
    signed_in.post("/logout")
    assert (status(second), Session.objects.count()) == (401, 0)


def test_the_asynchronous_half_does_the_same() -> None:
    @async_to_sync
    async def kept() -> tuple[str, str]:
        made = SessionStore()
        await made.aset("word", "kept")
        await made.asave()
        assert made.session_key is not None
        found = await SessionStore(made.session_key).aget("word")
        await made.asave()
        assert await made.aexists(made.session_key)
        return made.session_key, str(found)

    key, found = kept()
    assert (found, Session.objects.get().session_key) == ("kept", digest(key))
    async_to_sync(SessionStore(key).adelete)()
    assert not Session.objects.exists()
    assert SessionStore(key).load() == {}
