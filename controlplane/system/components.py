"""Database, Redis, and each job of the control plane: is it done? Pure, one function each."""

from collections.abc import Sequence

from controlplane.datastores.disk_full import NO_ROOM_BYTES
from controlplane.publishing.installation import Binding
from controlplane.system.fact_reader import DatabaseFacts, InRedis, RedisFacts
from controlplane.system.processes import TITLES, is_live
from controlplane.system.status import ProcessStatus, ProxyWorkerStatus, SystemComponent, worst
from controlplane.telemetry import durations

SLOW_S = 0.05
FULL = 0.9
LAG_WARN_S = 3.0
LAG_BAD_S = 15.0
LONG_QUEUE = 100

WITHOUT = {
    "worker": (
        "No Celery worker sends heartbeats: no replica is probed, so health is no longer updated.",
        "Start one: .venv/bin/celery -A controlplane.celery worker --pool threads. Under systemd: "
        "systemctl start switchyard-worker.",
    ),
    "beat": (
        "Beat sends no heartbeats: no probes are scheduled, so health is no longer updated.",
        "Start one: .venv/bin/celery -A controlplane.celery beat. Under systemd: "
        "systemctl start switchyard-beat.",
    ),
    "conductor": (
        "No conductor sends heartbeats: pages show no live numbers, and a lost table is not restored.",
        "Start one: .venv/bin/switchyard conductor. Under systemd: systemctl start switchyard-conductor.",
    ),
}


def database(facts: DatabaseFacts | str) -> SystemComponent:
    part = SystemComponent(name="database", title="Database", level="calm", state="well", words="It answers.")
    if isinstance(facts, str):
        part.level, part.state, part.words = "bad", "away", f"It does not answer: {facts}"
        part.cure = "Start it. Requests are still routed; changes and logins are not possible."
        return part
    kind = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(facts.vendor, facts.vendor)
    part.facts = {
        "kind": f"{kind} {facts.version.split(' ')[0]}",
        "migrations applied": str(facts.migrations),
        "round trip": milliseconds(facts.round_trip_s),
    }
    if facts.state != "ok":
        part.level, part.state, part.words = "bad", "old", f"It answers, but {facts.state}."
        part.cure = "Run: .venv/bin/switchyard migrate"
    elif facts.free_bytes is not None and facts.free_bytes < NO_ROOM_BYTES:
        part.level, part.state = "bad", "full"
        part.words = "It answers, but its disk is full: changes are refused, and events are lost."
        part.cure = (
            "Free space in the data folder. Requests are still routed; everything else goes on by itself."
        )
    elif facts.round_trip_s > SLOW_S:
        part.level, part.state = "warn", "slow"
        part.words = f"It took {milliseconds(facts.round_trip_s)} to answer a trivial query."
        part.cure = "Check its load and the network to it."
    return part


FOREIGN = (
    "Correct SWITCHYARD_REDIS_URL or SWITCHYARD_DATABASE_URL, or stop the other control plane. If this "
    "database is to replace the other one: .venv/bin/switchyard takeover."
)


def redis(facts: RedisFacts | str, not_ours: tuple[str, str] | None = None) -> SystemComponent:
    """``not_ours``: state and words, where it belongs to another installation."""
    part = SystemComponent(name="redis", title="Redis", level="calm", state="well", words="It answers.")
    if isinstance(facts, str):
        part.level, part.state, part.words = "bad", "away", f"It does not answer: {facts}"
        if not_ours is not None:
            part.cure = FOREIGN
            part.state, part.words = not_ours
            return part
        part.cure = (
            "Start it: the table is restored within 5 s, nothing is lost. Meanwhile proxies route from their "
            "last table; changes do not reach them, and there are no live numbers."
        )
        return part
    limit = f" of {mebibytes(facts.limit_bytes)}" if facts.limit_bytes else ", no limit set"
    part.facts = {
        "version": f"{facts.engine} {facts.version}",
        "memory": mebibytes(facts.used_bytes) + limit,
        "round trip": milliseconds(facts.round_trip_s),
        "clients": str(facts.clients),
        "up": durations.words(facts.uptime_s),
    }
    if not_ours is not None:
        part.level, part.cure = "bad", FOREIGN
        part.state, part.words = not_ours
    elif facts.refuses_writes is not None:
        refused = facts.refuses_writes
        part.level, part.state, part.cure = "bad", refused.state, refused.cure
        part.words = (
            f"It is {refused.words}: changes do not reach the proxies, and there are no live numbers."
        )
    elif facts.limit_bytes and facts.used_bytes > FULL * facts.limit_bytes:
        part.level, part.state = "warn", "full"
        part.words = f"Its memory is {100 * facts.used_bytes / facts.limit_bytes:.0f} % used."
        part.cure = "Raise maxmemory: Switchyard's keys must not be evicted."
    elif facts.round_trip_s > SLOW_S:
        part.level, part.state = "warn", "slow"
        part.words = f"It took {milliseconds(facts.round_trip_s)} to answer a PING."
        part.cure = "Check its load (SLOWLOG) and the network to it."
    return part


def not_ours(bound: Binding, ours: DatabaseFacts) -> tuple[str, str] | None:
    """Why this database may not publish to Redis; ``None``: it may."""
    if bound.id and ours.installation and bound.id != ours.installation:
        return (
            "foreign",
            f"It belongs to another installation ({bound.id}): changes made here reach no proxy.",
        )
    if ours.instance and bound.is_copy_of(ours.installation, ours.instance):
        return "copy", "A copy of this database publishes to it: changes made here reach no proxy."
    return None


def unknown(name: str, title: str) -> SystemComponent:
    return SystemComponent(
        name=name,
        title=title,
        level="notice",
        state="unknown",
        words="Unknown while Redis does not answer: heartbeats go through it.",
    )


def job(role: str, processes: Sequence[ProcessStatus]) -> SystemComponent:
    """Whether somebody does the work of this role."""
    mine = [row for row in processes if row.role == role]
    live = [row for row in mine if is_live(row)]
    title = {"worker": "Celery workers", "beat": "Beat", "conductor": "Conductor"}[role]
    part = SystemComponent(name=role, title=title, level="calm", state="well", words=_count(role, len(live)))
    if not live:
        part.level, part.state = "bad", "missing"
        part.words, part.cure = WITHOUT[role]
        if mine:
            part.words += f" The last heartbeat was {durations.words(min(row.age_s for row in mine))} ago."
    elif troubled := [row for row in mine if row.level in ("warn", "bad")]:
        part.level = worst([row.level for row in troubled])
        part.state, part.words, part.cure = _trouble(troubled, part.words)
    elif role == "beat" and len(live) > 1:
        part.words = f"{part.words} One of them schedules, the others stand by."
    elif role == "conductor" and not any(row.state == "leads" for row in live):
        part.level, part.state = "warn", "electing"
        part.words = f"{_count(role, len(live))} None is the leader at the moment; one takes over within 5 s."
    if live:
        part.facts = {"last heartbeat": f"{min(row.age_s for row in live):.1f} s ago"}
    if role == "conductor":
        leaders = [row.name for row in live if row.state in ("leads", "slow")]
        part.facts |= {"leader": leaders[0] if leaders else "none", "candidates": str(len(live))}
    return part


def _trouble(rows: Sequence[ProcessStatus], otherwise: str) -> tuple[str, str, str]:
    first = rows[0]
    return first.state, f"{otherwise} {first.name}: {first.words}", first.cure


def _count(role: str, number: int) -> str:
    title = TITLES[role]
    return f"One {title} is running." if number == 1 else f"{number} {title}s are running."


def probes(facts: InRedis, replicas: int) -> SystemComponent:
    """``replicas``: registered ones; 0 as well while the database is away."""
    lag, queue = facts.lag, facts.queue
    part = SystemComponent(
        name="probes", title="Probes", level="calm", state="on time", words="Probes run when they are due."
    )
    part.facts = {
        "lag": f"{lag.lag_s:.1f} s",
        "replicas probed": str(lag.scheduled),
        "overdue": str(lag.overdue),
        "queue": f"{queue} task{'' if queue == 1 else 's'}",
    }
    if lag.lag_s > LAG_WARN_S:
        part.level = "bad" if lag.lag_s > LAG_BAD_S else "warn"
        part.state = "late"
        part.words = (
            f"The most overdue probe is {durations.words(lag.lag_s)} late, "
            f"{lag.overdue} of {lag.scheduled} are overdue: health is out of date."
        )
        part.cure = "Check that beat and a Celery worker are running; start more workers if they are busy."
    elif queue > LONG_QUEUE:
        part.level, part.state = "warn", "queueing"
        part.words = f"{queue} tasks are queued for a worker."
        part.cure = "Start another Celery worker."
    elif replicas and not lag.scheduled:
        part.level, part.state = "warn", "not scheduled"
        registered = "1 replica" if replicas == 1 else f"{replicas} replicas"
        part.words = f"No probe is scheduled, though {registered} should be probed."
        part.cure = "The next tick schedules them: check that beat and a Celery worker are running."
    elif not lag.scheduled:
        part.words, part.state = "There is no replica to probe.", "idle"
    return part


def proxies(rows: Sequence[ProxyWorkerStatus]) -> SystemComponent:
    live = [row for row in rows if is_live(row)]
    number = len({row.proxy for row in live})
    workers = "1 worker" if len(live) == 1 else f"{len(live)} workers"
    words = f"1 proxy with {workers} reports." if number == 1 else f"{number} proxies with {workers} report."
    part = SystemComponent(name="proxies", title="Proxies", level="calm", state="well", words=words)
    if not live:
        part.level, part.state = "bad", "missing"
        part.words = "No proxy reports: either none is running, or none can reach Redis."
        part.cure = (
            "Start one: .venv/bin/switchyard proxy --redis URL. Under systemd: systemctl start "
            "switchyard-proxy. If one is running, check its admin listener (/readyz)."
        )
    elif troubled := [row for row in rows if row.level in ("warn", "bad")]:
        part.level = worst([row.level for row in troubled])
        part.state = troubled[0].state if len({row.state for row in troubled}) == 1 else "mixed"
        part.words = f"{words} {len(troubled)} of {len(rows)} workers: {troubled[0].words}"
        part.cure = troubled[0].cure
    if live:
        part.facts = {
            "clients": str(sum(row.clients for row in live)),
            "in flight": str(sum(row.in_flight for row in live)),
            "oldest report": f"{max(row.age_s for row in live):.1f} s",
        }
    return part


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
