"""Path prefixes of one host (multi-tenancy by path): a fleet opens nothing of another whose replica is
further down at the same host."""

import json

import pytest

from routing.contract.client_keys import key_hash, new_key, new_salt, salt_bytes
from tests.routing.proxy.rig import Answer, Client, Replica, Rig

ENTERING = [
    *("/q/v2/models/q/infer", "/q/shutdown", "/q/v2/repository/models/q/unload", "/q", "/q/", "/q?x=1"),
    *("//q/x", "/%71/x", "/%2571/x", "/q%2Fx", "/q%5Cx", "/q\\x", "/q;v=1/x", "/;x/q/x", "/Q/x", "/q%3Fx"),
    *("/q%00/x", "/q%0A/x", "/q//x"),
]
BESIDE = ["/qq/x", "/x/q", "/p/q/x", "/?q=/q/x", "/"]


async def ask(client: Client, path: str, fields: str = "", method: str = "POST") -> Answer:
    head = f"{method} {path} HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\n{fields}"
    return await client.ask(head.encode() + b"Content-Length: 2\r\n\r\n{}")


def code_of(answer: Answer) -> str:
    said = json.loads(answer.body)
    error = said.get("error", said)
    return str(error if isinstance(error, str) else error["code"])


async def neighbours(rig: Rig, expose: object, prefix: str = "") -> Replica:
    """Fleet ``p``, and ``q`` further down at the same server."""
    server = await rig.replica("server")
    rig.fleet(server, name="q", protocol="open-inference", expose="inference", prefix=f"{prefix}/q")
    rig.fleet(server, name="p", expose=expose, prefix=prefix)  # type: ignore[arg-type]
    return server


@pytest.mark.parametrize("prefix", ["", "/base/%70"])
async def test_a_key_opens_no_fleet_further_down(rig: Rig, prefix: str) -> None:
    server = await neighbours(rig, "inference", prefix)
    key, salt = new_key(), new_salt()
    rig.keys(salt, {key_hash(salt_bytes(salt), key.encode()): ["p"]})
    fields = f"Authorization: Bearer {key}\r\n"
    client = await rig.client()
    for path in ENTERING:
        for method in ("POST", "PUT"):
            answer = await ask(client, f"/fleets/p{path}", fields, method)
            assert (answer.status, "path_not_exposed" in answer.body.decode()) == (403, True), path
    for path in ENTERING[:3]:
        said = (await ask(client, f"/fleets/p{path}", fields)).body.decode()
        assert f"POST {path} leads" in said
        assert "expose: inference" in said
        assert "'q'" not in said
    assert not server.requests
    assert rig.table.fleets["p"].counters.not_exposed == 2 * len(ENTERING) + 3
    for path in BESIDE:
        assert (await ask(client, f"/fleets/p{path}", fields)).status == 200, path
        assert server.requests[-1].line.decode() == f"POST {prefix}{path} HTTP/1.1"
    # The fleet further down reaches its own, whatever is above.
    rig.keys(salt, {key_hash(salt_bytes(salt), key.encode()): ["q"]})
    assert (await ask(client, "/fleets/q/v2/models/q/infer", fields)).status == 200


async def test_below_what_is_open_to_all_openai_fleets(rig: Rig) -> None:
    server, client = await rig.replica("server"), await rig.client()
    rig.fleet(server, name="o", protocol="openai", expose="inference", prefix="/v1/o")
    rig.fleet(server, name="a", protocol="openai", expose="inference", served_model="m")
    for path in ("/v1/o/sleep", "/v1/o/v2/models/o/infer", "/v1/o/v1/chat/completions"):
        answer = await ask(client, f"/fleets/a{path}")
        assert (answer.status, code_of(answer)) == (403, "path_not_exposed"), path
    assert not server.requests
    rig.fleet(name="o", protocol="openai", expose="inference")
    assert (await ask(client, "/fleets/a/v1/o/x?model=m")).status == 200, "o has no replicas any more"


@pytest.mark.parametrize(
    ("listed", "path", "status"),
    [
        (["/x"], "/x/q", 403),
        (["/x"], "/x/y", 200),
        (["/x", "/x/q"], "/x/q/shutdown", 200),
        (["/x/q"], "/x/q/deep/shutdown", 403),
        (["/x/q/deep"], "/x/q/deep/shutdown", 200),
        (["/x/q/open"], "/x/q/open/y", 200),
        (["/x", "/x/q/open"], "/x/q/shutdown", 403),
    ],
)
async def test_a_list_opens_only_what_it_names(rig: Rig, listed: list[str], path: str, status: int) -> None:
    server, client = await rig.replica("server"), await rig.client()
    rig.fleet(server, name="q", expose="inference", prefix="/x/q")
    rig.fleet(server, name="deep", expose="inference", prefix="/x/q/deep")
    rig.fleet(server, name="p", expose=listed)  # type: ignore[arg-type]
    answer = await ask(client, f"/fleets/p{path}")
    assert answer.status == status
    assert len(server.requests) == (status == 200)


async def test_who_exposes_all_does_and_who_says_nothing_counts(rig: Rig) -> None:
    server, client = await neighbours(rig, "all"), await rig.client()
    assert (await ask(client, "/fleets/p/q/shutdown")).status == 200
    rig.fleet(server, name="p")
    for path in ("/q/shutdown", "/q/v2/models/q/infer", "/x"):
        assert (await ask(client, f"/fleets/p{path}")).status == 200
    counters = rig.table.fleets["p"].counters
    assert (counters.would_refuse, counters.not_exposed) == (2, 0)


async def test_a_fleet_without_such_neighbours_is_not_looked_at(rig: Rig) -> None:
    server = await rig.replica("server")
    rig.fleet(server, name="q", expose="inference", prefix="/q")
    rig.fleet(server, name="p", expose="inference", prefix="/p")
    assert all(rig.table.fleets[name].requires for name in "pq")
    rig.fleet(server, name="p", expose="inference")
    assert not rig.table.fleets["p"].requires
