"""Writes that commit at the same time are published together; one alone waits for nobody."""

import threading
import time
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from django.db import connection

from controlplane.models import Fleet
from controlplane.publishing import group_publishing, publisher
from controlplane.publishing.group_publishing import GATHER_S, GroupPublisher
from controlplane.services import replicas
from routing.contract import redis_keys
from routing.contract.snapshot_chunks import decode_fields


class Publishes:
    """Counts them; each waits until it may end."""

    def __init__(self) -> None:
        self.calls: list[tuple[set[int], bool, set[str]]] = []
        self.may_end = threading.Event()
        self.may_end.set()
        self.stored = True
        self.error: Exception | None = None

    def __call__(
        self, fleet_ids: Iterable[int], *, with_manifest: bool, removed: Collection[str] = ()
    ) -> bool:
        self.calls.append((set(fleet_ids), with_manifest, set(removed)))
        self.may_end.wait(10)
        if self.error is not None and len(self.calls) == 2:
            raise self.error
        return self.stored


def waiting(group: GroupPublisher, members: int) -> None:
    until = time.monotonic() + 10
    while group._next.members < members:
        assert time.monotonic() < until
        time.sleep(0.001)


def written(group: GroupPublisher, **what: Any) -> bool:
    with group.writing():
        return group.publish(what.get("fleets", [1]), with_manifest=what.get("manifest", False))


def test_one_alone_is_published_at_once() -> None:
    publishes = Publishes()
    began = time.monotonic()
    for _ in range(20):
        assert written(GroupPublisher(publishes))
    assert time.monotonic() - began < GATHER_S
    assert len(publishes.calls) == 20


@pytest.mark.parametrize("stored", [True, False])
def test_those_that_come_while_one_is_published_share_the_next(stored: bool) -> None:
    publishes = Publishes()
    publishes.stored = stored
    publishes.may_end.clear()
    group = GroupPublisher(publishes)
    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(written, group)
        while not publishes.calls:
            time.sleep(0.001)
        others = [pool.submit(written, group, fleets=[n], manifest=n == 3) for n in range(10)]
        waiting(group, 10)
        publishes.may_end.set()
        assert [one.result(10) for one in [first, *others]] == [stored] * 11
    assert publishes.calls == [({1}, False, set()), (set(range(10)), True, set())]


def test_a_write_under_way_is_waited_for_a_moment_only() -> None:
    publishes = Publishes()
    group = GroupPublisher(publishes)
    with group.writing(), ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        assert pool.submit(written, group).result(10)
        assert GATHER_S * 0.9 < time.monotonic() - began < 5


def test_a_write_within_another_is_no_other() -> None:
    publishes = Publishes()
    group = GroupPublisher(publishes)
    with group.writing():
        began = time.monotonic()
        assert written(group)
        assert written(group)
        assert time.monotonic() - began < GATHER_S


def test_an_error_is_the_leaders_and_the_others_publish_for_themselves() -> None:
    publishes = Publishes()
    publishes.may_end.clear()
    publishes.error = ValueError("the database is away")
    group = GroupPublisher(publishes)
    with ThreadPoolExecutor(5) as pool:
        pool.submit(written, group)
        while not publishes.calls:
            time.sleep(0.001)
        others = [pool.submit(written, group, fleets=[n]) for n in range(3)]
        waiting(group, 3)
        publishes.may_end.set()
        errors = [one.exception(10) for one in others]
    assert [error for error in errors if error is not None] == [publishes.error]
    assert len(publishes.calls) == 2 + 2


@pytest.mark.usefixtures("fresh_stores")
def test_many_that_register_at_once_are_all_in_redis_when_they_are_answered(
    llm: str, redis_client: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    publish = publisher.publish

    def counted(*arguments: Any, **options: Any) -> bool:
        made.append(1)
        return publish(*arguments, **options)

    monkeypatch.setattr(publisher, "publish", counted)
    # On a busy machine a write may take longer than it is waited for otherwise.
    monkeypatch.setattr(group_publishing, "GATHER_S", 5.0)

    def register(number: int) -> bool:
        try:
            registered = replicas.register(
                llm, {"name": f"r{number}", "url": f"http://127.0.0.1:{9200 + number}"}, "x"
            )
            stored = decode_fields(redis_client.hgetall(redis_keys.fleet_key(llm)))  # type: ignore[arg-type]
            return bool(registered.change.published) and f"r{number}" in {one.name for one in stored.replicas}
        finally:
            connection.close()

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(register, range(64)))
    assert len(made) < 32
    assert Fleet.objects.get().replicas.count() == 66
