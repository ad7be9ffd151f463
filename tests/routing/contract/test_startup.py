"""When a start begins, how long it took, and what is expected of one that nobody has seen yet."""

import pytest

from routing.contract.probe_result import ProbeResult, down, passed, unready
from routing.contract.startup import begins_start, expected_duration, measured_duration, usual_duration
from routing.contract.table import Health

REFUSED = down("connection refused")
LOADING = unready("503 Loading model")
SILENT = ProbeResult(False, "down", "no response in 1.0 s", inconclusive=True)


@pytest.mark.parametrize(
    ("old", "new", "result", "begins"),
    [
        ("ready", "unready", LOADING, True),
        ("ready", "down", REFUSED, True),
        ("ready", "down", SILENT, False),
        ("unready", "down", REFUSED, True),
        ("unready", "down", SILENT, False),
        ("down", "unready", LOADING, True),
        ("checking", "down", REFUSED, False),
        ("checking", "down", LOADING, False),
        ("checking", "ready", passed("200 OK"), False),
    ],
)
def test_a_start_begins_where_a_server_goes_or_says_that_it_is_not_ready(
    old: Health, new: Health, result: ProbeResult, begins: bool
) -> None:
    assert begins_start(old, new, result) is begins


@pytest.mark.parametrize(
    ("old", "for_s", "starting", "failed", "measured"),
    [
        ("checking", 41.0, True, True, 41.0),
        ("checking", 0.4, True, False, None),  # it was there before it was registered
        ("unready", 12.0, True, False, 12.0),
        ("down", 90.0, True, True, 90.0),
        ("down", 90.0, False, True, None),
        ("down", 601.0, True, True, None),
    ],
)
def test_only_a_start_whose_beginning_was_seen_is_measured(
    old: Health, for_s: float, starting: bool, failed: bool, measured: float | None
) -> None:
    assert measured_duration(old, for_s, 600.0, starting=starting, failed=failed) == measured


def test_a_replica_without_a_time_of_its_own_is_expected_to_take_what_its_fleets_others_take() -> None:
    assert usual_duration([30.0, None, 900.0, 40.0]) == 40.0
    assert usual_duration([None, None]) is None
    assert expected_duration(7.0, 35.0) == 7.0
    assert expected_duration(None, 40.0) == 40.0
    assert expected_duration(0.0, 30.0) == 0.0
