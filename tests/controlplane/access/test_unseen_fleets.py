"""Errors name no fleet that the account may not see."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from controlplane.access import viewer
from controlplane.access.grants import Access, Grant
from controlplane.models import Fleet, ForcedPasswordChange, ReplicaHealth
from controlplane.services import accelerators, accounts, dropping, fleets, tokens
from controlplane.services.confirmation import NeedsConfirmation
from controlplane.services.errors import Invalid, NotFound
from tests.controlplane.access.teams import LABELS, OWN, THEIRS, new
from tests.controlplane.conftest import Api
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import HttpServer

GIB = 1024**3
MATCH = {"host": "sale.example"}
TOM = Access((Grant.parse("administer:team=search"),))


@pytest.fixture
def tom(make_fleet: Callable[..., str]) -> Api:
    """Administers the fleets of one team, and sees no other."""
    accelerators.create({"name": "node/gpu0", "memory_bytes": 80 * GIB}, "tests")
    device = {"accelerators": ["node/gpu0"], "memory_bytes": 30 * GIB}
    rows = [
        {"name": "secret-name", "url": THEIRS, **device},
        {"name": "secret-twin", "url": THEIRS, **device},
    ]
    make_fleet("find", labels=LABELS, replicas=[{"name": "a", "url": OWN}])
    make_fleet(
        "auction", labels={"team": "ads"}, replicas=rows, aliases=["sale"], adapters=["sold"], match=[MATCH]
    )
    accounts.create("tom", "tests", TOM.grants)
    ForcedPasswordChange.objects.all().delete()
    return Api(tokens.create(User.objects.get(username="tom"), "laptop", "tests")[1])


def told(answer: Any, status: int) -> str:
    """What the answer says, which names nothing of the other team's."""
    assert answer.status_code == status, answer.content
    said: str = answer.content.decode()
    for name in ("secret", "ads"):
        assert name not in said
    return said


@pytest.mark.parametrize("field", ["aliases", "adapters"])
@pytest.mark.parametrize(
    ("name", "words"), [("sale", "an alias"), ("sold", "an adapter"), ("auction", "the name")]
)
def test_a_name_that_another_fleet_has(tom: Api, api: Api, field: str, name: str, words: str) -> None:
    said = told(tom.patch("/fleets/find", {field: [name]}), 400)
    assert f"is already {words} of a fleet that you may not see: choose another" in said
    assert name == "auction" or "auction" not in said
    said = told(tom.post("/fleets?trial=no", new(OWN, **{field: [name]})), 400)
    assert f"is already {words} of a fleet that you may not see: choose another" in said
    assert f"{words} of fleet auction" in api.patch("/fleets/find", {field: [name]}).content.decode()


def test_a_new_fleet_of_a_name_that_is_taken(tom: Api, api: Api) -> None:
    said = told(tom.post("/fleets?trial=no", new(OWN, name="auction")), 409)
    assert "There is a fleet auction already: choose another name." in said
    assert "/api/v1/fleets/auction" not in said
    assert "/api/v1/fleets/auction" in api.post("/fleets?trial=no", new(OWN, name="auction")).content.decode()
    said = told(tom.post("/fleets?trial=no", new(OWN, name="sale")), 400)
    assert "is already an alias of a fleet that you may not see" in said
    assert "auction" not in said


def test_memory_that_others_hold(tom: Api, api: Api) -> None:
    device = {"accelerators": ["node/gpu0"], "memory_bytes": 30 * GIB}
    for answer in (
        tom.post("/fleets/find/replicas?trial=no", {"name": "b", "url": OWN, **device}),
        tom.patch("/fleets/find/replicas/a", device),
        tom.post("/fleets?trial=no", {**new(OWN), "replicas": [{"name": "a", "url": OWN, **device}]}),
        tom.post("/fleets", {**new(OWN), "replicas": [{"name": "a", "url": OWN, **device}]}),
    ):
        said = told(answer, 409)
        assert "auction" not in said
        assert "its replicas hold those that you may not see 60 GiB + " in said
        assert "/a 30 GiB = 90 GiB" in said or "/b 30 GiB = 90 GiB" in said
    said = api.patch("/fleets/find/replicas/a", device).content.decode()
    assert "auction/secret-name 30 GiB + auction/secret-twin 30 GiB + find/a 30 GiB = 90 GiB" in said


def test_memory_that_requests_of_others_need(tom: Api, api: Api) -> None:
    needs = {"request_bytes": 10 * GIB}
    assert api.patch("/fleets/auction/replicas/secret-name", needs).status_code == 200
    device = {"accelerators": ["node/gpu0"], "memory_bytes": 15 * GIB}
    said = told(tom.patch("/fleets/find/replicas/a", device), 409)
    assert "and one at those that you may not see takes 10 GiB" in said
    assert "auction" not in said


def test_a_match_that_another_fleet_has(tom: Api) -> None:
    """Who sets one sees all fleets, as it is; its words do not rely on that."""
    with viewer.viewer_scope(TOM), pytest.raises(Invalid) as refused:
        fleets.update("find", {"match": [MATCH]}, "tom")
    assert "leads to a fleet that you may not see already: fleet find needs another" in refused.value.detail


def test_a_fleet_that_was_deleted_meanwhile(tom: Api) -> None:
    Fleet.objects.filter(name="find").delete()
    with viewer.viewer_scope(TOM), pytest.raises(NotFound) as refused:
        fleets.update("find", {}, "tom")
    assert refused.value.detail == 'There is no fleet "find"; there are none yet.'


# --- What is to be confirmed counts no replica of theirs ---


def test_a_restored_revision_that_takes_all_out(tom: Api, api: Api) -> None:
    for weight in (0, 2):
        assert tom.patch("/fleets/find/replicas/a", {"weight": weight}).status_code == 200
    path = "/fleets/find/revisions/2/restore"
    said = told(tom.post(path), 409)
    assert "1 of 1 replicas that take requests go out at once: find/a. " in said
    refused = api.post(path).json()
    assert "1 of 3 replicas that take requests go out at once: find/a. " in refused["detail"]
    # The token stands for the loss, whoever asked.
    assert tom.post(f"{path}?confirm={refused['confirm']}").status_code == 200


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer(servers.ready) as server:
        yield server


def test_settings_with_which_all_would_fail(tom: Api, api: Api, server: HttpServer) -> None:
    answer = tom.post("/fleets?trial=no", new(server.url))
    assert answer.status_code == 201, answer.content
    ReplicaHealth.objects.update(state="ready", has_passed=True)
    server.answer = servers.says(200, path="/health")
    change = {"probe": {"preset": "http", "path": "/nope"}}
    said = told(tom.patch("/fleets/mine", change), 409)
    assert "1 of 2 replicas that take requests go out at once: mine/a. " in said
    assert "1 of 4 replicas" in api.patch("/fleets/mine", change).content.decode()


def test_what_goes_is_counted_though_it_may_not_be_seen(tom: Api) -> None:
    """No role lets that happen; the guard does not rely on it."""
    auction = Fleet.objects.get(name="auction")
    with viewer.viewer_scope(TOM), pytest.raises(NeedsConfirmation) as refused, dropping.confirmed(""):
        auction.replicas.update(weight=0)
    assert refused.value.detail.startswith("2 of 3 replicas that take requests go out at once: auction/")


# --- Events ---


def test_a_default_that_moves(tom: Api, api: Api) -> None:
    """Each of the two fleets has an event, which does not name the other."""

    def texts(reader: Api) -> list[str]:
        return [row["text"] for row in reader.get("/events").json()["results"]]

    assert api.patch("/fleets/auction", {"default": True}).status_code == 200
    moved = api.patch("/fleets/find", {"default": True})
    assert "default: moved from fleet auction; requests" in moved.json()["changed"][1]
    assert api.patch("/fleets/auction", {"default": True}).status_code == 200
    assert texts(tom)[:2] == [
        "anna made another fleet the default in place of find",
        "anna changed fleet find: default: false → true",
    ]
    assert "auction" not in told(tom.get("/events"), 200)
    assert "anna made another fleet the default in place of auction" in texts(api)
