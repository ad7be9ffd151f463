"""Objectives for first tokens of fleets that stream nothing: told in words after a while, and taken back."""

from typing import Any

from msgspec.structs import replace

from controlplane.objectives.tracker import ObjectiveTracker, read_promises
from controlplane.objectives.unstreamed import Unstreamed
from controlplane.services import policies
from controlplane.telemetry.merge import ReceivedReport
from tests.controlplane.objectives.test_counting import heard

NOW = 1_800_000_000.0


def test_what_streams_nothing_is_told_after_five_minutes_and_twenty_requests() -> None:
    seen = Unstreamed(NOW)
    seen.add(19, 0, NOW + 400)
    assert seen.words(NOW + 400) == ""
    seen.add(1, 0, NOW + 401)
    assert seen.words(NOW + 299) == ""
    assert seen.words(NOW + 421) == "no streamed answer among 20 requests in 7 min: it cannot be told"
    seen.add(5, 1, NOW + 430)
    assert seen.words(NOW + 2_000) == ""


def test_the_api_says_so_of_the_one_objective(fresh_stores: None, llm: str, api: Any) -> None:
    policies.change(llm, {"slo": {"availability_percent": 99.0, "first_token_s": 1.0}}, "tests")
    tracker = ObjectiveTracker()

    def told(served: int, streams: int, after_s: float) -> list[str]:
        one = heard(served)
        (fleet,) = one.report.fleets
        assert fleet.ended is not None
        streamed = replace(fleet, ended=replace(fleet.ended, streams=streams))
        report = ReceivedReport(replace(one.report, fleets=[streamed]), 0.3)
        tracker.follow([report], read_promises(), NOW + after_s)
        return [each["untold"] for each in api.get(f"/fleets/{llm}/objectives").json()["objectives"]]

    for after_s in range(0, 300, 30):
        assert told(1000 + after_s // 10, 0, after_s) == ["", ""]
    said = "no streamed answer among 40 requests in 5 min: it cannot be told"
    assert told(1040, 0, 310) == ["", said]
    assert told(1050, 1, 320) == ["", ""]
