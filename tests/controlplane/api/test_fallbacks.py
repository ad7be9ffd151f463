"""A policy's fallbacks: what is refused at the write, wherever it is made, and what proxies are told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from controlplane.models import Event, Fleet
from routing.contract import redis_keys
from routing.contract.policy import Fallback
from routing.contract.table import decode_snapshot
from tests.controlplane.conftest import Api

Make = Callable[..., str]
USUAL = ["no_eligible_replica", "no_place", "replicas_failed", "first_token"]
PATH = "/fleets/a/policy"


@pytest.fixture
def fleets(make_fleet: Make, redis_client: Any) -> None:
    for name in "abcd":
        make_fleet(name)
    make_fleet("v2", protocol="open-inference")


def put(api: Api, *names: str, of: str = "a") -> Any:
    return api.patch(f"/fleets/{of}/policy", {"fallback": [{"fleet": name} for name in names]})


def refusal(answer: Any) -> tuple[str, str]:
    assert answer.status_code == 400, answer.content
    (error,) = answer.json()["errors"]
    return error["pointer"], error["detail"]


@pytest.mark.usefixtures("fleets")
def test_set_shown_revised_told_and_published(api: Api, redis_client: Any) -> None:
    entry = {"fleet": "c", "causes": ["context_length_exceeded"], "included": True}
    change = {"fallback": [{"fleet": "b"}, entry], "fallback_budget_percent": 30}
    answer = api.patch(PATH, change)
    assert answer.status_code == 200, answer.content
    body = answer.json()
    first = {"fleet": "b", "causes": USUAL, "included": False}
    assert body["policy"]["fallback"] == [first, entry]
    assert body["policy"]["fallback_budget_percent"] == 30.0
    assert body["set"] == {"fallback": [{"fleet": "b"}, entry], "fallback_budget_percent": 30.0}
    assert body["revision"] == 2
    assert body["changed"] == [
        "fallback: none → fleet b causes no_eligible_replica, no_place, replicas_failed, first_token "
        "included false, fleet c causes context_length_exceeded included true",
        "fallback_budget_percent: 100 → 30",
    ]
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("a"), "body"))
    assert snapshot.policy.fallback == [
        Fallback(fleet="b"),
        Fallback(fleet="c", causes=["context_length_exceeded"], included=True),
    ]
    assert Event.objects.filter(fleet_name="a", revision=2).exists()
    assert put(api).json()["policy"]["fallback"] == []


@pytest.mark.usefixtures("fleets")
def test_fleets_that_cannot_be_one(api: Api) -> None:
    assert refusal(put(api, "b", "x"))[0] == "/fallback/1/fleet"
    assert refusal(put(api, "x")) == (
        "/fallback/0/fleet",
        'unknown fleet "x"; there are: b, c, d, v2; add it first, or remove it from the list',
    )
    assert "has the protocol open-inference" in refusal(put(api, "v2"))[1]
    assert "cannot be its own fallback" in refusal(put(api, "a"))[1]
    assert "is listed twice" in refusal(put(api, "b", "b"))[1]
    assert refusal(api.patch(PATH, {"fallback": [{"fleet": "b", "causes": ["x"]}]}))[0] == (
        "/fallback/0/causes/0"
    )
    assert Fleet.objects.get(name="a").policy == {}
    assert Fleet.objects.get(name="a").revision == 1


@pytest.mark.usefixtures("fleets")
def test_loops_of_any_length(api: Api) -> None:
    assert put(api, "b").status_code == 200
    assert refusal(put(api, "a", of="b"))[1] == (
        "leads back to fleet b (b → a → b): remove one of these fallbacks"
    )
    assert put(api, "c", of="b").status_code == 200
    assert put(api, "d", of="c").status_code == 200
    errors = put(api, "b", "a", of="d").json()["errors"]
    assert [error["pointer"] for error in errors] == ["/fallback/0/fleet", "/fallback/1/fleet"]
    assert "(d → b → c → d)" in errors[0]["detail"]
    assert "(d → a → b → c → d)" in errors[1]["detail"]
    assert put(api, "d").status_code == 200, "two ways to one fleet are no loop"
    assert put(api, "a", of="v2").status_code == 400


@pytest.mark.usefixtures("fleets")
def test_a_fleet_that_others_fall_back_to_stays(api: Api) -> None:
    put(api, "b")
    put(api, "c", "b", of="d")
    answer = api.delete("/fleets/b?confirm=b")
    assert answer.status_code == 409
    words = "Fleet b is a fallback of fleet a, fleet d: remove it from the fallback of their policies first."
    assert answer.json()["detail"] == words
    assert Fleet.objects.filter(name="b").exists()
    put(api)
    put(api, of="d")
    assert api.delete("/fleets/b?confirm=b").status_code == 204
    put(api, "c", of="d")
    assert api.delete("/fleets/d?confirm=d").status_code == 204, "which has one, is none"


@pytest.mark.usefixtures("fleets")
def test_its_protocol_stays_as_well(api: Api) -> None:
    put(api, "b")
    assert refusal(api.patch("/fleets/b", {"protocol": "generic"})) == (
        "/protocol",
        "fleet b is a fallback of fleet a, of another protocol: remove it from the fallback of their "
        "policies first",
    )
    assert refusal(api.patch("/fleets/a", {"protocol": "generic"})) == (
        "/protocol",
        "fleet a falls back to fleet b, of another protocol: change its policy's fallback first",
    )
    assert api.patch("/fleets/c", {"protocol": "generic"}).status_code == 200


@pytest.mark.usefixtures("fleets")
def test_a_new_fleet(api: Api) -> None:
    new = {"name": "e", "protocol": "openai", "policy": {"fallback": [{"fleet": "x"}]}}
    assert refusal(api.post("/fleets?trial=no", new))[0] == "/policy/fallback/0/fleet"
    new["policy"]["fallback"][0]["fleet"] = "a"  # type: ignore[index]
    assert api.post("/fleets?trial=no", new).status_code == 201


@pytest.mark.usefixtures("fleets")
def test_a_revision_whose_fallback_is_gone_cannot_be_restored(api: Api) -> None:
    put(api, "b")
    put(api)
    api.delete("/fleets/b?confirm=b")
    shown = api.get("/fleets/a/revisions/2").json()
    assert shown["would_change"] is None
    assert 'unknown fleet "b"' in shown["refused"]
    answer = api.post("/fleets/a/revisions/2/restore")
    assert refusal(answer)[0] == "/fallback/0/fleet"
    assert Fleet.objects.get(name="a").revision == 3


FILE = """\
fleets:
  - name: x
    protocol: openai
    policy: {fallback: [{fleet: y, causes: [no_place], included: true}, {fleet: d}]}
  - {name: y, protocol: openai}
"""


def apply(tmp_path: Path, text: str, *options: str) -> None:
    file = tmp_path / "fleets.yaml"
    file.write_text(text)
    call_command("apply", str(file), *options)


@pytest.mark.usefixtures("fleets")
def test_a_fleet_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fleets may name each other in any order, and fleets that are there already."""
    apply(tmp_path, FILE)
    assert Fleet.objects.get(name="x").policy == {
        "fallback": [{"fleet": "y", "causes": ["no_place"], "included": True}, {"fleet": "d"}]
    }
    capsys.readouterr()
    apply(tmp_path, FILE)
    assert "nothing" in capsys.readouterr().out.lower()
    call_command("dump")
    dumped = capsys.readouterr().out
    apply(tmp_path, dumped)
    assert "nothing" in capsys.readouterr().out.lower()
    assert "included: true" in dumped


@pytest.mark.usefixtures("fleets")
def test_a_fleet_file_that_would_make_a_loop_with_what_is_there(api: Api, tmp_path: Path) -> None:
    apply(tmp_path, FILE)
    text = "fleets:\n  - {name: d, protocol: openai, policy: {fallback: [{fleet: x}]}}\n"
    with pytest.raises(CommandError, match="leads back to fleet d"):
        apply(tmp_path, text)
    with pytest.raises(CommandError, match="fleet d is a fallback of fleet x, whose protocol is openai"):
        apply(tmp_path, "fleets:\n  - {name: d, protocol: generic}\n")
    with pytest.raises(CommandError, match='unknown fleet "d"'):
        apply(tmp_path, FILE, "--prune")
    assert Fleet.objects.filter(name="d").exists()


@pytest.mark.usefixtures("fleets")
def test_pruned_with_what_falls_back_to_it(api: Api, tmp_path: Path) -> None:
    put(api, "b")
    apply(tmp_path, "fleets:\n  - {name: a, protocol: openai}\n", "--prune")
    assert list(Fleet.objects.values_list("name", flat=True)) == ["a"]
