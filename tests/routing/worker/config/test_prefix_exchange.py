"""Prompts that one host has sent: other hosts know them, through Redis and one process of theirs."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from routing.balancing.pool.table import Table
from routing.balancing.replica.prefix_cache_index import PrefixCacheIndex, column_key
from routing.contract import redis_keys
from routing.contract.policy import Policy
from routing.contract.prefix_digest import FORMAT, MOST_BYTES, FleetPart, PrefixDigest, encode, packed
from routing.contract.table import FleetSnapshot, Manifest, ReplicaSpec
from routing.shared.prefix_memory import PrefixMemory, digest
from routing.worker.config.prefix_exchange import HEARD_PER_S, PrefixExchange
from tests.proxy_process import Proxy, Publisher, Replica, snapshot, until
from tests.routing.conversations import ANSWER, CONVERSATIONS, blocks_of, take_turn


def echo_table(version: int, policy: Policy, replicas: list[ReplicaSpec]) -> FleetSnapshot:
    return FleetSnapshot(
        epoch=1,
        version=version,
        revision=1,
        name="echo",
        protocol="openai",
        policy=policy,
        replicas=replicas,
    )


BLOCK_BYTES = 64


def policy(block_bytes: int = BLOCK_BYTES) -> Policy:
    return Policy(strategy="prefix_affinity", parameters={"block_bytes": block_bytes}, slow_start_s=0)


@pytest.fixture
def replicas(replicas: list[Replica]) -> list[Replica]:
    for replica in replicas:
        replica.body = ANSWER
    return replicas


def counted(running: Proxy, name: str) -> int:
    """Over all workers that ever were; 0 before the first report."""
    lines = running.admin("/metrics")[1].splitlines()
    found = [
        line for line in lines if line.startswith((f"switchyard_{name}_total ", f"switchyard_{name}_total{{"))
    ]
    return sum(int(line.rpartition(" ")[2]) for line in found)


@pytest.fixture
def hosts(
    proxy: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica], redis_url: str
) -> list[Proxy]:
    """Two of two workers each, which know of each other."""
    publisher.fleet(snapshot(1, replicas, protocol="openai", policy=policy()))
    publisher.manifest(1)
    running = [
        proxy("--redis", redis_url, "--workers", "2", "--name", name).ready() for name in ("one", "two")
    ]
    shared_by = "\nswitchyard_limits_shared_by 2\n"
    until(lambda: all(shared_by in each.admin("/metrics")[1] for each in running), "both know of each other")
    until(lambda: listening(publisher) == 2, "one worker of each host listens")
    return running


def listening(publisher: Publisher) -> int:
    [(_, count)] = publisher.client.pubsub_numsub(redis_keys.PREFIXES_CHANNEL)
    return int(count)


def heard_conversations(one: Proxy, two: Proxy, numbers: Iterable[int]) -> tuple[int, list[str]]:
    """New conversations of one host that the other has noted whole: the first one's number, and where each
    was sent. A worker that does not know yet that there is somebody to tell tells nothing of them: then the
    next ones are tried."""
    for first in numbers:
        told, noted = counted(one, "prefixes_sent"), counted(two, "prefixes_applied")
        where = take_turn(one, 1, first)
        blocks = blocks_of(1, BLOCK_BYTES, first)
        deadline = time.monotonic() + 6
        while time.monotonic() < deadline:
            if counted(one, "prefixes_sent") == told + blocks:
                expected = noted + blocks
                until(lambda: counted(two, "prefixes_applied") == expected, "the other host notes all of it")  # noqa: B023
                return first, where
            time.sleep(0.05)
    raise AssertionError("what it sends is not told")


def goes_on(running: Proxy, first: int, where: list[str]) -> None:
    """The second turn of conversations that another host began goes where the first one went."""
    new, kept = counted(running, "affinity_new"), counted(running, "affinity_kept")
    assert take_turn(running, 2, first) == where
    until(lambda: counted(running, "affinity_kept") == kept + CONVERSATIONS, "all of it was known there")
    assert counted(running, "affinity_new") == new


def test_what_one_host_has_sent_the_other_knows(hosts: list[Proxy], publisher: Publisher) -> None:
    one, two = hosts
    # All is told before a turn goes on, which is told, too.
    by_one, began_at_one = heard_conversations(one, two, range(0, 300, CONVERSATIONS))
    by_two, began_at_two = heard_conversations(two, one, range(500, 800, CONVERSATIONS))
    assert set(began_at_one) == {"a", "b"}
    goes_on(two, by_one, began_at_one)
    goes_on(one, by_two, began_at_two)
    assert [counted(each, "prefix_messages_refused") for each in hosts] == [0, 0]
    assert listening(publisher) == 2, "one worker of each host"


def test_without_redis_requests_go_on_and_afterwards_hosts_tell_each_other_again(
    hosts: list[Proxy], publisher: Publisher, redis_server: Any
) -> None:
    one, two = hosts
    redis_server.stop()
    take_turn(one, 1)
    assert counted(two, "prefixes_applied") == 0
    redis_server.start()
    until(lambda: listening(publisher) == 2, "they listen again")
    heard_conversations(one, two, range(100, 400, CONVERSATIONS))
    assert [row["restarts"] for each in hosts for row in each.status()["workers"]] == [0, 0, 0, 0]


def test_messages_that_cannot_be_read_are_counted_and_change_nothing(
    hosts: list[Proxy], publisher: Publisher
) -> None:
    part = FleetPart("echo", 64, [(bytes(8), packed(range(100)))])
    for message in (
        b"no message",
        bytes(MOST_BYTES + 1),
        encode(PrefixDigest(FORMAT + 1, b"elsewhere", [part])),
    ):
        publisher.client.publish(redis_keys.PREFIXES_CHANNEL, message)
    until(lambda: [counted(each, "prefix_messages_refused") for each in hosts] == [3, 3], "all are counted")
    take_turn(hosts[0], 1)
    assert [row["restarts"] for each in hosts for row in each.status()["workers"]] == [0, 0, 0, 0]


# --- one worker's part, without processes --------------------------------------------------------------


class Listener:
    """A worker's table, and the exchange that is given messages."""

    def __init__(self, replicas: int = 2, block_bytes: int = 64) -> None:
        specs = [
            ReplicaSpec(uid=f"u{at}", name=f"r{at}", url=f"http://10.0.0.{at + 1}") for at in range(replicas)
        ]
        self.table = Table()
        self.table.prefixes = self.memory = PrefixMemory.private()
        self.table.apply_manifest(Manifest(epoch=1, version=1, fleets={"echo": 1}))
        self.table.apply_snapshot(echo_table(1, policy(block_bytes), specs))
        self.table.quota_share.set(0, 2)
        self.replicas = self.table.fleets["echo"].replicas
        self.exchange = PrefixExchange(None, self.table, lambda: True)

    def hear(
        self, hashes: list[int], now: float = 1.0, block_bytes: int = 64, origin: bytes = b"elsewhere"
    ) -> None:
        names = [digest(column_key(replica)) for replica in self.replicas]
        part = FleetPart("echo", block_bytes, [(names[0], packed(hashes)), (bytes(8), packed([1]))])
        message = encode(
            PrefixDigest(FORMAT, origin, [part, FleetPart("gone", 64, [(names[0], packed([1]))])])
        )
        asyncio.run(self.exchange.apply(message, now))

    def known(self, hashes: list[int]) -> list[int]:
        """How many of these each replica knows."""
        index = PrefixCacheIndex(self.memory, "echo", len(self.replicas), 32)
        index.introduce(self.replicas)
        return [index.length(replica.prefix_column, hashes, 0) for replica in self.replicas]


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.memory.close()


HASHES = [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(1, 3000)]


def test_what_is_told_is_noted_at_its_replica(listener: Listener) -> None:
    listener.hear(HASHES)
    assert listener.known(HASHES) == [len(HASHES), 0]
    assert listener.memory.news.applied == len(HASHES)


def test_hashes_of_blocks_of_another_size_and_ones_own_are_passed_over(listener: Listener) -> None:
    listener.hear(HASHES, block_bytes=256)
    listener.hear(HASHES, origin=listener.memory.identity)
    assert listener.known(HASHES) == [0, 0]
    assert (listener.memory.news.applied, listener.memory.news.refused) == (0, 0)


def test_more_in_a_second_than_a_host_takes_is_left_out(listener: Listener) -> None:
    times = HEARD_PER_S // (len(HASHES) + 2)
    for _ in range(times + 2):
        listener.hear(HASHES)
    assert listener.memory.news.applied == times * len(HASHES)
    assert listener.memory.news.left_out == 2 * (len(HASHES) + 2), "those of no replica here as well"
    listener.hear(HASHES, now=2.0)
    assert listener.memory.news.applied == (times + 1) * len(HASHES)


def test_a_replica_that_joins_is_known_with_the_table(listener: Listener) -> None:
    listener.hear(HASHES[:10])
    before = listener.table.fleets["echo"].snapshot
    joined = ReplicaSpec(uid="new", name="new", url="http://10.0.0.9")
    listener.table.apply_snapshot(echo_table(2, before.policy, [joined]))
    listener.replicas = listener.table.fleets["echo"].replicas
    listener.hear(HASHES[:20])
    assert listener.known(HASHES[:20]) == [20]


def test_many_hashes_are_noted_in_slices(listener: Listener) -> None:
    """Between which the event loop serves."""
    index = PrefixCacheIndex(listener.memory, "echo", 2, 32)
    seen: list[int] = []

    async def watch() -> None:
        while True:
            index.introduce(listener.replicas)
            seen.append(index.length(listener.replicas[0].prefix_column, HASHES, 0))
            await asyncio.sleep(0)

    async def both() -> None:
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        name = digest(column_key(listener.replicas[0]))
        part = FleetPart("echo", 64, [(name, packed(HASHES))])
        await listener.exchange.apply(encode(PrefixDigest(FORMAT, b"elsewhere", [part])), 1.0)
        watching.cancel()

    asyncio.run(both())
    assert {0, 1000, 2000} <= set(seen)
