"""What reports add to the counts: each request once, also over the end of a worker or of who counts."""

from typing import Any

import msgspec

from controlplane.objectives import counting
from controlplane.objectives.counting import SeenByWorker
from controlplane.telemetry.merge import ReceivedReport
from routing.contract.ended_requests import EndedRequests
from routing.contract.telemetry import FleetCounters, WorkerReport


def heard(served: int, errors: int = 0, *, worker: str = "gpu-1/7/0", **changes: Any) -> ReceivedReport:
    ended = EndedRequests(served=served, errors={"timeout": errors} if errors else {})
    fleet = FleetCounters(name="llm", ended=ended)
    values = {"incarnation": 1, "sequence": 1, "totals": "block-1", "uptime_s": 900.0, **changes}
    return ReceivedReport(WorkerReport(worker=worker, fleets=[fleet], **values), 0.3)


def success(found: counting.FleetCounts) -> tuple[int, int] | None:
    return found.get("llm", {}).get("success")


def test_only_what_is_new_counts() -> None:
    seen: SeenByWorker = {}
    assert success(counting.news(seen, [heard(100)], is_first=True)) is None
    assert success(counting.news(seen, [heard(110, 2)])) == (10, 12)
    assert success(counting.news(seen, [heard(110, 2)])) == (0, 0)


def test_a_worker_that_is_started_again_goes_on_in_its_memory() -> None:
    seen: SeenByWorker = {}
    counting.news(seen, [heard(100)], is_first=True)
    assert success(counting.news(seen, [heard(105, incarnation=2, uptime_s=1.0)])) == (5, 5)
    assert success(counting.news(seen, [heard(3, incarnation=3, totals="block-2", uptime_s=1.0)])) == (3, 3)
    assert success(counting.news(seen, [heard(2, incarnation=4, totals="", uptime_s=1.0)])) == (2, 2)
    assert success(counting.news(seen, [heard(1, incarnation=5, totals="", uptime_s=1.0)])) == (1, 1)


def test_workers_are_added_up_and_a_new_one_counts_from_its_begin() -> None:
    seen: SeenByWorker = {}
    counting.news(seen, [heard(100)], is_first=True)
    both = [heard(101), heard(7, 1, worker="gpu-2/9/0", uptime_s=2.0)]
    assert success(counting.news(seen, both)) == (8, 9)


def test_a_fleet_that_is_made_again_counts_anew() -> None:
    seen: SeenByWorker = {}
    counting.news(seen, [heard(100)], is_first=True)
    assert success(counting.news(seen, [heard(4)])) == (4, 4)


def test_who_counts_next_goes_on_where_the_last_one_stopped() -> None:
    seen: SeenByWorker = {}
    counting.news(seen, [heard(100)], is_first=True)
    handed = msgspec.json.decode(msgspec.json.encode(seen), type=SeenByWorker)
    assert success(counting.news(handed, [heard(130)])) == (30, 30)
