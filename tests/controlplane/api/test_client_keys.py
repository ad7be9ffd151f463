"""``/client-keys``: made, shown once, changed, revoked; and what proxies are told of it."""

from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command

from controlplane.models import AuditEntry, ClientKey, Event, Fleet, TableState
from controlplane.publishing import publisher
from controlplane.services import fleets
from routing.contract import redis_keys
from routing.contract.client_keys import PREFIX, key_hash, salt_bytes
from routing.contract.table import Manifest, decode_manifest
from routing.contract.telemetry import Acknowledgement, encode_acknowledgement
from tests.controlplane import workers
from tests.controlplane.conftest import Api


def manifest(client: Any) -> Manifest:
    return decode_manifest(client.hget(redis_keys.MANIFEST, "body"))


def opened(client: Any, key: str) -> list[str] | None:
    """What proxies let the key open; None: they do not know it."""
    told = manifest(client)
    if not told.key_hashes:
        return None
    return told.key_hashes.get(key_hash(salt_bytes(told.key_salt), key.encode()))


def test_a_key_is_shown_once_and_kept_as_a_keyed_hash(api: Api, llm: str, redis_client: Any) -> None:
    answer = api.post("/client-keys", {"name": " website "})
    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    made = answer.json()
    key = made["key"]
    assert key.startswith(PREFIX)
    assert len(key) - len(PREFIX) == 48
    assert int(key.removeprefix(PREFIX), 16).bit_length() > 128
    assert made["name"] == "website"
    assert key.startswith(made["prefix"])
    assert made["fleets"] is None
    assert made["created_by"] == "anna"
    for path in ("/client-keys", f"/client-keys/{made['id']}", "/events", "/audit"):
        assert key not in api.get(path).content.decode()
    rows = [ClientKey.objects.values(), AuditEntry.objects.values(), Event.objects.values()]
    assert key not in repr([list(table) for table in rows])
    assert key.encode() not in redis_client.hget(redis_keys.MANIFEST, "body")
    assert opened(redis_client, key) == ["*"]
    assert AuditEntry.objects.get(verb="client_keys.create").target == "website"
    event = Event.objects.get(text__contains="client key")
    assert event.text == (
        f"anna made client key website ({made['prefix']}…) for every fleet. "
        "It is the first key: from now on every request needs a key."
    )


def test_every_key_is_another_under_one_salt(api: Api, redis_client: Any) -> None:
    first, second = (api.post("/client-keys", {"name": name}).json()["key"] for name in ("a", "b"))
    assert first != second
    assert len(TableState.objects.get().key_salt) == 64
    assert (opened(redis_client, first), opened(redis_client, second)) == (["*"], ["*"])
    assert opened(redis_client, first[:-1] + ("0" if first[-1] != "0" else "1")) is None


def test_fleets_of_a_key(api: Api, llm: str, make_fleet: Any, redis_client: Any) -> None:
    make_fleet("embed")
    made = api.post("/client-keys", {"name": "batch", "fleets": ["llm", "embed", "llm"]}).json()
    assert made["fleets"] == ["embed", "llm"]
    assert opened(redis_client, made["key"]) == ["embed", "llm"]
    path = f"/client-keys/{made['id']}"
    changed = api.patch(path, {"fleets": ["embed"]})
    assert changed.json()["changed"] == ["fleets: embed, llm → embed"]
    assert opened(redis_client, made["key"]) == ["embed"]
    assert api.patch(path, {"fleets": ["embed"]}).json()["changed"] == []
    assert api.patch(path, {"name": "night batch"}).json()["fleets"] == ["embed"]
    assert api.patch(path, {"fleets": None}).json()["changed"] == ["fleets: embed → every fleet"]
    assert opened(redis_client, made["key"]) == ["*"]
    texts = list(Event.objects.filter(text__contains="changed client key").values_list("text", flat=True))
    assert len(texts) == 3


def test_a_deleted_fleet_leaves_its_keys_and_they_open_nothing_else(
    api: Api, llm: str, make_fleet: Any, redis_client: Any
) -> None:
    made = api.post("/client-keys", {"name": "batch", "fleets": ["llm"]}).json()
    fleets.delete("llm", "anna")
    assert opened(redis_client, made["key"]) == []
    # A new fleet of the old name is another fleet.
    make_fleet("llm")
    assert opened(redis_client, made["key"]) == []
    assert api.get(f"/client-keys/{made['id']}").json()["fleets"] == []


def test_a_revoked_key_is_gone_for_good(api: Api, redis_client: Any) -> None:
    kept, made = (api.post("/client-keys", {"name": name}).json() for name in ("kept", "leaked"))
    path = f"/client-keys/{made['id']}"
    answer = api.delete(path)
    assert answer.status_code == 200
    assert answer.json()["changed"] == ["revoked"]
    assert answer.json()["revoked_by"] == "anna"
    assert opened(redis_client, made["key"]) is None
    assert opened(redis_client, kept["key"]) == ["*"]
    assert api.delete(path).json()["changed"] == []
    assert api.patch(path, {"name": "again"}).status_code == 409
    assert [row["name"] for row in api.get("/client-keys").json()["results"]] == ["kept"]
    assert [row["name"] for row in api.get("/client-keys?revoked=yes").json()["results"]] == ["leaked"]
    # Its name is free again.
    assert api.post("/client-keys", {"name": "leaked"}).status_code == 201
    assert Event.objects.filter(text__contains="It was the last key").count() == 0
    assert AuditEntry.objects.filter(verb="client_keys.revoke").count() == 1


def test_without_keys_the_manifest_says_only_that_they_are_required(api: Api, redis_client: Any) -> None:
    made = api.post("/client-keys", {"name": "only"}).json()
    api.delete(f"/client-keys/{made['id']}")
    told = manifest(redis_client)
    assert (told.key_hashes, told.key_salt, told.keys_required) == ({}, "", True)
    assert Event.objects.filter(text__contains="It was the last key").count() == 1


@pytest.mark.parametrize(
    ("settings", "pointer", "words"),
    [
        ({}, "", 'a client key needs "name"'),
        ({"name": "  "}, "/name", "say what the key is for"),
        ({"name": "x" * 101}, "/name", "1 to 100 printable characters"),
        ({"name": "a\nb"}, "/name", "printable"),
        ({"name": 7}, "/name", "must be text"),
        ({"name": "x", "fleets": "llm"}, "/fleets", "must be a list"),
        ({"name": "x", "fleets": []}, "/fleets", "null for every fleet"),
        ({"name": "x", "fleets": ["llm", "lm"]}, "/fleets/1", 'there is no fleet "lm"; did you mean "llm"?'),
        ({"name": "x", "fleets": [1]}, "/fleets/0", "must be text"),
        ({"name": "x", "key": "sy-mine"}, "/key", "unknown field"),
    ],
)
def test_refused_and_explained(api: Api, llm: str, settings: Any, pointer: str, words: str) -> None:
    answer = api.post("/client-keys", settings)
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert words in answer.json()["errors"][0]["detail"]
    assert ClientKey.objects.count() == 0
    assert TableState.objects.get().key_salt == ""


def test_names_of_keys_in_force_are_unique(api: Api) -> None:
    first, second = (api.post("/client-keys", {"name": name}).json()["id"] for name in ("a", "b"))
    taken = api.post("/client-keys", {"name": "a"})
    assert taken.status_code == 409
    assert taken.json()["errors"][0]["pointer"] == "/name"
    assert api.patch(f"/client-keys/{second}", {"name": "a"}).status_code == 409
    assert api.patch(f"/client-keys/{first}", {"name": "a"}).json()["changed"] == []


def test_two_people_at_once(api: Api, redis_client: Any) -> None:
    made = api.post("/client-keys", {"name": "a"})
    path = f"/client-keys/{made.json()['id']}"
    assert api.get(path)["ETag"] == made["ETag"]
    assert api.patch(path, {"name": "b"}, if_match=made["ETag"]).status_code == 200
    assert api.patch(path, {"name": "c"}, if_match=made["ETag"]).status_code == 412
    assert api.delete(path, if_match=made["ETag"]).status_code == 412
    assert opened(redis_client, made.json()["key"]) == ["*"]


def test_who_may_what(api: Api, reader: Api, anonymous: Api) -> None:
    made = api.post("/client-keys", {"name": "a"}).json()
    path = f"/client-keys/{made['id']}"
    assert reader.get("/client-keys").json()["count"] == 1
    assert reader.post("/client-keys", {"name": "b"}).status_code == 403
    assert reader.patch(path, {"name": "b"}).status_code == 403
    assert reader.delete(path).status_code == 403
    assert anonymous.get("/client-keys").status_code == 401
    assert api.get("/client-keys/999").status_code == 404
    assert api.get("/client-keys?revoked=maybe").status_code == 400


def test_the_answer_says_how_many_workers_know(api: Api, redis_client: Any) -> None:
    workers.alive(redis_client, "p/1/0", "p/1/1")
    ack = encode_acknowledgement(Acknowledgement(applied="9:1"))
    redis_client.hset(redis_keys.MANIFEST_ACKS, "p/1/0", ack)
    counted = api.post("/client-keys", {"name": "a"}).json()["workers"]
    assert (counted["live"], counted["applied"]) == (2, 1)
    redis_client.hset(redis_keys.MANIFEST_ACKS, "p/1/1", ack)
    assert api.post("/client-keys", {"name": "b"}).json()["workers"]["applied"] == 2


def test_redis_away_loses_nothing(api: Api, redis_server: Any) -> None:
    redis_server.stop()
    made = api.post("/client-keys", {"name": "a"}).json()
    assert made["published"] is False
    redis_server.start()
    publisher.publish_all()
    with redis.Redis.from_url(redis_server.url) as client:
        assert opened(client, made["key"]) == ["*"]


def test_a_fleet_files_keys_are_not_applied(tmp_path: Path, llm: str) -> None:
    file = tmp_path / "fleets.yaml"
    file.write_text("version: 1\nfleets: []\nclient_keys: [{name: website, key: 'env:WEBSITE_KEY'}]\n")
    with pytest.raises(CommandError, match="client keys are made on the page"):
        call_command("apply", str(file), prune=True)
    for required in ("true", "false"):
        file.write_text(f"version: 1\nfleets: []\nkeys_required: {required}\n")
        with pytest.raises(
            CommandError, match=r"line 3.*keys_required of a fleet file is for a proxy that runs"
        ):
            call_command("apply", str(file), prune=True)
    assert ClientKey.objects.count() == 0
    assert Fleet.objects.count() == 1
