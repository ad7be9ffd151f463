"""A role for some fleets only does not reach the hosts of other fleets' replicas."""

from collections.abc import Callable
from typing import Any

import pytest

from controlplane.models import Fleet, Replica
from controlplane.probes import trial_service
from controlplane.services import fleets, replicas
from tests.controlplane.access.teams import OWN, THEIRS, new, refused
from tests.controlplane.conftest import Api


@pytest.mark.parametrize(
    "url",
    [
        THEIRS,
        f"{THEIRS}/v1",
        "HTTPS://10.0.0.7:8000",
        "http://[::ffff:10.0.0.7]:8000",
        "http://[64:ff9b::a00:7]:8000",
    ],
)
def test_a_host_of_another_fleet_is_registered_by_no_write(sam: Api, url: str) -> None:
    words = refused(sam.post("/fleets?trial=no", new(url, expose="all")), "/replicas/0/url")
    assert words.startswith("replicas/0/url: at this host and port is a fleet that you do not administer")
    assert words.endswith("registered with administer for all fleets. Ask an administrator.")
    one_more = {"name": "b", "url": url}
    refused(sam.post("/fleets/find/replicas?trial=no", one_more), "/url")
    refused(sam.patch("/fleets/find/replicas/a?trial=no", {"url": url}), "/url")
    refused(sam.post("/trial-probes", {"url": url}), "/url")
    assert list(Replica.objects.values_list("url", flat=True)) == [THEIRS, OWN]


def test_a_name_in_another_form_is_the_same_host(sam: Api, make_fleet: Callable[..., str]) -> None:
    for name, url in (("x", "http://gpu.example:80"), ("y", "http://127.0.0.1:9300")):
        make_fleet(name, replicas=[{"name": "a", "url": url}])
    for url in ("http://GPU.example.", "http://localhost:9300", "http://[::1]:9300", "http://127.8.0.1:9300"):
        refused(sam.post("/fleets?trial=no", new(url)), "/replicas/0/url")


def test_other_hosts_and_ports_are_ones_own_affair(sam: Api) -> None:
    for number, url in enumerate((OWN, "http://10.0.0.7:8001", "http://10.0.0.9:8000")):
        fleet = new(url, name=f"mine-{number}", expose="all")
        answer = sam.post("/fleets?trial=no", fleet)
        if url == OWN:  # two of their own fleets share it: that is asked about
            answer = sam.post(f"/fleets?trial=no&confirm={answer.json()['confirm']}", fleet)
        assert answer.status_code == 201


def test_on_a_shared_host_a_team_exposes_inference_alone(sam: Api, api: Api) -> None:
    """An administrator of all fleets made them share it."""
    assert api.post("/fleets/find/replicas?trial=no", {"name": "b", "url": THEIRS}).status_code == 201
    for expose in ("all", ["/v1"], ["/shutdown"]):
        words = refused(sam.patch("/fleets/find", {"expose": expose}), "/expose")
        assert "exposes `inference` only: anything else needs administer for all fleets." in words
        token = api.patch("/fleets/find", {"expose": expose}).json()["confirm"]
        assert api.patch(f"/fleets/find?confirm={token}", {"expose": expose}).status_code == 200
        # What is so already may be sent again, and the way back is open.
        assert sam.patch("/fleets/find", {"expose": expose, "aliases": []}).status_code == 200
        assert sam.patch("/fleets/find", {"expose": "inference"}).status_code == 200
    # So may the address; another place there may not.
    assert sam.patch("/fleets/find/replicas/b?trial=no", {"url": THEIRS, "weight": 2.0}).status_code == 200
    refused(sam.patch("/fleets/find/replicas/b?trial=no", {"url": f"{THEIRS}/x"}), "/url")
    assert Fleet.objects.get(name="find").expose == "inference"


HERE = "http://10.0.0.9:8000"


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Does something while the replicas of a write are tried, after it was allowed."""

    def during_the_trial(do: Callable[[], Any]) -> None:
        def tried(*given: Any) -> Any:
            do()
            return {}

        for name in ("of_new_fleet", "of_replica"):
            monkeypatch.setattr(trial_service, name, tried)

    return during_the_trial


WRITES: list[Callable[[Api], Any]] = [
    lambda sam: sam.post("/fleets", new(HERE)),
    lambda sam: sam.post("/fleets/find/replicas", {"name": "b", "url": HERE}),
    lambda sam: sam.patch("/fleets/find/replicas/a", {"url": HERE}),
]


@pytest.mark.parametrize("write", WRITES)
def test_who_comes_first_has_the_host(
    sam: Api, write: Callable[[Api], Any], meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    fleet = Fleet.objects.get(name="auction")
    meanwhile(lambda: replicas.register(fleet.name, {"name": "b", "url": HERE}, "tests"))
    pointer = "/replicas/0/url" if write is WRITES[0] else "/url"
    assert "is a fleet that you do not administer" in refused(write(sam), pointer)
    assert list(Replica.objects.filter(url=HERE).values_list("fleet__name", flat=True)) == ["auction"]


@pytest.mark.parametrize("write", WRITES[1:])
def test_a_fleet_that_became_another_teams_meanwhile(
    sam: Api, write: Callable[[Api], Any], meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    meanwhile(lambda: fleets.update("find", {"labels": {"team": "ads"}}, "tests"))
    answer = write(sam)
    assert (answer.status_code, answer.json()["detail"][:34]) == (403, "Your account has read-only access.")
    assert not Replica.objects.filter(url=HERE).exists()
