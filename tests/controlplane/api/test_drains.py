"""``/drains``: a host or an accelerator is drained at once, whatever fleets its replicas are of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from controlplane.access.grants import Grant
from controlplane.models import Event, ForcedPasswordChange, Replica
from controlplane.services import accounts, tokens
from routing.contract import redis_keys
from routing.contract.table import ReplicaSpec, decode_snapshot
from tests.controlplane.conftest import Api


@pytest.fixture
def racks(api: Api, make_fleet: Callable[..., str]) -> None:
    """Two hosts with two accelerators each, and on each of these a replica of either fleet; and a replica
    that only its URL places."""
    for device in ("n1/gpu0", "n1/gpu1", "n2/gpu0", "n2/gpu1"):
        assert api.post("/accelerators", {"name": device, "memory_bytes": 1000}).status_code == 201
    for fleet, port in (("llm", 8000), ("embed", 9000)):
        replicas: list[dict[str, Any]] = [
            {
                "name": device.replace("/", "-"),
                "url": f"http://10.0.0.{number}:{port}",
                "accelerators": [device],
            }
            for number, device in enumerate(("n1/gpu0", "n1/gpu1", "n2/gpu0", "n2/gpu1"), 1)
        ]
        replicas.append({"name": "alone", "url": f"http://N1:{port}"})
        make_fleet(fleet, replicas=replicas, labels={"team": fleet})


def states() -> dict[str, str]:
    """Of what is not active."""
    rows = Replica.objects.exclude(admin_state="active").order_by("fleet__name", "name")
    return {
        f"{row.fleet.name}/{row.name}": f"{row.admin_state}{' moves' if row.move else ''}" for row in rows
    }


def published(redis_client: Any, fleet: str) -> dict[str, ReplicaSpec]:
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key(fleet), "body"))
    return {replica.name: replica for replica in snapshot.replicas}


def test_an_accelerator(api: Api, racks: None, redis_client: Any) -> None:
    answer = api.post("/drains", {"accelerator": "n1/gpu0", "move": True})
    assert answer.status_code == 200, answer.content
    assert states() == {"embed/n1-gpu0": "draining moves", "llm/n1-gpu0": "draining moves"}
    body = answer.json()
    assert [(one["fleet"], one["replica"], one["move"]) for one in body["replicas"]] == [
        ("embed", "n1-gpu0", True),
        ("llm", "n1-gpu0", True),
    ]
    assert body["safe_to_stop"] is None
    assert [one["name"] for one in body["fleets"]] == ["embed", "llm"]
    assert "llm: n1-gpu0.admin_state: active → draining" in body["changed"]
    for fleet in ("llm", "embed"):
        assert [name for name, one in published(redis_client, fleet).items() if one.is_vacated] == ["n1-gpu0"]
    texts = list(Event.objects.filter(state="draining").values_list("text", flat=True))
    assert texts == ["anna began draining n1-gpu0, and moves its streams"] * 2
    again = api.post("/drains", {"accelerator": "n1/gpu0", "move": True}).json()
    assert (again["changed"], again["fleets"]) == ([], [])


def test_a_host_by_its_accelerators_and_by_urls(api: Api, racks: None) -> None:
    refused = api.post("/drains", {"host": "n1"})
    assert refused.status_code == 409, "three of five of each fleet"
    token = refused.json()["confirm"]
    assert states() == {}
    assert api.post(f"/drains?confirm={token}", {"host": "n1"}).status_code == 200
    names = ("alone", "n1-gpu0", "n1-gpu1")
    assert states() == {f"{fleet}/{name}": "draining" for fleet in ("embed", "llm") for name in names}
    assert api.post("/drains", {"host": "n1", "move": True}).status_code == 200
    assert set(states().values()) == {"draining moves"}
    assert api.post("/drains", {"host": "n1", "admin_state": "active"}).status_code == 200
    assert states() == {}
    assert not Replica.objects.filter(move=True).exists()


def test_an_address_is_a_host(api: Api, racks: None) -> None:
    api.post("/drains", {"host": "10.0.0.2"})
    assert states() == {"embed/n1-gpu1": "draining", "llm/n1-gpu1": "draining"}


def test_what_is_in_maintenance_stays_so(api: Api, racks: None) -> None:
    api.patch("/fleets/llm/replicas/n1-gpu0", {"admin_state": "maintenance"})
    api.post("/drains", {"accelerator": "n1/gpu0", "move": True})
    api.post("/drains", {"accelerator": "n1/gpu0", "admin_state": "active"})
    assert states() == {"llm/n1-gpu0": "maintenance"}


def test_what_is_there_can_be_read(api: Api, racks: None) -> None:
    answer = api.get("/drains?accelerator=n2/gpu1").json()
    assert [(one["fleet"], one["admin_state"], one["in_flight"]) for one in answer["replicas"]] == [
        ("embed", "active", None),
        ("llm", "active", None),
    ]
    assert answer["safe_to_stop"] is None


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "needs either host or accelerator"),
        ({"host": "n1", "accelerator": "n1/gpu0"}, 400, "needs either host or accelerator"),
        ({"host": ""}, 400, "must be a name"),
        ({"host": "n1", "move": "yes"}, 400, "must be true or false"),
        ({"host": "n1", "admin_state": "maintenance"}, 400, "must be one of draining, active"),
        ({"host": "n1", "admin_state": "active", "move": True}, 400, "is for a drain"),
        ({"host": "n3"}, 404, "No replica is on host n3"),
        ({"accelerator": "n1/gpu7"}, 404, "There is no accelerator"),
    ],
)
def test_refused_and_explained(api: Api, racks: None, body: Any, status: int, words: str) -> None:
    answer = api.post("/drains", body)
    assert answer.status_code == status
    assert words in answer.content.decode()
    assert states() == {}


def test_it_needs_the_role_in_all_fleets_that_are_there(api: Api, racks: None) -> None:
    accounts.create("sam", "tests", [Grant.parse("operate:team=llm")])
    ForcedPasswordChange.objects.all().delete()
    sam = Api(tokens.create(User.objects.get(username="sam"), "laptop", "tests")[1])
    refused = sam.post("/drains", {"accelerator": "n1/gpu0"})
    assert refused.status_code == 403
    assert "a replica of fleets in which your role is not operate" in refused.json()["detail"]
    assert "embed" not in refused.content.decode()
    assert states() == {}
    assert [one["fleet"] for one in sam.get("/drains?accelerator=n1/gpu0").json()["replicas"]] == ["llm"]
    Replica.objects.filter(fleet__name="embed", name="n1-gpu0").delete()
    assert sam.post("/drains", {"accelerator": "n1/gpu0"}).status_code == 200
    Replica.objects.filter(fleet__name="llm", name__startswith="n2").delete()
    assert sam.post("/drains", {"host": "n2"}).status_code == 404


def test_who_only_reads_drains_nothing(reader: Api, racks: None) -> None:
    assert reader.post("/drains", {"host": "n1"}).status_code == 403
    assert states() == {}
