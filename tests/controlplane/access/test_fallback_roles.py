"""Who may send a fleet's requests to another one, and what they learn of it."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from controlplane.access.grants import Grant
from controlplane.models import ForcedPasswordChange
from controlplane.services import accounts, tokens
from tests.controlplane.access.teams import LABELS
from tests.controlplane.conftest import Api

Make = Any


def caller(name: str, *grants: str) -> Api:
    accounts.create(name, "tests", [Grant.parse(grant) for grant in grants])
    ForcedPasswordChange.objects.all().delete()
    return Api(tokens.create(User.objects.get(username=name), "laptop", "tests")[1])


@pytest.fixture(autouse=True)
def _fleets(make_fleet: Make, redis_client: Any) -> None:
    make_fleet("find", labels=LABELS)
    make_fleet("rank", labels=LABELS)
    make_fleet("auction", labels={"team": "ads"})


def put(who: Api, fleet: str, included: bool = False) -> Any:
    return who.patch("/fleets/find/policy", {"fallback": [{"fleet": fleet, "included": included}]})


def test_a_fleet_that_is_not_seen_does_not_exist() -> None:
    olga = caller("olga", "operate:team=search")
    answer = put(olga, "auction")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["detail"].startswith('unknown fleet "auction"; there are: rank;')


def test_a_role_there_is_needed(api: Api) -> None:
    rolf = caller("rolf", "operate:team=search", "read:team=ads")
    answer = put(rolf, "auction")
    assert answer.status_code == 403
    assert "requests are to go to fleet auction: that needs operate there" in answer.json()["detail"]
    assert answer.json()["errors"][0]["pointer"] == "/fallback/0/fleet"
    assert put(rolf, "rank").status_code == 200


def test_what_is_there_may_stay() -> None:
    """Whoever may not add a fleet may change the rest of the policy, and take the fleet out."""
    both = caller("both", "operate:team=search", "administer:team=ads")
    assert put(both, "auction", included=True).status_code == 200
    olga = caller("olga", "operate:team=search")
    budget = {"fallback_budget_percent": 50}
    assert olga.patch("/fleets/find/policy", budget).status_code == 200
    entry = {"fleet": "auction", "included": True, "causes": ["no_place"]}
    assert olga.patch("/fleets/find/policy", {"fallback": [entry]}).status_code == 200
    assert olga.patch("/fleets/find/policy", {"fallback": []}).status_code == 200
    assert put(olga, "auction").status_code == 400


def test_who_lets_keys_in_administers_that_fleet() -> None:
    olga = caller("olga", "operate:team=search", "operate:team=ads")
    answer = put(olga, "auction", included=True)
    assert answer.status_code == 403
    assert answer.json()["errors"][0]["pointer"] == "/fallback/0/included"
    assert put(olga, "auction").status_code == 200
    assert put(olga, "auction", included=True).status_code == 403


def test_a_fleet_is_kept_for_one_that_is_not_seen() -> None:
    both = caller("both", "operate:team=search", "operate:team=ads")
    assert put(both, "auction").status_code == 200
    ada = caller("ada", "administer:team=ads")
    answer = ada.delete("/fleets/auction?confirm=auction")
    assert answer.status_code == 409
    assert "is a fallback of a fleet that you may not see" in answer.json()["detail"]
