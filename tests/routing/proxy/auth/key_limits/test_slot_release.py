"""Every way a request can end gives its slot of the key back, once."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from routing.contract.policy import Policy, Queue, Timeouts
from tests.routing.proxy.auth.key_limits.limited_keys import (
    HASH,
    KEY,
    ONE_BESIDE,
    OTHER,
    Gate,
    get,
    in_force,
    request,
    whole,
)
from tests.routing.proxy.rig import (
    OK,
    Client,
    Replica,
    ReplicaConnection,
    Rig,
    Seen,
    answer_bytes,
    unreachable,
    until,
)

Way = Callable[[Rig, Replica, Client], Awaitable[None]]


async def finishes(rig: Rig, replica: Replica, client: Client) -> None:
    assert (await client.ask(request())).status == 200


async def is_answered_in_pieces(rig: Rig, replica: Replica, client: Client) -> None:
    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
        await until(lambda: rig.proxy.key_quotas.in_flight() == 2)
        connection.transport.write(b"0\r\n\r\n")

    replica.script = script
    assert (await client.ask(request())).status == 200


async def gets_an_error_of_the_replica(rig: Rig, replica: Replica, client: Client) -> None:
    replica.script = answer_bytes(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    assert (await client.ask(request())).status == 400


async def loses_the_replica(rig: Rig, replica: Replica, client: Client) -> None:
    replica.script = answer_bytes(b"", "rst")
    assert (await client.ask(request())).status == 502


async def is_cut_within_the_answer(rig: Rig, replica: Replica, client: Client) -> None:
    replica.script = answer_bytes(OK + b"Content-Length: 9\r\n\r\npart", "fin")
    assert not (await client.ask(request(b"/x"))).complete


async def leaves_before_the_answer(rig: Rig, replica: Replica, client: Client) -> None:
    gate = Gate(replica)
    client.send(request())
    await until(lambda: gate.waiting)
    client.abort()


async def leaves_within_the_answer(rig: Rig, replica: Replica, client: Client) -> None:
    replica.script = answer_bytes(OK + b"Content-Length: 9\r\n\r\npart")
    client.send(request(b"/x"))
    await client.reader.readuntil(b"part")
    client.abort()


async def leaves_within_its_request(rig: Rig, replica: Replica, client: Client) -> None:
    client.send(request()[:-5])
    await until(lambda: rig.proxy.key_quotas.in_flight() == 2)
    client.abort()


async def names_no_fleet_that_there_is(rig: Rig, replica: Replica, client: Client) -> None:
    assert (await client.ask(request(body=b'{"model": "nobody"}'))).status == 404


async def names_a_fleet_that_the_key_does_not_open(rig: Rig, replica: Replica, client: Client) -> None:
    rig.fleet(replica, name="g", default=False)
    in_force(rig, ONE_BESIDE, fleets=("f", "elsewhere"))
    assert (await client.ask(request(b"/fleets/g/x"))).status == 403


async def has_a_body_that_is_not_valid(rig: Rig, replica: Replica, client: Client) -> None:
    client.send(b"POST /fleets/f/x HTTP/1.1\r\nHost: a\r\nx-api-key: %b\r\nTransfer-Encoding: chunked" % KEY)
    client.send(b"\r\n\r\n2\r\nok\r\n")
    await until(lambda: rig.proxy.key_quotas.in_flight() == 2)
    client.send(b"no chunk\r\n")
    assert (await client.answer()).status == 400


async def is_retried(rig: Rig, replica: Replica, client: Client) -> None:
    rig.fleet(replica, await rig.replica(), protocol="openai")
    for one in rig.replicas[-1], replica:
        one.script = answer_bytes(b"", "rst")
    assert (await client.ask(request())).status == 502
    assert rig.table.fleets["f"].counters.retries == 1


async def finds_no_replica(rig: Rig, replica: Replica, client: Client) -> None:
    rig.fleet(protocol="openai")
    assert (await client.ask(request())).status == 503


async def is_too_late(rig: Rig, replica: Replica, client: Client) -> None:
    Gate(replica)
    assert (await client.ask(request(b"/v1/x", b"{}", b"X-Request-Timeout-Ms: 50"))).status == 504


async def cannot_be_connected(rig: Rig, replica: Replica, client: Client) -> None:
    with unreachable() as nobody:
        rig.fleet(nobody, policy=Policy(timeouts=Timeouts(connect_s=0.1)))
        assert (await client.ask(request(b"/fleets/f/x"))).status == 503


async def waits_in_the_line_in_vain(rig: Rig, replica: Replica, client: Client) -> None:
    policy = Policy(max_concurrency=1, slow_start_s=0, queue=Queue(size=1, timeout_s=0.05))
    rig.fleet(replica, policy=policy)
    gate, busy = Gate(replica), await rig.client()
    busy.send(request(b"/fleets/f/x", key=OTHER))
    await until(lambda: gate.waiting)
    assert (await client.ask(request(b"/fleets/f/x"))).status == 503
    gate.open()
    assert (await busy.answer()).status == 200


async def leaves_the_line(rig: Rig, replica: Replica, client: Client) -> None:
    policy = Policy(max_concurrency=1, slow_start_s=0, queue=Queue(size=1, timeout_s=9))
    rig.fleet(replica, policy=policy)
    gate, busy = Gate(replica), await rig.client()
    busy.send(request(b"/fleets/f/x", key=OTHER))
    await until(lambda: gate.waiting)
    client.send(request(b"/fleets/f/x"))
    await until(lambda: rig.proxy.key_quotas.in_flight() == 2)
    client.abort()
    await until(lambda: rig.proxy.key_quotas.in_flight() == 1)
    gate.open()
    assert (await busy.answer()).status == 200


async def asks_for_what_the_proxy_answers_for_a_fleet(rig: Rig, replica: Replica, client: Client) -> None:
    rig.fleet(replica, protocol="open-inference")
    assert (await client.ask(get(b"/v2/models/f/ready"))).status == 200
    assert (await client.ask(get(b"/v2/health/live"))).status == 200
    assert not replica.requests


async def asks_the_proxy_itself(rig: Rig, replica: Replica, client: Client) -> None:
    assert (await client.ask(get(b"/v1/models"))).status == 200


async def asks_for_what_nobody_keeps(rig: Rig, replica: Replica, client: Client) -> None:
    rig.fleet(replica, await rig.replica(), protocol="openai")
    assert (await client.ask(get(b"/v1/responses/resp_1"))).status == 200


async def comes_round_again(rig: Rig, replica: Replica, client: Client) -> None:
    assert (await client.ask(request(b"/x", b"", b"Via: 1.1 switchyard"))).status == 508


async def has_a_tunnel(rig: Rig, replica: Replica, client: Client, ends: str = "client") -> None:
    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.tunnel = True
        connection.transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello"
        )

    replica.script = script
    asks = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: x")
    answer = await client.ask(get(b"/fleets/f/ws", *asks))
    assert answer.status == 101
    assert await client.reader.readexactly(5) == b"hello"
    other = await rig.client()
    assert (await other.ask(get(b"/fleets/f/x"))).status == 429
    if ends == "client":
        client.abort()
    else:
        replica.connections[-1].transport.close()


has_a_tunnel_that_the_replica_ends = partial(has_a_tunnel, ends="replica")


async def is_served_by_a_proxy_that_drains(rig: Rig, replica: Replica, client: Client) -> None:
    gate = Gate(replica)
    client.send(request())
    await until(lambda: gate.waiting)
    rig.proxy.drain()
    gate.open()
    answer = await client.answer()
    assert (answer.status, answer.get(b"connection")) == (200, [b"close"])


async def uploads_much(rig: Rig, replica: Replica, client: Client) -> None:
    assert (await client.ask(request(b"/fleets/f/x", b"x" * 2_000_000))).status == 200


async def keeps_what_it_made(rig: Rig, replica: Replica, client: Client) -> None:
    replica.script = answer_bytes(whole('{"id": "resp_1", "usage": {"input_tokens": 1, "output_tokens": 1}}'))
    assert (await client.ask(request(b"/v1/responses"))).status == 200


WAYS: list[Way] = [
    finishes,
    is_answered_in_pieces,
    gets_an_error_of_the_replica,
    loses_the_replica,
    is_cut_within_the_answer,
    leaves_before_the_answer,
    leaves_within_the_answer,
    leaves_within_its_request,
    names_no_fleet_that_there_is,
    names_a_fleet_that_the_key_does_not_open,
    has_a_body_that_is_not_valid,
    is_retried,
    finds_no_replica,
    is_too_late,
    cannot_be_connected,
    waits_in_the_line_in_vain,
    leaves_the_line,
    asks_for_what_the_proxy_answers_for_a_fleet,
    asks_the_proxy_itself,
    asks_for_what_nobody_keeps,
    comes_round_again,
    has_a_tunnel,
    has_a_tunnel_that_the_replica_ends,
    is_served_by_a_proxy_that_drains,
    uploads_much,
    keeps_what_it_made,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: getattr(way, "__name__", "has_a_tunnel_reverse"))
async def test_every_way_out_gives_the_place_back_once(rig: Rig, replica: Replica, way: Way) -> None:
    """Another request of the key is in flight all the while: what is given back twice would be its place."""
    elsewhere = await rig.replica()
    rig.fleet(elsewhere, name="elsewhere", default=False)
    in_force(rig, ONE_BESIDE)
    gate, other = Gate(elsewhere), await rig.client()
    other.send(request(b"/fleets/elsewhere/x"))
    await until(lambda: gate.waiting)
    use = rig.proxy.key_quotas.of(HASH, ONE_BESIDE)
    await way(rig, replica, await rig.client())
    await until(lambda: rig.proxy.key_quotas.in_flight() == 1)
    assert [status.used for status in use.statuses()] == [1]
    gate.open()
    assert (await other.answer()).status == 200
    assert rig.proxy.key_quotas.in_flight() == 0
    assert [status.used for status in use.statuses()] == [0]
