"""Sticky ids in Redis: as many as there may be, the newest."""

import asyncio
from typing import Any

import pytest
import redis

from routing.contract import redis_keys
from routing.shared.sticky_ids import ReplicaRef
from routing.worker.config.sticky_redis import BATCH, RedisStickyStore
from routing.worker.config.subscriber import connect

PLACE = ReplicaRef("f", "u", "a")


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_keys, "MOST_STICKY_IDS", 300)


async def keep(store: RedisStickyStore, *names: str) -> None:
    """Returns when they are stored."""
    for name in names:
        store.keep(name, PLACE)
    assert store._writing is not None
    await asyncio.wait_for(store._writing, 60)


def kept(client: "redis.Redis") -> set[str]:
    return {name.decode().removeprefix("sy:kept:") for name in client.keys("sy:kept:*")}


async def test_the_oldest_are_forgotten_beyond_the_bound(redis_url: str, redis_client: "redis.Redis") -> None:
    client: Any = connect(redis_url)
    store = RedisStickyStore(client, lambda: True)
    old = [f"old-{number}" for number in range(200)]
    await keep(store, *old)
    assert kept(redis_client) == set(old)
    for name in old:  # as if that had been a while ago
        redis_client.zincrby(redis_keys.STICKY_IDS, -60, name)
    new = [f"new-{number}" for number in range(BATCH)]
    await keep(store, *new)
    assert len(kept(redis_client)) == redis_client.zcard(redis_keys.STICKY_IDS) == 300
    assert set(new) <= kept(redis_client)
    assert await store.find("new-0") == PLACE
    assert 0 < redis_client.ttl(redis_keys.sticky_key("new-0")) <= 86_400
    assert 0 < redis_client.ttl(redis_keys.STICKY_IDS) <= 86_400
    await client.aclose()


async def test_the_first_replica_of_an_id_keeps_it(redis_url: str, redis_client: "redis.Redis") -> None:
    """Who came second hears of it; the first one may say it again, and have another name."""
    client: Any = connect(redis_url)
    store = RedisStickyStore(client, lambda: True)
    before: list[tuple[str, ReplicaRef]] = []
    store.on_stored_before = lambda name, replica_ref: before.append((name, replica_ref))
    await keep(store, "one", "two")
    redis_client.expire(redis_keys.sticky_key("two"), 10)
    store.keep("one", ReplicaRef("g", "u", "a"))
    store.keep("two", PLACE._replace(replica="b"))
    store.keep("three", ReplicaRef("g", "v", "a"))
    assert store._writing is not None
    await asyncio.wait_for(store._writing, 60)
    assert before == [("one", PLACE)]
    assert await store.find("one") == PLACE
    assert await store.find("two") == PLACE._replace(replica="b")
    assert redis_client.ttl(redis_keys.sticky_key("two")) > 10
    assert await store.find("three") == ReplicaRef("g", "v", "a")
    # What nobody can read is nobody's.
    redis_client.set(redis_keys.sticky_key("three"), "{")
    await keep(store, "three")
    assert await store.find("three") == PLACE
    await client.aclose()


async def test_what_has_expired_leaves_the_index(redis_url: str, redis_client: "redis.Redis") -> None:
    client: Any = connect(redis_url)
    store = RedisStickyStore(client, lambda: True)
    await keep(store, "gone")
    redis_client.delete(redis_keys.sticky_key("gone"))
    redis_client.zincrby(redis_keys.STICKY_IDS, -90_000, "gone")
    await keep(store, "new")
    assert redis_client.zrange(redis_keys.STICKY_IDS, 0, -1) == [b"new"]
    await client.aclose()
