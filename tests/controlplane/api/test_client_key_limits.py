"""What a client key may use: set, changed and lifted over the API, and what proxies are told of it."""

import time
from typing import Any

import msgspec
import pytest

from controlplane.models import AuditEntry, ClientKey, Event
from controlplane.telemetry.frames import CLIENT_KEYS_KEY, ClientKeyLive, ClientKeysFrame
from routing.contract import redis_keys
from routing.contract.table import KeyLimits
from routing.contract.telemetry import Acknowledgement, encode_acknowledgement
from tests.controlplane import workers
from tests.controlplane.api.test_client_keys import manifest
from tests.controlplane.conftest import Api

LIMITS = {
    "priority": "low",
    "weight": 2.5,
    "requests_per_minute": 60,
    "max_concurrency": 4,
    "tokens_per_minute": 10_000,
}
FREE = {
    "priority": "normal",
    "weight": 1.0,
    "requests_per_minute": None,
    "max_concurrency": None,
    "tokens_per_minute": None,
}


def store_keys(client: Any, *keys: ClientKeyLive, age_s: float = 0.0) -> None:
    """As the conductor does each second."""
    frame = ClientKeysFrame(sequence=7, at=time.time() - age_s, table="1:1", workers=2, keys=list(keys))
    client.set(CLIENT_KEYS_KEY, msgspec.json.encode(frame))


def told(client: Any) -> list[KeyLimits]:
    """What proxies are told of every key."""
    message = manifest(client)
    assert message.key_limits.keys() == message.key_hashes.keys()
    return list(message.key_limits.values())


def shown(answer: Any) -> dict[str, Any]:
    """What an answer says of the limits."""
    return {name: answer.json()[name] for name in LIMITS}


def test_limits_of_a_new_key_reach_the_proxies_under_its_id(api: Api, redis_client: Any) -> None:
    made = api.post("/client-keys", {"name": "batch", **LIMITS})
    assert made.status_code == 201
    assert shown(made) == LIMITS
    assert told(redis_client) == [KeyLimits(id=str(made.json()["id"]), **LIMITS)]
    assert AuditEntry.objects.get(verb="client_keys.create").after.items() >= LIMITS.items()


def test_a_key_without_limits_is_counted_under_its_id_all_the_same(api: Api, redis_client: Any) -> None:
    made = api.post("/client-keys", {"name": "website"})
    assert shown(made) == FREE
    assert told(redis_client) == [KeyLimits(id=str(made.json()["id"]))]


def test_limits_are_changed_one_by_one_and_lifted(api: Api, redis_client: Any) -> None:
    made = api.post("/client-keys", {"name": "batch", **LIMITS})
    path = f"/client-keys/{made.json()['id']}"
    changed = api.patch(path, {"requests_per_minute": 90, "priority": "high"}, if_match=made["ETag"])
    assert changed.json()["changed"] == ["priority: low → high", "requests_per_minute: 60 → 90"]
    assert shown(changed) == {**LIMITS, "priority": "high", "requests_per_minute": 90}
    assert (told(redis_client)[0].requests_per_minute, told(redis_client)[0].max_concurrency) == (90, 4)
    assert api.patch(path, {"max_concurrency": 5}, if_match=made["ETag"]).status_code == 412
    lifted = api.patch(path, {**FREE, "priority": "normal"})
    assert shown(lifted) == FREE
    assert "tokens_per_minute: 10000 → not set" in lifted.json()["changed"]
    assert told(redis_client) == [KeyLimits(id=str(made.json()["id"]))]
    assert api.patch(path, {"max_concurrency": None}).json()["changed"] == []
    entry = AuditEntry.objects.filter(verb="client_keys.update").order_by("id")[0]
    assert (entry.before["requests_per_minute"], entry.after["requests_per_minute"]) == (60, 90)
    assert Event.objects.filter(text__contains="requests_per_minute: 60 → 90").count() == 1


def test_other_changes_leave_the_limits(api: Api, llm: str, redis_client: Any) -> None:
    made = api.post("/client-keys", {"name": "batch", **LIMITS}).json()
    assert shown(api.patch(f"/client-keys/{made['id']}", {"name": "night", "fleets": ["llm"]})) == LIMITS
    assert told(redis_client) == [KeyLimits(id=str(made["id"]), **LIMITS)]


def test_a_revoked_key_has_no_limits_at_the_proxies(api: Api, redis_client: Any) -> None:
    kept, gone = (api.post("/client-keys", {"name": name, **LIMITS}).json()["id"] for name in ("a", "b"))
    api.delete(f"/client-keys/{gone}")
    assert [limits.id for limits in told(redis_client)] == [str(kept)]


def test_the_answer_says_how_many_workers_know_the_new_limit(api: Api, redis_client: Any) -> None:
    made = api.post("/client-keys", {"name": "batch"}).json()
    workers.alive(redis_client, "p/1/0", "p/1/1")
    behind = Acknowledgement(applied=f"{manifest(redis_client).epoch}:{manifest(redis_client).version}")
    ahead = Acknowledgement(applied="9:1")
    redis_client.hset(redis_keys.MANIFEST_ACKS, "p/1/0", encode_acknowledgement(behind))
    redis_client.hset(redis_keys.MANIFEST_ACKS, "p/1/1", encode_acknowledgement(ahead))
    counted = api.patch(f"/client-keys/{made['id']}", {"requests_per_minute": 5}).json()["workers"]
    assert (counted["live"], counted["applied"]) == (2, 1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"requests_per_minute": 0}, "must be from 1 to 1000000000, not 0"),
        ({"requests_per_minute": 1.5}, "must be a whole number, not 1.5"),
        ({"requests_per_minute": "60"}, 'must be a whole number, not the text "60": remove the quotes'),
        ({"max_concurrency": -1}, "must be from 1 to 1000000, not -1"),
        ({"max_concurrency": True}, "must be a whole number, not true"),
        ({"tokens_per_minute": 10**12}, "must be from 1 to 100000000000, not 1000000000000"),
        ({"priority": "hig"}, 'must be one of high, normal, low, not the text "hig"; did you mean "high"?'),
        ({"priority": None}, "has no value: give it one, or remove it"),
        ({"weight": 0}, "must be from 0.01 to 100, not 0"),
        ({"weight": None}, "has no value"),
        ({"request_per_minute": 6}, 'did you mean "requests_per_minute"?'),
    ],
)
def test_a_wrong_limit_is_refused_at_its_field(api: Api, settings: Any, words: str) -> None:
    made = api.post("/client-keys", {"name": "batch"}).json()
    for answer in (
        api.post("/client-keys", {"name": "new", **settings}),
        api.patch(f"/client-keys/{made['id']}", settings),
    ):
        assert answer.status_code == 400
        (error,) = answer.json()["errors"]
        assert error["pointer"] == f"/{next(iter(settings))}"
        assert words in error["detail"]
    assert ClientKey.objects.count() == 1


def test_the_largest_limits_are_kept_as_they_are(api: Api, redis_client: Any) -> None:
    numbers = {"requests_per_minute": 10**9, "max_concurrency": 10**6, "tokens_per_minute": 10**11}
    most = {"weight": 100.0, **numbers}
    made = api.post("/client-keys", {"name": "batch", **most})
    assert made.status_code == 201
    assert shown(made) == {"priority": "normal", **most}
    assert told(redis_client)[0].tokens_per_minute == 10**11


def test_what_a_key_does_now(api: Api, redis_client: Any) -> None:
    busy, quiet = (api.post("/client-keys", {"name": name}).json()["id"] for name in ("busy", "quiet"))
    path = f"/client-keys/{busy}/live"
    assert api.get(path).json() == {"age_s": None, "frame": None}
    live = ClientKeyLive(id=busy, name="busy", rps=2.5, in_flight=3, at_limit=["max_concurrency"])
    store_keys(redis_client, live, age_s=3)
    body = api.get(path).json()
    assert 3 <= body["age_s"] < 60
    assert body["frame"]["key"] == msgspec.to_builtins(live)
    assert body["frame"]["sequence"] == 7
    unused = api.get(f"/client-keys/{quiet}/live").json()["frame"]["key"]
    assert (unused["name"], unused["rps"], unused["at_limit"]) == ("quiet", 0.0, [])
    assert [key["name"] for key in api.get("/client-keys/live").json()["frame"]["keys"]] == ["busy"]
    assert api.get("/client-keys/999/live").status_code == 404
    redis_client.set(CLIENT_KEYS_KEY, b"of another version")
    assert api.get(path).json() == {"age_s": None, "frame": None}


def test_without_redis_nothing_is_known_of_what_a_key_does(api: Api, redis_server: Any) -> None:
    key = api.post("/client-keys", {"name": "busy"}).json()["id"]
    redis_server.stop()
    for path in ("/client-keys/live", f"/client-keys/{key}/live"):
        assert api.get(path).status_code == 503
