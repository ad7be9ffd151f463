"""Two of everything at once, as processes: beats, workers, conductors, web processes. Effects come once.

What must not be doubled: a probe of a replica, the event of a transition, the notice of an ejection (also
while conductors hang, come back and are killed), a write, the announcement of a table, what is old and goes.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.celery import app
from controlplane.models import AuditEntry, Event, Fleet, ReplicaHealth, TableState
from controlplane.observability import conductor_heartbeats
from controlplane.services import fleets, tokens
from routing.contract import redis_keys
from routing.contract.telemetry import WorkerReport, encode_report
from tests.conftest import RedisServer
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import HttpServer
from tests.controlplane.telemetry.reports import fleet, replica, report
from tests.ports import free_ports
from tests.process_group import process_group
from tests.proxy_process import until

pytestmark = [pytest.mark.system, pytest.mark.any_database, pytest.mark.django_db(transaction=True)]

PATIENCE_S = 90.0
PERIOD_S = 0.5
OLD = 1200
WRITES = 40
CELERY = [sys.executable, "-m", "celery", "-A", "controlplane.celery"]
WORKER = [*CELERY, "worker", "--pool", "threads", "--concurrency", "4", "--loglevel", "ERROR"]
WORKER += ["--without-mingle", "--without-gossip"]


def process(command: Sequence[str]) -> "AbstractContextManager[subprocess.Popen[bytes]]":
    database = settings.DATABASES["default"]["NAME"]
    return process_group(command, os.environ | {"SWITCHYARD_DATABASE_URL": f"sqlite://{database}"})


class Announcements:
    """What proxies are told, in the order in which it comes."""

    def __init__(self, client: "redis.Redis") -> None:
        self.heard: Counter[str] = Counter()
        self._changes = client.pubsub(ignore_subscribe_messages=True)
        self._thread: Any = None

    def __enter__(self) -> "Announcements":
        self._changes.subscribe(**{redis_keys.CHANGES_CHANNEL: self._hear})
        self._thread = self._changes.run_in_thread(sleep_time=0.05, daemon=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.stop()
        self._thread.join(10)
        self._changes.close()

    def _hear(self, message: dict[str, Any]) -> None:
        self.heard[message["data"].decode()] += 1


class Proxy:
    """Reports once a second, as one worker of a proxy does, what it is told to."""

    def __init__(self, client: "redis.Redis", uid: str) -> None:
        self._client = client
        self._uid = uid
        self._sequence = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.ejections = 0
        self.ejected = False

    def __enter__(self) -> "Proxy":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(10)

    def _run(self) -> None:
        keys = (redis_keys.WORKERS, redis_keys.REPORTS)
        while not self._ended.wait(1.0):
            said = self._report()
            self._client.eval(redis_keys.REPORT, 2, *keys, said.worker, encode_report(said).decode())

    def _report(self) -> WorkerReport:
        self._sequence += 1
        why = "5 failures in a row" if self.ejected else ""
        for_s = 60.0 if self.ejected else None
        counted = replica(uid=self._uid, ejected_for_s=for_s, ejections=self.ejections, ejection_reason=why)
        return report(sequence=self._sequence, fleets=[fleet(name="tiny", replicas=[counted])])

    def eject(self) -> None:
        self.ejections += 1
        self.ejected = True


class Web:
    """Both web processes, one after the other."""

    def __init__(self, ports: Sequence[int], token: str) -> None:
        self._ports = ports
        self._headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}

    def ready(self) -> bool:
        try:
            return all(self._ask(port, "GET", "/readyz")[0] == 200 for port in self._ports)
        except OSError:
            return False

    def patch_weight(self, number: int) -> tuple[int, Any]:
        port = self._ports[number % len(self._ports)]
        name = "ab"[number // 2 % 2]
        body = json.dumps({"weight": 1.0 + number})
        return self._ask(port, "PATCH", f"/api/v1/fleets/tiny/replicas/{name}", body)

    def _ask(self, port: int, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body, self._headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


def leaders(client: "redis.Redis") -> list[int]:
    """Process ids of conductors that lead, among those that live."""
    live = [each for each in conductor_heartbeats.read(client) if each.age_s < conductor_heartbeats.LIVE_S]
    return [int(each.heartbeat.name.rsplit("/", 1)[1]) for each in live if each.heartbeat.leads]


def one_leader(client: "redis.Redis", *, other_than: int = 0) -> int:
    def found() -> int:
        now = leaders(client)
        return now[0] if len(now) == 1 and now[0] != other_than else 0

    return until(found, "one leader", PATIENCE_S)


def last_tick(client: "redis.Redis", pid: int) -> float:
    """Of this conductor, by the clock of Redis."""
    names = [each.heartbeat.name for each in conductor_heartbeats.read(client)]
    (name,) = [name for name in names if name.endswith(f"/{pid}")]
    return float(client.zscore(conductor_heartbeats.CONDUCTORS, name) or 0)


def states(kind: str, name: str) -> list[str]:
    """States that events of this kind tell of a replica, in order."""
    rows = Event.objects.filter(kind=kind, replica_name=name).order_by("pk")
    return list(rows.values_list("state", flat=True))


def health(name: str) -> str:
    return ReplicaHealth.objects.get(replica__name=name).state


def stored_version(client: "redis.Redis") -> int:
    return int(client.hget(redis_keys.fleet_key("tiny"), "version") or 0)


def make_old_events() -> None:
    """Late, because beat has them deleted by the clock."""
    Event.objects.bulk_create(Event(kind=Event.Kind.SYSTEM, text="old") for _ in range(OLD))
    Event.objects.filter(text="old").update(at=timezone.now() - timedelta(days=settings.EVENTS_DAYS + 1))


@pytest.mark.long
def test_every_effect_happens_once(
    redis_server: RedisServer, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    token = tokens.create(User.objects.create_user("anna", is_staff=True), "tests", "tests")[1]
    ports = free_ports(2)
    web = Web(ports, token)
    with ExitStack() as stack:
        announcements = stack.enter_context(Announcements(redis_client))
        server_of = {name: stack.enter_context(HttpServer(servers.ready)) for name in "ab"}
        probe = {"preset": "llama.cpp", "period_s": PERIOD_S, "rise": 1, "fall": 1, "load_reports": False}
        listed = [{"name": name, "url": server.url} for name, server in server_of.items()]
        row = fleets.create({"name": "tiny", "protocol": "openai", "probe": probe, "replicas": listed}, "t")
        uid = str(row.fleet.replicas.get(name="a").uid)
        proxy = stack.enter_context(Proxy(redis_client, uid))
        for number in range(2):
            stack.enter_context(process([*WORKER, "--hostname", f"worker{number}@%h"]))
            schedule = ["--schedule", str(tmp_path / f"beat{number}"), "--pidfile", ""]
            stack.enter_context(process([*CELERY, "beat", *schedule, "--loglevel", "ERROR"]))
            stack.enter_context(process([sys.executable, "manage.py", "conductor"]))
            uvicorn = [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--no-access-log"]
            stack.enter_context(process([*uvicorn, "--log-level", "error", "--port", str(ports[number])]))
        until(web.ready, "both web processes are ready", PATIENCE_S)
        until(lambda: [health(name) for name in "ab"] == ["ready", "ready"], "all is well", PATIENCE_S)
        until(lambda: len(conductor_heartbeats.read(redis_client)) == 2, "two conductors", PATIENCE_S)

        # Transitions: one event each, from whichever worker saw it.
        for _ in range(3):
            server_of["a"].answer = servers.loading
            until(lambda: health("a") == "unready", "it is unready", PATIENCE_S)
            server_of["a"].answer = servers.ready
            until(lambda: health("a") == "ready", "it is ready", PATIENCE_S)
        assert states("health", "a") == ["ready", *["unready", "ready"] * 3]
        assert states("health", "b") == ["ready"]

        # An ejection, while the leader hangs, comes back, and is killed.
        first = one_leader(redis_client)
        os.kill(first, signal.SIGSTOP)
        try:
            proxy.eject()
            until(lambda: states("ejection", "a"), "the ejection is told", PATIENCE_S)
        finally:
            os.kill(first, signal.SIGCONT)
        second = one_leader(redis_client, other_than=first)
        ticked = last_tick(redis_client, first)
        until(lambda: last_tick(redis_client, first) > ticked, "it ticks again", PATIENCE_S)
        os.kill(second, signal.SIGKILL)
        one_leader(redis_client, other_than=second)
        assert states("ejection", "a") == ["ejected"]
        proxy.ejected = False
        until(lambda: len(states("ejection", "a")) > 1, "the return is told", PATIENCE_S)
        assert states("ejection", "a") == ["ejected", "ready"]

        # Writes at both web processes: each that was accepted happened once, and probing goes on as before.
        before = Fleet.objects.get().revision
        began, asked = time.monotonic(), len(server_of["b"].requests)
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(web.patch_weight, range(WRITES)))
        accepted = [body for status, body in answers if status == 200 and body["changed"]]
        assert {status for status, _ in answers} <= {200, 409}
        assert Fleet.objects.get().revision == before + len(accepted), "a new weight is one revision"
        assert AuditEntry.objects.filter(actor="anna", verb="replicas.update").count() == len(accepted)
        versions = [body["table_version"] for body in accepted]
        assert len(set(versions)) == len(versions) >= WRITES / 2

        # Two of the same at the same time: what is old goes, what is not stays.
        young = Event.objects.count()
        make_old_events()
        assert Event.objects.filter(text="old").count() == OLD
        for _ in range(2):
            app.send_task("controlplane.retention.tasks.forget_old", expires=600)
        until(lambda: not Event.objects.filter(text="old").exists(), "what is old goes", PATIENCE_S)
        assert Event.objects.count() == young

        until(lambda: stored_version(redis_client) == Fleet.objects.get().table_version, "stored", PATIENCE_S)
        seconds = time.monotonic() - began
        probes = len(server_of["b"].requests) - asked
        assert 1 <= probes <= seconds / (0.8 * PERIOD_S) + 2, "each replica is probed as often as it is to be"
        assert all(server.most_open <= 1 for server in server_of.values()), "and never twice at a time"

        # Every version was announced at most once, and nobody took the other for a foreign database.
        assert 0 < announcements.heard["tiny"] <= Fleet.objects.get().table_version
        assert 0 < announcements.heard["*"] <= TableState.objects.get().manifest_version
        assert TableState.objects.get().epoch == row.version.epoch
        assert not Event.objects.filter(actor="publisher").exists()
