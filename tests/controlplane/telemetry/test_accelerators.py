"""What requests lease on devices: merged over workers, and said where it holds a replica back."""

import pytest

from controlplane.services import accelerators, fleets
from controlplane.telemetry import db_snapshot, frame_builder
from controlplane.telemetry.frames import WINDOW_S, AcceleratorLive, OverviewFrame, ReplicaLive
from controlplane.telemetry.merge import MergeState, ReceivedReport, merge
from controlplane.telemetry.merged_numbers import Merged
from routing.contract.telemetry import AcceleratorCounters, WorkerReport
from tests.controlplane.telemetry.reports import report

GIB = 2**30


def heard(
    worker: str, sequence: int, leased_bytes: int, lease_waits: int = 0, **fields: object
) -> ReceivedReport:
    counters = AcceleratorCounters(name="node1/gpu0", leased_bytes=leased_bytes, lease_waits=lease_waits)
    said: WorkerReport = report(worker, sequence=sequence, accelerators=[counters], **fields)
    return ReceivedReport(said, 0.2)


def test_leases_are_summed_over_workers_and_waits_counted_over_the_window() -> None:
    state = MergeState()
    merge(state, [heard("h/1/0", 100, 5, 70), heard("h/1/1", 100, 0, 9)], 0.0)
    merged = merge(state, [heard("h/1/0", 101, 5, 72), heard("h/1/1", 101, 3, 10)], 1.0)
    numbers = merged.accelerators["node1/gpu0"]
    assert (numbers.leased_bytes, numbers.lease_waits) == (8, 3)
    again = merge(state, [heard("h/1/0", 1, 2, 4, incarnation=2)], 2.0)
    assert (again.accelerators["node1/gpu0"].leased_bytes, again.accelerators["node1/gpu0"].lease_waits) == (
        2,
        7,
    )
    later = merge(state, [heard("h/1/0", 2, 0, 4, incarnation=2)], 3.0 + WINDOW_S)
    assert (later.accelerators["node1/gpu0"].leased_bytes, later.accelerators["node1/gpu0"].lease_waits) == (
        0,
        0,
    )
    assert merge(state, [], 4.0 + WINDOW_S).accelerators == {}
    assert not state.lease_waits


@pytest.fixture
def shared(db: None) -> None:
    """Two fleets on one device of 10 GiB; requests of ``llm`` lease there, those of ``images`` do not."""
    accelerators.create({"name": "node1/gpu0", "memory_bytes": 10 * GIB, "headroom_percent": 10.0}, "w")
    for fleet, memory, request in (("images", 3, 0), ("llm", 2, 2)):
        on = {"accelerators": ["node1/gpu0"], "memory_bytes": memory * GIB, "request_bytes": request * GIB}
        listed = [{"name": "a", "url": "http://h", **on}, {"name": "off", "url": "http://h"}]
        fleets.create({"name": fleet, "protocol": "openai", "replicas": listed}, "w")


def frames(merged: Merged) -> tuple[OverviewFrame, dict[str, ReplicaLive]]:
    built = frame_builder.build(db_snapshot.read(), merged, {}, {}, sequence=1, at=0.0)
    return built.overview, {name: frame.replicas[0] for name, frame in built.fleets.items()}


def test_a_frame_shows_a_device_and_what_is_on_it(shared: None) -> None:
    overview, _ = frames(merge(MergeState(), [heard("h/1/0", 5, 3 * GIB)], 0.0))
    assert overview.accelerators == [
        AcceleratorLive(
            name="node1/gpu0",
            memory_bytes=10 * GIB,
            usable_bytes=9 * GIB,
            held_bytes=5 * GIB,
            leased_bytes=3 * GIB,
            lease_waits=0,
        )
    ]
    silent, _ = frames(merge(MergeState(), [], 0.0))
    assert silent.accelerators[0].leased_bytes is None


@pytest.mark.parametrize(
    ("leased", "waits", "said"),
    [
        (2 * GIB, 0, ""),
        (3 * GIB, 0, "waits for memory on node1/gpu0: 1 GiB free of 9 GiB, a request takes 2 GiB"),
        (4 * GIB, 0, "waits for memory on node1/gpu0: nothing free of 9 GiB, a request takes 2 GiB"),
        (0, 1, "memory was short on node1/gpu0 for 1 request in the last 10 s"),
    ],
)
def test_memory_that_holds_a_replica_back_is_said_where_requests_take_some(
    shared: None, leased: int, waits: int, said: str
) -> None:
    state = MergeState()
    merge(state, [heard("h/1/0", 5, 0)], 0.0)
    _, replicas = frames(merge(state, [heard("h/1/0", 6, leased, waits)], 1.0))
    assert (replicas["llm"].memory_short, replicas["images"].memory_short) == (said, "")
    assert said in replicas["llm"].why
