"""Time to first byte and tokens a second of fleets: merged over replicas and workers, never averaged."""

import pytest

from controlplane.telemetry.frames import WINDOW_S
from controlplane.telemetry.merge import MergeState, ReceivedReport, merge
from controlplane.telemetry.token_windows import Percentiles
from routing.contract.sketch import quantile
from routing.contract.telemetry import FleetCounters, WorkerReport
from tests.controlplane.telemetry.reports import fleet, replica, report, sketch_of

SLOW, FAST = [2.0] * 30, [0.1] * 70
NAMES = ("host/1/0", "host/1/1")


def heard(*reports: WorkerReport) -> list[ReceivedReport]:
    return [ReceivedReport(each, 0.2) for each in reports]


def seen(seconds: list[float], tokens: int = 0, *, uid: str = "u1") -> FleetCounters:
    return fleet(1, replicas=[replica(uid=uid, first_byte=sketch_of(seconds), output_tokens=tokens)])


def test_percentiles_are_those_of_all_workers_and_replicas_together() -> None:
    state = MergeState()
    merge(state, heard(*(report(name, sequence=5) for name in NAMES)), 0.0)
    did = zip(NAMES, (seen(SLOW), seen(FAST, uid="u2")), strict=True)
    merged = merge(state, heard(*(report(name, sequence=6, fleets=[each]) for name, each in did)), 1.0)
    together = sketch_of(SLOW + FAST)
    expected = Percentiles(quantile(together, 0.5), quantile(together, 0.95), quantile(together, 0.99))
    assert merged.fleets["digits"].first_byte == merged.total.first_byte == expected
    assert (expected.p50_s, expected.p95_s) == (pytest.approx(0.1, rel=0.02), pytest.approx(2.0, rel=0.02))


def test_only_what_came_within_the_window_is_measured() -> None:
    state = MergeState()
    merge(state, heard(report(sequence=5, fleets=[seen(SLOW)])), 0.0)
    merged = merge(state, heard(report(sequence=6, fleets=[seen(SLOW + FAST)])), 1.0)
    assert merged.fleets["digits"].first_byte.p99_s == pytest.approx(0.1, rel=0.02)
    quiet = merge(state, heard(report(sequence=16, fleets=[seen(SLOW + FAST)])), 1.0 + WINDOW_S)
    assert quiet.fleets["digits"].first_byte == quiet.total.first_byte == Percentiles()


def test_tokens_a_second_are_what_workers_counted_between_two_reports() -> None:
    state = MergeState()
    merge(state, heard(*(report(name, sequence=5, fleets=[seen([], 1000)]) for name in NAMES)), 0.0)
    did = zip(NAMES, (seen([], 1040), seen([], 1002)), strict=True)
    merged = merge(state, heard(*(report(name, sequence=6, fleets=[each]) for name, each in did)), 1.0)
    assert merged.fleets["digits"].output_tokens_per_s == merged.total.output_tokens_per_s == 42.0


def test_counters_of_a_replica_that_began_again_are_all_new() -> None:
    state = MergeState()
    merge(state, heard(report(sequence=5, fleets=[seen(SLOW, 500)])), 0.0)
    merged = merge(state, heard(report(sequence=6, fleets=[seen(FAST[:3], 7)])), 1.0)
    numbers = merged.fleets["digits"]
    assert numbers.output_tokens_per_s == 7.0
    assert numbers.first_byte.p99_s == pytest.approx(0.1, rel=0.02)
