"""An overview for who may see some fleets only."""

import re

import msgspec

from controlplane.telemetry.db_snapshot import DbSnapshot
from controlplane.telemetry.frames import OverviewFrame, Point
from controlplane.telemetry.limited_frames import overview_of
from routing.contract.ended_requests import EndedRequests
from tests.controlplane.telemetry.reports import fleet, replica
from tests.controlplane.telemetry.test_frames import fleet_row, frames_of, row

NOT_OF_SOME = {name for name in Point.__struct_fields__ if re.search(r"p\d\d_s$", name)}
"""Percentiles of several fleets are merged from sketches, which a frame has not."""


def overview() -> OverviewFrame:
    rows = DbSnapshot("1:4", [fleet_row(row("a"))])
    counted = fleet(
        40,
        errors=2,
        in_flight=5,
        waiting=3,
        latencies=[0.1] * 30,
        replicas=[replica(40, output_tokens=90, input_tokens=70, ejections=1)],
        ended=EndedRequests(errors={"timeout": 2}, retries=3),
    )
    return frames_of(rows, counted).overview


def limited(frame: OverviewFrame, *fleets: str) -> OverviewFrame:
    return msgspec.json.decode(overview_of(msgspec.json.encode(frame), frozenset(fleets)), type=OverviewFrame)


def test_with_all_fleets_each_sum_is_the_same() -> None:
    frame = overview()
    seen = limited(frame, "digits")
    assert seen.fleets == frame.fleets
    for field in set(frame.total.__struct_fields__) - NOT_OF_SOME:
        whole = getattr(frame.total, field)
        assert whole, f"{field}: give the fleet above some of it, or nothing is compared"
        assert getattr(seen.total, field) == whole, field


def test_of_a_fleet_that_may_not_be_seen_nothing_is_left() -> None:
    seen = limited(overview(), "another")
    assert (seen.fleets, seen.replicas, seen.eligible, seen.error_percent) == ([], 0, 0, 0.0)
    assert (seen.total.rps, seen.total.in_flight, seen.total.waiting) == (0.0, 0, 0)


def test_requests_that_fell_back_count_once_where_both_fleets_are_seen() -> None:
    rows = DbSnapshot("1:4", [fleet_row(row("a"))])
    counted = fleet(40, fallbacks={"digits": {"no_place": 10}, "secret": {"no_place": 5}})
    frame = frames_of(rows, counted).overview
    assert [one.fleet for one in frame.fleets[0].fallbacks] == ["digits", "secret"]
    seen = limited(frame, "digits")
    assert [one.fleet for one in seen.fleets[0].fallbacks] == ["digits"]
    assert seen.total.rps == seen.fleets[0].rps - seen.fleets[0].fallbacks[0].per_s
