"""``/status`` says of each replica what can be moved, and what stays and why, over all workers."""

import os

from routing.contract.table import FleetSnapshot, ReplicaSpec
from routing.contract.telemetry import FleetCounters, ReplicaCounters, WorkerReport
from routing.master.admin.metrics import WorkerStatus
from routing.master.admin.status import replica_rows


def worker(number: int, **fields: object) -> WorkerStatus:
    replica = ReplicaCounters(uid="u", name="a", **fields)  # type: ignore[arg-type]
    fleet = FleetCounters(name="llm", replicas=[replica])
    report = WorkerReport(worker=f"w/{number}", incarnation=1, sequence=1, fleets=[fleet])
    return WorkerStatus(number, os.getpid(), True, 0, report, 0.5)


def test_workers_add_up() -> None:
    workers = [
        worker(0, movable=2, movable_prompt_tokens=30, staying={"plain": 1}, moved=3, moved_prompt_tokens=9),
        worker(1, movable=1, movable_prompt_tokens=10, staying={"plain": 1, "tools": 1}),
    ]
    spec = ReplicaSpec(uid="u", name="a", url="http://10.0.0.1", admin_state="draining", move=True)
    table = FleetSnapshot(epoch=1, version=1, revision=1, name="llm", protocol="openai", replicas=[spec])
    (row,) = replica_rows("llm", table, [None, None], workers, [], 0.0, {})
    assert row["move"] is True
    assert row["moving"] == {
        "movable": 3,
        "movable_prompt_tokens": 40,
        "staying": {"plain": 2, "tools": 1},
        "stays": "2 not streamed, 1 with calls of tools",
        "moved": 3,
        "moved_prompt_tokens": 9,
    }
