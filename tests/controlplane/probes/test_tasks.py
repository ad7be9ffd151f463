"""From a tick to a row: the tasks' own functions on a real database, Redis and servers."""

import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest
import redis
from django.db import OperationalError, connection
from django.utils import timezone

from controlplane.models import Event, Fleet, Replica, ReplicaHealth
from controlplane.observability.outages import Outages
from controlplane.probes import keys, last_results, recent_traffic, schedule, targets, tasks
from tests.conftest import RedisServer
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import HttpServer
from tests.ports import free_port

pytestmark = pytest.mark.django_db

PROBE = {"preset": "llama.cpp", "timeout_s": 2.0, "fall": 2, "rise": 2, "load_reports": False}


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer(servers.ready) as running:
        yield running


@pytest.fixture
def fleet(redis_server: RedisServer) -> Fleet:
    return Fleet.objects.create(name="tiny", protocol="openai", probe=PROBE)


@pytest.fixture
def replica(fleet: Fleet, server: HttpServer) -> Replica:
    row = Replica.objects.create(fleet=fleet, name="a", url=server.url)
    ReplicaHealth.objects.create(replica=row)
    return row


def one_round(client: "redis.Redis") -> None:
    """What beat and worker do in a second or two, at once: everything is made due and probed."""
    schedule.reconcile(client, targets.timings(), tasks.rng)
    schedule.make_due(client, [uid.decode() for uid in client.zrange(keys.DUE, 0, -1)])
    tasks.probe_batch([tuple(claim) for claim in schedule.claim(client)])


def state(replica: Replica) -> tuple[str, str, bool]:
    row = ReplicaHealth.objects.get(replica=replica)
    return row.state, row.reason, row.has_passed


def test_the_first_pass_makes_a_replica_ready(redis_client: "redis.Redis", replica: Replica) -> None:
    version = replica.fleet.table_version
    one_round(redis_client)
    assert state(replica) == ("ready", "200 OK", True)
    event = Event.objects.get()
    assert (event.kind, event.state, event.replica) == ("health", "ready", replica)
    replica.fleet.refresh_from_db()
    assert replica.fleet.table_version == version + 1


def test_without_a_transition_nothing_is_written_to_the_database(
    redis_client: "redis.Redis", replica: Replica, server: HttpServer
) -> None:
    one_round(redis_client)
    edits = Fleet.objects.values_list("table_version", "edit_version").get()
    for answer in (servers.ready, servers.loading, servers.ready):
        server.answer = answer
        one_round(redis_client)
    assert Event.objects.count() == 1
    assert Fleet.objects.values_list("table_version", "edit_version").get() == edits
    assert len(server.requests) == 4


def test_it_takes_fall_failures_to_fall_and_rise_passes_to_rise(
    redis_client: "redis.Redis", replica: Replica, server: HttpServer
) -> None:
    one_round(redis_client)
    seen = []
    for answer in (servers.loading, servers.loading, servers.ready, servers.ready):
        server.answer = answer
        one_round(redis_client)
        seen.append(state(replica)[0])
    assert seen == ["ready", "unready", "unready", "ready"]


def test_after_a_flush_rows_stay_and_probing_resumes(
    redis_client: "redis.Redis", replica: Replica, server: HttpServer
) -> None:
    one_round(redis_client)
    redis_client.flushall()
    assert state(replica)[0] == "ready"
    one_round(redis_client)
    assert len(server.requests) == 2
    assert last_results.read_of(redis_client, [str(replica.uid)])[str(replica.uid)].passed


def answers_live_traffic(redis_client: "redis.Redis", replica: Replica) -> None:
    pipeline = redis_client.pipeline()
    recent_traffic.store(pipeline, {str(replica.uid): int(redis_client.time()[0] * 1000)})
    pipeline.execute()


def test_timeouts_do_not_take_down_a_replica_that_answers_live_traffic(
    redis_client: "redis.Redis", replica: Replica, server: HttpServer
) -> None:
    Fleet.objects.update(probe=PROBE | {"timeout_s": 0.1})
    one_round(redis_client)
    server.answer = servers.hang
    for _ in range(3):
        answers_live_traffic(redis_client, replica)
        one_round(redis_client)
    assert state(replica)[0] == "ready"
    words = last_results.read_of(redis_client, [str(replica.uid)])[str(replica.uid)].words
    assert words == "no response in 0.1 s, but it answers live traffic"
    redis_client.delete(recent_traffic.RECENT_TRAFFIC_KEY)
    one_round(redis_client)
    one_round(redis_client)
    assert state(replica) == ("down", "no response in 0.1 s", True)


def test_error_codes_count_even_while_live_traffic_is_answered(
    redis_client: "redis.Redis", replica: Replica, server: HttpServer
) -> None:
    one_round(redis_client)
    server.answer = servers.loading
    for _ in range(2):
        answers_live_traffic(redis_client, replica)
        one_round(redis_client)
    assert state(replica)[0] == "unready"


def test_a_replica_that_never_passes_is_checking_until_its_startup_budget_is_spent(
    redis_client: "redis.Redis", replica: Replica, server: HttpServer
) -> None:
    server.answer = servers.loading
    for _ in range(4):
        one_round(redis_client)
    assert state(replica)[0] == "checking"
    ReplicaHealth.objects.update(since=timezone.now() - timedelta(hours=1))
    one_round(redis_client)
    assert state(replica) == (
        "down",
        "has not passed a probe within 1800 s: 503 Loading model",
        False,
    )
    one_round(redis_client)
    assert state(replica)[0] == "down"
    server.answer = servers.ready
    one_round(redis_client)
    assert state(replica)[0] == "ready"


def aged(replica: Replica, seconds: float) -> None:
    """As if it had entered its state that long ago."""
    ReplicaHealth.objects.filter(replica=replica).update(since=timezone.now() - timedelta(seconds=seconds))


def startup_s(replica: Replica) -> float | None:
    measured = ReplicaHealth.objects.get(replica=replica).startup_s
    return measured if measured is None else round(measured)


def test_how_long_a_replica_takes_to_start_is_kept(
    redis_client: "redis.Redis", replica: Replica, server: HttpServer
) -> None:
    server.answer = servers.loading
    one_round(redis_client)
    aged(replica, 40)
    server.answer = servers.ready
    one_round(redis_client)
    assert (state(replica)[0], startup_s(replica)) == ("ready", 40)
    # Started again: it answers 503 for 25 s.
    for answer, after_s, last_known in ((servers.loading, 0, 40), (servers.ready, 25, 25)):
        server.answer = answer
        aged(replica, after_s)
        one_round(redis_client)
        one_round(redis_client)
        assert startup_s(replica) == last_known
    assert state(replica)[0] == "ready"
    # Silent for an hour, within its budget: busy, or gone; a start was not seen.
    for answer, after_s, timeout_s in ((servers.hang, 0, 0.1), (servers.ready, 3600, 10)):
        Fleet.objects.update(probe=PROBE | {"timeout_s": timeout_s, "startup_budget_s": 7200})
        server.answer = answer
        aged(replica, after_s)
        one_round(redis_client)
        one_round(redis_client)
    assert (state(replica)[0], startup_s(replica)) == ("ready", 25)


def test_a_server_that_was_there_before_it_was_registered_was_not_seen_to_start(
    redis_client: "redis.Redis", replica: Replica, server: HttpServer
) -> None:
    aged(replica, 40)
    one_round(redis_client)
    assert (state(replica)[0], startup_s(replica)) == ("ready", None)


def test_a_result_for_an_old_url_is_not_recorded_as_the_new_ones(
    redis_client: "redis.Redis", replica: Replica, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule.reconcile(redis_client, targets.timings(), tasks.rng)
    claims = [tuple(claim) for claim in schedule.claim(redis_client)]
    asked = targets.load

    def moved_after_reading(uids: list[str]) -> dict[str, targets.DueReplica]:
        found = asked(uids)
        Replica.objects.update(url=f"http://127.0.0.1:{free_port()}")
        return found

    monkeypatch.setattr(targets, "load", moved_after_reading)
    tasks.probe_batch(claims)
    assert len(server.requests) == 1
    assert state(replica)[0] == "checking"


def test_one_fleet_that_cannot_be_probed_does_not_stop_the_others(
    redis_client: "redis.Redis", replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Fleet.objects.create(name="broken", protocol="openai", probe={"preset": "no-such"})
    Replica.objects.create(fleet=broken, name="b", url=replica.url)
    one_round(redis_client)
    assert state(replica)[0] == "ready"
    assert "fleet broken cannot be probed" in caplog.text


def test_a_tick_without_redis_ends_quietly_and_says_so_once(
    redis_server: RedisServer, fleet: Fleet, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "outages", Outages(logging.getLogger("controlplane.probes.tasks")))
    redis_server.stop()
    for _ in range(3):
        tasks.tick()
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == ["Redis does not answer"]
    redis_server.start()
    tasks.tick()
    assert [record.getMessage() for record in caplog.records][1:] == ["Redis answers again"]


def test_a_tick_without_the_database_ends_quietly(
    redis_client: "redis.Redis", fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    def unreachable(*args: object) -> None:
        raise OperationalError("the server closed the connection")

    with connection.execute_wrapper(unreachable):
        tasks.tick()
    assert "the database does not answer" in caplog.text
    tasks.tick()
    assert "the database answers again" in caplog.text
