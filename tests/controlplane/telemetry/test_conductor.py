"""One conductor's ticks on a real Redis and database."""

import logging
from collections.abc import Callable

import msgspec
import pytest
import redis
import redis.asyncio
from django.db import OperationalError, connection

from controlplane.models import Event, Fleet, Replica, ReplicaHealth, TableState
from controlplane.observability import conductor_heartbeats
from controlplane.probes import recent_traffic
from controlplane.services import fleets, replicas
from controlplane.telemetry import frames, history
from controlplane.telemetry.conductor import Conductor
from controlplane.telemetry.frames import WINDOW_S, DrainedAt, FleetFrame
from controlplane.telemetry.leader_election import LEADER_KEY
from controlplane.telemetry.notices import emergency_drains
from controlplane.telemetry.notices.overloads import OVER_AFTER_S as OVERLOAD_OVER_AFTER_S
from controlplane.telemetry.notices.worker_shortages import OVER_AFTER_S
from routing.contract import redis_keys
from routing.contract.table import Manifest, decode_manifest, encode
from routing.contract.telemetry import EmergencyDrainReport, ReplicaCounters, WorkerReport
from tests.clock import Clock
from tests.conftest import RedisServer
from tests.controlplane.telemetry.reports import fleet, replica, report, send

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def row(redis_server: RedisServer) -> Replica:
    """A fleet with one ready replica, published."""
    fleets.create({"name": "digits", "protocol": "open-inference"}, "test")
    row = replicas.register("digits", {"name": "a", "url": "http://127.0.0.1:9"}, "test").replica
    ReplicaHealth.objects.update(state="ready", has_passed=True)
    return row


def of_digits(row: Replica, sequence: int, requests: int = 0, **of_replica: object) -> WorkerReport:
    counters = replica(requests, uid=str(row.uid), name=row.name, succeeded=requests, **of_replica)
    return report(
        sequence=sequence, fleets=[fleet(requests, latencies=[0.1] * requests, replicas=[counters])]
    )


def fleet_frame(client: "redis.Redis") -> frames.FleetFrame:
    body = client.get(frames.fleet_key("digits"))
    assert body is not None
    return msgspec.json.decode(body, type=frames.FleetFrame)


def test_reports_become_frames_messages_and_history(
    redis_client: "redis.Redis", clock: Clock, conductor: Callable[..., Conductor], row: Replica
) -> None:
    leader = conductor()
    send(redis_client, of_digits(row, 10, 100))
    leader.tick()
    clock.now += 1
    send(redis_client, of_digits(row, 11, 140, in_flight=2))
    messages = dict(leader.tick())

    assert messages.keys() == {
        frames.OVERVIEW_GROUP,
        frames.CLIENT_KEYS_GROUP,
        frames.fleet_group("digits"),
    }
    frame = fleet_frame(redis_client)
    assert msgspec.json.decode(messages[frames.fleet_group("digits")], type=frames.FleetFrame) == frame
    assert (frame.point.rps, frame.replicas[0].rps, frame.replicas[0].share_percent) == (40.0, 40.0, 100.0)
    assert frame.point.p99_s == pytest.approx(0.1, rel=0.02)
    assert frame.replicas[0].state == "ready"
    overview = msgspec.json.decode(redis_client.get(frames.OVERVIEW_KEY), type=frames.OverviewFrame)
    assert (overview.total.rps, overview.replicas, overview.eligible) == (40.0, 1, 1)
    assert [worker.name for worker in overview.workers] == ["host/1/0"]
    assert [point.rps for point in history.read(redis_client, "digits")] == [0.0, 40.0]
    assert [point.rps for point in history.read(redis_client)] == [0.0, 40.0]


def test_each_tenth_second_becomes_a_coarse_point(
    redis_client: "redis.Redis", clock: Clock, conductor: Callable[..., Conductor], row: Replica
) -> None:
    leader = conductor()
    for second in range(21):
        send(redis_client, of_digits(row, 10 + second, second * 10))
        leader.tick()
        clock.now += 1
    coarse = history.read(redis_client, "digits", coarse=True)
    assert [point.rps for point in coarse] == [9.0, 10.0]
    fine = history.read(redis_client, "digits")
    assert coarse[1].p99_s == fine[19].p99_s
    assert coarse[1].at == fine[19].at


def test_history_is_cut_to_its_length(redis_client: "redis.Redis") -> None:
    point = frames.Point(at=1.0, rps=2.0, p50_s=None, p99_s=None, errors_per_s=0.0, in_flight=3)
    pipeline = redis_client.pipeline()
    for _ in range(history.FINE_POINTS + 5):
        history.append(pipeline, "digits", point, point)
    pipeline.execute()
    assert history.read(redis_client, "digits") == [point] * history.FINE_POINTS
    assert len(history.read(redis_client, "digits", coarse=True)) == history.FINE_POINTS + 5
    assert history.read(redis_client, "unknown") == []


def test_only_the_leader_works_and_the_other_follows_at_once_when_it_ends(
    redis_client: "redis.Redis", conductor: Callable[..., Conductor], row: Replica
) -> None:
    one, two = conductor("one"), conductor("two")
    assert one.tick()
    assert two.tick() == []
    assert {
        live.heartbeat.name: live.heartbeat.leads for live in conductor_heartbeats.read(redis_client)
    } == {
        "one": True,
        "two": False,
    }
    one.end()
    assert two.tick()
    assert one.tick() == [], "a leader that was overtaken steps down"
    assert 0 < redis_client.pttl(LEADER_KEY) <= 3000


def test_a_new_leader_knows_the_rates_of_before(
    redis_client: "redis.Redis", clock: Clock, conductor: Callable[..., Conductor], row: Replica
) -> None:
    one, two = conductor("one"), conductor("two")
    for second in range(3):
        send(redis_client, of_digits(row, 10 + second, second * 25))
        one.tick()
        two.tick()
        clock.now += 1
    before = fleet_frame(redis_client)
    one.end()
    two.tick()
    after = fleet_frame(redis_client)
    assert after.point.rps == before.point.rps == 25.0
    assert after.point.p99_s == before.point.p99_s
    assert after.sequence > before.sequence


def test_what_is_missing_from_redis_is_published_again(
    redis_client: "redis.Redis", conductor: Callable[..., Conductor], row: Replica
) -> None:
    leader = conductor()
    leader.tick()
    redis_client.flushall()
    leader.tick()
    body = redis_client.hget(redis_keys.MANIFEST, "body")
    assert body is not None
    assert decode_manifest(body).fleets.keys() == {"digits"}
    assert redis_client.exists(redis_keys.fleet_key("digits"), frames.OVERVIEW_KEY) == 2


def test_what_workers_refuse_is_compared_with_the_database(
    redis_client: "redis.Redis", clock: Clock, conductor: Callable[..., Conductor], row: Replica
) -> None:
    """Its version is right, so only its content tells."""
    leader = conductor()
    leader.tick()
    redis_client.hset(redis_keys.MANIFEST, "body", encode(Manifest(epoch=2**63 - 1, version=1)))
    leader.tick()
    send(redis_client, report(refused_manifest="no control plane writes a version like …"))
    leader.tick()
    body = redis_client.hget(redis_keys.MANIFEST, "body")
    assert body is not None
    assert (decode_manifest(body).epoch, list(decode_manifest(body).fleets)) == (2, ["digits"])


def test_a_conductor_of_another_installation_does_not_lead_until_redis_is_its_own(
    redis_client: "redis.Redis",
    conductor: Callable[..., Conductor],
    row: Replica,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = redis_client.hgetall(redis_keys.MANIFEST)
    TableState.objects.update(installation="another", instance="another")
    stranger = conductor("stranger")
    for _ in range(3):
        assert stranger.tick() == []
    assert redis_client.exists(LEADER_KEY) == 0, "the installation's own conductors are not kept from leading"
    assert redis_client.hgetall(redis_keys.MANIFEST) == before
    assert conductor_heartbeats.read(redis_client) == []
    told = [line for line in caplog.messages if "this conductor does not lead, requests go on" in line]
    assert len(told) == 1, "once, not each second"
    assert "switchyard takeover" in told[0]
    redis_client.flushall()
    assert stranger.tick()
    assert "may lead again" in caplog.text


def ejection_events() -> list[tuple[str, str]]:
    events = Event.objects.filter(kind=Event.Kind.EJECTION).order_by("id")
    return [(event.state, event.text) for event in events]


def test_an_ejection_and_its_end_are_written_once_even_when_the_leader_changes(
    redis_client: "redis.Redis", clock: Clock, conductor: Callable[..., Conductor], row: Replica
) -> None:
    one, two = conductor("one"), conductor("two")

    def second(sequence: int, *ticking: Conductor, **of_replica: object) -> None:
        send(redis_client, of_digits(row, sequence, **of_replica))
        for each in ticking:
            each.tick()
        clock.now += 1

    out = {"ejected_for_s": 4.8, "ejections": 1, "ejection_reason": "5 failures in a row"}
    second(10, one, two)
    second(11, one, two, **out)
    second(12, one, two, **out)
    told = ("ejected", "a is ejected: 5 failures in a row; probation in 5 s")
    assert ejection_events() == [told]
    assert fleet_frame(redis_client).replicas[0].state == "ejected"

    one.end()
    second(13, two, **out)
    assert ejection_events() == [told]
    second(14, two, ejections=1)
    assert ejection_events() == [told, ("ready", "a is no longer ejected")]
    event = Event.objects.filter(kind=Event.Kind.EJECTION).latest("id")
    assert (event.fleet, event.replica, event.actor) == (row.fleet, row, "conductor")


def test_a_worker_that_died_is_forgotten_with_its_acknowledgements(
    redis_client: "redis.Redis", conductor: Callable[..., Conductor], row: Replica
) -> None:
    send(redis_client, of_digits(row, 10))
    acks = (redis_keys.MANIFEST_ACKS, redis_keys.fleet_acks_key("digits"))
    for key in acks:
        redis_client.hset(key, "host/1/0", "{}")
    redis_client.zincrby(redis_keys.WORKERS, -70, "host/1/0")
    conductor().tick()
    assert redis_client.exists(redis_keys.WORKERS, redis_keys.REPORTS, *acks) == 0
    assert fleet_frame(redis_client).workers == 0


def test_a_report_that_cannot_be_read_costs_nobody_else_theirs(
    redis_client: "redis.Redis",
    conductor: Callable[..., Conductor],
    row: Replica,
    caplog: pytest.LogCaptureFixture,
) -> None:
    send(redis_client, of_digits(row, 10))
    redis_client.zadd(redis_keys.WORKERS, {"odd": redis_client.time()[0]})
    redis_client.hset(redis_keys.REPORTS, "odd", "{not json")
    conductor().tick()
    assert fleet_frame(redis_client).workers == 1
    assert "the report of worker odd cannot be read" in caplog.text


def test_a_fleet_that_was_removed_leaves_nothing_behind(
    redis_client: "redis.Redis", conductor: Callable[..., Conductor], row: Replica
) -> None:
    leader = conductor()
    leader.tick()
    assert redis_client.exists(frames.fleet_key("digits"), frames.history_key("digits")) == 2
    Fleet.objects.all().delete()
    leader.tick()
    assert redis_client.exists(frames.fleet_key("digits"), frames.history_key("digits")) == 0


def test_probers_are_told_who_answers_live_traffic(
    redis_client: "redis.Redis", clock: Clock, conductor: Callable[..., Conductor], row: Replica
) -> None:
    leader, uid = conductor(), str(row.uid)
    send(redis_client, of_digits(row, 10, 5))
    leader.tick()
    assert not recent_traffic.answering(redis_client, [uid]), "nobody knows when these five were"
    send(redis_client, of_digits(row, 11, 6))
    leader.tick()
    assert recent_traffic.answering(redis_client, [uid])
    redis_client.hincrby(recent_traffic.RECENT_TRAFFIC_KEY, uid, -11_000)
    assert not recent_traffic.answering(redis_client, [uid])


def test_without_redis_it_says_so_once_and_goes_on_when_it_is_back(
    redis_server: RedisServer,
    conductor: Callable[..., Conductor],
    row: Replica,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    leader = conductor()
    assert leader.tick()
    redis_server.stop()
    for _ in range(3):
        assert leader.tick() == []
    assert [record.getMessage().split(",")[0] for record in caplog.records] == ["Redis does not answer"]
    redis_server.start()
    assert leader.tick()
    assert caplog.records[1].getMessage() == "Redis answers again"


def test_without_the_database_frames_go_on_with_the_rows_last_read(
    redis_client: "redis.Redis",
    clock: Clock,
    conductor: Callable[..., Conductor],
    row: Replica,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def unreachable(*args: object) -> None:
        raise OperationalError("the server closed the connection")

    leader = conductor()
    send(redis_client, of_digits(row, 10))
    leader.tick()
    clock.now += 1
    send(redis_client, of_digits(row, 11, 40))
    with connection.execute_wrapper(unreachable), caplog.at_level(logging.INFO):
        for _ in range(2):
            assert leader.tick()
    assert fleet_frame(redis_client).point.rps == 40.0
    assert conductor_heartbeats.read(redis_client)[0].heartbeat.away == ["the database"]
    assert sum("the database does not answer" in record.getMessage() for record in caplog.records) == 1
    leader.tick()
    assert conductor_heartbeats.read(redis_client)[0].heartbeat.away == []


def test_refusing_for_want_of_places_and_its_lasting_end_are_written_once_also_by_the_next_leader(
    redis_client: "redis.Redis", row: Replica, conductor: Callable[..., Conductor], clock: Clock
) -> None:
    leader, refused = conductor(), 0

    def second(
        sequence: int, more: int = 0, why: str = "queue_full", waiting: int = 4
    ) -> list[tuple[str, str | None, str]]:
        nonlocal refused
        clock.now += 1
        refused += more
        counted = fleet(waiting=waiting, **{why: refused})
        send(redis_client, report(sequence=sequence, fleets=[counted]))
        leader.tick()
        events = Event.objects.filter(kind=Event.Kind.LIMIT, actor="conductor").order_by("id")
        return [(event.state, event.fleet_name, event.text) for event in events]

    assert second(1) == []
    told = [("refusing", "digits", "digits refuses requests: its queue is full, 4 waiting")]
    assert second(2, more=3) == told
    assert second(3, more=3) == told
    clock.now += WINDOW_S
    assert second(4) == told
    assert second(5, more=1) == told
    leader.end()
    leader = conductor("another/2")
    assert second(6) == told
    clock.now += OVERLOAD_OVER_AFTER_S
    told.append(("ready", "digits", "digits no longer refuses requests"))
    assert second(7) == told
    told.append(("refusing", "digits", "digits refuses requests: its queue is full, 4 waiting"))
    assert second(8, more=1) == told
    clock.now += 30
    assert second(9, more=1) == told
    clock.now += WINDOW_S
    assert second(10) == told
    clock.now += OVERLOAD_OVER_AFTER_S
    told.append(("ready", "digits", "digits no longer refuses requests; it did so for 31 s"))
    assert second(11) == told
    too_long = "digits refuses requests: the wait exceeds, or would exceed, the queue timeout; 9 waiting"
    told.append(("refusing", "digits", too_long))
    assert second(12, more=2, why="queue_late", waiting=9) == told


def test_a_shortage_and_its_lasting_end_are_written_once(
    redis_client: "redis.Redis", row: Replica, conductor: Callable[..., Conductor], clock: Clock
) -> None:
    leader = conductor()

    def second(sequence: int, **fields: object) -> list[str]:
        clock.now += 1
        send(redis_client, report(sequence=sequence, **fields))  # type: ignore[arg-type]
        leader.tick()
        events = Event.objects.filter(kind=Event.Kind.SYSTEM, actor="conductor").order_by("id")
        return [event.text for event in events]

    assert second(1) == []
    full = {"short_of": "connections", "max_clients": 96}
    told = ["worker host/1/0 closes or refuses client connections: it may have 96 at a time"]
    assert second(2, **full) == told
    assert second(3) == told
    assert second(4, **full) == told
    clock.now += OVER_AFTER_S - 2
    assert second(5) == told
    told.append("worker host/1/0 is no longer short of connections")
    assert second(6) == told
    told.append("worker host/1/0 has 250 of 256 file descriptors in use")
    assert second(7, short_of="descriptors", open_fds=250, max_fds=256) == told


def test_a_drain_by_hand_and_its_end_are_written_once_also_by_the_next_leader(
    redis_client: "redis.Redis", row: Replica, conductor: Callable[..., Conductor], clock: Clock
) -> None:
    leader, sequence = conductor(), 0
    seen = fleet(
        replicas=[ReplicaCounters(uid=str(row.uid), name=row.name, no_credential="credential env:K …")]
    )

    def second(left_s: float | None = None, worker: str = "host/1/0") -> list[tuple[str, str]]:
        nonlocal sequence
        clock.now += 1
        sequence += 1
        told = (
            []
            if left_s is None
            else [EmergencyDrainReport(fleet="digits", replica=row.name, expires_in_s=left_s)]
        )
        send(redis_client, report(worker, sequence=sequence, fleets=[seen], drained_by_hand=told))
        leader.tick()
        events = Event.objects.filter(kind=Event.Kind.ADMIN, actor="conductor").order_by("id")
        assert {(event.fleet_name, event.replica_name) for event in events} <= {("digits", row.name)}
        return [(event.state, event.text) for event in events]

    name = row.name
    assert second() == []
    told = [("draining", f"emergency drain of {name} at proxy host/1, for another 1 h")]
    assert second(3599.6) == told
    [live] = msgspec.json.decode(redis_client.get(frames.fleet_key("digits")), type=FleetFrame).replicas
    assert live.drained_by_hand == [DrainedAt(proxy="host/1", expires_in_s=3599.6)]
    assert (live.drained_everywhere, live.eligible, live.state) == (True, False, "draining")
    assert (live.no_credential, live.locked_out) == ("credential env:K …", True)
    assert second(3598.6) == told
    leader.end()
    leader = conductor("another/2")
    assert second(3597.6) == told
    told.append(("active", f"emergency drain of {name} at proxy host/1 has ended"))
    assert second() == told
    assert redis_client.exists(emergency_drains.NOTIFIED_KEY) == 0
    told.append(("draining", f"emergency drain of {name} at proxy host/1, for another 2 s"))
    assert second(2.0) == told
    assert second(1.0) == told
    told.append(("active", f"emergency drain of {name} at proxy host/1 has expired"))
    assert second() == told

    told.append(("draining", f"emergency drain of {name} at proxy host/1, for another 1 min"))
    assert second(60.0) == told
    redis_client.zincrby(redis_keys.WORKERS, -20, "host/1/0")
    assert second(worker="host/2/0") == told, "it may be back in a moment"
    clock.now += emergency_drains.GONE_AFTER_S
    told.append(("active", f"proxy host/1, with an emergency drain of {name}, no longer reports"))
    assert second(worker="host/2/0") == told
