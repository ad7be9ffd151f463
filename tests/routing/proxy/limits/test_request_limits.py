"""A fleet's own limits of a request: the time of its head, the rate and the size of its body."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from routing.contract.body_settings import BodySettings
from routing.contract.policy import Limits, Policy, Timeouts
from routing.contract.table import Manifest
from routing.http import client_lifecycle
from routing.ipc.access_log import AccessLog
from routing.proxy import ProxySettings
from tests.routing.proxy.rig import Answer, Client, Replica, Rig, StartRig, until

HEAD = b"Host: a.test\r\n"
MIB = 1 << 20


def policy(max_body_bytes: int = 1000, **timeouts: float) -> Policy:
    return Policy(
        strategy="round_robin",
        slow_start_s=0,
        timeouts=Timeouts(**timeouts),
        limits=Limits(max_body_bytes=max_body_bytes),
    )


async def fleet(rig: Rig, name: str, settings: Policy, protocol: str = "openai") -> Replica:
    replica = await rig.replica(name)
    rig.fleet(replica, name=name, policy=settings, protocol=protocol)  # type: ignore[arg-type]
    return replica


def post(fleet: str, *fields: bytes) -> bytes:
    return b"POST /fleets/%b/up HTTP/1.1\r\n" % fleet.encode() + HEAD + b"".join(fields) + b"\r\n"


def length(size: int) -> bytes:
    return b"Content-Length: %d\r\n" % size


CHUNKED = b"Transfer-Encoding: chunked\r\n"


async def slowly(client: Client, head: bytes, rest: bytes = b"", seconds: float = 0.35) -> None:
    """The head in two pieces with a pause between; ``rest`` comes with the second."""
    client.send(head[:9])
    await asyncio.sleep(seconds)
    client.send(head[9:] + rest)


async def refused(client: Client, status: int, words: bytes) -> Answer:
    """The whole answer, and the connection's end."""
    answer = await client.answer(b"POST")
    assert (answer.status, answer.complete, answer.get(b"connection")) == (status, True, [b"close"])
    assert words in answer.body
    assert await client.ends(3.0) == b""
    return answer


# --- the head -------------------------------------------------------------------------------------


@pytest.fixture
async def two(rig: Rig) -> dict[str, Replica]:
    """A patient fleet and a hasty one."""
    return {
        "patient": await fleet(rig, "patient", policy(head_s=5.0)),
        "hasty": await fleet(rig, "hasty", policy(head_s=0.2)),
    }


async def test_a_head_may_take_as_long_as_its_fleet_allows(rig: Rig, two: dict[str, Replica]) -> None:
    clients = [await rig.client() for _ in range(5)]
    body = b'{"model": "%b"}'
    chat = b"POST /v1/chat/completions HTTP/1.1\r\n" + HEAD
    hasty, patient = body % b"hasty", body % b"patient"
    await asyncio.gather(
        slowly(clients[0], post("patient", length(2)), b"ok"),
        slowly(clients[1], post("hasty", length(2)), b"ok"),
        slowly(clients[2], chat + length(len(patient)) + b"\r\n", patient),
        slowly(clients[3], chat + length(len(hasty)) + b"\r\n", hasty),
        slowly(clients[4], chat + length(len(hasty)) + b"\r\n"),
    )
    clients[4].send(hasty)
    assert (await clients[0].answer()).status == 200
    await refused(clients[1], 408, b"head took longer than 0.2 s, the most that fleet hasty allows")
    assert (await clients[2].answer()).status == 200
    await refused(clients[3], 408, b"head took longer than 0.2 s")
    await refused(clients[4], 408, b"head took longer than 0.2 s")
    assert two["hasty"].connections == []


async def test_a_slow_head_says_nothing_of_the_next_request(rig: Rig, two: dict[str, Replica]) -> None:
    """Neither on the same connection later on nor right behind it in the same piece."""
    quick = post("hasty", length(2)) + b"ok"
    client, pipelining = await rig.client(), await rig.client()
    await asyncio.gather(
        slowly(client, post("patient", length(2)), b"o"),
        slowly(pipelining, b"GET /v1/models HTTP/1.1\r\n" + HEAD + b"\r\n", quick),
    )
    await until(lambda: rig.table.fleets["patient"].counters.in_flight)
    client.send(b"k")
    assert (await client.answer()).status == 200
    assert (await client.ask(quick)).status == 200
    assert [(await pipelining.answer()).status for _ in range(2)] == [200, 200]


async def test_an_incomplete_head_may_take_as_long_as_the_most_patient_fleet_allows(rig: Rig) -> None:
    await fleet(rig, "hasty", policy(head_s=0.2))
    replica = await fleet(rig, "f", policy(head_s=0.5))
    client, silent = await rig.client(), await rig.client()
    began = time.monotonic()
    client.send(b"GET /")
    assert (await client.answer()).status == 408
    assert 0.5 <= time.monotonic() - began < 5.0
    assert await silent.ends() == b""
    assert replica.connections == []


async def test_the_time_of_a_head_follows_the_policy_while_it_comes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer and shorter."""
    monkeypatch.setattr(client_lifecycle, "LOOK_AGAIN_S", 0.1)
    await fleet(rig, "f", policy(head_s=0.3))
    client = await rig.client()
    client.send(b"GET /x HTTP/1.1\r\n")
    await asyncio.sleep(0.15)
    rig.fleet(rig.replicas[0], policy=policy(head_s=60))
    await asyncio.sleep(0.3)
    client.send(HEAD + b"\r\n")
    assert (await client.answer()).status == 200
    client.send(b"GET /x HTTP/1.1\r\n")
    await asyncio.sleep(0.15)
    rig.fleet(rig.replicas[0], policy=policy(head_s=0.2))
    assert (await client.answer(limit_s=2)).status == 408


async def test_bounds_are_of_the_most_generous_fleet(rig: Rig) -> None:
    default = (Timeouts().head_s, Limits().max_body_bytes)
    assert rig.table.bounds == default
    await fleet(rig, "a", policy(5, head_s=2))
    assert rig.table.bounds == (2.0, 5)
    await fleet(rig, "b", policy(7, head_s=1))
    assert rig.table.bounds == (2.0, 7)
    rig.fleet(rig.replicas[1], name="b", policy=policy(3, head_s=3))
    assert rig.table.bounds == (3.0, 5)
    rig.table.apply_snapshot(replace(rig.table.fleets["b"].snapshot, version=99, policy=policy(9, head_s=1)))
    assert rig.table.bounds == (2.0, 9)
    rig.table.apply_manifest(Manifest(epoch=2, version=1))
    assert rig.table.bounds == default


# --- the body's size ------------------------------------------------------------------------------


@pytest.fixture(params=["plain", "logged"])
def exchanges(request: pytest.FixtureRequest, rig: Rig, tmp_path: Path) -> Iterator[None]:
    """With an access log each keeps a record, and all that it writes is heard."""
    if request.param == "plain":
        yield
        return
    log = AccessLog(str(tmp_path / "log"), "json", "proxy/worker/0")
    rig.proxy.log_to(log)
    yield
    log.close()


CHAT = b"POST /v1/chat/completions HTTP/1.1\r\n" + HEAD
SAYS_SMALL = b'{"model": "small", "x": "'
TOO_LARGE = {
    "announced": post("small", length(1001)),
    "announced of inference": b"POST /fleets/small/v1/chat/completions HTTP/1.1\r\n"
    + HEAD
    + length(1001)
    + b"\r\n",
    "announced by a head that is known": post("small", length(1000))
    + bytes(1000)
    + post("small", length(1001)),
    "in one piece": post("small", length(1001)) + bytes(1001),
    "chunked in one piece": post("small", CHUNKED) + b"3e9\r\n" + bytes(1001) + b"\r\n0\r\n\r\n",
    "named in the body": CHAT + length(1010) + b"\r\n" + SAYS_SMALL + b"y" * (1008 - len(SAYS_SMALL)) + b'"}',
}


@pytest.mark.parametrize("request_bytes", TOO_LARGE.values(), ids=TOO_LARGE)
@pytest.mark.usefixtures("exchanges")
async def test_a_body_that_is_too_large_for_its_fleet(rig: Rig, request_bytes: bytes) -> None:
    """F04: answered before the body comes, where its length is announced; another fleet takes more."""
    small = await fleet(rig, "small", policy(1000))
    large = await fleet(rig, "large", policy(2000))
    client = await rig.client()
    client.send(request_bytes)
    if request_bytes is TOO_LARGE["announced by a head that is known"]:
        assert (await client.answer()).status == 200
        small.requests.clear()
    await refused(client, 413, b"fleet small takes a request body of at most 1000 bytes")
    assert small.requests == []
    other = await rig.client()
    assert (await other.ask(post("large", length(2000)) + bytes(2000))).status == 200
    assert len(large.requests) == 1
    assert (await other.ask(post("small", length(1000)) + bytes(1000))).status == 200


@pytest.mark.usefixtures("exchanges")
async def test_chunks_that_pass_the_limit(rig: Rig) -> None:
    """F05: what has gone upstream is broken off, and never completed."""
    small = await fleet(rig, "small", policy(1000), "generic")
    await fleet(rig, "large", policy(2000))
    client = await rig.client()
    client.send(post("small", CHUNKED) + b"3e8\r\n" + bytes(1000) + b"\r\n")
    await until(lambda: small.connections and small.connections[0].received.endswith(bytes(1000) + b"\r\n"))
    client.send(b"1\r\nx\r\n0\r\n\r\n")
    await refused(client, 413, b"larger than 1000 bytes")
    await until(lambda: not small.open)
    assert small.requests == []
    assert small.connections[0].received.endswith(bytes(1000) + b"\r\n")
    assert [replica.failed for replica in rig.table.fleets["small"].replicas] == [0]


async def test_a_body_that_is_collected_is_bounded_by_its_fleet(rig: Rig) -> None:
    """Its head names the fleet, and the rest is waited for for the model's name may have to be put right."""
    replica = await rig.replica()
    rig.fleet(replica, name="f", policy=policy(1000), protocol="openai", served_model="other")
    client = await rig.client()
    client.send(post("f", CHUNKED) + b"3e8\r\n{" + bytes(999) + b"\r\n")
    client.send(b"1\r\nx\r\n")
    await refused(client, 413, b"larger than 1000 bytes")
    assert replica.connections == []


async def test_no_body_is_larger_than_the_largest_of_all_fleets_allows(rig: Rig) -> None:
    """While the fleet is looked for in the body."""
    await fleet(rig, "f", policy(1000))
    client = await rig.client()
    client.send(CHAT + length(1001) + b"\r\n")
    await refused(client, 413, b"larger than 1000 bytes")
    rig.fleet(rig.replicas[0], policy=policy(5000), protocol="openai")
    body = SAYS_SMALL.replace(b"small", b"f") + bytes(3000) + b'"}'
    other = await rig.client()
    other.send(CHAT + length(len(body)) + b"\r\n" + body[:9])
    await asyncio.sleep(0.05)
    other.send(body[9:].replace(b"\0", b"y"))
    assert (await other.answer()).status == 200


async def test_the_size_follows_the_policy_on_open_connections(rig: Rig) -> None:
    """For the next request; an upload that was let in goes on."""
    replica = await fleet(rig, "f", policy(1000))
    client, uploading = await rig.client(), await rig.client()
    whole = post("f", length(1000)) + bytes(1000)
    assert (await client.ask(whole)).status == 200
    uploading.send(whole[:-10])
    await until(lambda: len(replica.connections) == 2 or len(replica.connections[0].received) > 2000)
    rig.fleet(replica, policy=policy(500), protocol="openai")
    client.send(whole)
    await refused(client, 413, b"at most 500 bytes")
    await asyncio.sleep(0.25)
    uploading.send(whole[-10:])
    assert (await uploading.answer()).status == 200
    rig.fleet(replica, policy=policy(2000), protocol="openai")
    assert (await uploading.ask(post("f", length(2000)) + bytes(2000))).status == 200


async def test_the_client_gets_the_answer_though_it_is_still_sending(rig: Rig) -> None:
    """F11: also one that reads only once it can send no more."""
    await fleet(rig, "f", policy(1000))

    def send_then_read() -> bytes:
        with socket.create_connection(("127.0.0.1", rig.port), timeout=10) as client:
            with contextlib.suppress(ConnectionError):
                client.sendall(post("f", length(10 * MIB)) + bytes(10 * MIB))
            return client.recv(65_536)

    answer = await asyncio.to_thread(send_then_read)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(b"}")
    client = await rig.client()
    client.send(post("f", length(10 * MIB)) + bytes(10 * MIB))
    await refused(client, 413, b"1000 bytes")


# --- the body's rate ------------------------------------------------------------------------------


async def dripping(client: Client, until_s: float) -> float:
    """A body of one byte every 50 ms; after how long it was refused."""
    began = time.monotonic()
    answer = asyncio.ensure_future(client.answer(b"POST", limit_s=until_s))
    while not answer.done():
        client.send(b"x")
        await asyncio.wait([answer], timeout=0.05)
    assert (await answer).status == 408
    assert b"arrived too slowly" in answer.result().body
    return time.monotonic() - began


async def test_each_fleet_has_its_rate(rig: Rig) -> None:
    """F03, in small: the grace, and a second more for so many bytes."""
    hasty = await fleet(rig, "hasty", policy(10_000, body_grace_s=0.3), "generic")
    await fleet(rig, "slow", policy(10_000, body_grace_s=0.3, body_min_bytes_per_s=40), "generic")
    clients = [await rig.client() for _ in range(2)]
    for client, name in zip(clients, ("hasty", "slow"), strict=True):
        client.send(post(name, length(1000)))
    soon, later = await asyncio.gather(*(dripping(client, 5.0) for client in clients))
    # Twenty bytes a second against forty: the grace lasts twice as long. A busy machine makes it longer.
    assert 0.3 <= soon < later
    assert 0.55 <= later < 2.0
    await until(lambda: not hasty.open)
    assert hasty.requests == []


async def test_the_rate_follows_the_policy_while_a_body_comes(rig: Rig) -> None:
    """Slower and faster."""
    replica = await fleet(rig, "f", policy(body_grace_s=0.3), "generic")
    client = await rig.client()
    client.send(post("f", length(1000)))
    await asyncio.sleep(0.1)
    rig.fleet(replica, policy=policy(body_grace_s=60))
    await asyncio.sleep(0.35)
    client.send(bytes(10))
    await until(lambda: replica.connections[0].received.endswith(bytes(10)))
    rig.fleet(replica, policy=policy(body_grace_s=0.3))
    assert (await client.answer(b"POST", limit_s=1)).status == 408


async def test_until_the_fleet_is_known_the_rate_is_the_default(rig: Rig) -> None:
    await fleet(rig, "f", policy(body_grace_s=0.1))
    client = await rig.client()
    body = b'{"model": "f"}'
    client.send(CHAT + length(len(body)) + b"\r\n" + body[:5])
    await asyncio.sleep(0.3)
    client.send(body[5:])
    assert (await client.answer()).status == 200


# --- whoever sends: the worker's own bounds -------------------------------------------------------


async def stopped_after(client: Client, until_s: float) -> float:
    """After how long the body was refused."""
    began = time.monotonic()
    answer = await client.answer(b"POST", limit_s=until_s)
    assert answer.status == 408
    assert await client.ends() == b""
    return time.monotonic() - began


async def test_a_body_of_no_known_fleet_may_not_stall(start_rig: StartRig) -> None:
    """However much of it came before."""
    rig = await start_rig(ProxySettings(bodies=BodySettings(stall_s=0.4)))
    await fleet(rig, "f", policy(16 * MIB))
    client = await rig.client()
    client.send(CHAT + length(MIB) + b"\r\n" + bytes(MIB - 1))
    assert await stopped_after(client, 3.0) >= 0.4
    assert rig.proxy.bodies.used == 0


async def test_a_byte_now_and_then_is_a_stall(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(bodies=BodySettings(stall_s=0.5)))
    await fleet(rig, "f", policy(16 * MIB))
    client = await rig.client()
    client.send(CHAT + length(MIB) + b"\r\n" + bytes(MIB // 2))
    assert await dripping(client, 4.0) >= 0.5


async def test_a_body_of_no_known_fleet_has_a_deadline(start_rig: StartRig) -> None:
    """Though it comes at a rate that is allowed."""
    rig = await start_rig(ProxySettings(bodies=BodySettings(total_s=0.6)))
    await fleet(rig, "f", policy(16 * MIB))
    client = await rig.client()
    client.send(CHAT + length(8 * MIB) + b"\r\n")
    answer = asyncio.ensure_future(stopped_after(client, 4.0))
    while not answer.done():
        client.send(bytes(4096))
        await asyncio.wait([answer], timeout=0.05)
    assert await answer >= 0.55


async def test_a_body_of_a_known_fleet_may_stall_for_its_grace(start_rig: StartRig) -> None:
    """It has no credit for what came before: after its grace it is given up."""
    rig = await start_rig(ProxySettings(bodies=BodySettings(stall_s=0.1)))
    replica = await fleet(rig, "f", policy(16 * MIB, body_grace_s=0.6, body_min_bytes_per_s=1), "generic")
    client = await rig.client()
    client.send(post("f", length(MIB)) + bytes(MIB // 2))
    assert await stopped_after(client, 4.0) >= 0.6
    await until(lambda: not replica.open)
