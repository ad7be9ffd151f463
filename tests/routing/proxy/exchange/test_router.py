"""How a request finds its fleet, what the proxy answers itself, and in which words it refuses."""

import asyncio
import json

import pytest
from msgspec.structs import replace

from routing.contract.body_settings import BodySettings
from routing.contract.policy import Policy, Timeouts
from routing.contract.sketch import value_of
from routing.contract.table import Match
from routing.proxy import ProxySettings
from tests.routing.proxy.exchange.three_fleets import chat, chunked, fleets, request, said_by, to
from tests.routing.proxy.rig import Client, Replica, Rig, StartRig, answer_bytes, until


async def test_model_in_the_body(rig: Rig) -> None:
    some = await fleets(rig)
    client = await rig.client()
    assert said_by(await client.ask(chat("tiny"))) == b"t1"
    assert said_by(await client.ask(chat("big"))) == b"b1"
    # Unchanged where nothing demands a change.
    assert some.tiny.requests[0].body == b'{"model": "tiny"}'
    # The name that replicas expect, and every other byte as it was.
    assert some.big.requests[0].body == b'{"model":"org/Big-8B"}'
    assert some.big.requests[0].get(b"content-length") == [b"22"]


async def test_alias_in_the_body(rig: Rig) -> None:
    some = await fleets(rig)
    client = await rig.client()
    body = b'{"temperature": 1.0, "model" : "small model","messages":[{"model":"x", "n": 1e2}]}'
    assert said_by(await client.ask(request(b"POST /v1/completions", body))) == b"t1"
    expected = b'{"temperature":1.0,"model":"tiny","messages":[{"model":"x", "n": 1e2}]}'
    assert some.tiny.requests[0].body == expected


async def test_an_adapters_name_reaches_its_replicas_as_it_was_written(rig: Rig) -> None:
    """However the fleet is found; beside it names and aliases are put right as ever."""
    some = await fleets(rig)
    names = {"aliases": ("chat",), "adapters": ("sql", "org/Support LoRA")}
    rig.fleet(some.tiny, name="tiny", protocol="openai", served_model="org/Tiny", **names)
    client = await rig.client()
    body = b'{ "model": "org/Support LoRA","messages":[]}'
    field = b"X-Switchyard-Fleet: tiny\r\n"
    for each in (
        request(b"POST /v1/chat/completions", body),
        request(b"POST /fleets/tiny/v1/chat/completions", body),
        request(b"POST /fleets/sql/v1/chat/completions", body),
        request(b"POST /v1/chat/completions", body, field),
    ):
        assert said_by(await client.ask(each)) == b"t1"
        assert some.tiny.requests[-1].body == body
    for model in (b"chat", b"tiny"):
        await client.ask(request(b"POST /v1/completions", b'{"model":"%b"}' % model))
        assert some.tiny.requests[-1].body == b'{"model":"org/Tiny"}'
    await client.ask(request(b"POST /v2/models/sql/infer", b"{}"))
    assert some.tiny.requests[-1].line == b"POST /v2/models/sql/infer HTTP/1.1"
    await client.ask(request(b"POST /v2/models/chat/infer", b"{}"))
    assert some.tiny.requests[-1].line == b"POST /v2/models/org%2FTiny/infer HTTP/1.1"
    listed = json.loads((await client.ask(request(b"GET /v1/models"))).body)["data"]
    assert [model["id"] for model in listed] == [
        "big",
        "chat",
        "org/Support LoRA",
        "small model",
        "sql",
        "tiny",
    ]
    assert (await client.ask(request(b"GET /v1/models/org%2FSupport%20LoRA"))).status == 200
    unknown = await client.ask(chat("nope"))
    assert b"org/Support LoRA, small model, sql" in unknown.body


async def test_an_adapter_that_is_taken_away_is_unknown(rig: Rig) -> None:
    replica = await rig.replica("t1")
    rig.fleet(replica, name="tiny", protocol="openai", adapters=("sql",))
    client = await rig.client()
    assert said_by(await client.ask(chat("sql"))) == b"t1"
    manifest = rig.table.manifest
    rig.table.apply_manifest(replace(manifest, version=manifest.version + 1, adapters={}))
    assert (await client.ask(chat("sql"))).status == 404


async def test_chunked_body_is_sent_with_its_length(rig: Rig) -> None:
    some = await fleets(rig)
    client = await rig.client()
    chunks = b'9\r\n{"model":\r\n7\r\n"chat"}\r\n0\r\n\r\n'
    client.send(request(b"POST /v1/completions", b"", b"Transfer-Encoding: chunked\r\n") + chunks)
    assert said_by(await client.answer()) == b"t1"
    assert some.tiny.requests[0].body == b'{"model":"tiny"}'
    assert some.tiny.requests[0].get(b"transfer-encoding") == []


async def test_body_that_arrives_in_pieces(rig: Rig) -> None:
    some = await fleets(rig)
    client = await rig.client()
    await client.send_bytewise(chat("tiny", messages=["hello"]))
    assert said_by(await client.answer()) == b"t1"
    assert json.loads(some.tiny.requests[0].body) == {"model": "tiny", "messages": ["hello"]}


async def test_time_that_a_client_takes_to_send_is_not_the_replicas(rig: Rig) -> None:
    """Neither in what is learned of the replica nor against the limit of its first byte."""
    replica = await rig.replica()
    policy = Policy(strategy="round_robin", slow_start_s=0, timeouts=Timeouts(first_byte_s=0.2))
    rig.fleet(replica, protocol="openai", policy=policy)
    client = await rig.client()
    whole = chat("f", stream=True)
    client.send(whole[:-3])
    await asyncio.sleep(0.4)
    client.send(whole[-3:])
    assert said_by(await client.answer()) == b"r0"
    (bucket,) = rig.table.fleets["f"].replicas[0].latency
    assert value_of(bucket) < 0.3


async def test_multipart_body(rig: Rig) -> None:
    await fleets(rig)
    client = await rig.client()
    body = (
        b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n\x00\xff--xy\r\n'
        b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nbig\r\n--xyz--\r\n'
    )
    fields = b'Content-Type: multipart/form-data; boundary="xyz"\r\n'
    assert said_by(await client.ask(request(b"POST /v1/audio/transcriptions", body, fields))) == b"b1"


async def test_path_names_the_fleet(rig: Rig) -> None:
    some = await fleets(rig)
    client = await rig.client()
    assert said_by(await client.ask(request(b"GET /fleets/big/v1/models?x=1"))) == b"b1"
    assert some.big.requests[0].line == b"GET /v1/models?x=1 HTTP/1.1"
    assert said_by(await client.ask(request(b"GET /fleets/numbers"))) == b"d1"
    assert some.digits.requests[0].line == b"GET / HTTP/1.1"
    assert said_by(await client.ask(request(b"GET /fleets/numbers?a=/b"))) == b"d1"
    assert some.digits.requests[1].line == b"GET /?a=/b HTTP/1.1"


async def test_the_model_in_the_body_is_put_right_where_the_head_names_the_fleet(rig: Rig) -> None:
    """However it is named: servers that check the model answer 404 to the fleet's name."""
    some = await fleets(rig)
    host = Match(host="big.test")
    big = {"protocol": "openai", "served_model": "org/Big-8B", "aliases": ("huge",), "match": (host,)}
    rig.fleet(some.big, name="big", default=False, **big)  # type: ignore[arg-type]
    client = await rig.client()
    for model in ("big", "huge"):
        body = json.dumps({"model": model, "n": 1}).encode()
        for ask in (
            request(b"POST /fleets/big/v1/chat/completions", body),
            request(b"POST /fleets/huge/v1/completions", body),
            request(b"POST /v1/embeddings", body, b"X-Switchyard-Fleet: big\r\n"),
            to(b"big.test", b"POST /api/chat", body),
        ):
            assert said_by(await client.ask(ask)) == b"b1"
            assert some.big.requests[-1].body == b'{"model":"org/Big-8B","n":1}'
            assert some.big.requests[-1].get(b"content-length") == [b"28"]
    # An alias is no name of the replicas either; the default fleet takes what names none.
    for line, name in ((b"POST /fleets/chat/v1/completions", b"chat"), (b"POST /api/chat", b"small model")):
        assert said_by(await client.ask(request(line, b'{"model":"%b"}' % name))) == b"t1"
    assert [seen.body for seen in some.tiny.requests] == [b'{"model":"tiny"}'] * 2


async def test_what_is_not_the_fleets_own_name_stays_as_it_came(rig: Rig) -> None:
    some = await fleets(rig)
    client = await rig.client()
    for body in (
        b'{"model": "org/Big-8B"}',
        b'{"model": "an-adapter"}',
        b'{"model": "tiny"}',
        b'{"n" : 1}',
        b'{"model": 5}',
        b'{"model": "big"',
        b'[{"model": "big"}]',
    ):
        assert said_by(await client.ask(request(b"POST /fleets/big/v1/completions", body))) == b"b1"
        assert some.big.requests[-1].body == body
    assert said_by(await client.ask(request(b"PUT /fleets/big/v1/x", b'{"model": "org/Big-8B"}'))) == b"b1"


async def test_the_model_in_a_large_body_is_put_right(rig: Rig) -> None:
    """Too large to wait for, were it not for its name; with its length, in chunks, and in pieces."""
    some = await fleets(rig)
    client = await rig.client()
    body = b'{"model": "big", "x": "%b"}' % (b"y" * 100_000)
    expected = b'{"model":"org/Big-8B","x":"%b"}' % (b"y" * 100_000)
    plain = request(b"POST /fleets/big/v1/completions", body)
    head, _, whole = chunked(body).partition(b"\r\n\r\n")
    in_chunks = head.replace(b"/v1", b"/fleets/big/v1") + b"\r\n\r\n" + whole
    for ask in (plain, in_chunks):
        cut = ask.index(b"\r\n\r\n") + 4
        for first in (cut, cut + 1, cut + 90_000, len(ask)):
            client.send(ask[:first])
            if first < len(ask):
                await until(lambda: not rig.proxy.idle())
                if first > cut + 1:
                    await until(lambda: rig.proxy.bodies.used > 80_000)
                client.send(ask[first:])
            assert said_by(await client.answer()) == b"b1"
            seen = some.big.requests[-1]
            assert seen.body == expected
            assert seen.get(b"content-length") == [b"%d" % len(expected)]
            assert seen.get(b"transfer-encoding") == []
    assert len(some.big.requests) == 8


async def test_a_body_too_large_to_wait_for_streams_through_as_it_is(start_rig: StartRig) -> None:
    """Where the head names the fleet; the replica has the beginning while the end is unsent."""
    rig = await start_rig(ProxySettings(peek_bytes=1000))
    some = await fleets(rig)
    body = b'{"model": "big", "x": "%b"}' % (b"y" * 100_000)
    fields = (b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked")
    for number, field in enumerate(fields, 1):
        client, wanted = await rig.client(), 90_000 * number
        client.send(b"POST /fleets/big/v1/completions HTTP/1.1\r\nHost: a.test\r\n" + field + b"\r\n\r\n")
        if b"chunked" in field:
            client.send(b"%x\r\n" % len(body))
        client.send(body[:500])
        client.send(body[500:-1])
        await until(lambda wanted=wanted: sum(len(one.received) for one in some.big.connections) > wanted)
        client.send(body[-1:] + (b"\r\n0\r\n\r\n" if b"chunked" in field else b""))
        assert said_by(await client.answer()) == b"b1"
        assert some.big.requests[-1].body == body
    assert rig.proxy.bodies.used == 0


async def test_v2_path_names_the_fleet(rig: Rig) -> None:
    some = await fleets(rig)
    client = await rig.client()
    body = b'{"inputs": [{"name": "x", "shape": [2, 64], "datatype": "FP32", "data": []}]}'
    assert said_by(await client.ask(request(b"POST /v2/models/digits/infer", body))) == b"d1"
    assert said_by(await client.ask(request(b"POST /v2/models/numbers/versions/1/infer?x", body))) == b"d1"
    assert said_by(await client.ask(request(b"GET /v2/models/big"))) == b"b1"
    assert [seen.line.split()[1] for seen in some.digits.requests] == [
        b"/v2/models/digits/infer",
        b"/v2/models/digits/versions/1/infer?x",
    ]
    assert some.big.requests[0].line == b"GET /v2/models/org%2FBig-8B HTTP/1.1"


async def test_field_names_the_fleet(rig: Rig) -> None:
    some = await fleets(rig)
    client = await rig.client()
    ask = request(b"POST /v1/embeddings", b"not json", b"X-Switchyard-Fleet: big\r\n")
    assert said_by(await client.ask(ask)) == b"b1"
    assert some.big.requests[0].body == b"not json"
    assert some.big.requests[0].get(b"x-switchyard-fleet") == []


async def test_default_takes_what_names_no_fleet(rig: Rig) -> None:
    await fleets(rig)
    client = await rig.client()
    assert said_by(await client.ask(request(b"GET /metrics"))) == b"t1"
    assert said_by(await client.ask(request(b"POST /v1/completions", b"{}"))) == b"t1"


async def test_no_default(rig: Rig) -> None:
    await fleets(rig, default=False)
    client = await rig.client()
    answer = await client.ask(request(b"GET /metrics"))
    assert answer.status == 404
    assert answer.get(b"content-type") == [b"application/problem+json"]
    assert "there is no default fleet; known: big, chat, digits" in json.loads(answer.body)["detail"]
    answer = await client.ask(request(b"POST /v1/completions", b"{}"))
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "model_missing")


@pytest.mark.parametrize("path", ["/v1/completions", "/rerank"])
async def test_a_generic_fleet_is_named_where_bodies_name_models(rig: Rig, path: str) -> None:
    replica = await rig.replica("g1")
    rig.fleet(replica, name="any", protocol="generic", default=False)
    client = await rig.client()
    line = f"POST {path}".encode()
    answer = await client.ask(request(line, b"{}"))
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "model_missing")
    assert said_by(await client.ask(request(f"POST /fleets/any{path}".encode(), b"{}"))) == b"g1"
    assert said_by(await client.ask(request(line, b"{}", b"X-Switchyard-Fleet: any\r\n"))) == b"g1"
    rig.fleet(replica, name="any", protocol="generic", default=True)
    assert said_by(await client.ask(request(line, b"{}"))) == b"g1"


async def test_unknown_names_are_answered_in_the_callers_shape(rig: Rig) -> None:
    await fleets(rig)
    client = await rig.client()
    answer = await client.ask(chat("nope"))
    error = json.loads(answer.body)["error"]
    assert answer.status == 404
    assert error == {
        "message": "there is no fleet or alias named 'nope' here; "
        "known: big, chat, digits, numbers, small model, tiny",
        "type": "invalid_request_error",
        "code": "model_not_found",
        "param": None,
    }
    answer = await client.ask(request(b"POST /v2/models/nope/infer", b"{}"))
    assert (answer.status, list(json.loads(answer.body))) == (404, ["error"])
    answer = await client.ask(request(b"GET /fleets/nope/x"))
    problem = json.loads(answer.body)
    assert (answer.status, problem["status"], problem["title"]) == (404, 404, "Not Found")
    answer = await client.ask(request(b"HEAD /fleets/nope/x"))
    assert (answer.status, answer.body) == (404, b"")
    # The connection is as good as before.
    assert said_by(await client.ask(chat("tiny"))) == b"t1"
    assert rig.proxy.rejected == 4


DEEP = b'{"model": "%b", "a": ' + b"[" * 5000 + b"]" * 5000 + b"}"
UNREADABLE = (b'{"model": "\xff"}', b'{"model": "chat", "\xff": 1}', DEEP % b"chat", DEEP % b"tiny")
"""Not UTF-8, or nested too deeply: where the name is looked for, and where it is put right."""


async def test_bodies_that_are_no_question(rig: Rig) -> None:
    await fleets(rig)
    client = await rig.client()
    for body in (b"[]", b"{", b'{"model": 5}', b"\xff", *UNREADABLE):
        for path in (b"/v1/completions", b"/v1/responses"):
            answer = await client.ask(request(b"POST " + path, body))
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "bad_body")
    assert rig.proxy.clients == 1


async def test_a_v2_body_that_cannot_be_read_is_the_replicas_to_judge(rig: Rig) -> None:
    await fleets(rig)
    client = await rig.client()
    for body in (b'{"inputs": [{"shape": ["\xff"]}]}', b'{"text_input": "\xff"}', DEEP % b"numbers"):
        for path in (b"infer", b"generate"):
            assert (await client.ask(request(b"POST /v2/models/numbers/" + path, body))).status == 200
    assert rig.proxy.clients == 1


async def test_encoded_body(rig: Rig) -> None:
    await fleets(rig, default=False)
    client = await rig.client()
    gzip = request(b"POST /v1/completions", b"\x1f\x8b123", b"Content-Encoding: gzip\r\n")
    answer = await client.ask(gzip)
    assert answer.status == 415
    assert b"/fleets/{name}/v1/" in answer.body


async def test_model_list(rig: Rig) -> None:
    await fleets(rig)
    client = await rig.client()
    answer = await client.ask(request(b"GET /v1/models"))
    listed = json.loads(answer.body)
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["big", "chat", "small model", "tiny"]
    assert json.loads((await client.ask(request(b"GET /v1/models/tiny"))).body)["id"] == "tiny"
    assert json.loads((await client.ask(request(b"GET /v1/models/small%20model"))).body)["object"] == "model"
    assert (await client.ask(request(b"GET /v1/models/digits"))).status == 404
    assert (await client.ask(request(b"HEAD /v1/models"))).status == 200


async def test_body_too_large_to_search(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(peek_bytes=1000, bodies=BodySettings(memory_bytes=2000)))
    some = await fleets(rig)
    for body in (chat("tiny", x="y" * 2000), chunked(b"y" * 2000)):
        client = await rig.client()
        answer = await client.ask(body[:1500])
        error = json.loads(answer.body)["error"]
        assert (answer.status, error["code"]) == (413, "body_too_large_to_search")
        assert "X-Switchyard-Fleet" in error["message"]
        assert await client.ends() == b""
    client = await rig.client()
    large = request(b"POST /fleets/tiny/v1/completions", b"y" * 2000)
    assert said_by(await client.ask(large)) == b"t1"
    assert len(some.tiny.requests) == 1


async def test_budget_for_searched_bodies(start_rig: StartRig) -> None:
    """Many large bodies at once: the one too many is told to try again."""
    rig = await start_rig(ProxySettings(bodies=BodySettings(memory_bytes=1500)))
    await fleets(rig)
    body = chat("tiny", x="y" * 1000)
    first, second = await rig.client(), await rig.client()
    first.send(body[:-5])
    await until(lambda: rig.proxy.bodies.used > 900)
    second.send(body[:-5])
    answer = await second.answer()
    assert (answer.status, answer.get(b"retry-after")) == (503, [b"1"])
    first.send(body[-5:])
    assert said_by(await first.answer()) == b"t1"
    assert rig.proxy.bodies.used == 0


async def test_nobody_eligible(rig: Rig) -> None:
    rig.fleet(protocol="openai")
    client = await rig.client()
    answer = await client.ask(chat("f"))
    assert answer.status == 503
    assert json.loads(answer.body)["error"]["type"] == "server_error"
    counters = rig.table.fleets["f"].counters
    assert (counters.requests, counters.no_replica, counters.errors) == (1, 1, 1)


@pytest.mark.row("F14")
async def test_a_proxy_before_itself(start_rig: StartRig) -> None:
    """F14: the first hop back is refused."""
    rig = await start_rig(ProxySettings(idle_connection_s=0.1))
    client = await rig.client()
    proxy = Replica("loop")
    proxy.port = rig.port
    rig.fleet(proxy)
    answer = await client.ask(request(b"GET /x"))
    assert answer.status == 508
    assert rig.table.fleets["f"].counters.requests == 1


async def test_what_clients_are_told(rig: Rig, client: Client, replica: Replica) -> None:
    replica.script = answer_bytes(
        b"HTTP/1.1 200 OK\r\nX-Request-Id: theirs\r\nx-switchyard-replica: other\r\nContent-Length: 0\r\n\r\n"
    )
    answer = await client.ask(request(b"GET /x", b"", b"X-Request-Id: mine\r\n"))
    assert answer.get(b"x-request-id") == [b"mine"]
    assert answer.get(b"x-switchyard-replica") == [b"r0"]
    assert answer.get(b"via") == [b"1.1 switchyard"]
    ids = set()
    for _ in range(3):
        answer = await client.ask(request(b"GET /x"))
        (given,) = answer.get(b"x-request-id")
        assert replica.requests[-1].get(b"x-request-id") == [given]
        ids.add(given)
    assert len(ids) == 3


async def test_path_prefix_of_a_replica(rig: Rig, client: Client, replica: Replica) -> None:
    snapshot = rig.table.fleets["f"].snapshot
    spec = replace(snapshot.replicas[0], url=snapshot.replicas[0].url + "/base", uid="other")
    rig.table.apply_snapshot(replace(snapshot, version=snapshot.version + 1, replicas=[spec]))
    assert (await client.ask(request(b"GET /x?y"))).status == 200
    assert replica.requests[0].line == b"GET /base/x?y HTTP/1.1"


async def test_counters(rig: Rig, client: Client, replica: Replica) -> None:
    for status in (200, 404, 429, 500, 503):
        replica.script = answer_bytes(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status)
        assert (await client.ask(request(b"GET /x"))).status == status
    pool = rig.table.fleets["f"]
    counters, one = pool.counters, pool.replicas[0]
    assert (counters.requests, counters.answered, counters.errors) == (5, 5, 2)
    assert (one.picked, one.succeeded, one.outcomes.client_errors, one.outcomes.rejected, one.failed) == (
        5,
        1,
        1,
        1,
        2,
    )
    assert sum(counters.latency.values()) == 5
