"""More replicas than the table may have are refused with words, before anything is published."""

from typing import Any

import pytest
import redis

from controlplane.models import Fleet, Replica
from controlplane.services import fleet_files, fleets, replicas
from controlplane.services.errors import Conflict, Invalid
from routing.contract import redis_keys
from routing.contract.fleet_file import FleetEntry, FleetFile, ReplicaEntry
from tests.controlplane.conftest import Api


def listed(number: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"name": f"r{n}", "url": f"http://127.0.0.1:{9000 + n}"} for n in range(first, first + number)]


def fleet(number: int, name: str = "big") -> dict[str, Any]:
    return {"name": name, "protocol": "openai", "replicas": listed(number)}


@pytest.fixture(autouse=True)
def _small(settings: Any) -> None:
    settings.MAX_REPLICAS = 3


def test_a_list_that_can_never_fit_is_refused_unread() -> None:
    with pytest.raises(
        Invalid, match="replicas: 4 replicas: all fleets together may have 3; divide them"
    ) as why:
        fleets.create(fleet(4) | {"replicas": [{}] * 4}, "t")
    assert [error.pointer for error in why.value.errors] == ["/replicas"]
    file = FleetFile(fleets=[entry("one", 2), entry("two", 2)])
    with pytest.raises(Invalid, match="fleets: 4 replicas"):
        fleet_files.apply(file, "t")
    assert not Fleet.objects.exists()


def entry(name: str, number: int) -> FleetEntry:
    found = [ReplicaEntry(name=one["name"], url=one["url"]) for one in listed(number)]
    return FleetEntry(name=name, protocol="openai", replicas=found)


def test_the_sum_over_all_fleets_counts() -> None:
    fleets.create(fleet(2), "t")
    words = "The table would have 4 replicas; all fleets together may have 3"
    with pytest.raises(Conflict, match=words):
        fleets.creatable(fleet(2, "other"))
    with pytest.raises(Conflict, match=words):
        fleets.create(fleet(2, "other"), "t")
    replicas.register("big", listed(1, 2)[0], "t")
    with pytest.raises(Conflict, match=words):
        replicas.registrable(Fleet.objects.get(), listed(1, 3)[0])
    with pytest.raises(Conflict, match=words):
        replicas.register("big", listed(1, 3)[0], "t")
    assert Replica.objects.count() == 3


def test_only_the_end_of_a_write_counts() -> None:
    """A fleet of a file may grow before another shrinks."""
    fleet_files.apply(FleetFile(fleets=[entry("one", 1), entry("two", 2)]), "t")
    fleet_files.apply(FleetFile(fleets=[entry("one", 2), entry("two", 1)]), "t")
    fleet_files.apply(FleetFile(fleets=[entry("three", 3)]), "t", prune=True, confirm_all=True)
    with pytest.raises(Conflict, match="would have 4"):
        fleet_files.apply(FleetFile(fleets=[entry("four", 1)]), "t", dry_run=True)
    assert list(Fleet.objects.values_list("name", flat=True)) == ["three"]


def test_what_is_beyond_already_can_be_changed_and_removed(settings: Any) -> None:
    fleets.create(fleet(3), "t")
    settings.MAX_REPLICAS = 1
    replicas.update("big", "r0", {"weight": 2.0}, "t")
    fleets.update("big", {"aliases": ["large"]}, "t")
    replicas.delete("big", "r2", "t")
    with pytest.raises(Conflict):
        replicas.register("big", listed(1, 5)[0], "t")


@pytest.mark.any_database
def test_20_000_replicas_are_refused_at_once_and_nothing_is_published(
    api: Api, settings: Any, redis_client: "redis.Redis"
) -> None:
    settings.MAX_REPLICAS = 5000
    answer = api.post("/fleets", fleet(20_000) | {"replicas": listed(20_000)})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/replicas"
    assert "20000 replicas: all fleets together may have 5000" in answer.json()["detail"]
    assert not redis_client.exists(redis_keys.fleet_key("big"))
    assert not Fleet.objects.exists()
