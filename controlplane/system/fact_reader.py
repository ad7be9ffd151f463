"""Facts for the system page, from Redis and the database. Each may be away; then it says why."""

import time
from dataclasses import dataclass, field

import msgspec
import redis
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from controlplane.datastores import disk_full
from controlplane.datastores.availability import database_state, write_refusal
from controlplane.datastores.brief_wait import brief_wait
from controlplane.datastores.redis import client as redis_client
from controlplane.datastores.redis_refusal import RefusedWrite
from controlplane.datastores.task_queue import queue_length
from controlplane.models import Replica
from controlplane.observability import conductor_heartbeats, process_heartbeats
from controlplane.observability.conductor_heartbeats import ConductorLive
from controlplane.observability.process_heartbeats import LiveProcess
from controlplane.probes.lag import ProbeLag, probe_lag
from controlplane.publishing.installation import Binding, binding
from controlplane.publishing.snapshots import current_state, current_versions
from controlplane.telemetry import report_reader
from controlplane.telemetry.frames import OVERVIEW_KEY, OverviewFrame
from controlplane.telemetry.merge import ReceivedReport
from controlplane.telemetry.report_decoder import decode_without_replicas
from routing.contract.decode_errors import DECODE_ERRORS

FRAME_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class RedisFacts:
    engine: str
    version: str
    used_bytes: int
    limit_bytes: int
    """0: none."""
    round_trip_s: float
    uptime_s: float
    clients: int
    refuses_writes: RefusedWrite | None = None


@dataclass(frozen=True, slots=True)
class InRedis:
    """Everything that is known through Redis."""

    server: RedisFacts
    heard: list[ReceivedReport]
    processes: list[LiveProcess]
    conductors: list[ConductorLive]
    lag: ProbeLag
    queue: int
    bound: Binding = field(default_factory=Binding)
    """To which installation this Redis belongs."""
    cpu_percent: dict[str, float] = field(default_factory=dict)
    """Proxy worker → CPU over the last second, from the conductor's last frame where that is fresh."""


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    vendor: str
    version: str
    state: str
    """``ok``, or what is wrong."""
    migrations: int
    round_trip_s: float
    manifest: str
    fleets: dict[str, str]
    """Fleet → ``epoch:version`` of its newest snapshot."""
    replicas: int
    installation: str = ""
    instance: str = ""
    free_bytes: int | None = None
    """On the disk of a SQLite database; ``None``: not known, or another database."""


def from_redis() -> InRedis:
    """Raises redis.RedisError."""
    client = redis_client()
    began = time.monotonic()
    client.ping()
    round_trip_s = time.monotonic() - began
    return InRedis(
        server=_server(client, round_trip_s, write_refusal()),
        heard=report_reader.read(client, decode_without_replicas).reports,
        processes=process_heartbeats.read(client),
        conductors=conductor_heartbeats.read(client),
        lag=probe_lag(client),
        queue=queue_length(),
        bound=binding(),
        cpu_percent=_cpu(client),
    )


def _server(client: "redis.Redis", round_trip_s: float, refuses_writes: RefusedWrite | None) -> RedisFacts:
    said = client.info()
    return RedisFacts(
        engine=str(said.get("server_name", "redis")),
        version=str(said.get("valkey_version") or said.get("redis_version", "")),
        used_bytes=int(said.get("used_memory", 0)),
        limit_bytes=int(said.get("maxmemory", 0)),
        round_trip_s=round_trip_s,
        uptime_s=float(said.get("uptime_in_seconds", 0)),
        clients=int(said.get("connected_clients", 0)),
        refuses_writes=refuses_writes,
    )


def _cpu(client: "redis.Redis") -> dict[str, float]:
    body = client.get(OVERVIEW_KEY)
    try:
        frame = msgspec.json.decode(body or b"", type=OverviewFrame)
    except DECODE_ERRORS:
        return {}
    if abs(time.time() - frame.at) > FRAME_LIMIT_S:
        return {}
    return {worker.name: worker.cpu_percent for worker in frame.workers}


def from_database() -> DatabaseFacts:
    """Raises django.db.Error."""
    began = time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        round_trip_s = time.monotonic() - began
        cursor.execute("SELECT sqlite_version()" if connection.vendor == "sqlite" else "SHOW server_version")
        (version,) = cursor.fetchone()
    state = current_state()
    versions = current_versions(state)
    return DatabaseFacts(
        vendor=connection.vendor,
        version=str(version),
        state=database_state(),
        migrations=len(MigrationRecorder(connection).applied_migrations()),
        round_trip_s=round_trip_s,
        manifest=str(versions.manifest_version),
        fleets={name: str(versions.fleet_version(name)) for name in versions.fleets},
        replicas=Replica.objects.count(),
        installation=state.installation,
        instance=state.instance,
        free_bytes=disk_full.free_bytes() if connection.vendor == "sqlite" else None,
    )


def read() -> tuple[InRedis | str, DatabaseFacts | str]:
    """Both, or why one is away."""
    in_redis: InRedis | str
    in_database: DatabaseFacts | str
    try:
        in_redis = from_redis()
    except redis.RedisError as error:
        in_redis = str(error) or type(error).__name__
    try:
        with brief_wait():
            in_database = from_database()
    except DatabaseError as error:
        in_database = str(error) or type(error).__name__
    return in_redis, in_database
