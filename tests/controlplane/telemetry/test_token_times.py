"""Token times, tokens a second and errors by reason: merged over workers, exact over their restarts."""

import pytest

from controlplane.telemetry.frames import WINDOW_S
from controlplane.telemetry.merge import MergeState, ReceivedReport, merge
from controlplane.telemetry.merged_numbers import Merged
from controlplane.telemetry.token_windows import NOTHING
from routing.contract.ended_requests import EndedRequests
from routing.contract.sketch import quantile
from routing.contract.telemetry import FleetCounters, WorkerReport
from tests.controlplane.telemetry.reports import fleet, replica, report, sketch_of

BLOCK = "of one master"


def heard(state: MergeState, now: float, *reports: WorkerReport) -> Merged:
    return merge(state, [ReceivedReport(each, 0.2) for each in reports], now)


def streams(first: list[float], between: list[float]) -> FleetCounters:
    times = {"first_token": sketch_of(first), "between_tokens": sketch_of(between)}
    return fleet(len(first), replicas=[replica(len(first), **times)], **times)


def test_percentiles_of_streams_are_those_of_all_workers_together() -> None:
    state = MergeState()
    names = ("host/1/0", "host/1/1")
    heard(state, 0.0, *(report(name, sequence=5, fleets=[fleet()]) for name in names))
    slow, fast = streams([2.0] * 30, [0.2] * 30), streams([0.1] * 70, [0.01] * 70)
    did = zip(names, (slow, fast), strict=True)
    merged = heard(state, 1.0, *(report(name, sequence=6, fleets=[each]) for name, each in did))
    numbers = merged.fleets["digits"]
    together = sketch_of([2.0] * 30 + [0.1] * 70)
    assert numbers.first_token.p50_s == pytest.approx(0.1, rel=0.02)
    assert numbers.first_token.p95_s == quantile(together, 0.95)
    assert numbers.between_tokens.p99_s == pytest.approx(0.2, rel=0.02)
    assert merged.total.first_token == numbers.first_token
    assert numbers.replicas["u1"].first_token == numbers.first_token
    quiet = heard(state, 1.0 + WINDOW_S, report(sequence=16, fleets=[streams([2.0] * 30, [0.2] * 30)]))
    assert quiet.fleets["digits"].first_token == NOTHING
    assert quiet.fleets["digits"].replicas["u1"].between_tokens == NOTHING
    assert not state.replica_tokens


def ended(sequence: int, incarnation: int = 1, totals: str = BLOCK, **counts: object) -> WorkerReport:
    exact = EndedRequests(**counts)  # type: ignore[arg-type]
    counted = fleet(sequence, ended=exact, replicas=[replica(failed=sequence, failed_by={"lost": sequence})])
    return report(sequence=sequence, incarnation=incarnation, totals=totals, fleets=[counted])


def test_errors_by_reason_and_retries_a_second() -> None:
    state = MergeState()
    heard(state, 0.0, ended(5, errors={"timeout": 100}, retries=50))
    merged = heard(state, 1.0, ended(6, errors={"timeout": 103, "busy": 2}, retries=54))
    numbers = merged.fleets["digits"]
    assert numbers.error_reasons == merged.total.error_reasons == {"timeout": 3.0, "busy": 2.0}
    assert numbers.retries_per_s == merged.total.retries_per_s == 4.0
    assert numbers.lately_failed == {"busy": 2, "timeout": 3}
    assert numbers.replicas["u1"].failures == {"lost": 1}


@pytest.mark.parametrize(
    ("totals", "retries_per_s"),
    [(BLOCK, 30.0), ("of another master", 130.0)],
    ids=["the same block: it goes on", "another: all is new"],
)
def test_a_worker_that_was_killed_has_lost_nothing(totals: str, retries_per_s: float) -> None:
    """What it had not reported any more is in its successor's first report, and is no burst."""
    state = MergeState()
    heard(state, 0.0, ended(5, retries=100))
    after = ended(0, incarnation=2, totals=totals, retries=130)
    assert heard(state, 1.0, after).fleets["digits"].retries_per_s == retries_per_s


def test_what_an_earlier_process_counted_long_ago_is_no_burst() -> None:
    """A new worker has the number of one that ended before this conductor knew any."""
    state = MergeState()
    heard(state, 0.0, report("host/1/0", sequence=900))
    exact = EndedRequests(served=50_000, retries=700, output_tokens=10**6)
    begun = report("host/1/2", sequence=1, totals=BLOCK, fleets=[fleet(30, ended=exact)])
    merged = heard(state, 1.0, begun)
    assert merged.fleets["digits"].retries_per_s == 0.0
    assert merged.news["fleet:digits"].output_tokens == 0
    assert merged.news["fleet:digits"].requests == 30
