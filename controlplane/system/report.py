"""System report: the status of every component, and one verdict over all of them (worst first)."""

from controlplane.datastores.redis_gate import gate
from controlplane.system import components, fact_reader, processes, proxies
from controlplane.system.fact_reader import DatabaseFacts, InRedis
from controlplane.system.status import (
    ComponentStatus,
    ProcessStatus,
    ProxyWorkerStatus,
    SystemComponent,
    SystemStatus,
    worst,
)
from routing.contract.version import VERSION

SOFTWARE = f"switchyard {VERSION}"
THROUGH_REDIS = {
    "proxies": "Proxies",
    "conductor": "Conductor",
    "worker": "Celery workers",
    "beat": "Beat",
    "probes": "Probes",
}


def system() -> SystemStatus:
    """As it is now. Raises nothing for what is merely away."""
    return assessed(*fact_reader.read(), refused=gate.words)


def assessed(in_redis: InRedis | str, in_database: DatabaseFacts | str, *, refused: str = "") -> SystemStatus:
    """Pure. ``refused``: why this process does not use its Redis."""
    workers: list[ProxyWorkerStatus] = []
    others: list[ProcessStatus] = []
    known = not isinstance(in_redis, str)
    manifest = None if isinstance(in_database, str) else in_database.manifest
    replicas = 0 if isinstance(in_database, str) else in_database.replicas
    if isinstance(in_redis, str):
        through = [components.unknown(name, title) for name, title in THROUGH_REDIS.items()]
        server = components.redis(in_redis, ("foreign", refused) if refused else None)
    else:
        fleets = {} if isinstance(in_database, str) else in_database.fleets
        workers = proxies.rows(in_redis.heard, in_redis.cpu_percent, manifest, fleets, SOFTWARE)
        others = processes.rows(in_redis.processes, in_redis.conductors, SOFTWARE)
        jobs = [components.job(role, others) for role in ("conductor", "worker", "beat")]
        through = [components.proxies(workers), *jobs, components.probes(in_redis, replicas)]
        foreign = None if isinstance(in_database, str) else components.not_ours(in_redis.bound, in_database)
        server = components.redis(in_redis.server, foreign)
    listed = [through[0], components.database(in_database), server, *through[1:]]
    return SystemStatus(
        verdict=verdict(listed),
        table=manifest,
        software=SOFTWARE,
        parts=listed,
        proxies=workers,
        processes=others,
        reports_known=known,
    )


def verdict(listed: list[SystemComponent]) -> ComponentStatus:
    """The worst part first; how many more there are."""
    level = worst([part.level for part in listed])
    if level == "calm":
        return ComponentStatus(level="calm", state="well", words="Every part works.")
    wrong = [part for part in listed if part.level in ("warn", "bad")] or [
        part for part in listed if part.level == level
    ]
    first = next(part for part in wrong if part.level == level)
    listing = f"Affected: {', '.join(part.title for part in wrong)}. " if len(wrong) > 1 else ""
    words = f"{listing}{first.title}: {first.words}"
    return ComponentStatus(level=level, state=first.state, words=words, cure=first.cure)
