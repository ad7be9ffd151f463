"""Requests of one session come to one replica: where its key is read, and what it outlives."""

import msgspec
import pytest

from routing.contract.policy import Policy, StrategyParameter
from routing.contract.table import ApiProtocol
from routing.protocols import session
from routing.proxy import ProxySettings
from tests.routing.proxy.exchange.queueing import Gate
from tests.routing.proxy.rig import (
    CHAT_BODY,
    OK_ANSWER,
    Client,
    Replica,
    ReplicaConnection,
    Rig,
    Seen,
    StartRig,
    answer_body,
    until,
)

SESSIONS = [b"session-%d" % number for number in range(12)]


async def fleet_of(
    rig: Rig,
    count: int = 4,
    protocol: ApiProtocol = "openai",
    limit: int | None = None,
    **given: StrategyParameter,
) -> list[Replica]:
    """Its bound is so wide that requests one after the other never pass it."""
    replicas = [await rig.replica() for _ in range(count)]
    parameters: dict[str, StrategyParameter] = {"load_bound": 100.0, **given}
    policy = Policy(strategy="consistent_hash", parameters=parameters, slow_start_s=0, max_concurrency=limit)
    rig.fleet(*replicas, protocol=protocol, policy=policy)
    return replicas


def post(
    body: bytes, more: bytes = b"", path: bytes = b"/v1/chat/completions", chunked: bool = False
) -> bytes:
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    head = b"POST %b HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\n" % path
    return b"%b%b%b\r\n\r\n%b" % (head, framing, more, sent)


def says(**members: object) -> bytes:
    return msgspec.json.encode({"model": "f", "messages": [], **members})


def counts(replicas: list[Replica]) -> list[int]:
    return [len(replica.requests) for replica in replicas]


async def asks(client: Client, request: bytes) -> None:
    client.send(request)
    assert (await client.answer()).status == 200


async def stay_together(rig: Rig, replicas: list[Replica], request_of: dict[bytes, list[bytes]]) -> None:
    """Each session's requests are served by one replica, all of them together by several."""
    client = await rig.client()
    used = set()
    for requests in request_of.values():
        before = counts(replicas)
        for request in requests:
            await asks(client, request)
        grown = [after - old for after, old in zip(counts(replicas), before, strict=True)]
        assert sorted(grown)[-2:] == [0, len(requests)]
        used.add(grown.index(len(requests)))
    assert len(used) > 1
    kept = rig.table.fleets["f"].counters.affinity_kept
    assert kept == sum(map(len, request_of.values()))


@pytest.mark.parametrize("protocol", ["openai", "generic", "open-inference"])
async def test_a_field_of_the_head_is_the_key(rig: Rig, protocol: ApiProtocol) -> None:
    replicas = await fleet_of(rig, protocol=protocol)
    path = b"/fleets/f/v1/chat/completions"
    sent = {
        name: [
            post(says(user="u"), b"\r\nX-Session-ID: %b" % name, path),
            b"GET /fleets/f/x HTTP/1.1\r\nHost: a.test\r\nx-session-id:%b  \r\n\r\n" % name,
        ]
        for name in SESSIONS
    }
    await stay_together(rig, replicas, sent)


async def test_a_cookie_is_the_key_of_what_has_no_such_field(rig: Rig) -> None:
    replicas = await fleet_of(rig, cookie="SID", header="")
    sent = {
        name: [
            post(says(), b"\r\nCookie: a=b; SID=%b" % name),
            post(says(), b"\r\nCookie: sid=other;SID=%b" % name),
        ]
        for name in SESSIONS
    }
    await stay_together(rig, replicas, sent)


@pytest.mark.parametrize(
    "members",
    [
        lambda name: {"prompt_cache_key": name, "user": "all"},
        lambda name: {"user": name, "prompt_cache_key": None},
        lambda name: {"safety_identifier": name, "user": ""},
        lambda name: {"metadata": {"user_id": name}},
    ],
    ids=["prompt_cache_key", "user", "safety_identifier", "metadata.user_id"],
)
async def test_what_a_body_says_of_its_user_is_the_key(rig: Rig, members) -> None:
    """However it comes: at once, in chunks, to a fleet that the path names or that the body names."""
    replicas = await fleet_of(rig)
    sent = {}
    for name in SESSIONS:
        body = says(**members(name.decode()))
        in_two = post(body, path=b"/fleets/f/v1/messages")
        sent[name] = [post(body), post(body, chunked=True), in_two, post(body, b"", b"/fleets/f/v1/x", True)]
    await stay_together(rig, replicas, sent)


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_a_body_that_comes_late_is_waited_for(rig: Rig, chunked: bool) -> None:
    """Also one that is larger than what is collected for other reasons."""
    replicas = await fleet_of(rig)
    client = await rig.client()
    for _ in range(6):
        body = says(pad="x" * 70_000, user="anna")
        request = post(body, path=b"/fleets/f/v1/x", chunked=chunked)
        cut = request.index(b"\r\n\r\n") + 9
        await client.send_bytewise(request[:cut])
        client.send(request[cut:])
        assert (await client.answer()).status == 200
    assert sorted(counts(replicas)) == [0, 0, 0, 6]
    assert rig.table.fleets["f"].counters.affinity_kept == 6


async def test_a_body_too_large_to_be_collected_has_no_key(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(peek_bytes=1000))
    replicas = await fleet_of(rig)
    client = await rig.client()
    request = post(says(user="anna", pad="x" * 2000), path=b"/fleets/f/v1/x")
    for number in range(8):
        client.send(request[:500])
        await until(lambda number=number: rig.table.fleets["f"].counters.requests > number)
        client.send(request[500:])
        assert (await client.answer()).status == 200
    assert sum(counts(replicas)) == 8
    assert rig.table.fleets["f"].counters.affinity_kept == 0


async def test_a_retried_request_goes_where_its_key_leads_without_those_tried(rig: Rig) -> None:
    replicas = await fleet_of(rig)
    client = await rig.client()
    request = post(says(user="anna"))
    await asks(client, request)
    home = next(replica for replica in replicas if replica.requests)
    await home.stop()
    for _ in range(3):
        await asks(client, request)
    assert sorted(counts(replicas)) == [0, 0, 1, 3]


async def test_one_lost_on_a_used_connection_is_not_sent_to_its_home_at_once_again(rig: Rig) -> None:
    replicas = await fleet_of(rig)
    client = await rig.client()
    request = post(says(user="anna"))
    await asks(client, request)
    home = next(replica for replica in replicas if replica.requests)

    async def leave(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.close()

    home.script = leave
    await asks(client, request)
    assert sorted(counts(replicas)) == [0, 0, 1, 2]


async def test_a_request_that_waits_keeps_its_key(rig: Rig) -> None:
    replicas = await fleet_of(rig, count=2, limit=1)
    gate = Gate(*replicas)
    clients = [await rig.client() for _ in range(3)]
    for client in clients:
        client.send(post(says(user="anna")))
    await until(lambda: len(rig.table.fleets["f"].admission.queue) == 1)
    await until(lambda: len(gate.serving) == 2)
    pool = rig.table.fleets["f"]
    assert (pool.counters.affinity_kept, pool.counters.affinity_spilled) == (1, 1)
    gate.release()
    await until(lambda: len(gate.served) == 3)
    assert pool.counters.affinity_kept + pool.counters.affinity_spilled == 3
    while gate.serving:
        gate.release(OK_ANSWER)
    for client in clients:
        assert (await client.answer()).status == 200


async def test_load_wins_over_the_key(rig: Rig) -> None:
    replicas = await fleet_of(rig, load_bound=1.25)
    gate = Gate(*replicas)
    clients = [await rig.client() for _ in range(8)]
    for number, client in enumerate(clients):
        client.send(post(says(user="anna")))
        await until(lambda number=number: len(gate.serving) == number + 1)
    assert max(counts(replicas)) <= 3
    assert rig.table.fleets["f"].counters.affinity_spilled > 0
    while gate.serving:
        gate.release()


async def test_a_strategy_is_changed_to_and_from_while_requests_come(rig: Rig) -> None:
    replicas = await fleet_of(rig)
    client = await rig.client()
    await asks(client, post(says(user="anna")))
    rig.fleet(*replicas, protocol="openai", policy=Policy(strategy="round_robin", slow_start_s=0))
    for _ in range(4):
        await asks(client, post(says(user="anna")))
    assert sorted(counts(replicas)) == [1, 1, 1, 2]


async def test_turns_of_a_conversation_stay_together_under_prefix_affinity(rig: Rig) -> None:
    """By what their bodies begin with, and apart from the same under another model's name."""
    replicas = [await rig.replica() for _ in range(4)]
    for replica in replicas:
        replica.script = answer_body(CHAT_BODY)
    policy = Policy(strategy="prefix_affinity", parameters={"block_bytes": 64}, slow_start_s=0)
    rig.fleet(*replicas, protocol="openai", policy=policy, adapters=("f-legal",))
    client = await rig.client()
    for number in range(8):
        turns: list[dict[str, str]] = []
        before = counts(replicas)
        for turn in range(3):
            turns.append({"role": "user", "content": f"{number}/{turn} " + "of some length " * 8})
            body = msgspec.json.encode(
                {"stream": False, "max_tokens": turn + 1, "messages": turns, "model": "f"}
            )
            await asks(client, post(body, chunked=turn == 1))
        grown = [after - old for after, old in zip(counts(replicas), before, strict=True)]
        assert sorted(grown) == [0, 0, 0, 3]
    counters = rig.table.fleets["f"].counters
    assert (counters.affinity_new, counters.affinity_kept) == (8, 16)
    await asks(client, post(msgspec.json.encode({"model": "f-legal", "messages": turns})))
    assert counters.affinity_new == 9


async def test_a_key_is_read_once_though_its_request_waits(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    user = session.user
    monkeypatch.setattr(session, "user", lambda body: read.append(body) or user(body))
    gate = Gate(*await fleet_of(rig, 1, limit=1))
    first, second = await rig.client(), await rig.client()
    first.send(post(says(user="a")))
    await until(lambda: gate.serving)
    second.send(post(says(user="b")))
    await until(lambda: len(rig.table.fleets["f"].admission.queue) == 1)
    gate.release()
    assert (await first.answer()).status == 200
    await until(lambda: gate.serving)
    gate.release()
    assert (await second.answer()).status == 200
    assert read == [says(user="a"), says(user="b")]
