"""Database → Redis: what is stored, what is not, and what heals itself."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import redis as redis_package
from django.db import transaction

from controlplane.models import Event, Fleet, PolicyRevision, ReplicaHealth, TableState
from controlplane.publishing import installation, publisher
from controlplane.services import fleets, policies, replicas
from controlplane.services.errors import Conflict
from controlplane.services.unit_of_work import UnitOfWork, unit_of_work
from routing.contract import redis_keys, snapshot_chunks
from routing.contract.table import FleetSnapshot, Manifest, Version, decode_manifest, decode_snapshot, encode
from routing.contract.telemetry import FleetCounters, WorkerReport
from tests.controlplane.conftest import Api


def snapshot(client: Any, name: str = "llm") -> FleetSnapshot:
    return decode_snapshot(client.hget(redis_keys.fleet_key(name), "body"))


def manifest(client: Any) -> Manifest:
    return decode_manifest(client.hget(redis_keys.MANIFEST, "body"))


def test_nothing_is_published_before_the_commit(llm: str, redis_client: Any) -> None:
    with transaction.atomic():
        policies.change("llm", {"strategy": "round_robin"}, "anna")
        assert snapshot(redis_client).policy.strategy == "least_expected_work"
    assert snapshot(redis_client).policy.strategy == "round_robin"


def _change_and_then_lose(write: UnitOfWork) -> None:
    policies.change("llm", {"strategy": "round_robin"}, "anna")
    outdated = Fleet.objects.get()
    outdated.edit_version -= 1
    write.save_fleet(outdated)


def test_a_write_that_fails_publishes_nothing(llm: str, redis_client: Any) -> None:
    before = snapshot(redis_client)

    with pytest.raises(Conflict), unit_of_work("anna") as write:
        _change_and_then_lose(write)
    assert snapshot(redis_client) == before
    assert Fleet.objects.get().revision == 1
    assert publisher.publish_all() == 0


def test_flushall_is_rebuilt(llm: str, make_fleet: Callable[..., str], redis_client: Any) -> None:
    make_fleet("other", default=True)
    before = (snapshot(redis_client), snapshot(redis_client, "other"), manifest(redis_client))
    redis_client.flushall()
    assert publisher.publish_all() == 3
    assert (snapshot(redis_client), snapshot(redis_client, "other"), manifest(redis_client)) == before
    assert publisher.publish_all() == 0


def test_what_was_written_while_redis_was_away_follows(llm: str, redis_server: Any) -> None:
    redis_server.stop()
    assert policies.change("llm", {"strategy": "round_robin"}, "anna").published is False
    with pytest.raises(redis_package.RedisError):
        publisher.publish_all()
    redis_server.start()
    assert publisher.publish_all() == 2
    with redis_package.Redis.from_url(redis_server.url) as client:
        assert snapshot(client).policy.strategy == "round_robin"


def test_only_what_is_older_is_sent(llm: str, make_fleet: Callable[..., str], redis_client: Any) -> None:
    make_fleet("other")
    redis_client.delete(redis_keys.fleet_key("other"))
    assert publisher.publish_all() == 1
    assert snapshot(redis_client, "other").name == "other"


def test_at_rest_it_costs_two_queries(
    llm: str, make_fleet: Callable[..., str], django_assert_num_queries: Any
) -> None:
    for number in range(20):
        make_fleet(f"fleet-{number}")
    publisher.publish_all()
    with django_assert_num_queries(2):
        assert publisher.publish_all() == 0


def test_an_older_message_never_replaces_a_newer_one(llm: str, redis_client: Any) -> None:
    old = publisher.snapshot_of(Fleet.objects.get())
    policies.change("llm", {"strategy": "round_robin"}, "anna")
    publisher._store(installation.identity(), [old])
    assert snapshot(redis_client).version == 2


def test_a_restored_database_begins_a_new_epoch(llm: str, redis_client: Any) -> None:
    for seconds in (1, 2, 3):
        policies.change("llm", {"slow_start_s": seconds}, "anna")
    publisher.publish_all()
    # As a backup from before those changes would have it:
    Fleet.objects.update(table_version=1, policy={}, revision=1)
    assert publisher.publish_all() == 2
    assert (snapshot(redis_client).epoch, snapshot(redis_client).version) == (2, 1)
    assert snapshot(redis_client).policy.slow_start_s == 30.0
    assert manifest(redis_client).epoch == 2
    assert "restored or replaced" in Event.objects.get(kind="system").text
    assert publisher.publish_all() == 0


def test_a_manifest_that_is_ahead_counts_too(llm: str, redis_client: Any) -> None:
    stored = manifest(redis_client)
    TableState.objects.update(manifest_version=1)
    assert publisher.publish_all() == 2
    assert (manifest(redis_client).epoch, manifest(redis_client).version) == (stored.epoch + 1, 1)


def test_a_database_restored_while_redis_is_empty_too_is_published(llm: str, redis_client: Any) -> None:
    """Only the proxies know the later table then: their reports say so."""
    for seconds in (1, 2, 3):
        policies.change("llm", {"slow_start_s": seconds}, "anna")
    later = WorkerReport(
        worker="edge/1/0",
        incarnation=1,
        sequence=1,
        installation=installation.identity().id,
        manifest=str(Version(1, manifest(redis_client).version)),
        fleets=[FleetCounters(name="llm", applied="1:4")],
    )
    foreign = msgspec.structs.replace(later, installation="another", manifest="7:1")
    assert publisher.publish_all([later, foreign]) == 0
    Fleet.objects.update(table_version=1, policy={}, revision=1)
    redis_client.flushall()
    assert publisher.publish_all([later, foreign]) == 2
    assert (snapshot(redis_client).epoch, snapshot(redis_client).version) == (2, 1)
    assert publisher.publish_all([later, foreign]) == 0, "once is enough, though it has not taken it yet"


def test_a_replaced_database_of_the_same_versions_is_found(llm: str, redis_client: Any) -> None:
    foreign = {"epoch": 1, "version": 1, "revision": 1, "name": "llm", "protocol": "generic"}
    redis_client.hset(redis_keys.fleet_key("llm"), "body", encode(FleetSnapshot(**foreign)))
    assert publisher.publish_all() == 2
    assert snapshot(redis_client).epoch == 2
    assert snapshot(redis_client).protocol == "openai"


def test_a_write_to_a_restored_database_is_published_at_once(llm: str, redis_client: Any) -> None:
    """It gets the very version that Redis has of another content."""
    policies.change("llm", {"slow_start_s": 1}, "anna")
    Fleet.objects.update(table_version=1, policy={}, revision=1)
    PolicyRevision.objects.filter(number=2).delete()
    assert policies.change("llm", {"slow_start_s": 9}, "anna").published
    assert (snapshot(redis_client).epoch, snapshot(redis_client).version) == (2, 2)
    assert snapshot(redis_client).policy.slow_start_s == 9
    assert publisher.publish_all() == 0


def test_what_another_process_stored_first_is_no_restore(llm: str, redis_client: Any) -> None:
    assert publisher.publish([Fleet.objects.get().pk], with_manifest=True)
    assert TableState.objects.get().epoch == 1


def test_a_write_between_the_two_reads_is_no_restore(
    llm: str, redis_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.publish_all()
    read = publisher._stored

    def after_another_write(wanted: Any) -> Any:
        monkeypatch.setattr(publisher, "_stored", read)
        policies.change("llm", {"slow_start_s": 1}, "anna")
        return read(wanted)

    monkeypatch.setattr(publisher, "_stored", after_another_write)
    assert publisher.publish_all() == 0
    assert TableState.objects.get().epoch == 1


def test_an_empty_database_publishes_an_empty_manifest(redis_client: Any) -> None:
    assert publisher.publish_all() == 1
    empty = Manifest(epoch=1, version=1, keys_required=False, installation=installation.identity().id)
    assert manifest(redis_client) == empty
    assert publisher.publish_all() == 0


def test_a_large_fleet_is_stored_in_chunks_and_healed_like_any_other(
    make_fleet: Callable[..., str], redis_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_chunks, "CHUNK_REPLICAS", 2)
    make_fleet("big", replicas=[{"name": f"r{n}", "url": f"http://10.0.0.1:{n + 1}"} for n in range(5)])
    key = redis_keys.fleet_key("big")
    assert redis_client.hget(key, "chunks") == b"3"
    stored = snapshot_chunks.decode_fields(redis_client.hgetall(key))
    assert stored == publisher.snapshot_of(Fleet.objects.get())
    assert publisher.publish_all() == 0, "it is what the database says"
    redis_client.flushall()
    assert publisher.publish_all() == 2
    publisher._contents_compared.clear()
    redis_client.hset(key, "replicas:1", b"[]")
    assert publisher.publish_all() == 2, "a chunk of another content is of another database"
    assert TableState.objects.get().epoch == 2
    for name in ("r2", "r3", "r4"):
        replicas.delete("big", name, "anna")
    assert set(redis_client.hgetall(key)) == {b"epoch", b"version", b"installation", b"body"}
    assert len(snapshot(redis_client, "big").replicas) == 2


def test_the_snapshot_of_a_replica_says_all_three_facts(api: Api, llm: str, redis_client: Any) -> None:
    api.patch("/fleets/llm/replicas/a", {"admin_state": "maintenance", "max_concurrency": 4})
    replica = snapshot(redis_client).replicas[0]
    assert (replica.admin_state, replica.health, replica.health_source) == (
        "maintenance",
        "checking",
        "probe",
    )
    assert replica.max_concurrency == 4
    assert replica.uid == str(Fleet.objects.get().replicas.get(name="a").uid)


def test_the_snapshot_says_how_long_each_replicas_start_is_expected_to_take(
    make_fleet: Callable[..., str], redis_client: Any
) -> None:
    """Its own time, or what the fleet's others take in the middle; another fleet's says nothing."""
    known = {"a": 30.0, "b": None, "c": 50.0, "d": 900.0}
    make_fleet("big", replicas=[{"name": name, "url": f"http://{name}:1"} for name in known])
    make_fleet("other", replicas=[{"name": "a", "url": "http://o:1"}])
    for name, startup_s in known.items():
        ReplicaHealth.objects.filter(replica__fleet__name="big", replica__name=name).update(
            startup_s=startup_s
        )
    found = {row.name: publisher.snapshot_of(row) for row in Fleet.objects.all()}
    assert [replica.startup_s for replica in found["big"].replicas] == [30.0, 50.0, 50.0, 900.0]
    assert [replica.startup_s for replica in found["other"].replicas] == [None]


def test_two_hundred_replicas_are_compiled_in_four_queries(
    make_fleet: Callable[..., str], django_assert_num_queries: Any
) -> None:
    make_fleet("big", replicas=[{"name": f"r{n}", "url": f"http://10.0.0.1:{n + 1}"} for n in range(200)])
    row = Fleet.objects.get()
    with django_assert_num_queries(4):
        assert len(publisher.snapshot_of(row).replicas) == 200


def test_a_deleted_fleet_leaves_nothing_behind(llm: str, redis_client: Any) -> None:
    fleets.delete("llm", "anna")
    assert not redis_client.exists(redis_keys.fleet_key("llm"), redis_keys.fleet_acks_key("llm"))
    assert manifest(redis_client).fleets == {}
