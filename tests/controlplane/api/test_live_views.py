"""The live frames."""

from typing import Any

from controlplane.telemetry.frames import OVERVIEW_KEY
from tests.controlplane.api.test_replicas import store_frame
from tests.controlplane.conftest import Api


def test_live_frames_with_their_age(api: Api, llm: str, redis_client: Any) -> None:
    assert api.get("/live").json() == {"age_s": None, "frame": None}
    store_frame(redis_client, age_s=3)
    body = api.get("/fleets/llm/live").json()
    assert 3 <= body["age_s"] < 60
    assert body["frame"]["replicas"][0]["in_flight"] == 3
    redis_client.set(OVERVIEW_KEY, b'{"at": 1.0, "sequence": 7}')
    assert api.get("/live").json()["frame"] == {"at": 1.0, "sequence": 7}
    assert api.get("/fleets/nope/live").status_code == 404


def test_without_redis_there_are_no_live_numbers(api: Api, llm: str, redis_server: Any) -> None:
    redis_server.stop()
    for path in ("/live", "/fleets/llm/live"):
        answer = api.get(path)
        assert answer.status_code == 503
        assert "Redis does not answer" in answer.json()["detail"]
    assert api.get("/fleets/llm/replicas").status_code == 200
