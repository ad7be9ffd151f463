"""The whole answer: facts judged, and one sentence over all of them."""

from controlplane.observability.system import parts, processes, proxies, reading
from controlplane.observability.system.reading import DatabaseFacts, InRedis
from controlplane.observability.system.shape import Judged, Part, ProcessRow, ProxyWorker, System, worst
from routing.contract.version import VERSION

SOFTWARE = f"switchyard {VERSION}"
THROUGH_REDIS = {
    "proxies": "Proxies",
    "conductor": "Conductor",
    "worker": "Celery workers",
    "beat": "Beat",
    "probes": "Probes",
}


def system() -> System:
    """As it is now. Raises nothing for what is merely away."""
    return judged(*reading.read())


def judged(in_redis: InRedis | str, in_database: DatabaseFacts | str) -> System:
    """Pure."""
    workers: list[ProxyWorker] = []
    others: list[ProcessRow] = []
    known = not isinstance(in_redis, str)
    manifest = None if isinstance(in_database, str) else in_database.manifest
    replicas = 0 if isinstance(in_database, str) else in_database.replicas
    if isinstance(in_redis, str):
        through = [parts.unknown(name, title) for name, title in THROUGH_REDIS.items()]
        server = parts.redis(in_redis)
    else:
        fleets = {} if isinstance(in_database, str) else in_database.fleets
        workers = proxies.rows(in_redis.heard, in_redis.cpu_percent, manifest, fleets, SOFTWARE)
        others = processes.rows(in_redis.signs, in_redis.conductors, SOFTWARE)
        jobs = [parts.job(role, others) for role in ("conductor", "worker", "beat")]
        through = [parts.proxies(workers), *jobs, parts.probes(in_redis, replicas)]
        server = parts.redis(in_redis.server)
    listed = [through[0], parts.database(in_database), server, *through[1:]]
    return System(
        verdict=verdict(listed),
        table=manifest,
        software=SOFTWARE,
        parts=listed,
        proxies=workers,
        processes=others,
        reports_known=known,
    )


def verdict(listed: list[Part]) -> Judged:
    """The worst part first; how many more there are."""
    level = worst([part.level for part in listed])
    if level == "calm":
        return Judged(level="calm", state="well", words="Every part does its work.")
    wrong = [part for part in listed if part.level in ("warn", "bad")] or [
        part for part in listed if part.level == level
    ]
    first = next(part for part in wrong if part.level == level)
    listing = f"Not well: {', '.join(part.title for part in wrong)}. " if len(wrong) > 1 else ""
    words = f"{listing}{first.title}: {first.words}"
    return Judged(level=level, state=first.state, words=words, cure=first.cure)
