"""Rows that have changed are seen by the schedule and by whoever probes; the others are not read."""

from random import Random

import pytest
import redis
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.models import Replica
from controlplane.probes import keys, reconciled_schedule, schedule
from controlplane.probes.reconciled_schedule import ReconciledSchedule
from controlplane.probes.targets import TargetCache
from controlplane.services import fleets, health, replicas
from tests.conftest import RedisServer

pytestmark = pytest.mark.django_db
RNG = Random(7)


@pytest.fixture
def two(redis_server: RedisServer) -> list[Replica]:
    """One replica in each of two fleets."""
    for name in ("one", "two"):
        fleets.create({"name": name, "protocol": "openai"}, "test")
        replicas.register(name, {"name": "a", "url": f"http://127.0.0.1:9/{name}"}, "test")
    return list(Replica.objects.order_by("pk"))


def scheduled(client: "redis.Redis") -> set[str]:
    return {uid.decode() for uid in client.zrange(keys.DUE, 0, -1)}


def test_the_schedule_follows_the_rows(redis_client: "redis.Redis", two: list[Replica]) -> None:
    known = ReconciledSchedule()
    redis_client.flushall()
    assert known.reconcile(redis_client, RNG)
    assert scheduled(redis_client) == {str(one.uid) for one in two}
    assert not known.reconcile(redis_client, RNG)
    replicas.register("two", {"name": "b", "url": "http://127.0.0.1:9/b"}, "test")
    replicas.delete("one", "a", "test")
    known.reconcile(redis_client, RNG)
    assert scheduled(redis_client) == {str(uid) for uid in Replica.objects.values_list("uid", flat=True)}


def test_after_a_flush_all_are_scheduled_again(redis_client: "redis.Redis", two: list[Replica]) -> None:
    known = ReconciledSchedule()
    known.reconcile(redis_client, RNG)
    redis_client.flushall()
    assert known.reconcile(redis_client, RNG)
    assert len(scheduled(redis_client)) == 2


def test_what_no_version_tells_is_seen_in_the_end(redis_client: "redis.Redis", two: list[Replica]) -> None:
    now = [0.0]
    known = ReconciledSchedule(lambda: now[0])
    known.reconcile(redis_client, RNG)
    Replica.objects.filter(pk=two[0].pk).delete()
    assert not known.reconcile(redis_client, RNG)
    now[0] += reconciled_schedule.ALL_EVERY_S
    assert known.reconcile(redis_client, RNG)
    assert scheduled(redis_client) == {str(two[1].uid)}


def test_rows_that_have_not_changed_are_not_read(redis_client: "redis.Redis", two: list[Replica]) -> None:
    known, cache = ReconciledSchedule(), TargetCache()
    uids = [str(one.uid) for one in two]
    known.reconcile(redis_client, RNG)
    first = cache.load(uids)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        known.reconcile(redis_client, RNG)
        assert cache.load(uids) == first
    assert not [each["sql"] for each in queries if 'FROM "controlplane_replica"' in each["sql"]]


def test_a_target_is_read_again_when_its_fleet_changed(
    redis_client: "redis.Redis", two: list[Replica]
) -> None:
    cache = TargetCache()
    uids = [str(one.uid) for one in two]
    before = cache.load(uids)
    health.record_transition(two[0].pk, "checking", "ready", "200 OK", True)
    after = cache.load(uids)
    assert (after[uids[0]].state, after[uids[0]].has_passed) == ("ready", True)
    assert after[uids[1]] is before[uids[1]]
    fleets.update("two", {"probe": {"period_s": 30.0}}, "test")
    assert cache.load(uids)[uids[1]].timing.period_s == 30.0
    replicas.delete("one", "a", "test")
    assert cache.load(uids).keys() == {uids[1]}


def test_late_due_times_of_some_are_brought_nearer(redis_client: "redis.Redis") -> None:
    timing = schedule.Timing(5.0, never_passed=False, longest_s=1.0)
    redis_client.zadd(keys.DUE, {"a": 9e15, "b": 9e15, "gone": 1})
    assert schedule.reconcile_some(redis_client, {"a": timing}, ["gone"], RNG)
    assert scheduled(redis_client) == {"a", "b"}
    assert redis_client.zscore(keys.DUE, "a") < 9e15 == redis_client.zscore(keys.DUE, "b")
