"""What a role for some fleets sees where all fleets are shown together: the live overview, and events."""

from collections.abc import Callable
from typing import Any

import msgspec

from controlplane.telemetry.frames import OVERVIEW_KEY
from tests.controlplane.access.teams import LABELS, OWN
from tests.controlplane.conftest import Api
from tests.dashboard.test_consumers import frame_of


def test_the_live_overview_of_a_team(sam: Api, api: Api, redis_client: Any) -> None:
    assert sam.get("/live").json() == {"age_s": None, "frame": None}
    redis_client.set(OVERVIEW_KEY, msgspec.json.encode(frame_of("find", "other")))
    answer = sam.get("/live")
    assert answer.status_code == 200
    assert [fleet["name"] for fleet in answer.json()["frame"]["fleets"]] == ["find"]
    assert [fleet["name"] for fleet in api.get("/live").json()["frame"]["fleets"]] == ["find", "other"]


def test_events_of_a_former_fleet_of_the_name(sam: Api, api: Api, make_fleet: Callable[..., str]) -> None:
    make_fleet("mine", labels={"team": "ops"})
    assert api.delete("/fleets/mine").status_code == 204
    make_fleet("mine", labels=LABELS, replicas=[{"name": "present", "url": OWN}])

    def told(asks: Api) -> list[str]:
        return [row["text"] for row in asks.get("/events?fleet=mine").json()["results"]]

    assert told(sam) == ["tests created fleet mine"]
    assert told(sam) == told(api)[:1] != told(api)
