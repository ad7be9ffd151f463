"""Leases on a real Redis: granted, renewed, released, run out, lost, and run out while nobody looked."""

from collections.abc import Mapping
from typing import Any

import pytest
import redis
from django.utils import timezone
from redis.backoff import NoBackoff
from redis.retry import Retry

from controlplane.discovery import leases
from controlplane.discovery.fleet_view import OwnRow
from controlplane.discovery.kinds.kind import SourceError
from controlplane.discovery.kinds.lease_list import LeaseList
from controlplane.discovery.lease_store import KEY, LeaseStore
from controlplane.discovery.listing import Listing
from routing.contract.fleet_file import ReplicaEntry

URL = {"url": "http://10.0.0.1:8000"}


@pytest.fixture
def store(redis_client: "redis.Redis") -> LeaseStore:
    return LeaseStore(redis_client, "u")


@pytest.fixture
def leased(redis_client: "redis.Redis") -> LeaseList:
    return LeaseList(redis_client, "u", 30.0, {"site": "east"})


def own(*names: str) -> Mapping[str, OwnRow]:
    entry = {name: ReplicaEntry(name=name, url="http://10.0.0.9:1", version="v2") for name in names}
    return {name: OwnRow(1, 1, entry[name], True, False, True, None, None) for name in names}


def age(client: "redis.Redis", name: str, by_s: float) -> None:
    """As if time had passed since it was granted."""
    expires, rest = client.hget(f"{KEY}u", name).split(b" ", 1)  # type: ignore[union-attr]
    client.hset(f"{KEY}u", name, b"%d %b" % (int(expires) - by_s * 1000, rest))


async def test_one_that_is_granted_is_listed_and_one_that_is_released_leaves(
    store: LeaseStore, leased: LeaseList
) -> None:
    assert store.grant("a", URL, 30.0) is False
    assert store.grant("a", URL, 30.0) is True
    assert store.grant("a", {**URL, "site": "west"}, 30.0) is False
    store.grant("b", URL, 30.0)
    found = await leased.read({})
    assert {name: entry.site for name, entry in found.entries.items()} == {"a": "west", "b": "east"}
    store.release("b")
    found = await leased.read(own("a", "b"))
    assert (set(found.entries), found.leaving) == ({"a"}, {"b"})
    store.grant("b", URL, 30.0)
    assert not (await leased.read({})).leaving


async def test_one_that_runs_out_is_no_longer_listed(
    store: LeaseStore, leased: LeaseList, redis_client: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "back_at", lambda *_: None)  # nobody was ever away
    store.grant("a", URL, 30.0)
    age(redis_client, "a", 31)
    assert await leased.read(own("a")) == Listing({})
    assert redis_client.hexists(f"{KEY}u", "a"), "while its replica is there it is not forgotten"
    age(redis_client, "a", 60)
    await leased.read({})
    assert not redis_client.hexists(f"{KEY}u", "a")


async def test_one_that_ran_out_while_nobody_looked_holds_for_a_term_more(
    store: LeaseStore, leased: LeaseList, redis_client: "redis.Redis"
) -> None:
    store.grant("a", URL, 30.0)
    age(redis_client, "a", 500)
    assert set((await leased.read(own("a"))).entries) == {"a"}
    assert leased._back is not None
    leased._back -= 30
    assert not (await leased.read(own("a"))).entries


async def test_one_that_redis_lost_counts_as_just_granted(
    leased: LeaseList, redis_client: "redis.Redis"
) -> None:
    row: Any = own("a")["a"]
    drained = row._replace(drained_at=timezone.now())
    found = await leased.read({"a": row, "b": drained})
    assert set(found.entries) == {"a"}
    assert (found.entries["a"].url, found.entries["a"].version) == ("http://10.0.0.9:1", "v2")
    stored, now = LeaseStore(redis_client, "u").read("a", "b")
    assert stored["a"].expires_at == pytest.approx(now + 30, abs=1)
    assert "b" not in stored


async def test_without_redis_it_does_not_answer() -> None:
    away = LeaseList(redis.Redis(port=1, retry=Retry(NoBackoff(), 0)), "u", 30.0, {})
    with pytest.raises(SourceError, match="Redis, which has the leases, does not answer"):
        await away.read({})
