"""``/hardware-classes`` and ``/hardware-classes/{name}``."""

from typing import Any

import pytest

from controlplane.models import Event
from routing.contract import redis_keys
from routing.contract.table import decode_snapshot
from tests.controlplane.conftest import Api


def weights(redis_client: Any) -> dict[str, float]:
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    return {replica.name: replica.weight for replica in snapshot.replicas}


def test_create_read_list(api: Api) -> None:
    answer = api.post("/hardware-classes", {"name": "h100-80g", "weight": 4})
    assert answer.status_code == 201
    assert api.get("/hardware-classes/h100-80g").json()["weight"] == 4.0
    assert api.get("/hardware-classes?search=h100").json()["count"] == 1
    assert api.get("/hardware-classes?search=a100").json()["count"] == 0
    assert api.post("/hardware-classes", {"name": "h100-80g"}).status_code == 409


@pytest.mark.parametrize(
    ("settings", "pointer", "words"),
    [
        ({"name": "H 100"}, "/name", "not a valid name"),
        ({"weight": 1}, "", 'a hardware class needs "name"'),
        ({"name": "x", "weight": None}, "/weight", "has no value"),
        ({"name": "x", "wait": 1}, "/wait", "unknown field"),
    ],
)
def test_refused_and_explained(api: Api, settings: Any, pointer: str, words: str) -> None:
    answer = api.post("/hardware-classes", settings)
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert words in answer.json()["errors"][0]["detail"]


def test_a_new_weight_reaches_replicas_without_one_of_their_own(
    api: Api, llm: str, redis_client: Any
) -> None:
    api.post("/hardware-classes", {"name": "h100", "weight": 4})
    api.patch("/fleets/llm/replicas/a", {"hardware": "h100"})
    api.patch("/fleets/llm/replicas/b", {"hardware": "h100"})
    assert weights(redis_client) == {"a": 4.0, "b": 2.0}
    etag = api.get("/hardware-classes/h100")["ETag"]
    said = api.patch("/hardware-classes/h100", {"weight": 8}, if_match=etag).json()
    assert said["weight"] == 8.0
    assert (said["changed"], said["published"]) == (["h100.weight: 4 → 8"], True)
    (fleet,) = said["fleets"]
    assert (fleet["name"], fleet["workers"]["live"]) == ("llm", 0)
    stored = redis_client.hmget(redis_keys.fleet_key("llm"), "epoch", "version")
    assert fleet["table_version"] == b":".join(stored).decode()
    assert api.patch("/hardware-classes/h100", {"weight": 8}).json()["changed"] == []
    assert weights(redis_client) == {"a": 8.0, "b": 2.0}
    assert Event.objects.filter(text="anna changed hardware class h100.weight: 4 → 8").count() == 1
    assert api.patch("/hardware-classes/h100", {"weight": 9}, if_match=etag).status_code == 412


def test_a_class_in_use_cannot_be_deleted(api: Api, llm: str) -> None:
    api.post("/hardware-classes", {"name": "h100"})
    api.patch("/fleets/llm/replicas/a", {"hardware": "h100"})
    answer = api.delete("/hardware-classes/h100")
    assert answer.status_code == 409
    words = "Hardware class h100 is in use by llm/a: give them another class, or null, first."
    assert answer.json()["detail"] == words
    api.patch("/fleets/llm/replicas/a", {"hardware": None})
    assert api.delete("/hardware-classes/h100").status_code == 204
    assert api.get("/hardware-classes/h100").status_code == 404


def test_the_name_never_changes(api: Api) -> None:
    api.post("/hardware-classes", {"name": "h100"})
    assert api.patch("/hardware-classes/h100", {"name": "a100"}).status_code == 400
