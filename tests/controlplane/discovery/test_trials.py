"""Trials of sources: what would come in is told, by the process that would follow, and nothing is written."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis

from controlplane.discovery import trial_service, trials
from controlplane.discovery.lease_store import LeaseStore
from controlplane.discovery.trials import NobodyLooks
from controlplane.models import DiscoverySource, Fleet, Replica, ReplicaOwner
from controlplane.services import replicas, sources
from controlplane.services.errors import Invalid
from tests.controlplane.discovery.conftest import Leader

pytestmark = pytest.mark.django_db(transaction=True)

FILE = {"name": "rack", "file": {"path": "llm.json"}, "replica": {"site": "east"}}


@pytest.fixture
def fleet(make_fleet: Callable[..., str], settings: Any, tmp_path: Path) -> Fleet:
    settings.SOURCES_DIR = tmp_path
    make_fleet("llm", replicas=[{"name": "a", "url": "http://127.0.0.1:9"}])
    return Fleet.objects.get()


def test_what_would_come_in_is_told_by_name(
    leader: Leader, fleet: Fleet, tmp_path: Path, redis_client: "redis.Redis"
) -> None:
    listed = [
        {"name": "a", "url": "http://10.0.0.1:1"},
        {"name": "b", "url": "http://10.0.0.2:1"},
        {"name": "c", "url": "http://10.0.0.3:1", "hardware": "h100"},
        {"name": "d", "url": "http://10.0.0.4:1"},
        {"name": "e", "url": "http://10.0.0.5:1", "site": "west"},
    ]
    (tmp_path / "llm.json").write_bytes(orjson.dumps(listed))
    sources.create("llm", {**FILE, "paused": True}, "anna")
    for name, site in (("d", "east"), ("e", "east"), ("f", "east")):
        url = f"http://10.0.0.{ord(name) - 96}:1"
        made = replicas.register("llm", {"name": name, "url": url, "site": site}, "anna").replica
        ReplicaOwner.objects.create(replica=made, source=DiscoverySource.objects.get())
    seen = trial_service.attempt(fleet, FILE, redis_client)
    assert [(one.name, one.url, one.site) for one in seen.new] == [("b", "http://10.0.0.2:1", "east")]
    assert seen.changed == {"e": ["site: east → west"]}
    assert (seen.unchanged, seen.missing, seen.left_alone) == (1, ["f"], ["a"])
    assert "there is no hardware class" in seen.refused["c"]
    assert seen.words == (
        "It lists 5 replicas: 1 would be registered, 1 would change, 1 unchanged, 1 would be left out, 1 "
        "would be left alone, for others have the name, 1 of its own not among them."
    )
    assert Replica.objects.count() == 4
    assert not redis_client.keys("sy:discovery:trial*")


def test_one_that_does_not_answer_says_why(leader: Leader, fleet: Fleet, redis_client: "redis.Redis") -> None:
    seen = trial_service.attempt(fleet, FILE, redis_client)
    assert seen.words.startswith("It does not answer: there is no file llm.json in ")
    assert (seen.listing.entries, seen.missing) == ([], [])


def test_without_a_conductor_nobody_looks(
    fleet: Fleet, fresh_stores: None, redis_client: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NobodyLooks):
        trial_service.attempt(fleet, FILE, redis_client)


def test_one_that_does_not_lead_does_not_look(
    leader: Leader, fleet: Fleet, redis_client: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    trial_service.attempt(fleet, FILE, redis_client)  # it listens by now
    leader.leads = False
    monkeypatch.setattr(trials, "ANSWER_WITHIN_S", 0.3)
    with pytest.raises(NobodyLooks):
        trial_service.attempt(fleet, FILE, redis_client)


def test_leases_are_those_that_hold(fleet: Fleet, fresh_stores: None, redis_client: "redis.Redis") -> None:
    settings = {"name": "self", "lease": {"allow": ["10.0.0.0/8"]}}
    assert "replicas register themselves" in trial_service.attempt(fleet, settings, redis_client).words
    sources.create("llm", settings, "anna")
    store = LeaseStore(redis_client, str(DiscoverySource.objects.get().uid))
    store.grant("x", {"url": "http://10.0.0.1:1"}, 30.0)
    store.grant("y", {"url": "http://10.0.0.2:1"}, 30.0)
    store.release("y")
    again = trial_service.attempt(fleet, {**settings, "replica": {"site": "west"}}, redis_client)
    assert [(one.name, one.site) for one in again.new] == [("x", "west")]


def test_wrong_settings_are_refused_at_their_field(fleet: Fleet, redis_client: "redis.Redis") -> None:
    sources.create("llm", FILE, "anna")
    with pytest.raises(Invalid) as refused:
        trial_service.attempt(fleet, {"name": "rack", "dns": {"name": "a.example"}}, redis_client)
    [field] = refused.value.errors
    assert (field.pointer, "is another kind than file" in field.detail) == ("/dns", True)


def test_a_list_of_thousands_is_told_within_seconds(
    leader: Leader, fleet: Fleet, tmp_path: Path, redis_client: "redis.Redis"
) -> None:
    listed = [
        {"name": f"r{number}", "url": f"http://10.1.{number // 250}.{number % 250 + 1}:1", "hardware": "h100"}
        for number in range(5000)
    ]
    (tmp_path / "llm.json").write_bytes(orjson.dumps(listed))
    began = time.monotonic()
    seen = trial_service.attempt(fleet, FILE, redis_client)
    assert time.monotonic() - began < 8
    assert len(seen.refused) == trial_service.MOST_JUDGED
    assert len(seen.new) == 5000 - trial_service.MOST_JUDGED
