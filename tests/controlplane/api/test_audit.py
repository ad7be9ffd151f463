"""``/audit``: who changed what, before and after, and from where."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.models import ApiToken, AuditEntry
from controlplane.services import policies
from tests.controlplane.conftest import Api


def entries(api: Api, query: str = "") -> list[dict[str, Any]]:
    answer = api.get(f"/audit?{query}")
    assert answer.status_code == 200, answer.content
    rows: list[dict[str, Any]] = answer.json()["results"]
    return rows


def test_who_what_before_after_and_by_which_token(api: Api, llm: str) -> None:
    api.patch("/fleets/llm/policy", {"strategy": "round_robin", "timeouts": {"total_s": 30}})
    entry = entries(api, "verb=policies.change")[0]
    assert entry["origin"] == f"token {ApiToken.objects.get().prefix}"
    assert (entry["actor"], entry["target"]) == ("anna", "llm")
    assert entry["after"] == {"strategy": "round_robin", "timeouts": {"total_s": 30.0}}
    assert entry["changes"] == [
        {"field": "strategy", "before": None, "after": "round_robin"},
        {"field": "timeouts.total_s", "before": None, "after": 30.0},
    ]


def test_a_page_says_session_and_a_command_says_server(api: Api, operator: User, llm: str) -> None:
    page = Client(enforce_csrf_checks=False)
    page.force_login(operator)
    page.patch("/api/v1/fleets/llm/replicas/a", {"weight": 3.0}, content_type="application/json")
    policies.change("llm", {"slow_start_s": 5}, "cron")
    origins = {entry["verb"]: entry["origin"] for entry in entries(api, "target=llm")}
    assert origins == {
        "policies.change": "server",
        "replicas.update": "session",
        "replicas.register": "server",
        "fleets.create": "server",
    }


def test_an_event_leads_to_what_it_changed(api: Api, llm: str) -> None:
    api.patch("/fleets/llm/replicas/a", {"weight": 3.0})
    event = api.get("/events?replica=a").json()["results"][0]
    (entry,) = entries(api, f"write={event['write']}")
    assert entry["target"] == "llm/a"
    assert entry["changes"] == [{"field": "weight", "before": None, "after": 3.0}]


def test_events_that_nobody_caused_lead_nowhere(api: Api, llm: str) -> None:
    from controlplane.services.unit_of_work import record_event

    record_event("system", "by itself")
    assert api.get("/events?kind=system").json()["results"][0]["write"] is None


def test_filters(api: Api, llm: str) -> None:
    api.post("/fleets", {"name": "llm2", "protocol": "openai"})
    api.delete("/fleets/llm/replicas/b")
    assert {entry["target"] for entry in entries(api, "target=llm")} == {"llm", "llm/a", "llm/b"}
    assert [entry["verb"] for entry in entries(api, "actor=anna")] == ["replicas.delete", "fleets.create"]
    assert [entry["target"] for entry in entries(api, "search=REGISTER%20llm/a")] == ["llm/a"]
    assert len(entries(api, "page_size=1")) == 1
    assert api.get("/audit?verbs=x").status_code == 400


def test_reading_is_for_everybody_signed_in_and_writing_for_nobody(
    api: Api, reader: Api, anonymous: Api
) -> None:
    assert reader.get("/audit").status_code == 200
    assert anonymous.get("/audit").status_code == 401
    assert api.post("/audit", {}).status_code == 405
    assert api.delete("/audit").status_code == 405


@pytest.mark.parametrize("query", ["since=never", "cursor=x", "actor=%00"])
def test_a_wrong_query_is_told(api: Api, query: str) -> None:
    assert api.get(f"/audit?{query}").status_code == 400


def test_a_deleted_thing_shows_what_it_was(api: Api, llm: str) -> None:
    api.delete("/fleets/llm/replicas/a")
    (entry,) = entries(api, "verb=replicas.delete")
    assert entry["after"] is None
    assert {"field": "url", "before": "http://127.0.0.1:9101", "after": None} in entry["changes"]
    assert AuditEntry.objects.get(verb="replicas.delete").write == entry["write"]
