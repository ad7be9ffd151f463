"""A role for some fleets only: host names are the addresses that DNS has for them."""

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from controlplane.access import host_lookup
from controlplane.models import Fleet, Replica
from controlplane.probes import trial_service
from controlplane.services import replicas
from tests.controlplane.access.teams import new, refused
from tests.controlplane.conftest import Api

THEIR_NAME = "http://gpu.others.example:8000"
DNS: dict[str, tuple[str, ...] | None] = {
    "gpu.others.example": ("10.0.0.5", "10.0.0.7"),
    "same.example": ("10.0.0.7",),
    "mapped.example": ("::ffff:10.0.0.7",),
    "mine.example": ("10.0.0.9",),
    "loop.example": ("127.0.0.1",),
    "silent.example": None,
}


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were looked up. DNS has those above, and no other."""
    names: list[str] = []

    def addresses_of(name: str) -> tuple[str, ...] | None:
        names.append(name)
        return DNS.get(name.removesuffix("."), ())

    monkeypatch.setattr(host_lookup, "_addresses_of", addresses_of)
    return names


def at(host: str, port: int = 8000) -> dict[str, Any]:
    return {"name": "b", "url": f"http://{host}:{port}"}


def registered(who: Api, replica: dict[str, Any], fleet: str = "find") -> Any:
    return who.post(f"/fleets/{fleet}/replicas?trial=no", replica)


@pytest.mark.parametrize("host", ["same.example", "SAME.example.", "mapped.example", "gpu.others.example"])
def test_a_name_of_their_address(sam: Api, host: str) -> None:
    words = refused(registered(sam, at(host)), "/url")
    assert words.startswith("url: at this host and port is a fleet that you do not administer")
    refused(sam.post("/fleets?trial=no", new(at(host)["url"])), "/replicas/0/url")
    refused(sam.patch("/fleets/find/replicas/a?trial=no", {"url": at(host)["url"]}), "/url")
    refused(sam.post("/trial-probes", {"url": at(host)["url"]}), "/url")
    assert Replica.objects.count() == 2


@pytest.mark.parametrize("host", ["10.0.0.5", "[::ffff:10.0.0.5]", "same.example", "gpu.others.example"])
def test_an_address_of_their_name(sam: Api, api: Api, host: str) -> None:
    assert api.patch("/fleets/auction/replicas/secret-name?trial=no", {"url": THEIR_NAME}).status_code == 200
    assert "is a fleet that you do not administer" in refused(registered(sam, at(host)), "/url")


def test_a_name_of_the_machine_itself(sam: Api, api: Api) -> None:
    assert registered(api, at("localhost", 9300), "auction").status_code == 201
    refused(registered(sam, at("loop.example", 9300)), "/url")


def test_other_names_and_ports_are_ones_own_affair(sam: Api, asked: list[str]) -> None:
    assert registered(sam, at("same.example", 8001)).status_code == 201
    assert registered(sam, {**at("nowhere.example", 8002), "name": "c"}).status_code == 201
    assert not asked, "nobody else is at these ports"
    assert registered(sam, {**at("mine.example"), "name": "d"}).status_code == 201
    assert asked == ["mine.example"]


def test_an_administrator_of_all_fleets_waits_for_no_dns(sam: Api, api: Api, asked: list[str]) -> None:
    assert registered(api, at("same.example")).status_code == 201
    assert not asked


def test_a_name_without_an_address_could_become_theirs(sam: Api) -> None:
    words = refused(registered(sam, at("nowhere.example")), "/url")
    assert "the host name has no address now" in words
    assert "register it once it has one" in words


def test_a_name_for_which_nobody_answers_is_not_registered(sam: Api, api: Api) -> None:
    assert "DNS does not say now" in refused(registered(sam, at("silent.example")), "/url")
    row = {"name": "s", "url": "http://silent.example:8000"}
    assert registered(api, row, "find").status_code == 201
    words = refused(sam.patch("/fleets/find?trial=no", {"expose": "all"}), "/expose")
    assert "DNS does not say now" in words
    # What is there stays, and what reaches nothing there too.
    assert sam.patch("/fleets/find/replicas/s?trial=no", {"max_concurrency": 2}).status_code == 200
    assert sam.patch("/fleets/find?trial=no", {"expose": "inference", "aliases": ["x"]}).status_code == 200


def test_their_name_for_which_nobody_answers_closes_the_port_to_nobody(sam: Api, api: Api) -> None:
    row = {"name": "s", "url": "http://silent.example:8000"}
    assert registered(api, row, "auction").status_code == 201
    refused(registered(sam, at("silent.example")), "/url")
    assert registered(sam, at("10.0.0.9")).status_code == 201


def test_their_name_that_has_no_address_leads_nowhere(sam: Api, api: Api) -> None:
    row = {"name": "s", "url": "http://gone.example:8000"}
    assert registered(api, row, "auction").status_code == 201
    assert registered(sam, at("10.0.0.9")).status_code == 201


def test_a_metrics_port_at_their_address(sam: Api) -> None:
    probe = {"preset": "vllm", "metrics_path": "/metrics", "metrics_port": 8000}
    one = new("http://same.example:9000", probe=probe)
    refused(sam.post("/fleets?trial=no", one), "/probe/metrics_port")
    silent = new("http://silent.example:9000", probe=probe)
    assert "DNS does not say" in refused(sam.post("/fleets?trial=no", silent), "/probe/metrics_port")


def test_what_is_shared_by_name_exposes_inference_alone(sam: Api, api: Api) -> None:
    assert registered(api, at("same.example")).status_code == 201
    words = refused(sam.patch("/fleets/find?trial=no", {"expose": "all"}), "/expose")
    assert "shares a host with one that you do not administer" in words
    refused(sam.patch("/fleets/find?trial=no", {"served_model": "x"}), "/served_model")
    assert Fleet.objects.get(name="find").expose == "inference"


def test_a_name_that_came_meanwhile_is_not_waited_for_in_the_transaction(
    sam: Api, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def tried(*given: Any) -> Any:
        replicas.register("auction", {"name": "b", "url": "http://late.example:8000"}, "tests")
        return None

    monkeypatch.setattr(trial_service, "of_replica", tried)
    answer = sam.post("/fleets/find/replicas", at("mine.example"))
    assert answer.status_code == 409
    assert answer.json()["detail"] == "Replicas were registered or changed at the same time: try again."
    assert asked == ["mine.example"]
    assert not Replica.objects.filter(fleet__name="find", name="b").exists()


def test_of_many_names_those_that_are_answered_in_time_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    release = Event()

    def addresses_of(name: str) -> tuple[str, ...]:
        if name.startswith("hangs"):
            release.wait(20)
        return (name,)

    monkeypatch.setattr(host_lookup, "_addresses_of", addresses_of)
    monkeypatch.setattr(host_lookup, "LOOKUP_S", 1.0)
    names = ["hangs.example", *(f"n{number}" for number in range(200))]
    found = host_lookup.look_up(names)
    release.set()
    assert found.pop("hangs.example") is None
    assert found == {f"n{number}": (f"n{number}",) for number in range(200)}
    assert host_lookup.look_up([]) == {}


@pytest.mark.parametrize(
    ("raised", "found"),
    [
        (lambda: host_lookup.socket.gaierror(host_lookup.socket.EAI_NONAME, "x"), ()),
        (lambda: host_lookup.socket.gaierror(host_lookup.socket.EAI_AGAIN, "x"), None),
        (lambda: UnicodeError("label too long"), None),
    ],
)
def test_no_address_and_no_answer_are_told_apart(
    raised: Callable[[], Exception], found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getaddrinfo(*given: Any, **named: Any) -> Any:
        raise raised()

    monkeypatch.undo()
    monkeypatch.setattr(host_lookup.socket, "getaddrinfo", getaddrinfo)
    assert host_lookup._addresses_of("x.example") == found
