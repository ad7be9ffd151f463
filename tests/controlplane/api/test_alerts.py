"""``/alerts`` and what is below it, as a script and an account with a role for some fleets see them."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from controlplane.access.grants import Grant
from controlplane.alerts import reference
from controlplane.models import AlertDestination, Event, Fleet
from controlplane.services import accounts, tokens
from tests.controlplane.alerts.conftest import Evaluated
from tests.controlplane.alerts.pictures import fleet, picture, replica, worker
from tests.controlplane.api.test_docs_examples import ROOT
from tests.controlplane.conftest import Api

DOWN = picture(
    fleet(replica("a", "down"), replica("b", "down")), proxies=[worker(), worker("short", "gpu-2/9/0")]
)
PAGER = {"name": "pager", "kind": "webhook", "url": "https://127.0.0.1:9/hooks/topsecret?token=alsosecret"}


@pytest.fixture
def evaluated(fresh_stores: None) -> Evaluated:
    return Evaluated()


@pytest.fixture
def team(llm: str) -> Callable[[str], Api]:
    """An account's token: its role in the fleets with ``team=search``, of which ``llm`` is one."""
    Fleet.objects.filter(name=llm).update(labels={"team": "search"})

    def make(role: str) -> Api:
        accounts.create(role, "tests", [Grant.parse(f"{role}:team=search")])
        return Api(tokens.create(User.objects.get(username=role), "tests", "tests")[1])

    return make


def counts(api: Api) -> dict[str, int]:
    found = api.get("/alerts/counts").json()
    assert 0 <= found.pop("evaluated_age_s") < 60
    return found


def test_what_fires_comes_first_with_what_silences_it(evaluated: Evaluated, api: Api, llm: str) -> None:
    evaluated.see(DOWN, 60)
    first, second, *pending = api.get("/alerts").json()["results"]
    assert (first["rule"], first["severity"], first["fleet"]) == ("no_eligible_replica", "critical", "llm")
    assert (second["rule"], second["part"], second["silence"]) == ("connections_short", "gpu-2/9/0", None)
    assert [(one["rule"], one["state"]) for one in pending] == 2 * [("replica_out", "pending")]
    assert counts(api) == {"critical": 1, "warning": 1}
    made = api.post("/alerts/silences", {"fleet": llm, "reason": "disks", "duration_s": 600}).json()
    silenced = api.get("/alerts?state=firing&fleet=llm").json()["results"][0]
    assert silenced["silence"]["reason"] == "disks"
    assert counts(api) == {"critical": 0, "warning": 1}
    assert api.delete(f"/alerts/silences/{made['id']}").status_code == 204
    assert api.delete(f"/alerts/silences/{made['id']}").status_code == 404
    assert counts(api) == {"critical": 1, "warning": 1}
    texts = list(
        Event.objects.filter(kind="alert", fleet_name=llm).order_by("id").values_list("text", flat=True)
    )
    assert texts[1:] == [
        "anna silenced all alerts of llm for 10 min: disks",
        "anna ended the silence of all alerts of llm",
    ]
    evaluated.see(picture(), 90)
    assert api.get("/alerts").json()["results"] == []
    assert len(api.get("/alerts?state=resolved").json()["results"]) == 2


def test_a_role_for_some_fleets_sees_and_silences_theirs(
    evaluated: Evaluated, api: Api, team: Callable[[str], Api], make_fleet: Callable[..., str]
) -> None:
    other = make_fleet("other")
    api.post(
        "/alerts/rules",
        {"name": "hidden", "fleet": other, "metric": "rps", "comparison": "above", "value": 1},
    )
    theirs = api.post("/alerts/silences", {"fleet": other, "reason": "x", "duration_s": 600}).json()["id"]
    evaluated.see(DOWN, 60)
    operator = team("operate")
    for name in ("hidden", "hiden"):
        answer = operator.get(f"/alerts/rules/{name}")
        silence = {"fleet": "llm", "rule": name, "reason": "x", "duration_s": 600}
        refused = operator.post("/alerts/silences", silence)
        assert (answer.status_code, refused.status_code) == (404, 400)
        for detail in (answer.json()["detail"], refused.json()["detail"]):
            assert "hidden" not in detail.replace(f'"{name}"', "")
    assert [one["rule"] for one in operator.get("/alerts?state=firing").json()["results"]] == [
        "no_eligible_replica"
    ]
    assert counts(operator) == {"critical": 1, "warning": 0}
    assert "hidden" not in [one["name"] for one in operator.get("/alerts/rules").json()["results"]]
    assert operator.get("/alerts/rules/hidden").status_code == 404
    assert operator.get("/alerts/silences").json()["results"] == []
    assert operator.get(f"/alerts/silences/{theirs}").status_code == 404
    assert operator.delete(f"/alerts/silences/{theirs}").status_code == 404
    assert (
        operator.post("/alerts/silences", {"fleet": other, "reason": "x", "duration_s": 600}).status_code
        == 404
    )
    refused = operator.post("/alerts/silences", {"reason": "x", "duration_s": 600})
    assert refused.json()["errors"][0]["pointer"] == "/fleet"
    mine = operator.post("/alerts/silences", {"fleet": "llm", "reason": "x", "duration_s": 600})
    assert mine.status_code == 201
    assert operator.delete(f"/alerts/silences/{mine.json()['id']}").status_code == 204
    assert operator.get("/alerts/destinations").status_code == 403


def test_a_destination_shows_its_secrets_never_again(fresh_stores: None, api: Api) -> None:
    made = api.post("/alerts/destinations", PAGER)
    assert made.status_code == 201
    assert made.json()["secret"].startswith("whsec_")
    assert made.headers["Cache-Control"] == "no-store"
    changed = api.patch(
        "/alerts/destinations/pager", {"severity": "critical"}, **{"If-Match": made.headers["ETag"]}
    )
    assert (changed.json()["secret"], changed.json()["url"]) == (None, "https://127.0.0.1:9/…")
    assert (
        api.patch(
            "/alerts/destinations/pager", {"repeat_s": 60}, **{"If-Match": made.headers["ETag"]}
        ).status_code
        == 412
    )
    said = b"".join(
        api.get(path).content for path in ("/alerts/destinations", "/alerts/destinations/pager", "/audit")
    )
    assert b"topsecret" not in said
    assert b"alsosecret" not in said
    assert b"whsec" not in said
    tested = api.post("/alerts/destinations/pager/test").json()
    assert tested == {"taken": False, "answer": "no connection to 127.0.0.1:9: Connection refused"}
    assert api.delete("/alerts/destinations/pager").status_code == 204
    assert not AlertDestination.objects.exists()


@pytest.mark.parametrize(
    ("path", "body", "pointer", "words"),
    [
        ("destinations", {**PAGER, "url": "http://169.254.169.254/"}, "/url", "nothing is sent there"),
        ("destinations", {**PAGER, "kind": "email"}, "/to", "at least one address"),
        ("destinations", {**PAGER, "kind": "pigeon"}, "/kind", "must be one of webhook"),
        ("destinations", {**PAGER, "to": ["a@b"]}, "/to", "only a destination of kind email"),
        ("destinations", {**PAGER, "fleets": ["lm"]}, "/fleets/0", 'did you mean "llm"'),
        ("destinations", {**PAGER, "repeat_s": 5}, "/repeat_s", "60 to 604800 seconds"),
        ("destinations", {**PAGER, "credential": "hunter2"}, "/credential", "not the token"),
        ("rules", {"name": "x", "metric": "p98_s", "comparison": "above", "value": 1}, "/metric", "p99_s"),
        (
            "rules",
            {"name": "x", "metric": "p99_s", "comparison": "above", "value": "2 km"},
            "/value",
            "use s, ms, min",
        ),
        (
            "rules",
            {"name": "x", "metric": "error_percent", "comparison": "above", "value": 100},
            "/value",
            "never fire",
        ),
        ("rules", {"name": "x", "metric": "rps", "comparison": "below", "value": 0}, "/value", "never fire"),
        (
            "rules",
            {"name": "x", "metric": "rps", "comparison": "above", "value": 5, "clear_value": 6},
            "/clear_value",
            "below the value",
        ),
        (
            "rules",
            {"name": "x", "metric": "rps", "comparison": "above", "value": 5, "fleet": "lm"},
            "/fleet",
            'did you mean "llm"',
        ),
        (
            "rules",
            {"name": "probe_lag", "metric": "rps", "comparison": "above", "value": 5},
            "/name",
            "built-in",
        ),
        ("silences", {"fleet": "llm", "reason": "", "duration_s": 600}, "/reason", "say why"),
        ("silences", {"fleet": "llm", "reason": "x"}, "/duration_s", "until when"),
        (
            "silences",
            {"rule": "probe_lags", "reason": "x", "duration_s": 600},
            "/rule",
            'did you mean "probe_lag"',
        ),
        ("silences", {"replica": "a", "reason": "x", "duration_s": 600}, "/fleet", "of which fleet"),
    ],
)
def test_bad_input_names_its_field_and_the_cure(
    path: str, body: dict[str, Any], pointer: str, words: str, fresh_stores: None, api: Api, llm: str
) -> None:
    answer = api.post(f"/alerts/{path}", body)
    assert answer.status_code == 400, answer.content
    found = [error for error in answer.json()["errors"] if error["pointer"] == pointer]
    assert words in found[0]["detail"]
    assert "hunter2" not in answer.content.decode()


def test_a_built_in_rule_is_changed_and_is_as_it_came_again(fresh_stores: None, api: Api) -> None:
    path = "/alerts/rules/probe_lag"
    before = api.get(path)
    changed = api.patch(
        path, {"for_s": 300, "severity": "critical", "enabled": False}, **{"If-Match": before.headers["ETag"]}
    )
    assert (changed.json()["for_s"], changed.json()["enabled"], changed.json()["changed"]) == (
        300,
        False,
        True,
    )
    assert api.patch(path, {"metric": "rps"}).status_code == 400
    assert api.delete(path).status_code == 204
    assert api.get(path).json() == before.json()


def test_an_own_rule_is_changed_and_keeps_the_rest(fresh_stores: None, api: Api, llm: str) -> None:
    rule = {"name": "slow", "metric": "p99_s", "comparison": "above", "value": "2 s", "fleet": llm}
    api.post("/alerts/rules", rule)
    assert api.post("/alerts/rules", rule).status_code == 409
    changed = api.patch("/alerts/rules/slow", {"value": "900 ms", "fleet": None}).json()
    assert (changed["value"], changed["fleet"], changed["metric"], changed["unit"]) == (
        0.9,
        None,
        "p99_s",
        "s",
    )
    assert api.patch("/alerts/rules/slow", {"name": "other"}).status_code == 400
    assert api.delete("/alerts/rules/slow").status_code == 204
    assert api.get("/alerts/rules/slow").status_code == 404


def test_the_page_of_alerts_is_what_the_code_says() -> None:
    page = (ROOT / "docs" / "alerts.md").read_text("utf-8")
    assert reference.rewritten(page) == page, "run: python -m controlplane.alerts.reference docs/alerts.md"


def test_lists_of_a_destination_are_bounded_and_have_each_once(api: Api, llm: str) -> None:
    pager = {"name": "pager", "kind": "webhook", "url": "http://127.0.0.1:9/", "fleets": ["llm", "llm"]}
    assert api.post("/alerts/destinations", pager).json()["fleets"] == ["llm"]
    mail = {"name": "mail", "kind": "email", "to": ["a@b.example", "a@b.example"]}
    assert api.post("/alerts/destinations", mail).json()["to"] == ["a@b.example"]
    for path, body, pointer, words in (
        ("pager", {"fleets": ["llm"] * 201}, "/fleets", "has 201 fleets: give it 200 at most"),
        ("mail", {"to": ["a@b.example"] * 21}, "/to", "has 21 e-mail addresses: give it 20 at most"),
    ):
        refused = api.patch(f"/alerts/destinations/{path}", body)
        assert refused.status_code == 400
        assert refused.json()["errors"] == [{"pointer": pointer, "detail": words}]
