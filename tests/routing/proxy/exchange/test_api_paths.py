"""Paths of the OpenAI API's servers besides the usual ones, and what is read of them."""

import json

import pytest

from routing.proxy import ProxySettings
from tests.routing.proxy.rig import OK_ANSWER, Replica, ReplicaConnection, Rig, Seen, StartRig, until

BARE = [
    *("/rerank", "/v2/rerank", "/score", "/classify", "/pooling", "/tokenize", "/detokenize"),
    *("/v2/embed", "/generative_scoring", "/rerank?x=1"),
]
USUAL = ["/v1/rerank", "/v1/score", "/v1/embeddings", "/v1/audio/speech", "/v1/moderations", "/v1/messages"]


def post(path: str, body: bytes, fields: bytes = b"") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {len(body)}\r\n".encode()
    return head + fields + b"\r\n" + body


def naming(model: str, **more: object) -> bytes:
    return json.dumps({"model": model, "query": "q", "documents": ["d"], **more}).encode()


class Fleets:
    def __init__(self, rig: Rig, ranker: Replica, own: Replica) -> None:
        self.rig, self.ranker, self.own = rig, ranker, own


async def fleets(rig: Rig, default: str = "generic") -> Fleets:
    """``ranker`` speaks the OpenAI API; the default fleet, ``own``, what is asked for."""
    ranker, own = await rig.replica("r1"), await rig.replica("o1")
    rig.fleet(ranker, name="ranker", protocol="openai", served_model="org/Ranker", aliases=("jina",))
    rig.fleet(own, name="own", protocol=default, default=True)  # type: ignore[arg-type]
    return Fleets(rig, ranker, own)


@pytest.mark.parametrize("path", [*BARE, *USUAL])
async def test_the_body_names_the_fleet(rig: Rig, path: str) -> None:
    some, client = await fleets(rig), await rig.client()
    for name in ("ranker", "jina"):
        assert (await client.ask(post(path, naming(name)))).get(b"x-switchyard-replica") == [b"r1"]
        assert some.ranker.requests[-1].line == f"POST {path} HTTP/1.1".encode()
        assert json.loads(some.ranker.requests[-1].body)["model"] == "org/Ranker"


@pytest.mark.parametrize("path", ["/rerank", "/v2/rerank", "/v1/rerank"])
async def test_work_is_the_length_of_what_is_ranked(rig: Rig, path: str) -> None:
    some, client = await fleets(rig), await rig.client()
    pool = rig.table.fleets["ranker"]
    works: list[float] = []

    async def note(connection: ReplicaConnection, seen: Seen) -> None:
        works.append(pool.replicas[0].work)
        connection.transport.write(OK_ANSWER)

    some.ranker.script = note
    body = naming("ranker", documents=["x" * 400] * 5)
    await client.ask(post(path, body))
    await client.ask(post(f"/fleets/ranker{path}", body))
    assert works == [len(body) / 4] * 2


@pytest.mark.parametrize("protocol", ["generic", "open-inference"])
@pytest.mark.parametrize(
    "body", [b'{"features": [1, 2]}', naming("of its own"), b"\x89PNG", b"[1]", b'{"model": 5}', b""]
)
async def test_a_default_fleet_of_another_protocol_keeps_its_own_paths(
    rig: Rig, protocol: str, body: bytes
) -> None:
    """What names no fleet there is its business, as it was written."""
    some, client = await fleets(rig, protocol), await rig.client()
    assert (await client.ask(post("/score", body))).get(b"x-switchyard-replica") == [b"o1"]
    assert some.own.requests[-1].body == body


async def test_a_large_body_on_a_path_of_its_own(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(peek_bytes=1000))
    some, client = await fleets(rig), await rig.client()
    body = naming("ranker", documents=["x" * 5000])
    client.send(post("/classify", body)[:2000])
    await until(lambda: some.own.connections)
    client.send(post("/classify", body)[2000:])
    assert (await client.answer()).get(b"x-switchyard-replica") == [b"o1"]
    assert some.own.requests[-1].body == body
    # Below /v1/ it stays an error, as does a default fleet that could mean the same by the path.
    other = await rig.client()
    other.send(post("/v1/rerank", body)[:2000])
    assert (await other.answer()).status == 413
    rig.fleet(some.own, name="own", protocol="openai", default=True)
    third = await rig.client()
    third.send(post("/classify", body)[:2000])
    assert (await third.answer()).status == 413


async def test_a_default_fleet_of_the_same_protocol_gets_what_names_nobody(rig: Rig) -> None:
    some, client = await fleets(rig, "openai"), await rig.client()
    assert (await client.ask(post("/rerank", b'{"query":"q","texts":[]}'))).status == 200
    assert len(some.own.requests) == 1
    answer = await client.ask(post("/rerank", naming("nobody")))
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (404, "model_not_found")
    answer = await client.ask(post("/v2/rerank", b"no json"))
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "bad_body")


async def test_other_paths_and_methods_are_nobodys_api(rig: Rig) -> None:
    some, client = await fleets(rig), await rig.client()
    for line in (b"GET /rerank", b"POST /rerank/x", b"PUT /v2/rerank", b"POST /v2/other"):
        body = naming("ranker")
        head = line + b" HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % len(body)
        assert (await client.ask(head + body)).get(b"x-switchyard-replica") == [b"o1"]
    assert some.ranker.requests == []


async def test_json_behind_blanks_is_put_right_too(rig: Rig) -> None:
    some, client = await fleets(rig), await rig.client()
    body = b'\r\n {"model": "jina", "x": 1}'
    for path in ("/v1/embeddings", "/fleets/ranker/v1/embeddings"):
        assert (await client.ask(post(path, body))).status == 200
        assert some.ranker.requests[-1].body == b'{"model":"org/Ranker","x":1}'
