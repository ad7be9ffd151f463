"""Health as the Open Inference Protocol asks for it, answered for a fleet by the proxy."""

import json

import pytest
from msgspec.structs import replace

from routing.contract.client_keys import key_hash, salt_bytes
from routing.contract.table import Match
from tests.routing.proxy.rig import Answer, Client, Replica, Rig

SALT = "00" * 16


def get(target: str, fields: str = "", method: str = "GET") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n".encode()


def said(answer: Answer) -> tuple[int, object]:
    """By the proxy itself."""
    assert answer.get(b"x-switchyard-replica") == []
    assert answer.get(b"content-type") == [b"application/json"]
    assert answer.get(b"x-request-id")
    return answer.status, json.loads(answer.body)


def health(rig: Rig, fleet: str, **states: object) -> None:
    """Sets what is known of every replica of the fleet."""
    snapshot = rig.table.fleets[fleet].snapshot
    replicas = [replace(one, **states) for one in snapshot.replicas]
    rig.table.apply_snapshot(replace(snapshot, version=snapshot.version + 1, replicas=replicas))


async def warm(rig: Rig, *, default: bool = True) -> tuple[Replica, Client]:
    replica = await rig.replica("d1")
    rig.fleet(
        replica,
        name="digits",
        protocol="open-inference",
        aliases=("numbers",),
        served_model="m",
        default=default,
    )
    return replica, await rig.client()


LOADS = "the model is loading, and its startup time is not known yet"
COLD = {"health": "checking", "has_passed": False}


async def test_a_warm_fleet(rig: Rig) -> None:
    replica, client = await warm(rig)
    both = {"live": True, "ready": True}
    assert said(await client.ask(get("/v2/health/live"))) == (200, {"live": True})
    assert said(await client.ask(get("/v2/health/ready?x=1"))) == (200, both)
    assert said(await client.ask(get("/fleets/digits/v2/health/ready"))) == (200, both)
    assert said(await client.ask(get("/v2/models/digits/ready"))) == (200, {"name": "digits", "ready": True})
    assert said(await client.ask(get("/v2/models/numbers/ready"))) == (
        200,
        {"name": "numbers", "ready": True},
    )
    status, server = said(await client.ask(get("/v2")))
    assert (status, sorted(server)) == (200, ["extensions", "name", "version"])  # type: ignore[call-overload]
    head = await client.ask(get("/v2/health/ready", method="HEAD"))
    assert (head.status, head.body) == (200, b"")
    # Nobody was asked, and no request of the fleet was counted.
    assert replica.requests == []
    assert rig.table.fleets["digits"].counters.requests == 0


async def test_a_cold_fleet_is_live_and_not_ready_until_a_replica_is(rig: Rig) -> None:
    _, client = await warm(rig)
    health(rig, "digits", **COLD)
    why = f"1 replica of fleet digits: 1 checking; {LOADS}"
    assert said(await client.ask(get("/v2/health/live"))) == (200, {"live": True})
    assert said(await client.ask(get("/v2/health/ready"))) == (
        503,
        {"live": True, "ready": False, "error": why},
    )
    assert said(await client.ask(get("/v2/models/digits/ready"))) == (
        503,
        {"name": "digits", "ready": False, "error": why},
    )
    assert said(await client.ask(get("/fleets/digits/v2/health/ready")))[0] == 503
    health(rig, "digits", health="ready", has_passed=True)
    assert said(await client.ask(get("/v2/models/digits/ready")))[0] == 200
    for out in ({"admin_state": "draining"}, {"weight": 0.0}):
        health(rig, "digits", **out)
        assert said(await client.ask(get("/v2/models/digits/ready")))[0] == 503


async def test_ready_is_a_fleet_that_would_be_asked_in_panic(rig: Rig) -> None:
    """As the pool has it: its only replica is asked also while probes say that it is down."""
    _, client = await warm(rig)
    health(rig, "digits", health="down", has_passed=True)
    assert said(await client.ask(get("/v2/models/digits/ready")))[0] == 200


async def test_what_only_a_replica_knows_is_asked_there(rig: Rig) -> None:
    replica, client = await warm(rig)
    for asked, seen in (
        ("/v2/models/digits", "/v2/models/m"),
        ("/v2/models/digits/versions/3", "/v2/models/m/versions/3"),
        ("/v2/models/digits/versions/3/ready", "/v2/models/m/versions/3/ready"),
        ("/v2/models/digits/config", "/v2/models/m/config"),
        ("/v2/models/digits/stats", "/v2/models/m/stats"),
        ("/fleets/digits/v2", "/v2"),
        ("/fleets/digits/v2/models/other/ready", "/v2/models/other/ready"),
        ("/v2/health/other", "/v2/health/other"),
    ):
        assert (await client.ask(get(asked))).get(b"x-switchyard-replica") == [b"d1"]
        assert replica.requests[-1].line == f"GET {seen} HTTP/1.1".encode()
    body = b"POST /v2/models/digits/ready HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
    assert (await client.ask(body)).get(b"x-switchyard-replica") == [b"d1"]


@pytest.mark.parametrize("target", ["/v2/health/live", "/v2/health/ready", "/v2"])
async def test_fleets_of_other_protocols_answer_themselves(rig: Rig, target: str) -> None:
    """As the default fleet, and as the one that a model's name leads to."""
    _, client = await warm(rig, default=False)
    other = await rig.replica("o1")
    rig.fleet(other, name="other", protocol="openai", match=(Match(host="other.test"),))
    for asked in (target, "/v2/models/other/ready", "/fleets/other/v2/health/ready"):
        assert (await client.ask(get(asked))).get(b"x-switchyard-replica") == [b"o1"]
    # A body that comes with such a question, and comes late, is passed on with it.
    client.send(get(target, "Content-Length: 5\r\n"))
    client.send(b"hello")
    assert (await client.answer()).get(b"x-switchyard-replica") == [b"o1"]
    assert other.requests[-1].body == b"hello"
    # What names the fleet outside the body names it here, too.
    field = "X-Switchyard-Fleet: digits\r\n"
    assert said(await client.ask(get("/v2/health/ready", field)))[0] == 200
    matched = get("/v2/health/live").replace(b"a.test", b"other.test")
    assert (await client.ask(matched)).get(b"x-switchyard-replica") == [b"o1"]


async def test_without_a_default_the_server_is_ready_when_all_its_fleets_are(rig: Rig) -> None:
    _, client = await warm(rig, default=False)
    rig.fleet(await rig.replica("i1"), name="images", protocol="open-inference", default=False)
    rig.fleet(name="chat", protocol="openai", default=False)
    assert said(await client.ask(get("/v2/health/ready")))[0] == 200
    health(rig, "images", **COLD)
    status, body = said(await client.ask(get("/v2/health/ready")))
    assert (status, body["error"]) == (503, f"1 replica of fleet images: 1 checking; {LOADS}")  # type: ignore[index]
    assert said(await client.ask(get("/v2/models/digits/ready")))[0] == 200


async def test_nobody_who_could_be_meant(rig: Rig) -> None:
    rig.fleet(name="chat", protocol="openai", default=False)
    client = await rig.client()
    for target in ("/v2/health/ready", "/v2/models/nope/ready", "/fleets/nope/v2/health/live"):
        answer = await client.ask(get(target))
        assert (answer.status, list(json.loads(answer.body))) == (404, ["error"])


async def test_a_fleet_that_becomes_another_is_asked_anew(rig: Rig) -> None:
    """On an open connection, whose heads are remembered."""
    replica, client = await warm(rig)
    for _ in range(3):
        assert said(await client.ask(get("/v2/health/ready")))[0] == 200
    rig.fleet(replica, name="digits", protocol="generic")
    for _ in range(3):
        assert (await client.ask(get("/v2/health/ready"))).get(b"x-switchyard-replica") == [b"d1"]
    rig.fleet(replica, name="digits", protocol="open-inference")
    assert said(await client.ask(get("/v2/health/ready")))[0] == 200


async def test_client_keys(rig: Rig) -> None:
    _, client = await warm(rig, default=False)
    rig.fleet(name="images", protocol="open-inference", default=False)
    key = "sy-" + "k" * 48
    rig.keys(SALT, {key_hash(salt_bytes(SALT), key.encode()): ["digits"]})
    assert (await client.ask(get("/v2/health/live"))).status == 401
    with_key = f"Authorization: Bearer {key}\r\n"
    # Of the fleets that the key opens: the other one, which is not ready, does not count.
    assert said(await client.ask(get("/v2/health/ready", with_key)))[0] == 200
    assert said(await client.ask(get("/v2/models/digits/ready", with_key)))[0] == 200
    for target in ("/v2/models/images/ready", "/fleets/images/v2/health/live"):
        assert (await client.ask(get(target, with_key))).status == 403
