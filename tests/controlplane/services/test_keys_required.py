"""Whether client keys are required: a setting of its own, which revoking the last key does not turn off."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps

from controlplane.models import AuditEntry, ClientKey, Event, TableState
from tests.controlplane.api.test_client_keys import manifest
from tests.controlplane.conftest import Api

SETTINGS = "/client-keys/settings"


def test_the_first_key_turns_it_on_and_revoking_the_last_leaves_it_on(api: Api, redis_client: Any) -> None:
    before = api.get(SETTINGS).json()
    assert (before["required"], before["keys"]) == (False, 0)
    assert before["effect"].startswith("everybody who can reach a proxy on a local address")
    made = api.post("/client-keys", {"name": "a"}).json()
    assert made["effect"] == "It is the first key: from now on every request needs a key."
    assert manifest(redis_client).keys_required is True
    assert "effect" not in api.post("/client-keys", {"name": "b"}).json()
    for row in api.get("/client-keys").json()["results"]:
        answer = api.delete(f"/client-keys/{row['id']}").json()
    assert answer["effect"].startswith("It was the last key: no request is served until a client key is made")
    told = manifest(redis_client)
    assert (told.key_hashes, told.keys_required) == ({}, True)
    after = api.get(SETTINGS).json()
    assert (after["required"], after["keys"]) == (True, 0)
    assert after["effect"].startswith("no request is served")


def test_it_is_turned_off_and_on_by_itself(api: Api, redis_client: Any) -> None:
    api.post("/client-keys", {"name": "a"})
    off = api.patch(SETTINGS, {"required": False}).json()
    assert off["changed"] == ["keys required: on → off"]
    assert (off["required"], off["keys"], off["published"]) == (False, 1, True)
    assert "without a client key" in off["effect"]
    assert manifest(redis_client).keys_required is False
    assert api.patch(SETTINGS, {"required": False}).json()["changed"] == []
    # Another key is not the first.
    assert "effect" not in api.post("/client-keys", {"name": "b"}).json()
    assert manifest(redis_client).keys_required is False
    assert api.patch(SETTINGS, {"required": True}).json()["changed"] == ["keys required: off → on"]
    assert manifest(redis_client).keys_required is True
    assert AuditEntry.objects.filter(verb="client_key_settings.update").count() == 3
    texts = Event.objects.filter(text__contains="“keys required”").values_list("text", flat=True)
    assert any(text.startswith("anna turned off “keys required”: everybody who can reach") for text in texts)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, 'needs "required"'),
        ({"required": 1}, "must be true or false"),
        ({"required": None}, "has no value"),
        ({"required": True, "keys": 0}, "unknown field"),
    ],
)
def test_refused_and_explained(api: Api, body: Any, words: str) -> None:
    answer = api.patch(SETTINGS, body)
    assert answer.status_code == 400
    assert words in answer.json()["errors"][0]["detail"]


def test_who_may_what(reader: Api, anonymous: Api) -> None:
    assert reader.get(SETTINGS).status_code == 200
    assert reader.patch(SETTINGS, {"required": False}).status_code == 403
    assert anonymous.get(SETTINGS).status_code == 401


def test_installations_that_exist_keep_what_they_ask_for(api: Api) -> None:
    """The migration: on where a key is in force, off where none is, also where all were revoked."""
    migrate = import_module("controlplane.migrations.0015_keys_required").as_before
    made = api.post("/client-keys", {"name": "a"}).json()
    TableState.objects.update(keys_required=False)
    migrate(apps, None)
    assert TableState.objects.get().keys_required
    ClientKey.objects.filter(pk=made["id"]).update(revoked_at="2026-01-01T00:00:00Z")
    TableState.objects.update(keys_required=False)
    migrate(apps, None)
    assert not TableState.objects.get().keys_required
