"""Database, Redis, and each job of the control plane: is it done? Pure, one function each."""

from collections.abc import Sequence

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
        "No Celery worker is heard of: no replica is probed, so health stays as it was last seen.",
        "Start one: celery -A controlplane.celery worker --pool threads",
    ),
    "beat": (
        "Beat is not heard of: nobody says that probes are due, so health stays as it was last seen.",
        "Start one: celery -A controlplane.celery beat",
    ),
    "conductor": (
        "No conductor is heard of: pages show no live numbers, and a lost table is not repaired.",
        "Start one: manage.py conductor",
    ),
}


def database(facts: DatabaseFacts | str) -> SystemComponent:
    part = SystemComponent(name="database", title="Database", level="calm", state="well", words="It answers.")
    if isinstance(facts, str):
        part.level, part.state, part.words = "bad", "away", f"It does not answer: {facts}"
        part.cure = "Start it. Requests are routed without it; changes and logins wait."
        return part
    kind = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(facts.vendor, facts.vendor)
    part.facts = {
        "kind": f"{kind} {facts.version.split(' ')[0]}",
        "migrations applied": str(facts.migrations),
        "round trip": milliseconds(facts.round_trip_s),
    }
    if facts.state != "ok":
        part.level, part.state, part.words = "bad", "old", f"It answers, but {facts.state}."
        part.cure = "Run: manage.py migrate"
    elif facts.round_trip_s > SLOW_S:
        part.level, part.state = "warn", "slow"
        part.words = f"It took {milliseconds(facts.round_trip_s)} to answer the simplest question."
        part.cure = "Look at its load and at the network between."
    return part


def redis(facts: RedisFacts | str) -> SystemComponent:
    part = SystemComponent(name="redis", title="Redis", level="calm", state="well", words="It answers.")
    if isinstance(facts, str):
        part.level, part.state, part.words = "bad", "away", f"It does not answer: {facts}"
        part.cure = (
            "Start it: the table is back within 5 s, nothing is lost. Meanwhile proxies route from the table "
            "they have; changes and live numbers wait."
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
    if facts.limit_bytes and facts.used_bytes > FULL * facts.limit_bytes:
        part.level, part.state = "warn", "full"
        part.words = f"Its memory is {100 * facts.used_bytes / facts.limit_bytes:.0f} % used."
        part.cure = "Raise maxmemory: what Switchyard keeps must not be evicted."
    elif facts.round_trip_s > SLOW_S:
        part.level, part.state = "warn", "slow"
        part.words = f"It took {milliseconds(facts.round_trip_s)} to answer a PING."
        part.cure = "Look at its load (SLOWLOG) and at the network between."
    return part


def unknown(name: str, title: str) -> SystemComponent:
    return SystemComponent(
        name=name,
        title=title,
        level="notice",
        state="unknown",
        words="Not known while Redis is away: signs of life go through it.",
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
            part.words += f" The last sign of one came {durations.words(min(row.age_s for row in mine))} ago."
    elif troubled := [row for row in mine if row.level in ("warn", "bad")]:
        part.level = worst([row.level for row in troubled])
        part.state, part.words, part.cure = _trouble(troubled, part.words)
    elif role == "beat" and len(live) > 1:
        part.level, part.state = "warn", "double"
        part.words = f"{len(live)} run: each task is sent as many times."
        part.cure = "Stop all but one. Probes are not doubled by it, but the queue is."
    elif role == "conductor" and not any(row.state == "leads" for row in live):
        part.level, part.state = "warn", "electing"
        part.words = f"{_count(role, len(live))} None leads just now; one takes over within 5 s."
    if live:
        part.facts = {"last sign": f"{min(row.age_s for row in live):.1f} s ago"}
    if role == "conductor":
        leaders = [row.name for row in live if row.state in ("leads", "slow")]
        part.facts |= {"leader": leaders[0] if leaders else "none", "candidates": str(len(live))}
    return part


def _trouble(rows: Sequence[ProcessStatus], otherwise: str) -> tuple[str, str, str]:
    first = rows[0]
    return first.state, f"{otherwise} {first.name}: {first.words}", first.cure


def _count(role: str, number: int) -> str:
    title = TITLES[role]
    return f"One {title} is at work." if number == 1 else f"{number} {title}s are at work."


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
            f"The most overdue probe has waited {durations.words(lag.lag_s)}, "
            f"{lag.overdue} of {lag.scheduled} wait: health is older than it should be."
        )
        part.cure = "See whether beat and a Celery worker run; start more workers if they are busy."
    elif queue > LONG_QUEUE:
        part.level, part.state = "warn", "queueing"
        part.words = f"{queue} tasks wait for a worker."
        part.cure = "Start another Celery worker."
    elif replicas and not lag.scheduled:
        part.level, part.state = "warn", "standing still"
        registered = "1 replica" if replicas == 1 else f"{replicas} replicas"
        part.words = f"No probe is scheduled, though {registered} should be probed."
        part.cure = "The next tick schedules them: see whether beat and a Celery worker run."
    elif not lag.scheduled:
        part.words, part.state = "There is no replica to probe.", "idle"
    return part


def proxies(rows: Sequence[ProxyWorkerStatus]) -> SystemComponent:
    live = [row for row in rows if row.state != "silent"]
    number = len({row.proxy for row in live})
    workers = "1 worker" if len(live) == 1 else f"{len(live)} workers"
    words = f"1 proxy with {workers} reports." if number == 1 else f"{number} proxies with {workers} report."
    part = SystemComponent(name="proxies", title="Proxies", level="calm", state="well", words=words)
    if not live:
        part.level, part.state = "bad", "missing"
        part.words = "No proxy reports: either none runs, or none reaches Redis."
        part.cure = "Start one: python -m routing --redis URL. Ask the admin listener of one that runs."
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
