"""Rule R5: an error that a replica answered is dropped, and another replica asked, where its policy says."""

import asyncio
import time

import pytest
from msgspec.structs import replace

from routing.contract.policy import Ejection, Policy, ReplaySafe, Retries, Timeouts
from tests.routing.proxy.rig import (
    CHAT_BODY,
    Replica,
    ReplicaConnection,
    Rig,
    Script,
    Seen,
    answer_body,
    answer_bytes,
    until,
)

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello"
CHAT = POST.replace(b"/x", b"/fleets/f/v1/chat/completions")
BUSY = b"HTTP/1.1 %d Busy\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\n"


def policy(
    statuses: tuple[int, ...] = (503, 429),
    replay_safe: ReplaySafe = "auto",
    budget_percent: float = 100.0,
    total_s: float = 600.0,
) -> Policy:
    return Policy(
        strategy="round_robin",
        slow_start_s=0,
        retries=Retries(replay_safe=replay_safe, budget_percent=budget_percent, statuses=list(statuses)),
        timeouts=Timeouts(total_s=total_s),
    )


def busy(status: int = 503) -> Script:
    return answer_bytes(BUSY % status + b"busy")


async def busy_in_two(connection: ReplicaConnection, seen: Seen) -> None:
    """As uvicorn writes: the head comes alone."""
    connection.transport.write(BUSY % 503)
    await asyncio.sleep(0.02)
    connection.transport.write(b"busy")


async def busy_for_ever(connection: ReplicaConnection, seen: Seen) -> None:
    """The rest of the answer never comes."""
    connection.transport.write(BUSY % 503)


async def fleet_of(rig: Rig, count: int, settings: Policy) -> list[Replica]:
    replicas = [await rig.replica() for _ in range(count)]
    rig.fleet(*replicas, policy=settings, protocol="openai")
    return replicas


def asked(replicas: list[Replica]) -> int:
    return sum(len(replica.requests) for replica in replicas)


@pytest.mark.row("R5")
@pytest.mark.parametrize("script", [busy(503), busy(429), busy_in_two, busy_for_ever])
@pytest.mark.parametrize("request_bytes", [GET, CHAT], ids=["GET", "chat"])
async def test_another_replica_answers(rig: Rig, script: Script, request_bytes: bytes) -> None:
    overloaded, free = await fleet_of(rig, 2, policy())
    overloaded.script, free.script = script, answer_body(CHAT_BODY)
    client = await rig.client()
    told = set()
    for _ in range(4):
        answer = await client.ask(request_bytes)
        assert (answer.status, answer.body) == (200, CHAT_BODY)
        assert answer.get(b"x-switchyard-replica") == [free.name.encode()]
        told.add((*answer.get(b"x-switchyard-retries"), *answer.get(b"x-switchyard-retry-reason")))
    assert told <= {(), (b"1", b"status_503"), (b"1", b"status_429")}
    assert len(told) == 2
    pool = rig.table.fleets["f"]
    assert pool.counters.retries == len(overloaded.requests) == 2
    assert pool.counters.errors == 0
    # Load, not death.
    assert [(replica.outcomes.rejected, replica.failed) for replica in pool.replicas] == [(2, 0), (0, 0)]


async def test_a_connection_whose_answer_was_dropped_is_clean(rig: Rig) -> None:
    """Complete answers leave it in use; of an incomplete one nothing may be taken for the next answer."""
    overloaded, _ = await fleet_of(rig, 2, policy())
    overloaded.script = busy()
    client = await rig.client()
    for _ in range(8):
        assert (await client.ask(GET)).body == b"ok"
    assert len(overloaded.connections) == 1
    overloaded.script = busy_in_two
    for _ in range(8):
        assert (await client.ask(GET)).body == b"ok"
    assert len(overloaded.requests) == 8
    overloaded.script = busy_for_ever
    for _ in range(2):
        assert (await client.ask(GET)).body == b"ok"
    await until(lambda: not overloaded.open)


async def test_where_nobody_else_is_left_the_answer_comes_as_it_was(rig: Rig) -> None:
    """Retry-After included; no replica is asked twice, and none is waited for."""
    replicas = await fleet_of(rig, 3, policy())
    for replica in replicas:
        replica.script = busy()
    client = await rig.client()
    began = time.monotonic()
    answer = await client.ask(GET)
    assert time.monotonic() - began < 2
    assert (answer.status, answer.body, answer.get(b"retry-after")) == (503, b"busy", [b"0"])
    assert answer.get(b"x-switchyard-retry-reason") == [b"status_503, status_503"]
    assert [len(replica.requests) for replica in replicas] == [1, 1, 1]
    rig.fleet(replicas[0], policy=policy())
    answer = await client.ask(GET)
    assert (answer.status, answer.get(b"retry-after"), answer.get(b"x-switchyard-retries")) == (
        503,
        [b"0"],
        [],
    )


@pytest.mark.parametrize(
    ("request_bytes", "settings"),
    [
        (GET, policy(())),
        (GET, policy((502, 504))),
        (POST, policy()),
        (CHAT, policy(replay_safe="never")),
        (GET, policy(budget_percent=0)),
    ],
    ids=["off", "another status", "not idempotent", "never", "no budget"],
)
async def test_what_is_passed_on(rig: Rig, request_bytes: bytes, settings: Policy) -> None:
    replicas = await fleet_of(rig, 2, settings)
    for replica in replicas:
        replica.script = busy()
    answer = await (await rig.client()).ask(request_bytes)
    assert (answer.status, answer.body) == (503, b"busy")
    assert asked(replicas) == 1


@pytest.mark.row("R5")
async def test_an_outage_is_not_multiplied(rig: Rig) -> None:
    """Where most of the others refuse as well, nothing is gained by asking them."""
    replicas = await fleet_of(rig, 2, policy(budget_percent=20))
    for replica in replicas:
        replica.script = busy()
    client = await rig.client()
    for _ in range(20):
        assert (await client.ask(GET)).status == 503
    assert asked(replicas) == 20 + 1
    replicas[0].script = replicas[1].script = answer_body(CHAT_BODY)
    assert (await client.ask(GET)).status == 200
    assert (await client.ask(GET)).status == 200
    replicas[0].script = busy()
    assert {(await client.ask(GET)).status for _ in range(4)} == {200}


@pytest.mark.row("R5")
async def test_it_is_so_by_default(rig: Rig) -> None:
    replicas = [await rig.replica() for _ in range(2)]
    settings = Policy(strategy="round_robin", slow_start_s=0)
    rig.fleet(*replicas, policy=settings, protocol="openai")
    replicas[1].script = answer_body(CHAT_BODY)
    client = await rig.client()
    for status in (429, 500, 502, 503):
        replicas[0].script = busy(status)
        asked_before = len(replicas[0].requests)
        assert {(await client.ask(CHAT)).status for _ in range(4)} == {200}
        assert len(replicas[0].requests) > asked_before
    replicas[0].script = busy(504)
    assert {(await client.ask(CHAT)).status for _ in range(4)} == {200, 504}


async def test_at_one_request_a_second_each_is_rescued(rig: Rig) -> None:
    """As many in a row as the budget counts, though each fails at first."""
    failing, free = await fleet_of(rig, 2, policy())
    failing.script, free.script = busy(), answer_body(CHAT_BODY)
    client = await rig.client()
    for _ in range(60):
        assert (await client.ask(CHAT)).status == 200
    assert len(failing.requests) >= 20


async def test_a_second_500_is_the_answer(rig: Rig) -> None:
    replicas = await fleet_of(rig, 3, policy((500, 503)))
    for replica in replicas:
        replica.script = busy(500)
    client = await rig.client()
    answer = await client.ask(CHAT)
    assert (answer.status, answer.get(b"x-switchyard-retries")) == (500, [b"1"])
    assert asked(replicas) == 2


@pytest.mark.parametrize("method", [b"PUT", b"DELETE"])
async def test_what_may_have_been_carried_out_is_not_repeated(rig: Rig, method: bytes) -> None:
    replicas = await fleet_of(rig, 2, policy())
    for replica in replicas:
        replica.script = busy()
    answer = await (await rig.client()).ask(GET.replace(b"GET", method))
    assert (answer.status, asked(replicas)) == (503, 1)


@pytest.mark.parametrize("status", [429, 503])
async def test_one_that_says_when_rests_so_long(rig: Rig, status: int) -> None:
    """It is not ejected, and asked again right after."""
    resting, free = await fleet_of(rig, 2, policy())
    resting.script = answer_bytes(BUSY.replace(b"Retry-After: 0", b"Retry-After: 1") % status + b"busy")
    free.script = answer_body(CHAT_BODY)
    client = await rig.client()
    while not resting.requests:
        assert (await client.ask(CHAT)).status == 200
    rested_at = time.monotonic()
    known = rig.table.fleets["f"].replicas[0]
    assert not known.ejection.until
    resting.script = answer_body(CHAT_BODY)
    for _ in range(20):
        assert (await client.ask(CHAT)).get(b"x-switchyard-replica") == [free.name.encode()]
    assert len(resting.requests) == 1
    await until(lambda: time.monotonic() > known.ejection.rests_until)
    assert 1.0 <= time.monotonic() - rested_at < 2.0
    assert b"r0" in {(await client.ask(CHAT)).get(b"x-switchyard-replica")[0] for _ in range(4)}


async def test_no_attempt_that_was_not_made_is_counted(rig: Rig) -> None:
    """There is nobody else: the one attempt was no retry."""
    (replica,) = await fleet_of(rig, 1, policy())
    replica.script = answer_bytes(b"", "rst")
    answer = await (await rig.client()).ask(CHAT)
    assert (answer.status, answer.get(b"x-switchyard-retries"), asked([replica])) == (502, [], 1)
    assert rig.table.fleets["f"].counters.retries == 0


async def test_a_body_that_streams_is_not_sent_again(rig: Rig) -> None:
    replicas = await fleet_of(rig, 2, policy(replay_safe="always"))
    for replica in replicas:
        replica.script = busy()
    client = await rig.client()
    client.send(POST[:-2])
    await until(lambda: any(replica.connections for replica in replicas))
    client.send(POST[-2:])
    assert (await client.answer()).status == 503
    assert asked(replicas) == 1


async def test_never_after_early_hints(rig: Rig) -> None:
    """Part of an answer was passed on."""
    replicas = await fleet_of(rig, 2, policy())
    for replica in replicas:
        replica.script = answer_bytes(b"HTTP/1.1 103 Early Hints\r\n\r\n" + BUSY % 503 + b"busy")
    client = await rig.client()
    assert (await client.ask(GET)).status == 103
    assert (await client.answer()).status == 503
    assert asked(replicas) == 1


@pytest.mark.parametrize("limit", ["total_s", "X-Request-Timeout-Ms"])
async def test_never_after_the_time_is_over(rig: Rig, limit: str) -> None:
    """The error comes after the limit, and before the proxy has looked at it."""
    replicas = await fleet_of(rig, 2, policy(total_s=0.01 if limit == "total_s" else 600))

    async def slow(connection: ReplicaConnection, seen: Seen) -> None:
        await asyncio.sleep(0.03)
        connection.transport.write(BUSY % 503 + b"busy")

    for replica in replicas:
        replica.script = slow
    client = await rig.client()
    own = b"\r\nX-Request-Timeout-Ms: 10\r\n\r\n" if limit != "total_s" else b"\r\n\r\n"
    assert (await client.ask(GET.replace(b"\r\n\r\n", own))).status in (503, 504)
    assert asked(replicas) == 1


async def test_the_policy_changes_while_connections_are_open(rig: Rig) -> None:
    overloaded, free = await fleet_of(rig, 2, policy(()))
    overloaded.script = busy()
    client = await rig.client()
    assert {(await client.ask(GET)).status for _ in range(4)} == {200, 503}
    rig.fleet(overloaded, free, policy=policy((503,)))
    assert {(await client.ask(GET)).status for _ in range(4)} == {200}
    rig.fleet(overloaded, free, policy=policy((500,)))
    assert {(await client.ask(GET)).status for _ in range(4)} == {200, 503}


async def test_a_server_error_counts_against_its_replica(rig: Rig) -> None:
    """What the client does not see, ejection sees."""
    failing, _ = await fleet_of(rig, 2, policy((500,)))
    failing.script = answer_bytes(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")
    client = await rig.client()
    for _ in range(20):
        assert (await client.ask(GET)).status == 200
    assert len(failing.requests) == 5
    assert rig.table.fleets["f"].replicas[0].ejection.until > 0


@pytest.mark.usefixtures("no_connect_checks")
async def test_an_answer_that_is_dropped_for_a_dead_replica(rig: Rig) -> None:
    """The one that is asked instead is gone: the third one answers."""
    never = Ejection(consecutive_failures=1000, max_ejected_percent=0)
    first, dead, third = await fleet_of(rig, 3, replace(policy(), ejection=never))
    first.script = busy()
    await dead.stop()
    client = await rig.client()
    told = set()
    # Whose turn it is among equals is drawn.
    for _ in range(60):
        answer = await client.ask(GET)
        assert answer.get(b"x-switchyard-replica") == [third.name.encode()]
        told.update(answer.get(b"x-switchyard-retry-reason"))
    assert told & {b"status_503, replica_unreachable", b"replica_unreachable, status_503"}
