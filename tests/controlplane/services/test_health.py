"""Probe transitions: compare-and-set on the state they were judged from."""

from collections.abc import Callable
from typing import Any

from controlplane.models import AuditEntry, Event, Fleet, ReplicaHealth
from controlplane.services import health
from controlplane.services.health import Transition
from controlplane.services.unit_of_work import record_event
from routing.contract import redis_keys
from routing.contract.table import decode_snapshot


def pk_of(name: str) -> int:
    return Fleet.objects.get().replicas.get(name=name).pk


def test_a_transition_is_written_told_and_published(llm: str, redis_client: Any) -> None:
    assert health.record_transition(pk_of("a"), "checking", "ready", "200 in 4 ms", True) is True
    row = ReplicaHealth.objects.get(replica__name="a")
    assert (row.state, row.reason, row.has_passed) == ("ready", "200 in 4 ms", True)
    event = Event.objects.get(kind="health")
    assert (event.text, event.state) == ("a is ready, was checking: 200 in 4 ms", "ready")
    fleet = Fleet.objects.get()
    assert (fleet.table_version, fleet.edit_version) == (2, 1)
    replica = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body")).replicas[0]
    assert (replica.health, replica.has_passed) == ("ready", True)
    assert not AuditEntry.objects.filter(actor="probes").exists()


def test_whoever_is_late_changes_nothing(llm: str) -> None:
    assert health.record_transition(pk_of("a"), "checking", "ready", "200", True)
    assert health.record_transition(pk_of("a"), "checking", "down", "refused", False) is False
    assert ReplicaHealth.objects.get(replica__name="a").state == "ready"
    assert Fleet.objects.get().table_version == 2
    assert health.record_transition(999_999, "checking", "down", "refused", False) is False


def test_a_batch_is_one_table_version_a_fleet(
    make_fleet: Callable[..., str], redis_client: Any, django_assert_max_num_queries: Any
) -> None:
    make_fleet("big", replicas=[{"name": f"r{n}", "url": f"http://10.0.0.1:{n + 1}"} for n in range(50)])
    pks = Fleet.objects.get().replicas.values_list("pk", flat=True)
    batch = [Transition(pk, "checking", "ready", "200", True) for pk in pks]
    assert health.record_transitions(batch) == [True] * 50
    assert Fleet.objects.get().table_version == 2
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("big"), "body"))
    assert {replica.health for replica in snapshot.replicas} == {"ready"}


def test_an_event_of_its_own(llm: str) -> None:
    fleet = Fleet.objects.get()
    row = record_event("ejection", "x" * 500, fleet=fleet, state="ejected", actor="conductor")
    assert len(row.text) == 400
    assert fleet.table_version == Fleet.objects.get().table_version
