"""``/accelerators`` and ``/accelerators/{name}``, and what replicas hold there."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from controlplane.models import Accelerator, AuditEntry, Event, Replica
from controlplane.services import replicas
from controlplane.services.errors import Conflict
from controlplane.services.lookup import fleet_named
from controlplane.telemetry.frames import OVERVIEW_KEY, AcceleratorLive
from routing.contract import redis_keys
from routing.contract.table import AcceleratorSpec, decode_manifest, decode_snapshot
from tests.controlplane.conftest import Api

GIB = 2**30
GPU = {"name": "node1/gpu0", "memory_bytes": 80 * GIB}


@pytest.fixture
def gpu(api: Api) -> str:
    """80 GiB, of which 5 % stay free; its name."""
    assert api.post("/accelerators", GPU).status_code == 201
    return "node1/gpu0"


def register(api: Api, fleet: str, name: str, gibibytes: int, **more: Any) -> Any:
    on = {"accelerators": ["node1/gpu0"], "memory_bytes": gibibytes * GIB}
    replica = {"name": name, "url": "http://127.0.0.1:9199", **on, **more}
    return api.post(f"/fleets/{fleet}/replicas?trial=no", replica)


def test_create_read_list_change_delete(api: Api, gpu: str) -> None:
    made = api.get("/accelerators/node1/gpu0")
    assert (made.json()["usable_bytes"], made.json()["headroom_percent"]) == (76 * GIB, 5.0)
    assert api.get("/accelerators/node1%2Fgpu0").json() == made.json()
    assert [api.get(f"/accelerators?search={word}").json()["count"] for word in ("gpu0", "gpu1")] == [1, 0]
    changed = api.patch("/accelerators/node1/gpu0", {"memory_bytes": 96 * GIB}, if_match=made["ETag"])
    assert changed.json()["changed"] == ["node1/gpu0.memory_bytes: 80 GiB → 96 GiB"]
    assert Event.objects.get().text == "anna changed accelerator node1/gpu0.memory_bytes: 80 GiB → 96 GiB"
    assert api.patch("/accelerators/node1/gpu0", {"memory_bytes": 96 * GIB}).json()["changed"] == []
    one_more = api.patch("/accelerators/node1/gpu0", {"memory_bytes": 96 * GIB + 1}).json()["changed"]
    assert one_more == ["node1/gpu0.memory_bytes: 103079215104 → 103079215105"]
    stale = api.patch("/accelerators/node1/gpu0", {"memory_bytes": GIB}, if_match=made["ETag"])
    assert stale.status_code == 412
    assert api.delete("/accelerators/node1/gpu0").status_code == 204
    missing = api.get("/accelerators/node1/gpu0")
    assert (missing.status_code, missing.json()["detail"]) == (
        404,
        'There is no accelerator "node1/gpu0"; there are none yet.',
    )
    verbs = [f"accelerators.{verb}" for verb in ("create", "update", "update", "delete")]
    assert list(AuditEntry.objects.filter(target=gpu).order_by("id").values_list("verb", flat=True)) == verbs


@pytest.mark.parametrize(
    ("settings", "status", "pointer", "words"),
    [
        (GPU, 409, "/name", "There is an accelerator node1/gpu0 already"),
        ({"name": "Node 1", "memory_bytes": 1}, 400, "/name", "not a valid name of an accelerator"),
        ({"name": "x"}, 400, "", 'an accelerator needs "memory_bytes"'),
        ({"name": "x", "memory_bytes": "80 GiB"}, 400, "/memory_bytes", "must be a whole number"),
        ({"name": "x", "memory_bytes": 1, "headroom_percent": 100}, 400, "/headroom_percent", "from 0 to 99"),
    ],
)
def test_refused_and_explained(
    api: Api, gpu: str, settings: Any, status: int, pointer: str, words: str
) -> None:
    answer = api.post("/accelerators", settings)
    assert answer.status_code == status
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert words in answer.json()["errors"][0]["detail"]


def test_the_name_never_changes(api: Api, gpu: str) -> None:
    answer = api.patch("/accelerators/node1/gpu0", {"name": "node1/gpu1"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/name")


def test_proxies_are_told_of_devices_and_of_what_replicas_hold_there(
    api: Api, gpu: str, llm: str, redis_client: Any
) -> None:
    takes = {"request_bytes": GIB, "request_bytes_per_work": 0.5}
    assert register(api, "llm", "c", 40, **takes).status_code == 201
    manifest = decode_manifest(redis_client.hget(redis_keys.MANIFEST, "body"))
    assert manifest.accelerators == [AcceleratorSpec(**GPU)]
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    told = {
        each.name: (each.accelerators, each.memory_bytes, each.request_bytes, each.request_bytes_per_work)
        for each in snapshot.replicas
    }
    assert told == {"a": ([], None, 0, 0.0), "b": ([], None, 0, 0.0), "c": ([gpu], 40 * GIB, GIB, 0.5)}
    api.patch("/accelerators/node1/gpu0", {"headroom_percent": 10})
    manifest = decode_manifest(redis_client.hget(redis_keys.MANIFEST, "body"))
    assert manifest.accelerators[0].headroom_percent == 10.0


def test_weights_that_do_not_fit_are_refused_with_the_sum(
    api: Api, gpu: str, llm: str, make_fleet: Callable[..., str]
) -> None:
    """All fleets on the device count."""
    make_fleet("images")
    assert register(api, "llm", "c", 40).status_code == 201
    assert register(api, "images", "d", 30).status_code == 201
    answer = register(api, "images", "b", 16)
    assert answer.status_code == 409
    said = (
        "does not fit on accelerator node1/gpu0: 80 GiB less 5 % headroom are 76 GiB, and its replicas hold "
        "images/d 30 GiB + llm/c 40 GiB + images/b 16 GiB = 86 GiB, 10 GiB too much"
    )
    assert answer.json()["errors"] == [{"pointer": "/memory_bytes", "detail": said}]
    assert answer.json()["detail"] == f"memory_bytes: {said}"
    assert not Replica.objects.filter(fleet__name="images", name="b").exists()
    assert register(api, "images", "b", 6).status_code == 201, "what fits exactly fits"
    seen = api.get("/accelerators/node1/gpu0").json()
    assert (seen["held_bytes"], [one["replica"] for one in seen["replicas"]]) == (76 * GIB, ["b", "d", "c"])


def test_what_does_not_fit_is_refused_before_an_address_is_tried(api: Api, gpu: str, llm: str) -> None:
    wanted = {"name": "c", "url": "http://h", "accelerators": [gpu], "memory_bytes": 90 * GIB}
    with pytest.raises(Conflict, match="does not fit"):
        replicas.registrable(fleet_named("llm"), wanted)


def test_a_change_is_held_to_the_same_sum(api: Api, gpu: str, llm: str) -> None:
    register(api, "llm", "c", 40)
    api.patch("/fleets/llm/replicas/a", {"accelerators": [gpu], "memory_bytes": 30 * GIB})
    path = "/fleets/llm/replicas/a"
    grown = api.patch(path, {"memory_bytes": 40 * GIB})
    assert (grown.status_code, grown.json()["errors"][0]["pointer"]) == (409, "/memory_bytes")
    greedy = api.patch(path, {"request_bytes": 7 * GIB})
    assert (greedy.status_code, greedy.json()["errors"][0]["pointer"]) == (409, "/request_bytes")
    assert "leaves 6 GiB for requests, and one at llm/a takes 7 GiB" in greedy.json()["detail"]
    moved = api.patch(path, {"accelerators": [], "memory_bytes": None})
    assert moved.json()["changed"] == [
        "a.accelerators: node1/gpu0 → none",
        "a.memory_bytes: 30 GiB → not set",
    ]
    assert api.patch("/fleets/llm/replicas/c", {"memory_bytes": 76 * GIB}).status_code == 200


def test_a_newcomer_that_leaves_no_room_for_anothers_requests_is_told_so(
    api: Api, gpu: str, llm: str
) -> None:
    register(api, "llm", "c", 40, request_bytes=10 * GIB)
    answer = register(api, "llm", "d", 30)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (409, "/memory_bytes")
    assert "one at llm/c takes 10 GiB" in answer.json()["detail"]


def test_a_device_does_not_shrink_below_what_is_on_it(api: Api, gpu: str, llm: str) -> None:
    register(api, "llm", "c", 70)
    for field, value in (("memory_bytes", 64 * GIB), ("headroom_percent", 20)):
        answer = api.patch("/accelerators/node1/gpu0", {field: value})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (409, f"/{field}")
        assert "replicas hold llm/c 70 GiB, " in answer.json()["detail"]
    assert Accelerator.objects.get().memory_bytes == 80 * GIB


def test_a_whole_fleet_is_told_which_replica_is_too_much(api: Api, gpu: str) -> None:
    on = {"accelerators": [gpu], "memory_bytes": 40 * GIB}
    listed = [{"name": name, "url": "http://h", **on} for name in ("a", "b")]
    answer = api.post("/fleets?trial=no", {"name": "llm", "protocol": "openai", "replicas": listed})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (409, "/replicas/1/memory_bytes")


def test_one_in_use_cannot_be_deleted(api: Api, gpu: str, llm: str) -> None:
    register(api, "llm", "c", 1)
    answer = api.delete("/accelerators/node1/gpu0")
    assert answer.status_code == 409
    said = "Accelerator node1/gpu0 is in use by llm/c: give them another one, or an empty list, first."
    assert answer.json()["detail"] == said
    api.delete("/fleets/llm/replicas/c")
    assert api.delete("/accelerators/node1/gpu0").status_code == 204


@pytest.mark.parametrize(
    ("more", "pointer", "words"),
    [
        ({"accelerators": ["node1/gpu1"]}, "/accelerators/0", 'did you mean "node1/gpu0"?'),
        ({"accelerators": ["node1/gpu0"] * 2}, "/accelerators/1", "is listed twice"),
        ({"memory_bytes": 5}, "/memory_bytes", 'has no effect without "accelerators"'),
        ({"accelerators": [7]}, "/accelerators/0", "must be text"),
        ({"accelerators": None}, "/accelerators", "has no value"),
    ],
)
def test_a_replicas_fields_are_checked_in_full(
    api: Api, gpu: str, llm: str, more: dict[str, Any], pointer: str, words: str
) -> None:
    for answer in (
        api.post("/fleets/llm/replicas?trial=no", {"name": "z", "url": "http://h", **more}),
        api.patch("/fleets/llm/replicas/a", more),
    ):
        assert answer.status_code == 400
        assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
        assert words in answer.json()["errors"][0]["detail"]


def test_leased_bytes_are_those_of_the_last_frame(api: Api, gpu: str, redis_client: Any) -> None:
    assert api.get("/accelerators/node1/gpu0").json()["leased_bytes"] is None
    live = AcceleratorLive(
        name=gpu,
        memory_bytes=80 * GIB,
        usable_bytes=76 * GIB,
        held_bytes=0,
        leased_bytes=3 * GIB,
        lease_waits=0,
    )
    for age_s, seen in ((0.5, 3 * GIB), (60.0, None)):
        frame = msgspec.json.encode({"at": time.time() - age_s, "accelerators": [live]})
        redis_client.set(OVERVIEW_KEY, frame)
        assert api.get("/accelerators/node1/gpu0").json()["leased_bytes"] == seen


def test_lookers_may_look(reader: Api, gpu: str) -> None:
    assert reader.get("/accelerators").json()["count"] == 1
    assert reader.delete("/accelerators/node1/gpu0").status_code == 403
