"""``/trial-probes``, and the trial that registering a replica makes."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controlplane.models import Fleet, Replica
from routing.contract.address_rules import OwnPort
from tests.address_policies import judged_by
from tests.controlplane.conftest import Api
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import HttpServer, says
from tests.ports import free_port


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer(servers.ready) as running:
        yield running


def test_an_address_alone(api: Api, server: HttpServer) -> None:
    answer = api.post("/trial-probes", {"url": server.url.upper().replace("HTTP", "http")})
    assert answer.status_code == 200
    found = answer.json()
    assert (found["outcome"], found["status"], found["url"]) == ("ready", 200, server.url)
    assert found["words"].startswith("200 OK in ")
    assert not Replica.objects.exists()


def test_asked_as_a_fleet_does(api: Api, make_fleet: Callable[..., str], server: HttpServer) -> None:
    make_fleet("v2", protocol="open-inference", served_model="digits")
    server.answer = says(200, path="/v2/models/digits/ready")
    found = api.post("/trial-probes", {"url": server.url, "fleet": "v2"}).json()
    assert (found["outcome"], found["preset"]) == ("ready", "kserve-v2")
    assert found["asked"] == "GET /v2/models/digits/ready"
    asked = {"url": server.url, "fleet": "v2", "probe": {"preset": "http", "path": "/ping"}}
    assert api.post("/trial-probes", asked).json()["asked"] == "GET /ping"


def test_a_new_credential_is_tried(
    api: Api, llm: str, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_TOKEN", "s3cret")
    settings = {"url": server.url, "credential": "env:TEST_TOKEN"}
    for answer in (
        api.post("/trial-probes", settings),
        api.post("/fleets/llm/replicas", {"name": "c", **settings}),
        api.patch("/fleets/llm/replicas/a", settings),
        api.post("/fleets", {"name": "n", "protocol": "openai", "replicas": [{"name": "a", **settings}]}),
    ):
        assert answer.status_code in (200, 201)
        assert b"\r\nAuthorization: Bearer s3cret\r\n" in server.requests.pop()
        assert b"s3cret" not in answer.content
    assert not server.requests
    api.patch("/fleets/llm", {"credential": "env:TEST_TOKEN"})
    for answer in (
        api.post("/trial-probes", {"url": server.url, "fleet": "llm"}),
        api.post("/fleets/llm/replicas", {"name": "d", "url": server.url}),
        api.post(
            "/fleets",
            {"name": "o", "protocol": "openai", "credential": "env:TEST_TOKEN"}
            | {"replicas": [{"name": "a", "url": server.url}]},
        ),
    ):
        assert answer.status_code in (200, 201)
        assert b"\r\nAuthorization: Bearer s3cret\r\n" in server.requests.pop()
    unset = api.patch("/fleets/llm/replicas/a", {"credential": "env:TEST_UNSET"}).json()
    assert "env:TEST_UNSET is an environment variable that is not set here" in unset["trial"]["words"]
    assert not server.requests


@pytest.mark.parametrize(
    ("settings", "pointer", "words"),
    [
        ({}, "", 'a trial needs "url"'),
        ({"url": "ftp://h"}, "/url", "write http://host:port or https://host:port"),
        ({"url": 5}, "/url", "must be text, not the number 5"),
        ({"url": "http://169.254.169.254"}, "/url", "link-local"),
        ({"url": "http://h", "protocol": "grpc"}, "/protocol", "must be one of openai"),
        ({"url": "http://h", "probe": {"preset": "vlm"}}, "/probe/preset", 'did you mean "vllm"?'),
        ({"url": "http://h", "probe": {"preset": "http"}}, "/probe", 'needs "path"'),
        ({"url": "http://h", "timeout": 5}, "/timeout", 'unknown field "timeout"'),
    ],
)
def test_refused_and_explained(api: Api, settings: Any, pointer: str, words: str) -> None:
    answer = api.post("/trial-probes", settings)
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert words in answer.json()["errors"][0]["detail"]


def test_an_unknown_fleet(api: Api, llm: str) -> None:
    answer = api.post("/trial-probes", {"url": "http://h", "fleet": "lm"})
    assert (answer.status_code, "did you mean" in answer.json()["detail"]) == (404, True)


def test_who_may_only_look_may_not_make_the_server_dial(reader: Api, anonymous: Api) -> None:
    assert reader.post("/trial-probes", {"url": "http://h"}).status_code == 403
    assert anonymous.post("/trial-probes", {"url": "http://h"}).status_code == 401


def test_registering_says_what_the_replica_answers(api: Api, llm: str, server: HttpServer) -> None:
    server.answer = servers.loading
    answer = api.post("/fleets/llm/replicas", {"name": "c", "url": server.url})
    assert answer.status_code == 201
    assert answer.json()["trial"] == answer.json()["trial"] | {
        "outcome": "unready",
        "words": "503 Loading model: the server is up and still loading",
        "asked": "GET /health",
        "preset": "llama.cpp",
        "status": 503,
        "fits": None,
    }
    assert answer.json()["health"]["state"] == "checking"


def test_another_address_is_tried_as_that_of_a_new_replica(api: Api, llm: str, server: HttpServer) -> None:
    replica = "/fleets/llm/replicas/a"
    changed = api.patch(replica, {"url": server.url, "weight": 2})
    assert changed.status_code == 200
    assert (changed.json()["trial"]["outcome"], changed.json()["trial"]["url"]) == ("ready", server.url)
    asked = len(server.requests)
    for change in ({"url": server.url}, {"weight": 3}):
        assert api.patch(replica, change).json()["trial"] is None
    assert api.patch(f"{replica}?trial=no", {"url": "http://127.0.0.1:9"}).json()["trial"] is None
    assert len(server.requests) == asked


def test_what_is_refused_of_a_change_is_refused_before_its_address_is_tried(
    api: Api, llm: str, server: HttpServer
) -> None:
    replica = "/fleets/llm/replicas/a"
    refused = [
        api.patch(replica, {"url": server.url, "weight": -1}),
        api.patch(replica, {"url": server.url, "hardware": "gpu"}),
        api.patch(replica, {"url": server.url, "name": "z"}),
        api.patch("/fleets/llm/replicas/z", {"url": server.url}),
        api.patch(replica, {"url": server.url}, If_Match='"99"'),
        api.patch(f"{replica}?trial=maybe", {"url": server.url}),
    ]
    assert [answer.status_code for answer in refused] == [400, 400, 400, 404, 412, 400]
    assert server.requests == []
    assert api.get(replica).json()["url"] == "http://127.0.0.1:9101"


def test_a_failed_trial_refuses_nothing(api: Api, llm: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    answer = api.post("/fleets/llm/replicas", {"name": "c", "url": url})
    assert answer.status_code == 201
    assert answer.json()["trial"]["words"].startswith("connection refused: nothing listens at 127.0.0.1:")


def test_registering_untried(api: Api, llm: str, server: HttpServer) -> None:
    answer = api.post("/fleets/llm/replicas?trial=no", {"name": "c", "url": server.url})
    assert (answer.status_code, answer.json()["trial"]) == (201, None)
    assert server.requests == []
    wrong = api.post("/fleets/llm/replicas?trial=maybe", {"name": "d", "url": server.url})
    assert (wrong.status_code, wrong.json()["detail"]) == (400, "trial must be yes or no, not 'maybe'.")
    unknown = api.post("/fleets/llm/replicas?try=no", {"name": "d", "url": server.url})
    assert (unknown.status_code, "trial" in unknown.json()["detail"]) == (400, True)


def test_what_cannot_be_registered_is_not_dialled(api: Api, llm: str, server: HttpServer) -> None:
    taken = api.post("/fleets/llm/replicas", {"name": "a", "url": server.url})
    assert taken.status_code == 409
    assert taken.json()["errors"][0]["pointer"] == "/name"
    assert (
        "choose another name, or change that one at /api/v1/fleets/llm/replicas/a" in taken.json()["detail"]
    )
    assert api.post("/fleets/llm/replicas", {"name": "c", "url": server.url, "weight": -1}).status_code == 400
    assert server.requests == []


def test_a_new_fleet_says_what_its_replicas_answer(api: Api, server: HttpServer) -> None:
    down = f"http://127.0.0.1:{free_port()}"
    replicas = [{"name": "a", "url": server.url}, {"name": "b", "url": down}]
    fleet = {"name": "new", "protocol": "openai", "replicas": replicas}
    answer = api.post("/fleets", fleet)
    assert answer.status_code == 201
    trials = answer.json()["trials"]
    assert {name: found["outcome"] for name, found in trials.items()} == {"a": "ready", "b": "down"}
    assert trials["b"]["words"].startswith("connection refused")
    assert len(server.requests) == 1
    untried = api.post("/fleets?trial=no", {**fleet, "name": "other"})
    assert (untried.status_code, untried.json()["trials"]) == (201, {})
    # What cannot be made is not dialled.
    assert api.post("/fleets", fleet).status_code == 409
    assert len(server.requests) == 1


def test_a_large_new_fleet_is_not_tried(api: Api, server: HttpServer) -> None:
    replicas = [{"name": f"r{number}", "url": server.url} for number in range(21)]
    answer = api.post("/fleets", {"name": "new", "protocol": "openai", "replicas": replicas})
    assert (answer.status_code, answer.json()["trials"]) == (201, {})
    assert server.requests == []


def test_a_new_fleet_with_a_forbidden_address(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: metadata)
    replicas = [{"name": "a", "url": "http://127.0.0.1:9"}, {"name": "b", "url": "http://gpu7.example"}]
    answer = api.post("/fleets", {"name": "new", "protocol": "openai", "replicas": replicas})
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/replicas/1/url"]
    assert not Fleet.objects.exists()


def test_a_name_that_leads_to_a_forbidden_address(
    api: Api, llm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: metadata)
    answer = api.post("/fleets/llm/replicas", {"name": "c", "url": "http://gpu7.example"})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/url"
    assert "resolves to a forbidden address: 169.254.169.254 is link-local" in answer.json()["detail"]
    assert not Replica.objects.filter(name="c").exists()
    assert api.post("/trial-probes", {"url": "http://gpu7.example"}).json()["outcome"] == "refused"


def test_an_own_port_is_refused_with_its_field_and_what_is_there(
    api: Api, llm: str, server: HttpServer
) -> None:
    """By address, and by a name that the trial looks up."""
    port = server.port
    words = f":{port} is the proxy's admin listener: no replica can be there"
    with judged_by(own=(OwnPort(port, "the proxy's admin listener", "127.0.0.1"),)):
        for url in (server.url, f"http://[::ffff:127.0.0.1]:{port}", f"http://localhost:{port}"):
            for answer in (
                api.post("/fleets/llm/replicas", {"name": "c", "url": url}),
                api.patch("/fleets/llm/replicas/a", {"url": url}),
                api.post("/trial-probes", {"url": url}),
            ):
                assert answer.status_code == 400
                [error] = answer.json()["errors"]
                assert error["pointer"] == "/url"
                assert error["detail"].endswith(words)
    assert server.connections == 0
    assert not Replica.objects.filter(url__contains=str(port)).exists()


def test_a_denied_address_is_refused_with_the_setting_that_would_allow_it(api: Api, llm: str) -> None:
    answer = api.post("/fleets/llm/replicas", {"name": "c", "url": "http://[64:ff9b:1::a9fe:a9fe]:80"})
    assert answer.status_code == 400
    [error] = answer.json()["errors"]
    assert error["pointer"] == "/url"
    assert error["detail"].startswith("64:ff9b:1::a9fe:a9fe, which leads to 169.254.169.254, is link-local")
    assert error["detail"].endswith("unless SWITCHYARD_ALLOWED_ADDRESSES names it")
    with judged_by(allowed=("169.254.169.254/32",)):
        answer = api.post("/fleets/llm/replicas?trial=no", {"name": "c", "url": "http://169.254.169.254:80"})
    assert answer.status_code == 201


def test_a_fleet_that_is_missing_is_made_by_the_command_in_the_answer(api: Api, server: HttpServer) -> None:
    answer = api.post("/fleets/new/replicas", {"name": "a", "url": server.url})
    assert answer.status_code == 404
    words = answer.json()["detail"]
    assert words.startswith(
        'There is no fleet "new"; there are none yet. To create it with this replica: curl'
    )
    assert words.endswith(" http://testserver/api/v1/fleets")
    body = words.partition("-d '")[2].partition("'")[0]
    assert api("post", "/fleets", body).status_code == 201
    assert Replica.objects.get().url == server.url
