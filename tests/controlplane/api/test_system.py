"""GET /system: each part in words, with what to do, when all is well and when half is gone."""

import os
import time
from typing import Any

import msgspec
import pytest
from django.db import connection

from controlplane.observability import conductor_heartbeats, process_heartbeats
from controlplane.observability.conductor_heartbeats import ConductorHeartbeat
from controlplane.observability.process_heartbeats import BODIES, NAMES, ProcessHeartbeat
from controlplane.probes import keys
from controlplane.publishing import publisher
from routing.contract import redis_keys
from routing.contract.table import Version
from routing.contract.telemetry import EmergencyDrainReport, FleetCounters, WorkerReport, encode_report
from routing.contract.version import VERSION
from tests.conftest import RedisServer
from tests.controlplane.conftest import Api

SOFTWARE = f"switchyard {VERSION}"


class Around:
    """What the other processes would have written to Redis."""

    def __init__(self, redis: Any) -> None:
        self.redis = redis

    def now(self) -> float:
        seconds, microseconds = self.redis.time()
        return float(seconds + microseconds / 1e6)

    def heartbeat(
        self,
        role: str,
        age_s: float = 0.1,
        loop_age_s: float = 0.1,
        software: str = SOFTWARE,
        name: str = "",
        uptime_s: float = 60.0,
        clock_ahead_s: float = 0.0,
    ) -> None:
        name = f"{role}/host/{name or role}"
        heartbeat = ProcessHeartbeat(
            name=name,
            role=role,
            software=software,
            uptime_s=uptime_s,
            loop_age_s=loop_age_s,
            cpu_percent=1.5,
            memory_bytes=100 << 20,
            clock_ahead_s=clock_ahead_s,
        )
        self.redis.zadd(NAMES, {name: self.now() - age_s})
        self.redis.hset(BODIES, name, msgspec.json.encode(heartbeat))

    def conductor(
        self,
        *,
        leads: bool = True,
        tick_ms: float = 5.0,
        name: str = "",
        uptime_s: float = 60.0,
        age_s: float = 0.0,
    ) -> None:
        name = f"host/{name or os.getpid()}"
        heartbeat = ConductorHeartbeat(name=name, leads=leads, tick_ms=tick_ms, away=[], uptime_s=uptime_s)
        conductor_heartbeats.send(self.redis, heartbeat)
        self.redis.zadd(conductor_heartbeats.CONDUCTORS, {name: self.now() - age_s})

    def worker(self, index: int, age_s: float = 0.1, name: str = "", **report: Any) -> None:
        name = name or f"edge/7/{index}"
        shown = {"software": SOFTWARE, "manifest": manifest(self.redis), **report}
        said = WorkerReport(worker=name, incarnation=1, sequence=1, uptime_s=30.0, **shown)
        self.redis.zadd(redis_keys.WORKERS, {name: self.now() - age_s})
        self.redis.hset(redis_keys.REPORTS, name, encode_report(said))

    def everything(self, uptime_s: float = 60.0) -> None:
        for role in ("web", "worker", "beat"):
            self.heartbeat(role, uptime_s=uptime_s)
        self.conductor(uptime_s=uptime_s)


def manifest(redis: Any) -> str:
    epoch, version = redis.hmget(redis_keys.MANIFEST, "epoch", "version")
    return f"{int(epoch)}:{int(version)}"


def snapshot(redis: Any, fleet: str) -> str:
    epoch, version = redis.hmget(redis_keys.fleet_key(fleet), "epoch", "version")
    return f"{int(epoch)}:{int(version)}"


@pytest.fixture
def around(redis_client: Any) -> Around:
    return Around(redis_client)


def parts(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, answer.content
    return {part["name"]: part for part in answer.json()["parts"]}


def test_all_is_well(api: Api, around: Around, llm: str) -> None:
    around.everything()
    around.redis.zadd(keys.DUE, {"a": around.now() * 1000 + 60_000})
    applied = [FleetCounters(name=llm, applied=snapshot(around.redis, llm), in_flight=3)]
    around.worker(0, clients=5, upstreams=2, fleets=applied)
    around.worker(1, fleets=applied)
    answer = api.get("/system")
    content = answer.json()
    assert content["verdict"]["level"] == "calm"
    assert content["table"] == manifest(around.redis)
    assert {part["level"] for part in content["parts"]} == {"calm"}
    first = content["proxies"][0]
    assert (first["proxy"], first["state"]) == ("edge/7", "current")
    assert (first["clients"], first["upstreams"], first["in_flight"]) == (5, 2, 3)
    assert parts(answer)["proxies"]["words"] == "1 proxy with 2 workers reports."
    assert parts(answer)["conductor"]["facts"]["candidates"] == "1"
    assert parts(answer)["redis"]["facts"]["memory"].endswith("MiB, no limit set")
    assert parts(answer)["database"]["facts"]["kind"].startswith(
        {"sqlite": "SQLite 3", "postgresql": "PostgreSQL "}[connection.vendor]
    )
    assert [row["role"] for row in content["processes"]] == ["web", "worker", "beat", "conductor"]


@pytest.mark.parametrize(("ahead_s", "words"), [(20.0, "20 s ahead of"), (-3600.0, "1 h behind")])
def test_a_clock_that_is_wrong(api: Api, around: Around, llm: str, ahead_s: float, words: str) -> None:
    around.everything()
    around.heartbeat("worker", clock_ahead_s=ahead_s)
    worker = parts(api.get("/system"))["worker"]
    assert (worker["level"], worker["state"]) == ("warn", "clock")
    assert f"The clock of its host is {words} that of Redis" in worker["words"]
    assert "Synchronise the clocks" in worker["cure"]


def test_clocks_are_compared(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    assert abs(process_heartbeats.clock_ahead_s(around.redis)) < 1.0
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 20.0)
    assert 19.0 < process_heartbeats.clock_ahead_s(around.redis) < 21.0


def test_nobody_else_runs(api: Api) -> None:
    answer = api.get("/system")
    found = parts(answer)
    assert {name for name, part in found.items() if part["state"] == "missing"} == {
        *("proxies", "conductor", "worker", "beat"),
    }
    assert found["worker"]["cure"].startswith("Start one: .venv/bin/celery")
    assert all(part["cure"] for part in found.values() if part["level"] == "bad")
    verdict = answer.json()["verdict"]
    assert verdict["level"] == "bad"
    assert verdict["words"].startswith("Affected: Proxies, Conductor, Celery workers, Beat. Proxies: No")


def test_replicas_that_nobody_schedules(api: Api, around: Around, llm: str) -> None:
    around.everything()
    around.redis.delete(keys.DUE)
    probes = parts(api.get("/system"))["probes"]
    assert (probes["level"], probes["state"]) == ("warn", "not scheduled")
    assert "though 2 replicas should be probed" in probes["words"]


def test_half_is_gone(api: Api, around: Around, llm: str) -> None:
    around.heartbeat("worker", age_s=30.0)
    around.heartbeat("beat", loop_age_s=45.0)
    around.conductor(leads=False)
    around.worker(0, age_s=20.0)
    around.worker(1, redis_ok=False, table_age_s=70.0)
    around.worker(2, fleets=[FleetCounters(name=llm, applied="1:0")])
    refusing = FleetCounters(name=llm, applied="1:0", refused="weight -1 is below 0")
    around.worker(3, fleets=[refusing])
    answer = api.get("/system")
    found, rows = parts(answer), answer.json()["proxies"]
    assert [row["state"] for row in rows] == ["silent", "no updates", "behind", "refused"]
    assert rows[2]["behind"] == [llm]
    assert "weight -1 is below 0" in rows[3]["words"]
    assert found["proxies"]["level"] == "bad"
    assert "4 of 4 workers" in found["proxies"]["words"]
    assert found["worker"]["state"] == "missing"
    assert "The last heartbeat was 30 s ago." in found["worker"]["words"]
    assert found["beat"]["state"] == "stuck"
    assert found["conductor"]["state"] == "electing"


def test_a_strategy_that_fails_is_told(api: Api, around: Around, llm: str) -> None:
    around.everything()
    trouble = "strategy first failed once, last with KeyError: 1; least_expected_work picks instead"
    around.worker(0, fleets=[FleetCounters(name=llm, applied="9:9", strategy_trouble=trouble)])
    row = next(row for row in api.get("/system").json()["proxies"] if row["name"].endswith("/0"))
    assert (row["level"], row["state"]) == ("warn", "astray")
    assert f"{llm}: {trouble}" in row["words"]


def test_probes_that_wait(api: Api, around: Around) -> None:
    around.everything()
    now_ms = around.now() * 1000
    around.redis.zadd(keys.DUE, {"a": now_ms - 20_000, "b": now_ms - 100, "c": now_ms + 60_000})
    probes = parts(api.get("/system"))["probes"]
    assert (probes["level"], probes["state"], probes["facts"]["overdue"]) == ("bad", "late", "2")
    assert "is 20 s late, 2 of 3 are overdue" in probes["words"]


def test_a_newer_table_than_the_database_says(api: Api, around: Around) -> None:
    around.everything()
    version = Version.parse(manifest_or_first(around))
    around.worker(0, manifest=str(Version(version.epoch, version.number + 5)))
    (row,) = api.get("/system").json()["proxies"]
    assert (row["state"], row["level"]) == ("ahead", "notice")


def manifest_or_first(around: Around) -> str:
    publisher.publish_all()
    return manifest(around.redis)


def test_another_version_of_the_software(api: Api, around: Around) -> None:
    around.heartbeat("worker", software="switchyard 0.0.9")
    (row,) = [row for row in api.get("/system").json()["processes"] if row["role"] == "worker"]
    assert row["level"] == "notice"
    assert "It runs switchyard 0.0.9; the web process runs" in row["words"]


def test_redis_is_away(api: Api, redis_server: RedisServer) -> None:
    redis_server.stop()
    began = time.monotonic()
    answer = api.get("/system")
    found = parts(answer)
    assert time.monotonic() - began < 10
    assert (found["redis"]["level"], found["redis"]["state"]) == ("bad", "away")
    assert "proxies route from their last table" in found["redis"]["cure"]
    assert found["proxies"]["state"] == "unknown"
    assert found["database"]["state"] == "well"
    assert answer.json()["reports_known"] is False


def test_who_may_ask(anonymous: Api, reader: Api) -> None:
    assert anonymous.get("/system").status_code == 401
    assert reader.get("/system").status_code == 200
    assert reader.get("/system?page=1").status_code == 400


def test_a_process_that_ends_leaves_the_list(redis_client: Any, around: Around) -> None:
    around.heartbeat("worker")
    assert [seen.heartbeat.role for seen in process_heartbeats.read(redis_client)] == ["worker"]
    process_heartbeats.remove(redis_client, "worker/host/worker")
    assert process_heartbeats.read(redis_client) == []
    around.heartbeat("beat", age_s=process_heartbeats.FORGET_S + 1)
    process_heartbeats.forget_old(redis_client)
    assert redis_client.hlen(BODIES) == 0


def test_a_crashed_process_that_was_replaced_is_calm(api: Api, around: Around, llm: str) -> None:
    around.everything(uptime_s=30.0)
    around.redis.zadd(keys.DUE, {"a": around.now() * 1000 + 60_000})
    applied = [FleetCounters(name=llm, applied=snapshot(around.redis, llm))]
    around.worker(0, fleets=applied)
    for age_s, name in ((40.0, "gone"), (90.0, "gone-before")):
        around.heartbeat("worker", name=name, age_s=age_s, uptime_s=20.0)
        around.conductor(name=name, age_s=age_s, uptime_s=20.0)
    around.worker(0, name="edge/6/0", age_s=40.0, fleets=applied)
    answer = api.get("/system")
    content = answer.json()
    assert content["verdict"]["level"] == "calm", content["verdict"]
    workers = [row for row in content["processes"] if row["role"] == "worker"]
    replaced = {row["name"]: row for row in workers if row["state"] == "replaced"}
    assert replaced["host/gone"]["words"] == "It stopped 40 s ago; host/worker has taken its place."
    assert replaced["host/gone-before"]["words"].endswith("; host/gone has taken its place.")
    (old, new) = content["proxies"]
    assert (old["name"], old["state"], new["state"]) == ("edge/6/0", "replaced", "current")
    assert parts(answer)["conductor"]["facts"]["candidates"] == "1"


def test_of_two_that_crashed_and_one_that_came_one_is_missed(api: Api, around: Around) -> None:
    around.everything(uptime_s=30.0)
    for name in ("gone", "gone-too"):
        around.heartbeat("worker", name=name, age_s=40.0, uptime_s=3600.0)
    part = parts(api.get("/system"))["worker"]
    assert (part["level"], part["state"]) == ("warn", "silent")


def test_two_beats_are_no_trouble(api: Api, around: Around) -> None:
    around.everything()
    around.heartbeat("beat", name="second")
    part = parts(api.get("/system"))["beat"]
    assert (part["level"], part["words"]) == (
        "calm",
        "2 beats are running. One of them schedules, the others stand by.",
    )


def test_workers_at_their_limits(api: Api, around: Around, llm: str) -> None:
    around.everything()
    around.redis.zadd(keys.DUE, {"a": around.now() * 1000 + 60_000})
    applied = [FleetCounters(name=llm, applied=snapshot(around.redis, llm))]
    around.worker(0, fleets=applied, short_of="connections", max_clients=96)
    around.worker(1, fleets=applied, short_of="descriptors", open_fds=240, max_fds=256)
    answer = api.get("/system")
    full, short = answer.json()["proxies"]
    assert (full["level"], full["state"]) == ("bad", "full")
    assert full["words"] == "It closes or refuses client connections: it may have 96 at a time."
    assert full["cure"].startswith("Raise --max-connections or ulimit -n")
    assert (short["level"], short["state"]) == ("warn", "short")
    assert short["words"] == "It has 240 of 256 file descriptors in use."
    assert parts(answer)["proxies"]["level"] == "bad"


def test_a_drain_by_hand_stands_at_its_proxy(api: Api, around: Around, llm: str) -> None:
    around.everything()
    around.redis.zadd(keys.DUE, {"a": around.now() * 1000 + 60_000})
    applied = [FleetCounters(name=llm, applied=snapshot(around.redis, llm))]
    drained = [EmergencyDrainReport(fleet=llm, replica=name, expires_in_s=600.0) for name in "abcd"]
    around.worker(0, fleets=applied, drained_by_hand=drained[:1])
    around.worker(1, fleets=applied, drained_by_hand=drained)
    one, four = api.get("/system").json()["proxies"]
    assert (one["level"], one["state"]) == ("notice", "current")
    assert one["words"] == "Emergency drain at this proxy: llm/a, for another 10 min."
    assert four["words"].endswith("; llm/c, for another 10 min and 1 more.")
