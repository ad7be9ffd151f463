"""A fleet that exposes less than before ends its requests in flight whose path is open no more."""

import json
import time

import pytest

from routing.contract.client_keys import ALL_FLEETS
from routing.contract.exposure import Expose
from routing.contract.policy import Policy
from tests.routing.proxy.auth.test_client_keys import KEY, bearer, get, let_in
from tests.routing.proxy.auth.test_revocation import WITHIN_S, stream, wait
from tests.routing.proxy.exchange.test_tunnel import ASKED, switch
from tests.routing.proxy.rig import OK, Client, Replica, Rig, until


@pytest.fixture
def passes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The pools for which all requests in flight have been looked at again."""
    begun: list[object] = []
    monkeypatch.setattr(rig.table, "on_narrowed", begun.append)
    return begun


@pytest.mark.parametrize("before", ["all", None, ["/metrics", "/x"]])
async def test_streams_of_management_paths_are_cut_and_no_others(
    rig: Rig, replica: Replica, before: Expose | None
) -> None:
    rig.fleet(replica, expose=before)
    other = await rig.replica()
    rig.fleet(other, name="other", expose="all", default=False)
    replica.script = other.script = stream
    paths = (b"/metrics", b"/x", b"/fleets/other/metrics")
    clients = [await rig.client() for _ in paths]
    for client, path in zip(clients, paths, strict=True):
        client.send(get(path=path))
        await client.reader.readuntil(b"data: 1\r\n")
    began = time.monotonic()
    rig.fleet(replica, expose="inference")
    assert await clients[0].ends() == b""
    assert time.monotonic() - began < WITHIN_S
    await until(lambda: len(replica.open) == 1)
    for connection in (*replica.open, *other.open):
        connection.transport.write(b"7\r\ndata: 2\r\n0\r\n\r\n")
    for client in clients[1:]:
        assert (await client.reader.readuntil(b"0\r\n\r\n")).startswith(b"7\r\ndata: 2")
    pool = rig.table.fleets["f"]
    await until(lambda: pool.counters.in_flight == 0)
    assert (pool.counters.cancelled, pool.replicas[0].failed) == (1, 0)


async def test_a_web_socket_of_a_management_path_is_closed_with_a_reason(
    rig: Rig, replica: Replica, client: Client
) -> None:
    rig.fleet(replica, expose="all")
    replica.script = switch
    assert (await client.ask(ASKED.replace(b"/ws?a=1", b"/metrics"))).status == 101
    kept = await rig.client()
    assert (await kept.ask(ASKED)).status == 101
    rig.fleet(replica, expose="inference")
    assert (await client.ends()).endswith(b"\x03\xf0fleet 'f' no longer exposes this path")
    await until(lambda: len(replica.open) == 1)
    replica.open[0].transport.write(b"\x81\x02ok")
    assert await kept.reader.readexactly(4) == b"\x81\x02ok"


@pytest.mark.parametrize("keyed", [False, True])
async def test_a_request_without_a_response_yet_gets_403(
    rig: Rig, replica: Replica, client: Client, keyed: bool
) -> None:
    if keyed:
        let_in(rig, {KEY: [ALL_FLEETS]}, required=True)
    rig.fleet(replica, expose=["/a", "/b"])
    answering, replica.script = replica.script, wait
    fields = [bearer()] if keyed else []
    client.send(get(*fields, path=b"/b/c"))
    await until(lambda: replica.requests)
    rig.fleet(replica, expose=["/a"])
    answer = await client.answer()
    assert (answer.status, json.loads(answer.body)["code"]) == (403, "path_not_exposed")
    await until(lambda: not replica.open)
    replica.script = answering
    assert (await client.ask(get(*fields, path=b"/a/c"))).status == 200


async def test_one_that_finishes_within_the_second_is_answered(
    rig: Rig, replica: Replica, client: Client
) -> None:
    rig.fleet(replica, expose="all")
    replica.script = wait
    client.send(get(path=b"/metrics"))
    await until(lambda: replica.requests)
    rig.fleet(replica, expose="inference")
    replica.open[0].transport.write(OK + b"Content-Length: 2\r\n\r\nok")
    assert (await client.answer()).body == b"ok"
    assert (await client.ask(get(path=b"/metrics"))).status == 403


async def test_nothing_is_looked_at_where_nothing_is_narrowed(
    rig: Rig, replica: Replica, passes: list[object]
) -> None:
    rig.fleet(replica, expose="inference")
    pool = rig.table.fleets["f"]
    passes.clear()
    rig.fleet(replica, expose="inference", policy=Policy(strategy="round_robin"))
    rig.fleet(replica, expose="all")
    rig.fleet(replica, expose="all", protocol="openai")
    rig.fleet(replica, expose=None)
    assert passes == []
    rig.fleet(replica, expose="inference")
    rig.fleet(replica, expose="inference", protocol="openai")
    rig.fleet(replica, expose=["/a"])
    rig.fleet(replica, expose=["/a"])
    assert passes == [pool] * 3
