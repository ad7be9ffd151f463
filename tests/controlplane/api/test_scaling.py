"""How many replicas a fleet needs, as the API says it."""

import time
from typing import Any

import msgspec

from controlplane.scaling.signal import ScalingSignal
from controlplane.telemetry.db_snapshot import DbSnapshot
from controlplane.telemetry.frames import OVERVIEW_KEY, fleet_key
from tests.controlplane.conftest import Api
from tests.controlplane.telemetry.test_frames import fleet_row, frames_of, row

SIGNAL = ScalingSignal(
    desired=4, words="40 requests/s expected", taking=2, starting=1, arrivals_per_s=38.5, expected_per_s=40.0
)


def test_the_signal_of_the_last_tick(api: Api, llm: str, redis_client: Any) -> None:
    frame = frames_of(DbSnapshot("1:4", [fleet_row(row("a"), name="llm")])).fleets["llm"]
    frame.at, frame.scaling = time.time(), SIGNAL
    redis_client.set(fleet_key("llm"), msgspec.json.encode(frame))
    assert api.get("/fleets/llm/scaling").json() == msgspec.to_builtins(SIGNAL)


def test_while_no_conductor_writes_the_last_number_stands_for_a_minute(
    api: Api, llm: str, redis_client: Any
) -> None:
    frame = frames_of(DbSnapshot("1:4", [fleet_row(row("a"), name="llm")])).fleets["llm"]
    for ago_s, desired in ((30.0, 4), (61.0, None)):
        frame.at, frame.scaling = time.time() - ago_s, SIGNAL
        redis_client.set(fleet_key("llm"), msgspec.json.encode(frame))
        answer = api.get("/fleets/llm/scaling").json()
        assert answer["desired"] == desired
        assert "no conductor has written any" in answer["words"]
    assert answer["age_s"] is None


def test_why_there_is_none(api: Api, llm: str, redis_client: Any) -> None:
    redis_client.delete(fleet_key("llm"), OVERVIEW_KEY)
    answer = api.get("/fleets/llm/scaling").json()
    assert answer.pop("words").startswith("cannot tell: live data is missing: no conductor")
    assert set(answer.values()) == {None}


def test_a_fleet_that_is_not_there_needs_nothing(api: Api) -> None:
    assert api.get("/fleets/nope/scaling").status_code == 404
