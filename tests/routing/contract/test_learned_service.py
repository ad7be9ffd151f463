"""What several workers have learned, together: weighed by evidence, and no surer because two share it."""

import pytest

from routing.contract.learned_service import combined_scale, combined_shape
from routing.contract.telemetry import FleetCounters, LearnedScale


def scale(times: float, error: float = 1.1, requests: float = 10.0) -> LearnedScale:
    return LearnedScale(times_usual=times, error=error, request_s=times / 10, requests=requests)


def test_nobody_has_learned_anything() -> None:
    assert combined_scale([]) is None
    assert combined_shape([FleetCounters(name="of an older version")]) is None


def test_workers_that_share_evidence_are_no_surer_together() -> None:
    found = combined_scale([scale(1.3), scale(1.3)])
    assert found is not None
    assert (found.times_usual, found.error) == (pytest.approx(1.3), pytest.approx(1.1))
    assert (found.request_s, found.requests) == (pytest.approx(0.13), 20.0)


def test_who_has_more_evidence_counts_for_more() -> None:
    found = combined_scale([scale(2.0, requests=30.0), scale(1.0, error=3.0, requests=0.0)])
    assert found is not None
    assert (found.times_usual, found.error) == (pytest.approx(2.0), pytest.approx(1.1))
    found = combined_scale([scale(1.0, requests=30.0), scale(2.0, requests=10.0)])
    assert found is not None
    assert found.times_usual == pytest.approx(2.0**0.25)


def test_where_they_differ_it_is_less_sure() -> None:
    found = combined_scale([scale(1.0), scale(2.0)])
    assert found is not None
    assert found.error > 1.35


def test_without_any_evidence_all_count_alike() -> None:
    found = combined_scale([scale(1.0, requests=0.0), scale(4.0, requests=0.0)])
    assert found is not None
    assert (found.times_usual, found.requests) == (pytest.approx(2.0), 0.0)


def test_a_shape_is_weighed_by_its_measurements() -> None:
    def fleet(growth: float, batching: float, measured: float, evidence: float) -> FleetCounters:
        return FleetCounters(
            name="llm",
            growth=growth,
            growth_error=1.05,
            batching=batching,
            growth_evidence=evidence,
            growth_measured=measured,
        )

    found = combined_shape([fleet(1.5, 1.0, 90.0, 0.8), fleet(1.0, 0.0, 0.0, 0.0), FleetCounters(name="old")])
    assert found is not None
    assert (found.growth, found.growth_error) == (pytest.approx(1.5), pytest.approx(1.05))
    assert (found.kind, found.evidence) == ("batches", pytest.approx(0.8))
    slots, between = combined_shape([fleet(1.0, 0.0, 5.0, 0.1)]), combined_shape([fleet(1.1, 0.4, 5.0, 0.1)])
    assert slots is not None
    assert between is not None
    assert (slots.kind, between.kind) == ("slots", "between")
