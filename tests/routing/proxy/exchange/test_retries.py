"""Rules R1 to R3: what is sent again, to whom, how often, and what never is."""

import asyncio
import time

import msgspec
import pytest

from routing.contract.policy import Policy, ReplaySafe, Retries, Timeouts
from routing.contract.table import ApiProtocol
from tests.routing.proxy.rig import (
    CHAT_BODY,
    INFER_BODY,
    OK,
    OK_ANSWER,
    Replica,
    ReplicaConnection,
    Rig,
    Script,
    Seen,
    answer_body,
    answer_bytes,
    unreachable,
    until,
)

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"


def post(path: bytes = b"/x") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello" % path


def policy(replay_safe: ReplaySafe = "auto", budget_percent: float = 20.0, connect_s: float = 1.0) -> Policy:
    return Policy(
        strategy="round_robin",
        slow_start_s=0,
        retries=Retries(replay_safe=replay_safe, budget_percent=budget_percent),
        timeouts=Timeouts(connect_s=connect_s),
    )


async def fleet_of(
    rig: Rig, count: int, settings: Policy | None = None, protocol: ApiProtocol = "generic"
) -> list[Replica]:
    replicas = [await rig.replica() for _ in range(count)]
    rig.fleet(*replicas, policy=settings or policy(), protocol=protocol)
    return replicas


def spoken_in(request: bytes) -> ApiProtocol:
    target = request.split()[1]
    return "openai" if target.startswith(b"/v1/") else "open-inference" if b"/v2/" in target else "generic"


@pytest.mark.parametrize("request_bytes", [GET, post()], ids=["GET", "POST"])
@pytest.mark.row("R1")
async def test_refused_connections_go_elsewhere(rig: Rig, request_bytes: bytes) -> None:
    """R1: any method, for no byte was written."""
    replicas = await fleet_of(rig, 3, policy(budget_percent=100))
    await replicas[0].stop()
    await replicas[1].stop()
    client = await rig.client()
    for _ in range(6):
        answer = await client.ask(request_bytes)
        assert (answer.status, answer.get(b"x-switchyard-replica")) == (200, [b"r2"])
    pool = rig.table.fleets["f"]
    assert pool.counters.retries >= 1
    assert pool.counters.errors == 0


@pytest.mark.usefixtures("no_connect_checks")
async def test_the_answer_tells_how_often_and_why(rig: Rig) -> None:
    replicas = await fleet_of(rig, 3, policy(budget_percent=100))
    client = await rig.client()
    assert (await client.ask(GET)).get(b"x-switchyard-retries") == []
    await replicas[0].stop()
    replicas[1].script = answer_bytes(b"", "fin")
    told = set()
    for _ in range(3):
        answer = await client.ask(GET)
        assert answer.status == 200
        told.add((*answer.get(b"x-switchyard-retries"), *answer.get(b"x-switchyard-retry-reason")))
    refused, lost = b"replica_unreachable", b"replica_lost"
    both = {(b"2", refused + b", " + lost), (b"2", lost + b", " + refused)}
    assert told <= {(), (b"1", refused), (b"1", lost), *both}
    assert told & both
    assert rig.table.fleets["f"].counters.retries >= 2


async def test_an_error_tells_it_too(rig: Rig) -> None:
    for replica in await fleet_of(rig, 3):
        await replica.stop()
    answer = await (await rig.client()).ask(post())
    assert (answer.status, answer.get(b"retry-after")) == (503, [b"1"])
    assert answer.get(b"x-switchyard-retries") == [b"2"]
    assert answer.get(b"x-switchyard-retry-reason") == [b"replica_unreachable, replica_unreachable"]


async def test_what_a_replica_says_of_retries_is_not_forwarded(rig: Rig) -> None:
    """A replica may be a proxy like this one; what the client hears is of this hop."""
    (replica,) = await fleet_of(rig, 1)
    replica.script = answer_bytes(
        OK + b"x-switchyard-retries: 9\r\nX-Switchyard-Retry-Reason: x\r\nContent-Length: 0\r\n\r\n"
    )
    answer = await (await rig.client()).ask(GET)
    assert answer.get(b"x-switchyard-retries") == answer.get(b"x-switchyard-retry-reason") == []


@pytest.mark.row("R1")
@pytest.mark.parametrize(("count", "attempts"), [(5, 5), (13, 11)])
async def test_each_is_tried_once_and_eleven_at_most(rig: Rig, count: int, attempts: int) -> None:
    replicas = await fleet_of(rig, count)
    for replica in replicas:
        await replica.stop()
    client = await rig.client()
    answer = await client.ask(post())
    assert (answer.status, answer.get(b"retry-after")) == (503, [b"1"])
    assert b"cannot be reached" in answer.body
    pool = rig.table.fleets["f"]
    assert pool.counters.retries == attempts - 1
    assert sum(replica.picked for replica in pool.replicas) == attempts


@pytest.mark.row("R1")
async def test_connect_timeout_goes_elsewhere(rig: Rig) -> None:
    good = await rig.replica()
    with unreachable() as bad:
        rig.fleet(bad, good, policy=policy(connect_s=0.2))
        client = await rig.client()
        for _ in range(2):
            assert (await client.ask(post())).get(b"x-switchyard-replica") == [good.name.encode()]
        rig.fleet(bad, policy=policy(connect_s=0.2))
        answer = await client.ask(post())
        assert (answer.status, answer.get(b"retry-after")) == (503, [b"1"])
        assert b"no connection within 0.2 s" in answer.body


async def test_lost_once_and_then_refused_is_no_invitation_to_send_it_again(rig: Rig) -> None:
    """One replica may have begun it: 502, though the other one was not even reached, in either order."""
    first, second = await fleet_of(rig, 2)
    first.script = answer_bytes(b"", "fin")
    await second.stop()
    client = await rig.client()
    for _ in range(4):
        answer = await client.ask(GET)
        assert (answer.status, answer.get(b"retry-after")) == (502, [])


@pytest.mark.parametrize("then", ["fin", "rst"])
@pytest.mark.parametrize(
    ("request_bytes", "replay_safe", "repeated"),
    [
        (GET, "auto", True),
        (GET.replace(b"GET", b"DELETE"), "auto", True),
        (post(), "auto", False),
        (post(), "always", True),
        (post(b"/v1/chat/completions"), "auto", True),
        (post(b"/v1/chat/completions"), "never", False),
        (post(b"/v1/embeddings?x=1"), "auto", True),
        (post(b"/v1/responses"), "auto", False),
        (post(b"/v2/models/f/infer"), "auto", True),
        (post(b"/v2/models/f/generate"), "auto", False),
    ],
    ids=lambda value: value.split(b" HTTP")[0].decode() if isinstance(value, bytes) else str(value),
)
@pytest.mark.row("R2")
async def test_lost_before_the_first_byte(
    rig: Rig, request_bytes: bytes, replay_safe: ReplaySafe, repeated: bool, then: str
) -> None:
    """R2: once, what is idempotent or marked as safe to send twice."""
    replicas = await fleet_of(rig, 3, policy(replay_safe), spoken_in(request_bytes))
    for replica in replicas:
        replica.script = answer_bytes(b"", then)
    client = await rig.client()
    request = request_bytes.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nX-Switchyard-Fleet: f\r\n")
    assert (await client.ask(request)).status == 502
    assert sum(len(replica.requests) for replica in replicas) == (2 if repeated else 1)
    for replica in replicas:
        replica.script = answer_bytes(OK_ANSWER)


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/fleets/f/v2/models/f/infer"])
async def test_a_path_says_nothing_where_the_fleet_is_generic(rig: Rig, path: bytes) -> None:
    replicas = await fleet_of(rig, 2)
    for replica in replicas:
        replica.script = answer_bytes(b"", "fin")
    client = await rig.client()
    assert (await client.ask(post(path).replace(b"\r\n", b"\r\nX-Switchyard-Fleet: f\r\n", 1))).status == 502
    assert sum(len(replica.requests) for replica in replicas) == 1


async def test_lost_once_is_answered_by_another(rig: Rig) -> None:
    first, second = await fleet_of(rig, 2)
    first.script = answer_bytes(b"", "fin")
    client = await rig.client()
    for _ in range(4):
        assert (await client.ask(GET)).body == b"ok"
    assert len(second.requests) == 4
    assert all(seen.line == b"GET /x HTTP/1.1" for seen in second.requests)


def closing_what_is_open(replica: Replica) -> Script:
    """Closes the connection that it has when a request comes on it, and answers on any other."""
    idle = replica.connections[0]

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        if connection is idle:
            connection.transport.close()
        else:
            connection.transport.write(OK_ANSWER)

    return script


@pytest.mark.row("F13")
async def test_a_connection_closed_while_idle_is_no_failure(rig: Rig) -> None:
    """F13: the only replica closes its idle connections as requests come; they get a new connection."""
    (only,) = await fleet_of(rig, 1)
    client = await rig.client()
    assert (await client.ask(GET)).status == 200
    only.script = closing_what_is_open(only)
    assert (await client.ask(GET)).status == 200
    assert len(only.connections) == 2


async def test_a_connection_closed_while_idle_is_no_failure_where_the_other_replica_is_out(rig: Rig) -> None:
    """As llama.cpp showed: the one replica that is left gets a new connection, though the fleet has two."""
    replicas = await fleet_of(rig, 2, policy(budget_percent=100))
    client = await rig.client()
    for _ in range(4):
        assert (await client.ask(GET)).status == 200
    gone, left = replicas
    rig.fleet(*replicas, policy=policy(budget_percent=100), draining=(gone,))
    left.script = closing_what_is_open(left)
    answer = await client.ask(GET)
    assert (answer.status, answer.get(b"x-switchyard-replica")) == (200, [left.name.encode()])
    assert len(left.connections) == 2


async def test_a_connection_closed_while_idle_is_no_failure_where_the_other_replica_is_dead(rig: Rig) -> None:
    """Nor before anybody has noticed: the one is refused, and the other is asked on a new connection."""
    replicas = await fleet_of(rig, 2)
    client = await rig.client()
    for _ in range(4):
        assert (await client.ask(GET)).status == 200
    gone, left = replicas
    await gone.stop()
    left.script = closing_what_is_open(left)
    for _ in range(4):
        answer = await client.ask(GET)
        assert (answer.status, answer.get(b"x-switchyard-replica")) == (200, [left.name.encode()])


async def test_what_a_killed_replica_drops_goes_to_another(rig: Rig) -> None:
    """As llama.cpp showed: a killed process drops its connections first, and accepts for a moment longer."""
    least = msgspec.structs.replace(policy(), strategy="least_connections")
    killed, other = await fleet_of(rig, 2, least)
    client = await rig.client()
    rig.fleet(killed, other, policy=least, draining=(other,))
    assert (await client.ask(GET)).status == 200
    rig.fleet(killed, other, policy=least, draining=(killed,))
    other.script = answer_bytes(b"")
    for _ in range(2):
        (await rig.client()).send(GET)
    await until(lambda: len(other.requests) == 2)
    other.script = answer_bytes(OK_ANSWER)
    killed.script = answer_bytes(b"", "fin")
    rig.fleet(killed, other, policy=least)
    answer = await client.ask(GET)
    assert (answer.status, answer.get(b"x-switchyard-replica")) == (200, [other.name.encode()])
    assert len(killed.requests) == 2


@pytest.mark.row("F13")
async def test_post_on_a_closing_connection_is_not_repeated(rig: Rig) -> None:
    (only,) = await fleet_of(rig, 1)
    client = await rig.client()
    assert (await client.ask(GET)).status == 200
    only.script = answer_bytes(b"", "fin")
    assert (await client.ask(post())).status == 502
    assert len(only.requests) == 2


@pytest.mark.row("R3")
async def test_never_after_the_first_byte(rig: Rig) -> None:
    """R3: the client gets a truncated answer, never a mixture."""
    replicas = await fleet_of(rig, 2)
    for replica in replicas:
        replica.script = answer_bytes(OK + b"Content-Length: 5\r\n\r\nhe", "fin")
    client = await rig.client()
    answer = await client.ask(GET)
    assert sum(len(replica.requests) for replica in replicas) == 1
    assert (answer.status, answer.body, answer.complete) == (200, b"he", False)


PARTS = {"byte": b"H", "line": OK, "not HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n"}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize(
    ("request_bytes", "repeated"), [(GET, True), (post(), False)], ids=["GET", "an unsafe POST"]
)
@pytest.mark.row("R2")
async def test_what_was_not_forwarded_hinders_no_retry(
    rig: Rig, part: bytes, request_bytes: bytes, repeated: bool
) -> None:
    """Nothing of it is a response; the client has seen nothing."""
    replicas = await fleet_of(rig, 2)
    for replica in replicas:
        replica.script = answer_bytes(part, "fin")
    client = await rig.client()
    assert (await client.ask(request_bytes)).status == 502
    assert sum(len(replica.requests) for replica in replicas) == (2 if repeated else 1)
    replicas[0].script = answer_bytes(OK_ANSWER)
    if repeated:
        assert [(await client.ask(request_bytes)).status for _ in range(4)] == [200] * 4


@pytest.mark.row("R3")
async def test_never_after_early_hints(rig: Rig) -> None:
    replicas = await fleet_of(rig, 2)
    for replica in replicas:
        replica.script = answer_bytes(b"HTTP/1.1 103 Early Hints\r\n\r\n", "fin")
    client = await rig.client()
    assert (await client.ask(GET)).status == 103
    assert (await client.answer()).status == 502
    assert sum(len(replica.requests) for replica in replicas) == 1


@pytest.mark.row("R5")
async def test_errors_of_replicas_are_not_repeated(rig: Rig) -> None:
    """A complete answer is an answer, but for a few statuses."""
    replicas = await fleet_of(rig, 2)
    for replica in replicas:
        replica.script = answer_bytes(b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n")
    client = await rig.client()
    assert (await client.ask(GET)).status == 504
    assert sum(len(replica.requests) for replica in replicas) == 1


INFER = post(b"/v2/models/f/infer")
NO_MODEL = b"HTTP/1.1 404 Not Found\r\nContent-Length: 29\r\n\r\n"
NO_MODEL_WORDS = b'{"error":"Model f not found"}'


async def v2_fleet(rig: Rig, count: int, settings: Policy | None = None) -> list[Replica]:
    replicas = [await rig.replica() for _ in range(count)]
    rig.fleet(*replicas, policy=settings or policy(), protocol="open-inference")
    return replicas


async def head_then_body(connection: ReplicaConnection, seen: Seen) -> None:
    """As uvicorn writes: the head comes alone."""
    connection.transport.write(NO_MODEL)
    await asyncio.sleep(0.02)
    connection.transport.write(NO_MODEL_WORDS)


@pytest.mark.parametrize("script", [answer_bytes(NO_MODEL + NO_MODEL_WORDS), head_then_body])
async def test_a_replica_that_lacks_the_model_costs_no_error(rig: Rig, script: Script) -> None:
    """MLServer and Triton answer 404 once a model is unloaded: nothing was done, another replica has it."""
    without, has = await v2_fleet(rig, 2)
    without.script, has.script = script, answer_body(INFER_BODY)
    client = await rig.client()
    for _ in range(12):
        assert (await client.ask(INFER)).get(b"x-switchyard-replica") == [has.name.encode()]
    pool = rig.table.fleets["f"]
    assert pool.counters.errors == 0
    # Five in a row eject, as any failure does: long before a probe has noticed.
    assert len(without.requests) == pool.counters.retries == 5
    (words,) = {words for row in pool.explain(time.monotonic()) for words in row.reasons}
    assert "5 failures in a row, the last one answered 404: it does not have the model" in words
    assert [seen.body for seen in has.requests] == [b"hello"] * 12


async def test_a_model_that_nobody_has_is_answered_as_the_replicas_say(rig: Rig) -> None:
    replicas = await v2_fleet(rig, 3)
    for replica in replicas:
        replica.script = answer_bytes(NO_MODEL + NO_MODEL_WORDS)
    client = await rig.client()
    answer = await client.ask(INFER)
    assert (answer.status, answer.body) == (404, NO_MODEL_WORDS)
    assert sum(len(replica.requests) for replica in replicas) == 2


@pytest.mark.parametrize(
    ("request_bytes", "settings"),
    [
        (post(b"/v2/models/f/versions/9/infer"), policy()),
        (GET.replace(b"/x", b"/v2/models/f"), policy()),
        (INFER, policy("never")),
    ],
    ids=["a version that may not exist", "no inference", "replay_safe never"],
)
async def test_any_other_404_is_the_clients(rig: Rig, request_bytes: bytes, settings: Policy) -> None:
    replicas = await v2_fleet(rig, 2, settings)
    for replica in replicas:
        replica.script = answer_bytes(NO_MODEL + NO_MODEL_WORDS)
    client = await rig.client()
    assert (await client.ask(request_bytes)).status == 404
    assert sum(len(replica.requests) for replica in replicas) == 1


@pytest.mark.row("R4")
async def test_a_body_that_streams_is_not_repeated(rig: Rig) -> None:
    """R4: what has gone out unkept cannot be sent again."""
    replicas = await fleet_of(rig, 2, policy("always"))
    for replica in replicas:
        replica.script = answer_bytes(b"", "fin")
    client = await rig.client()
    client.send(post()[:-2])
    await until(lambda: [r for r in replicas if r.connections and r.connections[0].received.endswith(b"hel")])
    client.send(b"lo")
    assert (await client.answer()).status == 502
    assert sum(len(replica.connections) for replica in replicas) == 1


@pytest.mark.parametrize(
    "path", [b"/v2/models/f/infer", b"/fleets/f/v1/chat/completions", b"/fleets/f/v2/models/f/infer"]
)
async def test_an_inference_body_in_two_segments_is_kept_and_repeated(rig: Rig, path: bytes) -> None:
    """The head names the fleet; the body is waited for all the same, for its cost and for R2."""
    replicas = [await rig.replica() for _ in range(2)]
    is_v2 = b"/v2/" in path
    rig.fleet(*replicas, policy=policy(), protocol="open-inference" if is_v2 else "openai")
    replicas[0].script = answer_bytes(b"", "fin")
    replicas[1].script = answer_body(INFER_BODY if is_v2 else CHAT_BODY)
    client = await rig.client()
    for _ in range(2):
        client.send(post(path)[:-5])
        await asyncio.sleep(0.01)
        client.send(b"hello")
        assert (await client.answer()).status == 200
    assert [seen.body for seen in replicas[1].requests] == [b"hello", b"hello"]
    assert rig.table.fleets["f"].counters.retries == 1


@pytest.mark.usefixtures("no_connect_checks")
async def test_refused_connections_are_no_retries_of_what_was_sent(rig: Rig) -> None:
    """Most of a fleet has died: requests find those that live, and may then still be retried there."""
    replicas = await fleet_of(rig, 10, msgspec.structs.replace(policy(), strategy="round_robin"))
    for replica in replicas[:8]:
        await replica.stop()
    replicas[8].script = answer_bytes(b"", "fin")
    client = await rig.client()
    answers = [await client.ask(GET) for _ in range(4)]
    assert [answer.status for answer in answers] == [200] * 4
    retries = [int(count) for answer in answers for count in answer.get(b"x-switchyard-retries")]
    assert max(retries) > 2


@pytest.mark.parametrize("budget_percent", [0.0, 20.0])
async def test_refused_connections_use_up_no_budget(rig: Rig, budget_percent: float) -> None:
    """Dead replicas cost no request, however little traffic there is, before they are ejected and after."""
    replicas = await fleet_of(rig, 3, policy(budget_percent=budget_percent))
    await replicas[0].stop()
    await replicas[1].stop()
    client = await rig.client()
    assert [(await client.ask(post())).status for _ in range(20)] == [200] * 20
    assert rig.table.fleets["f"].counters.retries > 3 + 0.2 * 20 / 2


async def test_retries_have_a_budget(rig: Rig) -> None:
    """With half of the replicas down, retries stop at their share of the requests and 3 more."""
    replicas = await fleet_of(rig, 2, policy(budget_percent=0))
    client = await rig.client()

    async def die(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.close()

    replicas[0].script = die
    statuses = [(await client.ask(GET)).status for _ in range(8)]
    pool = rig.table.fleets["f"]
    assert pool.counters.retries <= 3
    assert 502 in statuses
    await asyncio.sleep(0)
