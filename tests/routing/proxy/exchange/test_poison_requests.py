"""Requests that fail wherever they go, on real sockets: whose fault that is."""

from routing.contract.client_keys import ALL_FLEETS, key_hash, new_key, new_salt, salt_bytes
from routing.contract.policy import Policy
from tests.routing.proxy.exchange.queueing import Gate
from tests.routing.proxy.rig import OK_ANSWER, Client, Replica, ReplicaConnection, Rig, Seen, until

SALT = new_salt()
APP, OTHER = new_key().encode(), new_key().encode()
POLICY = Policy(strategy="round_robin", slow_start_s=0)
FAILS = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\nboom"


async def fails_on_poison(connection: ReplicaConnection, seen: Seen) -> None:
    connection.transport.write(FAILS if b"poison" in seen.body else OK_ANSWER)


async def crashes_on_poison(connection: ReplicaConnection, seen: Seen) -> None:
    if b"poison" in seen.body or b"poison" in seen.line:
        connection.transport.abort()
    else:
        connection.transport.write(OK_ANSWER)


async def always_fails(connection: ReplicaConnection, seen: Seen) -> None:
    connection.transport.write(FAILS)


def post(body: bytes, key: bytes = b"") -> bytes:
    fields = b"Authorization: Bearer %b\r\n" % key if key else b""
    head = b"POST /x HTTP/1.1\r\nHost: a.test\r\n%bContent-Length: %d\r\n\r\n" % (fields, len(body))
    return head + body


async def three(rig: Rig, script=fails_on_poison) -> list[Replica]:
    replicas = [await rig.replica() for _ in range(3)]
    for replica in replicas:
        replica.script = script
    rig.fleet(*replicas, policy=POLICY)
    return replicas


def let_in(rig: Rig) -> None:
    rig.keys(SALT, {key_hash(salt_bytes(SALT), key): [ALL_FLEETS] for key in (APP, OTHER)})


def ejections(rig: Rig) -> list[int]:
    return [replica.ejection.count for replica in rig.table.fleets["f"].replicas]


async def ask(client: Client, body: bytes, key: bytes = b"") -> int:
    return (await client.ask(post(body, key))).status


async def test_one_keys_poison_ejects_nobody_and_others_are_served(rig: Rig) -> None:
    await three(rig)
    let_in(rig)
    client = await rig.client()
    for number in range(60):
        assert await ask(client, b"poison %d" % number, OTHER) == 500
        if number % 10 == 0:
            assert await ask(client, b"good", APP) == 200
    assert ejections(rig) == [0, 0, 0]


async def test_requests_that_crash_replicas_eject_nobody(rig: Rig) -> None:
    await three(rig, crashes_on_poison)
    for number in range(20):
        client = await rig.client()
        assert await ask(client, b"poison") == 502
        if number % 5 == 0:
            assert await ask(await rig.client(), b"good") == 200
    assert ejections(rig) == [0, 0, 0]


async def test_a_broken_replica_is_found_though_there_is_one_client_with_one_request(rig: Rig) -> None:
    replicas = await three(rig)
    replicas[1].script = always_fails
    client = await rig.client()
    statuses = [await ask(client, b"good") for _ in range(40)]
    assert ejections(rig) == [0, 1, 0]
    assert statuses.count(500) <= 7


async def test_a_request_that_succeeds_elsewhere_says_so_though_it_has_waited_for_that(rig: Rig) -> None:
    broken, other = [await rig.replica() for _ in range(2)]
    broken.script = crashes_on_poison
    gate = Gate(other)
    limited = Policy(strategy="round_robin", slow_start_s=0, max_concurrency=1)
    for _ in range(5):
        rig.fleet(broken, other, policy=limited, draining=(broken,))
        first, second = await rig.client(), await rig.client()
        first.send(post(b"good"))
        await until(lambda: gate.serving)
        rig.fleet(broken, other, policy=limited)
        second.send(b"GET /poison HTTP/1.1\r\nHost: a.test\r\n\r\n")
        await until(lambda: len(rig.table.fleets["f"].admission.queue) == 1)
        gate.release()
        assert (await first.answer()).status == 200
        await until(lambda: gate.serving)
        gate.release()
        assert (await second.answer()).status == 200
    assert ejections(rig) == [1, 0]


async def test_two_broken_replicas_of_five_are_found_by_one_client(rig: Rig) -> None:
    replicas = [await rig.replica() for _ in range(5)]
    for number, replica in enumerate(replicas):
        replica.script = always_fails if number in (1, 3) else fails_on_poison
    rig.fleet(*replicas, policy=POLICY)
    client = await rig.client()
    for number in range(100):
        await ask(client, b"good %d" % number)
    assert ejections(rig) == [0, 1, 0, 1, 0]


async def test_two_keys_that_fail_at_one_replica_eject_it_at_five(rig: Rig) -> None:
    replicas = await three(rig)
    replicas[1].script = always_fails
    let_in(rig)
    client = await rig.client()
    statuses = [await ask(client, b"good", (APP, OTHER)[turn // 3 % 2]) for turn in range(30)]
    assert ejections(rig) == [0, 1, 0]
    assert statuses.count(500) == 5
