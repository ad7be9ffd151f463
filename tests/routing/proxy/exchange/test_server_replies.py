"""What the Open Inference Protocol asks of a server, answered by the proxy for its fleets."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from routing.contract.client_keys import key_hash, salt_bytes
from routing.contract.table import KeyLimits, Match
from routing.proxy import ProxySettings
from tests.routing.proxy.rig import Answer, Client, Replica, Rig, StartRig

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
    """Where the request names one of them."""
    _, client = await warm(rig, default=False)
    other = await rig.replica("o1")
    rig.fleet(other, name="other", protocol="openai", match=(Match(host="other.test"),))
    for asked in (f"/fleets/other{target}", "/v2/models/other/ready"):
        assert (await client.ask(get(asked))).get(b"x-switchyard-replica") == [b"o1"]
    # A body that comes with such a question, and comes late, is passed on with it.
    client.send(get(f"/fleets/other{target}", "Content-Length: 5\r\n"))
    client.send(b"hello")
    assert (await client.answer()).get(b"x-switchyard-replica") == [b"o1"]
    assert other.requests[-1].body == b"hello"
    # What names the fleet outside the path names it here, too.
    field = "X-Switchyard-Fleet: digits\r\n"
    assert said(await client.ask(get("/v2/health/ready", field)))[0] == 200
    field = "X-Switchyard-Fleet: other\r\n"
    assert (await client.ask(get(target, field))).get(b"x-switchyard-replica") == [b"o1"]
    matched = get(target).replace(b"a.test", b"other.test")
    assert (await client.ask(matched)).get(b"x-switchyard-replica") == [b"o1"]


async def test_a_body_that_decides_is_waited_for_in_these_requests_as_well(rig: Rig) -> None:
    """The fleet declares its models' names, and a body may have others."""
    replica, client = await rig.replica("o1"), await rig.client()
    rig.fleet(replica, name="other", protocol="openai", served_model="m", expose="inference")
    asked = "/fleets/other/v2/health/ready"
    for body, status in ((b'{"model":"m"}', 200), (b'{"model":"x"}', 403)):
        client.send(get(asked, f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"))
        client.send(body[:5])
        client.send(body[5:])
        assert (await client.answer()).status == status
    assert [seen.body for seen in replica.requests] == [b'{"model":"m"}']


PATHS = ["/v2", "/v2/health/live", "/v2/health/ready"]


@pytest.mark.parametrize("protocol", ["openai", "generic", "open-inference"])
async def test_the_server_is_the_proxy_s_whatever_the_default_fleet_is(rig: Rig, protocol: str) -> None:
    await warm(rig, default=False)
    default = await rig.replica("o1")
    rig.fleet(default, name="other", protocol=protocol)  # type: ignore[arg-type]
    client = await rig.client()
    for path in PATHS:
        assert said(await client.ask(get(path)))[0] == 200
    names = ["digits", "numbers"] + ["other"] * (protocol == "open-inference")
    assert [model["name"] for model in await index(client)] == names
    health(rig, "digits", **COLD)
    assert said(await client.ask(get("/v2/health/ready")))[0] == (
        200 if protocol == "open-inference" else 503
    )
    assert not default.requests
    # Nor is what is asked wrongly a matter of the default fleet.
    for method, path in (("POST", "/v2"), ("DELETE", "/v2/health/ready"), ("GET", "/v2/repository/index")):
        answer = await client.ask(get(path, method=method))
        allowed = b"POST, OPTIONS" if method == "GET" else b"GET, HEAD, OPTIONS"
        assert (answer.status, answer.get(b"allow")) == (405, [allowed])
        assert list(json.loads(answer.body)) == ["error"]
    assert (await client.ask(get("/v2/repository/index", method="HEAD"))).status == 405
    assert not default.requests


async def test_options_go_where_those_of_other_paths_go(rig: Rig) -> None:
    _, client = await warm(rig, default=False)
    for path in ("/x", *PATHS, "/v2/repository/index"):
        assert (await client.ask(get(path, method="OPTIONS"))).status == 404
        here = await client.ask(get(path, "Max-Forwards: 0\r\n", method="OPTIONS"))
        assert (here.status, here.body) == (200, b"")
    default = await rig.replica("o1")
    rig.fleet(default, name="other", protocol="openai", expose="inference")
    for path in (*PATHS, "/v2/repository/index", "/fleets/other/v2/repository/index"):
        answer = await client.ask(get(path, method="OPTIONS"))
        assert answer.get(b"x-switchyard-replica") == [b"o1"], path
    rig.fleet(default, name="other", protocol="openai", expose=["/v1"])
    for path in (*PATHS, "/v2/repository/index"):
        assert (await client.ask(get(path, method="OPTIONS"))).status == 403


async def test_the_server_is_ready_when_any_of_its_fleets_is(rig: Rig) -> None:
    _, client = await warm(rig)
    rig.fleet(await rig.replica("i1"), name="images", protocol="open-inference", default=False)
    rig.fleet(name="chat", protocol="openai", default=False)
    both = {"live": True, "ready": True}
    assert said(await client.ask(get("/v2/health/ready"))) == (200, both)
    health(rig, "digits", **COLD)
    assert said(await client.ask(get("/v2/health/ready"))) == (200, both)
    health(rig, "images", **COLD)
    status, body = said(await client.ask(get("/v2/health/ready")))
    why = [f"1 replica of fleet {name}: 1 checking; {LOADS}" for name in ("digits", "images")]
    assert (status, body["error"]) == (503, "; ".join(why))  # type: ignore[index]
    assert said(await client.ask(get("/v2/models/digits/ready")))[0] == 503


async def test_many_fleets_give_a_few_reasons(rig: Rig) -> None:
    for number in range(8):
        rig.fleet(name=f"f{number}", protocol="open-inference")
    client = await rig.client()
    status, body = said(await client.ask(get("/v2/health/ready")))
    assert status == 503
    assert str(body["error"]).count("fleet f") == 5  # type: ignore[index]
    assert str(body["error"]).endswith("; and 3 more fleets")  # type: ignore[index]


async def test_without_any_v2_fleet_it_is_live_and_not_ready(rig: Rig) -> None:
    rig.fleet(name="chat", protocol="openai")
    client = await rig.client()
    assert said(await client.ask(get("/v2/health/live"))) == (200, {"live": True})
    words = "no fleet of the Open Inference Protocol is here for this client"
    not_ready = {"live": True, "ready": False, "error": words}
    assert said(await client.ask(get("/v2/health/ready"))) == (503, not_ready)
    assert await index(client) == []


async def test_nobody_who_could_be_meant(rig: Rig) -> None:
    rig.fleet(name="chat", protocol="openai", default=False)
    client = await rig.client()
    for target in ("/v2/models/nope/ready", "/fleets/nope/v2/health/live", "/v2/health/other"):
        answer = await client.ask(get(target))
        assert (answer.status, list(json.loads(answer.body))) == (404, ["error"])


# --- the index -----------------------------------------------------------------------------------------


def post_index(body: bytes = b"", fields: str = "", prefix: str = "") -> bytes:
    head = f"{fields}Content-Length: {len(body)}\r\n"
    return get(f"{prefix}/v2/repository/index", head, method="POST") + body


async def index(client: Client, body: bytes = b"", fields: str = "", prefix: str = "") -> list[Any]:
    status, models = said(await client.ask(post_index(body, fields, prefix)))
    assert status == 200
    assert isinstance(models, list)
    return models


async def test_the_index_has_all_names_with_their_state(rig: Rig) -> None:
    _, client = await warm(rig)
    rig.fleet(await rig.replica("i1"), name="images", protocol="open-inference", adapters=("faces",))
    rig.fleet(name="empty", protocol="open-inference")
    rig.fleet(await rig.replica("o1"), name="chat", protocol="openai")
    health(rig, "images", **COLD)
    ready = [{"name": name, "state": "READY", "reason": ""} for name in ("digits", "numbers")]
    why = f"1 replica of fleet images: 1 checking; {LOADS}"
    loads = [{"name": name, "state": "LOADING", "reason": why} for name in ("faces", "images")]
    none = [{"name": "empty", "state": "UNAVAILABLE", "reason": "fleet empty has no replicas"}]
    every = sorted([*ready, *loads, *none], key=lambda model: model["name"])
    for body in (b"", b"{}", b'{"ready": false}'):
        assert await index(client, body) == every
    assert await index(client, b'{"ready": true}') == ready


async def test_a_body_of_the_index_that_comes_late(rig: Rig) -> None:
    _, client = await warm(rig)
    rig.fleet(name="empty", protocol="open-inference")
    body = b'{"ready": true}'
    whole = post_index(body)
    for cut in (len(whole) - len(body), len(whole) - 3):
        client.send(whole[:cut])
        client.send(whole[cut:])
        answer = await client.answer()
        assert [model["name"] for model in json.loads(answer.body)] == ["digits", "numbers"]
    client.send(get("/v2/repository/index", "Transfer-Encoding: chunked\r\n", "POST"))
    client.send(b"f\r\n" + body + b"\r\n")
    client.send(b"0\r\n\r\n")
    assert len(json.loads((await client.answer()).body)) == 2


@pytest.mark.parametrize("body", [b"x", b'{"ready": 1}', b'{"ready": true', b"[]", b"\xff"])
async def test_a_body_that_asks_nothing_is_refused(rig: Rig, body: bytes) -> None:
    _, client = await warm(rig)
    for prefix in ("", "/fleets/own"):
        rig.fleet(await rig.replica("m1"), name="own", protocol="open-inference", **OWN)
        answer = await client.ask(post_index(body, prefix=prefix))
        assert (answer.status, list(json.loads(answer.body))) == (400, ["error"])


async def test_a_large_body_of_the_index_is_refused(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(peek_bytes=1000))
    await warm(rig)
    client = await rig.client()
    client.send(post_index(b" " * 2000)[:-1])
    answer = await client.answer()
    assert (answer.status, list(json.loads(answer.body))) == (413, ["error"])


OWN: dict[str, Any] = {"served_model": "m", "adapters": ("extra",), "expose": "inference"}
"""The names that requests may have are known, and no others are open."""


async def test_the_index_of_a_named_fleet_is_its_replicas_where_all_their_models_are_open(rig: Rig) -> None:
    replica, client = await warm(rig)
    for expose in (None, "all"):
        rig.fleet(replica, name="digits", protocol="open-inference", served_model="m", expose=expose)  # type: ignore[arg-type]
        answer = await client.ask(post_index(b'{"ready": true}', prefix="/fleets/digits"))
        assert answer.get(b"x-switchyard-replica") == [b"d1"]
        assert replica.requests[-1].line == b"POST /v2/repository/index HTTP/1.1"
        assert replica.requests[-1].body == b'{"ready": true}'
    whole = post_index(b'{"ready": true}', "X-Switchyard-Fleet: digits\r\n")
    client.send(whole[:-5])
    client.send(whole[-5:])
    assert (await client.answer()).get(b"x-switchyard-replica") == [b"d1"]
    assert replica.requests[-1].body == b'{"ready": true}'
    # Nothing would change for such a request with ``expose: inference``.
    assert rig.table.fleets["digits"].counters.would_refuse == 0


async def test_the_index_of_a_named_fleet_has_no_models_of_others(rig: Rig) -> None:
    replica, client = await rig.replica("m1"), await rig.client()
    rig.fleet(replica, name="own", protocol="open-inference", **OWN)
    names = [{"name": name, "state": "READY", "reason": ""} for name in ("extra", "m")]
    assert await index(client, prefix="/fleets/own") == names
    whole = post_index(b'{"ready": true}', prefix="/fleets/own")
    client.send(whole[:-5])
    client.send(whole[-5:])
    assert json.loads((await client.answer()).body) == names
    health(rig, "own", **COLD)
    assert [model["state"] for model in await index(client, prefix="/fleets/own")] == ["LOADING"] * 2
    assert await index(client, b'{"ready":true}', prefix="/fleets/own") == []
    assert (await client.ask(get("/fleets/own/v2/repository/index"))).status == 405
    for path in (
        "/v2//repository/index",
        "/v2/repository%2Findex",
        "/v2/repository/index/",
        "/v2/%72epository/index",
    ):
        for method in ("GET", "POST"):
            assert (await client.ask(get(f"/fleets/own{path}", method=method))).status in (400, 403), path
    rig.fleet(replica, name="few", protocol="open-inference", **{**OWN, "expose": ["/v2/models"]})
    assert (await client.ask(post_index(prefix="/fleets/few"))).status == 403
    assert not replica.requests


async def test_a_fleet_that_becomes_another_is_asked_anew(rig: Rig) -> None:
    """On an open connection, whose heads are remembered."""
    replica, client = await warm(rig)
    for _ in range(3):
        assert said(await client.ask(get("/v2/health/ready")))[0] == 200
    rig.fleet(replica, name="digits", protocol="generic")
    for _ in range(3):
        answer = await client.ask(get("/fleets/digits/v2/health/ready"))
        assert answer.get(b"x-switchyard-replica") == [b"d1"]
        assert said(await client.ask(get("/v2/health/ready")))[0] == 503
    rig.fleet(replica, name="digits", protocol="open-inference")
    assert said(await client.ask(get("/v2/health/ready")))[0] == 200


KEYS = {name: f"sy-{name * 48}" for name in "abc"}


async def test_client_keys(rig: Rig) -> None:
    """Each hears of the fleets that its key opens, whatever the default fleet is."""
    _, client = await warm(rig)
    rig.fleet(name="images", protocol="open-inference", default=False)
    rig.fleet(await rig.replica("o1"), name="chat", protocol="openai", default=False)
    opened = {"a": ["digits"], "b": ["images", "chat"], "c": ["chat"]}
    rig.keys(SALT, {key_hash(salt_bytes(SALT), KEYS[name].encode()): list(opened[name]) for name in opened})
    fields = {name: f"Authorization: Bearer {key}\r\n" for name, key in KEYS.items()}

    for path in PATHS:
        for wrong in ("", f"Authorization: Bearer sy-{'x' * 48}\r\n"):
            answer = await client.ask(get(path, wrong))
            assert (answer.status, list(json.loads(answer.body))) == (401, ["error"])
    assert (await client.ask(post_index())).status == 401

    names = {name: [model["name"] for model in await index(client, fields=fields[name])] for name in KEYS}
    assert names == {"a": ["digits", "numbers"], "b": ["images"], "c": []}
    ready = {name: said(await client.ask(get("/v2/health/ready", fields[name]))) for name in KEYS}
    assert [status for status, _ in ready.values()] == [200, 503, 503]
    assert "digits" not in json.dumps(ready)
    for name in KEYS:
        assert said(await client.ask(get("/v2/health/live", fields[name])))[0] == 200

    assert said(await client.ask(get("/v2/models/digits/ready", fields["a"])))[0] == 200
    for target in ("/v2/models/images/ready", "/fleets/images/v2/health/live"):
        assert (await client.ask(get(target, fields["a"]))).status == 403
    assert (await client.ask(post_index(fields=fields["b"], prefix="/fleets/digits"))).status == 403


async def test_what_the_proxy_answers_for_itself_uses_up_no_limit(rig: Rig) -> None:
    _, client = await warm(rig)
    hashed = key_hash(salt_bytes(SALT), KEYS["a"].encode())
    rig.keys(SALT, {hashed: ["digits"]}, {hashed: KeyLimits(id="a", requests_per_minute=1)})
    field = f"Authorization: Bearer {KEYS['a']}\r\n"
    for _ in range(3):
        for path in PATHS:
            assert (await client.ask(get(path, field))).status == 200
        await index(client, fields=field)
    assert (await client.ask(get("/v2/models/digits", field))).status == 200
    assert (await client.ask(get("/v2/models/digits", field))).status == 429
