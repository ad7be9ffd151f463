"""Short ways to write a worker's report."""

from collections.abc import Iterable, Mapping

import redis

from routing.contract import redis_keys
from routing.contract.sketch import Sketch
from routing.contract.telemetry import (
    FleetCounters,
    KeyCounters,
    ReplicaCounters,
    WorkerReport,
    encode_report,
)


def sketch_of(seconds: Iterable[float]) -> dict[int, int]:
    sketch = Sketch()
    for each in seconds:
        sketch.observe(each)
    return sketch.counts


def report(
    worker: str = "host/1/0",
    *,
    sequence: int = 1,
    uptime_s: float | None = None,
    incarnation: int = 1,
    fleets: Iterable[FleetCounters] = (),
    **fields: object,
) -> WorkerReport:
    """A report of a worker that reports once a second since it started."""
    return WorkerReport(
        worker=worker,
        incarnation=incarnation,
        sequence=sequence,
        uptime_s=float(sequence) if uptime_s is None else uptime_s,
        fleets=list(fleets),
        **fields,  # type: ignore[arg-type]
    )


def fleet(
    requests: int = 0,
    *,
    name: str = "digits",
    latencies: Iterable[float] = (),
    replicas: Iterable[ReplicaCounters] = (),
    **fields: object,
) -> FleetCounters:
    return FleetCounters(
        name=name,
        requests=requests,
        latency=sketch_of(latencies),
        replicas=list(replicas),
        **fields,  # type: ignore[arg-type]
    )


def replica(
    picked: int = 0, *, uid: str = "u1", name: str = "a", latencies: Iterable[float] = (), **fields: object
) -> ReplicaCounters:
    return ReplicaCounters(
        uid=uid,
        name=name,
        picked=picked,
        latency=sketch_of(latencies),
        **fields,  # type: ignore[arg-type]
    )


def applied(versions: Mapping[str, str]) -> list[FleetCounters]:
    return [FleetCounters(name=name, applied=version) for name, version in versions.items()]


def key(requests: int = 0, *, id: str = "7", **fields: object) -> KeyCounters:
    return KeyCounters(id=id, requests=requests, **fields)  # type: ignore[arg-type]


def send(client: "redis.Redis", message: WorkerReport) -> None:
    """As a proxy worker does."""
    client.eval(
        redis_keys.REPORT,
        2,
        redis_keys.WORKERS,
        redis_keys.REPORTS,
        message.worker,
        encode_report(message).decode(),
    )
