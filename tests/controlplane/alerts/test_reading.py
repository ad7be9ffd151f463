"""The picture as it is read from a real Redis and database: what conductor, proxies and probes left there."""

import json
import time
from typing import Any

import pytest

from controlplane.alerts import builtin_rules
from controlplane.alerts.reading import PictureReader
from controlplane.models import DiscoverySourceStatus
from controlplane.services import policies, sources
from controlplane.telemetry.frames import OVERVIEW_KEY
from routing.contract.ended_requests import EndedRequests
from routing.contract.telemetry import FleetCounters
from tests.controlplane.api.test_replicas import store_frame
from tests.controlplane.telemetry.reports import report, send

DAY_S = 86_400.0


def store_overview(client: Any, *, age_s: float = 0.0) -> None:
    device = {"name": "n/gpu0", "lease_waits": 2}
    overview = {"at": time.time() - age_s, "fleets": [{"name": "llm"}], "accelerators": [device]}
    client.set(OVERVIEW_KEY, json.dumps(overview))


@pytest.fixture(autouse=True)
def _stores(fresh_stores: None, llm: str) -> None:
    policies.change(llm, {"slo": {"availability_percent": 99.0}}, "tests")


def found(reader: PictureReader) -> dict[str, list[str] | None]:
    """Rule → the subjects of which it holds; ``None``: it cannot tell."""
    seen = reader.picture(time.time())
    rules = builtin_rules.rules()
    breaches = {rule.name: rule.find(seen, frozenset()) for rule in rules}
    return {
        name: None if one is None else [each.subject.words for each in one] for name, one in breaches.items()
    }


def test_what_is_there_is_seen(redis_client: Any) -> None:
    store_overview(redis_client)
    store_frame(redis_client, eligible=False, state="down", why="connection refused, for 2 min")
    ended = FleetCounters(name="llm", ended=EndedRequests(served=5))
    send(
        redis_client,
        report("gpu-1/7/0", certificate_left_s=DAY_S, refused_manifest="it is malformed", fleets=[ended]),
    )
    send(redis_client, report("gpu-1/7/1", certificate_left_s=30 * DAY_S, short_of="descriptors"))
    rules = found(PictureReader())
    assert rules["replica_out"] == ["llm/a"]
    assert rules["memory_lease_refused"] == ["n/gpu0"]
    assert rules["certificate_ending"] == ["gpu-1/7"]
    assert rules["table_refused"] == ["gpu-1/7/0"]
    assert rules["connections_short"] == ["gpu-1/7/1"]
    assert rules["control_plane_missing"] == ["conductor", "worker", "beat"]
    assert rules["objective_burning"] == []
    assert rules["source_frozen"] == []


def test_an_old_frame_says_nothing_of_now(redis_client: Any) -> None:
    store_overview(redis_client, age_s=60)
    store_frame(redis_client, eligible=False, state="down", why="")
    rules = found(PictureReader())
    unknown = ["no_eligible_replica", "replica_out", "queue_refusing", "memory_lease_refused"]
    assert {rules[name] is None for name in unknown} == {True}
    assert rules["proxy_missing"] == ["proxies"]


def test_objectives_are_counted_from_reports(redis_client: Any) -> None:
    reader, now = PictureReader(), time.time()
    for seconds in range(0, 50, 5):
        ended = EndedRequests(served=10, errors={"timeout": 10 * seconds} if seconds else {})
        fleet = FleetCounters(name="llm", ended=ended)
        send(
            redis_client,
            report("gpu-1/7/0", totals="one", uptime_s=900.0, sequence=seconds + 1, fleets=[fleet]),
        )
        seen = reader.picture(now + seconds)
    assert seen.objectives is not None
    (success,) = seen.objectives[0].objectives
    assert (success.whole.bad, success.whole.total) == (450, 450)
    assert success.burning is not None
    assert success.burning.name == "outage"


def test_sources_that_are_in_trouble_are_seen(redis_client: Any) -> None:
    for name in ("well", "frozen", "failing", "paused"):
        sources.create("llm", {"name": name, "file": {"path": "a.json"}}, "tests")
        state = "followed" if name == "well" else name
        status = DiscoverySourceStatus.objects.filter(source__name=name)
        status.update(state=state, reason=f"it is {name}")
    seen = PictureReader().picture(time.time()).sources or ()
    assert [(one.fleet, one.name, one.answers, one.words) for one in seen] == [
        ("llm", "frozen", True, "it is frozen"),
        ("llm", "failing", False, "it is failing"),
    ]
