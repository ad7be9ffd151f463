"""The database read again and again: what has not changed is not read, what has is seen at once."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.models import Fleet, Replica
from controlplane.services import fleets, hardware, health, policies, replicas
from controlplane.telemetry import db_snapshot
from controlplane.telemetry.db_snapshot import DbReader
from tests.conftest import RedisServer

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _two(redis_server: RedisServer) -> None:
    hardware.create({"name": "gpu", "weight": 2.0}, "test")
    for name in ("one", "two"):
        fleets.create({"name": name, "protocol": "openai"}, "test")
        replicas.register(name, {"name": "a", "url": f"http://127.0.0.1:9/{name}", "hardware": "gpu"}, "test")


def test_rows_that_have_not_changed_are_the_same_objects_and_not_read() -> None:
    reader = DbReader()
    before = reader.read()
    with CaptureQueriesContext(connection) as queries:
        after = reader.read()
    assert after == before
    assert [row.replicas[0] for row in after.fleets] == [row.replicas[0] for row in before.fleets]
    assert after.fleets[0].replicas[0] is before.fleets[0].replicas[0]
    assert not [each["sql"] for each in queries if 'FROM "controlplane_replica"' in each["sql"]]


def test_every_change_is_seen_as_if_all_were_read_anew() -> None:
    reader = DbReader()
    reader.read()
    replica = Replica.objects.get(fleet__name="one")
    changes = (
        lambda: health.record_transition(replica.pk, "checking", "ready", "200 OK", True),
        lambda: replicas.update("one", "a", {"weight": 3.0}, "test"),
        lambda: hardware.update("gpu", {"weight": 4.0}, "test"),
        lambda: policies.change("two", {"max_concurrency": 5}, "test"),
        lambda: fleets.update("two", {"aliases": ["b"]}, "test"),
        lambda: replicas.register("two", {"name": "b", "url": "http://127.0.0.1:9/b"}, "test"),
        lambda: replicas.delete("two", "b", "test"),
        lambda: fleets.delete("one", "test"),
    )
    seen = reader.read()
    for change in changes:
        change()
        before, seen = seen, reader.read()
        assert seen == db_snapshot.read() != before


def test_of_a_changed_fleet_the_replicas_that_have_not_changed_stay_the_same() -> None:
    reader = DbReader()
    replicas.register("two", {"name": "b", "url": "http://127.0.0.1:9/b"}, "test")
    before = reader.read().fleets[1].replicas
    replicas.update("two", "b", {"weight": 3.0}, "test")
    after = reader.read().fleets[1].replicas
    assert after[0] is before[0]
    assert (before[1].weight, after[1].weight) == (1.0, 3.0)


def test_what_no_version_tells_is_seen_in_the_end() -> None:
    now = [0.0]
    reader = DbReader(lambda: now[0])
    reader.read()
    Fleet.objects.filter(name="one").update(aliases=["by-hand"])
    assert reader.read().fleets[0].aliases == []
    now[0] += db_snapshot.ALL_EVERY_S
    assert reader.read().fleets[0].aliases == ["by-hand"]
