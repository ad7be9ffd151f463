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
from controlplane.discovery.lease_store import CLAIMS_KEY, KEY, LeaseHeld, LeaseStore
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


OTHER = {"url": "http://10.0.0.2:8000"}


async def test_a_second_server_at_another_url_is_refused_until_the_first_is_gone(
    store: LeaseStore, leased: LeaseList, redis_client: "redis.Redis"
) -> None:
    store.grant("a", URL, 30.0)
    for told in (False, True):
        with pytest.raises(LeaseHeld) as held:
            store.grant("a", OTHER, 30.0)
        assert (held.value.url, held.value.told) == (URL["url"], told)
        assert held.value.left_s == pytest.approx(30, abs=1)
    found = await leased.read({})
    assert found.entries["a"].url == URL["url"]
    assert found.note == (
        "http://10.0.0.2:8000 claims the name a too, and is refused: give one of the two another name"
    )
    assert store.grant("a", {**URL, "site": "west"}, 30.0) is False, "what it says of itself may change"
    age(redis_client, "a", 31)
    assert store.grant("a", OTHER, 30.0) is False, "it ran out: whoever is there now has it"
    found = await leased.read({})
    assert (found.entries["a"].url, found.note) == (OTHER["url"], "")


def test_one_that_was_released_is_free_at_once(store: LeaseStore) -> None:
    store.grant("a", URL, 30.0)
    store.release("a")
    assert store.grant("a", OTHER, 30.0) is False


def test_one_is_released_only_by_the_url_that_holds_it(store: LeaseStore) -> None:
    store.grant("a", URL, 30.0)
    assert store.release("a", OTHER["url"]) is False
    assert store.read("a")[0]["a"].leaving is False
    assert store.release("a", URL["url"]) is True
    assert store.read("a")[0]["a"].leaving is True


async def test_a_claim_is_forgotten_when_nobody_repeats_it(
    store: LeaseStore, leased: LeaseList, redis_client: "redis.Redis"
) -> None:
    store.grant("a", URL, 30.0)
    with pytest.raises(LeaseHeld):
        store.grant("a", OTHER, 30.0)
    at_ms, url = redis_client.hget(f"{CLAIMS_KEY}u", "a").split(b" ")  # type: ignore[union-attr]
    redis_client.hset(f"{CLAIMS_KEY}u", "a", b"%d %b" % (int(at_ms) - 61_000, url))
    assert (await leased.read({})).note == ""
