"""Second attempts on a fleet's page: all workers together."""

import pytest

from controlplane.telemetry.second_attempts import second_attempts
from routing.contract.telemetry import FleetCounters


def test_of_all_workers() -> None:
    told = [
        FleetCounters(name="f", second_attempts={"won": 2, "lost": 1}, first_token_limit_s=0.4),
        FleetCounters(
            name="f", second_attempts={"won": 3}, not_sent_twice={"busy": 4}, first_token_limit_s=0.8
        ),
        FleetCounters(name="f"),
    ]
    found = second_attempts(told)
    assert found is not None
    assert found.results == {"won": 5, "lost": 1}
    assert found.not_sent == {"busy": 4}
    assert found.limit_s == pytest.approx(0.6)


def test_of_none() -> None:
    assert second_attempts([]) is None
    found = second_attempts([FleetCounters(name="f")])
    assert found is not None
    assert (found.results, found.not_sent, found.limit_s) == ({}, {}, None)
