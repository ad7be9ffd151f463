"""``/events``: filters, cursors, and what stays when a fleet goes."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from controlplane.models import Event, Replica
from controlplane.services import health
from controlplane.services.unit_of_work import record_event
from tests.controlplane.conftest import Api


def texts(api: Api, query: str = "") -> list[str]:
    answer = api.get(f"/events?{query}")
    assert answer.status_code == 200, answer.content
    return [row["text"] for row in answer.json()["results"]]


def test_events_of_a_fleet_newest_first(api: Api, llm: str) -> None:
    api.post("/hardware-classes", {"name": "h100"})
    api.patch("/fleets/llm/replicas/a", {"admin_state": "draining"})
    api.patch("/fleets/llm/policy", {"strategy": "round_robin"})
    rows = api.get("/events?fleet=llm").json()["results"]
    assert [row["kind"] for row in rows] == ["policy", "admin", "admin"]
    assert rows[0] | {"fleet": "llm", "fleet_exists": True, "revision": 2, "replica": None} == rows[0]
    assert rows[1] | {"state": "draining", "replica": "a", "fleet": "llm", "actor": "anna"} == rows[1]


def test_filters_narrow_and_combine(api: Api, llm: str, make_fleet: Callable[..., str]) -> None:
    make_fleet("other")
    api.patch("/fleets/llm/replicas/a", {"admin_state": "draining"})
    api.patch("/fleets/llm/policy", {"strategy": "round_robin"})
    health.record_transition(Replica.objects.get(name="b").pk, "checking", "down", "Refused.", False)
    everything = texts(api)
    assert len(everything) == 5
    assert len(texts(api, "kind=policy")) == 1
    assert len(texts(api, "kind=policy,health")) == 2
    assert texts(api, "replica=a") == ["anna began draining a"]
    assert texts(api, "actor=probes") == ["b is down, was checking: Refused."]
    assert texts(api, "fleet=llm&actor=anna&kind=admin") == ["anna began draining a"]
    assert texts(api, "search=DRAINING%20llm") == ["anna began draining a"]
    assert texts(api, "search=draining%20other") == []


def test_since_and_until(api: Api, llm: str) -> None:
    (first,) = Event.objects.all()
    Event.objects.filter(pk=first.pk).update(at=datetime(2026, 3, 1, 12, tzinfo=UTC))
    assert len(texts(api, "since=2026-03-01T12:00:00Z")) == 1
    assert texts(api, "until=2026-03-01T12:00:00Z") == []
    assert len(texts(api, "since=2026-03-01&until=2026-03-02")) == 1
    assert texts(api, f"since={quote('2026-03-01T14:00:00.001+02:00')}") == []
    assert texts(api, "since=24h") == []
    record_event("system", "just now")
    assert texts(api, "since=90m") == ["just now"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            "kind=gossip",
            "kind must be one of health, ejection, admin, policy, limit, system, alert, not 'gossip'",
        ),
        ("since=yesterday", "since must be a date (2026-11-21)"),
        ("until=2026-02-30", "until must be a date"),
        ("since=2026-03-02&until=2026-03-01", "until must be after since"),
        ("cursor=7", "copied from the URL in `next`"),
        ("page=2", 'There is no query parameter "page"'),
        ("page_size=0", "page_size must be a whole number from 1 to 1000"),
        ("search=%00", "NUL"),
        ("search=" + "x" * 201, "longer than 200"),
    ],
)
def test_a_wrong_query_is_told(api: Api, query: str, words: str) -> None:
    answer = api.get(f"/events?{query}")
    assert answer.status_code == 400
    assert words in answer.json()["detail"]


def test_an_unknown_fleet_is_told(api: Api, llm: str) -> None:
    answer = api.get("/events?fleet=llmm")
    assert answer.status_code == 404
    assert "llm" in answer.json()["detail"]


def test_pages_stay_while_events_come_and_go(api: Api) -> None:
    for number in range(7):
        record_event("system", f"event {number}")
    # The same moment for some: their numbers decide.
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    for index, event in enumerate(Event.objects.order_by("pk")):
        Event.objects.filter(pk=event.pk).update(at=moment + timedelta(seconds=index // 3))
    seen: list[str] = []
    path = "/events?page_size=2&kind=system"
    for number in range(4):
        body = api.get(path).json()
        seen += [row["text"] for row in body["results"]]
        record_event("system", f"meanwhile {number}")
        Event.objects.filter(text=f"event {6 - 2 * number}").delete()
        if body["next"]:
            path = f"/events?{urlsplit(body['next']).query}"
    assert seen == [f"event {number}" for number in (6, 5, 4, 3, 2, 1, 0)]
    assert body["next"] is None


def test_events_outlive_their_fleet(api: Api, llm: str) -> None:
    api.delete("/fleets/llm/replicas/a")
    api.delete("/fleets/llm")
    rows: list[dict[str, Any]] = api.get("/events?fleet=llm").json()["results"]
    assert [row["text"] for row in rows] == [
        "anna deleted fleet llm",
        "anna removed replica a (http://127.0.0.1:9101)",
        "tests created fleet llm",
    ]
    assert {row["fleet_exists"] for row in rows} == {False}
    assert rows[1]["replica"] == "a"
    assert api.get("/events?fleet=never").status_code == 404
