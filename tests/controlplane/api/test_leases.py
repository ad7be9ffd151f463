"""``/fleets/{fleet}/sources/{source}/leases/{replica}``."""

from typing import Any

import pytest
import redis
from django.contrib.auth.models import User

from controlplane.models import DiscoverySource, Event, Replica, ReplicaOwner, RoleGrant
from controlplane.services import sources, tokens
from tests.controlplane.conftest import Api

PATH = "/fleets/llm/sources/self/leases/c"
URL = {"url": "http://10.0.0.1:8000"}


@pytest.fixture
def source(llm: str) -> DiscoverySource:
    settings = {"name": "self", "lease": {"allow": ["10.0.0.0/8", "*.models.example", "gpu-7"]}}
    return sources.create(llm, settings, "anna").row


@pytest.fixture
def operating(source: DiscoverySource) -> Api:
    """The token of an agent: it operates this fleet."""
    user = User.objects.create_user("agent")
    RoleGrant.objects.create(user=user, role="operate", selector={})
    return Api(tokens.create(user, "t", "tests")[1])


def test_a_replica_registers_renews_and_leaves(operating: Api, source: DiscoverySource) -> None:
    granted = operating("put", PATH, {**URL, "site": "east"})
    assert (granted.status_code, granted.json()) == (
        200,
        {
            "name": "c",
            "url": URL["url"],
            "ttl_s": 30.0,
            "expires_in_s": 30.0,
            "leaving": False,
            "replica": None,
        },
    )
    row = Replica.objects.create(fleet=source.fleet, name="c", url=URL["url"])
    ReplicaOwner.objects.create(replica=row, source=source)
    renewed = operating("put", PATH, URL).json()
    assert renewed["replica"]["eligible"] is False
    assert "health is checking" in renewed["replica"]["why"]
    released = operating.delete(PATH).json()
    assert (released["leaving"], released["expires_in_s"]) == (True, 0.0)
    assert operating.get(PATH).json()["leaving"] is True
    row.delete()
    assert operating.get(PATH).status_code == 404
    assert operating.delete(PATH).status_code == 404


@pytest.mark.parametrize(
    ("body", "pointer", "words"),
    [
        ({}, "", 'needs "url"'),
        ({"url": "http://11.0.0.1:8000"}, "/url", "11.0.0.1 is not among the hosts that source self allows"),
        ({"url": "http://models.example:1"}, "/url", "is not among the hosts"),
        ({**URL, "hardware": "h100"}, "/hardware", "there is no hardware class"),
        ({**URL, "credential": "env:X"}, "/credential", 'unknown field "credential"'),
        ({**URL, "admin_state": "active"}, "/admin_state", "unknown field"),
    ],
)
def test_what_it_may_not_say_is_refused_at_the_field(
    operating: Api, body: dict[str, Any], pointer: str, words: str
) -> None:
    refused = operating("put", PATH, body)
    assert refused.status_code == 400
    [error] = refused.json()["errors"]
    assert (error["pointer"], words in error["detail"]) == (pointer, True), error


@pytest.mark.parametrize("host", ["10.255.0.1", "a.models.example", "gpu-7"])
def test_hosts_that_are_allowed(operating: Api, host: str) -> None:
    assert operating("put", PATH, {"url": f"http://{host}:1"}).status_code == 200


def test_names_of_others_other_kinds_and_wrong_names(operating: Api, source: DiscoverySource) -> None:
    taken = operating("put", "/fleets/llm/sources/self/leases/a", URL)
    assert taken.status_code == 409
    assert "has a replica a that source self has not registered" in taken.json()["detail"]
    assert operating("put", "/fleets/llm/sources/self/leases/A", URL).status_code == 400
    sources.create("llm", {"name": "rack", "file": {"path": "a.yaml"}}, "anna")
    other = operating("put", "/fleets/llm/sources/rack/leases/c", URL)
    assert "is of kind file: replicas register themselves at a source of kind lease" in other.json()["detail"]


def test_who_may_read_only_registers_nothing(reader: Api, source: DiscoverySource) -> None:
    assert reader("put", PATH, URL).status_code == 403
    assert reader.delete(PATH).status_code == 403


def test_redis_away_is_503(operating: Api, monkeypatch: pytest.MonkeyPatch, source: DiscoverySource) -> None:
    monkeypatch.setattr("controlplane.api.leases.redis.client", lambda: redis.Redis(port=1))
    assert operating("put", PATH, URL).status_code == 503


@pytest.mark.parametrize(
    ("lease", "pointer", "words"),
    [
        ({}, "/lease", 'needs "allow"'),
        ({"allow": []}, "/lease/allow", "needs at least 1"),
        ({"allow": ["10.0.0.1/8"]}, "/lease/allow/0", "no bits beyond the prefix"),
        ({"allow": ["*"]}, "/lease/allow/0", "must be a network, an address, a host name"),
        ({"allow": ["10.0.0.0/8"], "ttl_s": 1}, "/lease/ttl_s", "must be from 5 to 3600 seconds"),
    ],
)
def test_wrong_settings_of_the_source(
    api: Api, llm: str, lease: dict[str, Any], pointer: str, words: str
) -> None:
    refused = api.post("/fleets/llm/sources", {"name": "self", "lease": lease})
    assert refused.status_code == 400
    [error] = refused.json()["errors"]
    assert (error["pointer"], words in error["detail"]) == (pointer, True), error


def test_leases_are_looked_at_often(api: Api, llm: str) -> None:
    body = {"name": "self", "lease": {"allow": ["10.0.0.0/8"]}, "resync_s": 10}
    assert "must be at most 2 for leases" in api.post("/fleets/llm/sources", body).json()["detail"]


def test_two_servers_of_one_name_are_told_apart_by_their_url(
    operating: Api, source: DiscoverySource, redis_client: "redis.Redis"
) -> None:
    other = {"url": "http://10.0.0.2:8000"}
    assert operating("put", PATH, URL).status_code == 200
    for _ in range(3):
        refused = operating("put", PATH, other)
        assert refused.status_code == 409
        [error] = refused.json()["errors"]
        assert error["pointer"] == "/url"
        assert error["detail"].startswith("http://10.0.0.1:8000 holds the lease of c, for 30 s more")
        assert "Choose another name; if that server is gone, release its lease" in error["detail"]
    assert operating.get(PATH).json()["url"] == URL["url"]
    texts = list(Event.objects.filter(text__contains="claims the name").values_list("text", flat=True))
    assert texts == [
        "source self: http://10.0.0.2:8000 claims the name c, which http://10.0.0.1:8000 has, and is refused"
    ]
    assert operating.delete(f"{PATH}?url=http://10.0.0.2:8000/").status_code == 409
    assert operating.delete(f"{PATH}?url=nonsense").status_code == 400
    row = Replica.objects.create(fleet=source.fleet, name="c", url=URL["url"])
    ReplicaOwner.objects.create(replica=row, source=source)
    assert operating.delete(f"{PATH}?url=http://10.0.0.1:8000/").json()["leaving"] is True
    assert operating("put", PATH, other).status_code == 200, "it was released"
    assert operating.get(PATH).json()["url"] == other["url"]
    old = operating.delete(f"{PATH}?url=http://10.0.0.1:8000")
    assert "http://10.0.0.2:8000 holds the lease of c" in old.json()["detail"]
