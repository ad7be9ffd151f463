"""The runner on real threads, files, database and Redis: it follows while it leads, and only then."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis

from controlplane.discovery.runner import DiscoveryRunner
from controlplane.models import DiscoverySource, DiscoverySourceStatus, Replica
from controlplane.observability import metrics
from controlplane.services import sources

pytestmark = pytest.mark.django_db(transaction=True)


def until(what: Callable[[], Any], within_s: float = 20.0) -> None:
    ends = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < ends, "did not happen in time"
        time.sleep(0.02)


class Leader:
    leads = True


@pytest.fixture
def leader(fresh_stores: None, redis_client: "redis.Redis") -> Iterator[Leader]:
    leader = Leader()
    runner = DiscoveryRunner(redis_client, lambda: leader.leads)
    runner.start()
    yield leader
    runner.stop()


def names() -> set[str]:
    return set(Replica.objects.values_list("name", flat=True))


def test_it_follows_a_file_while_it_leads(
    leader: Leader, make_fleet: Callable[..., str], settings: Any, tmp_path: Path
) -> None:
    settings.SOURCES_DIR = tmp_path
    make_fleet("llm")

    def write(*listed: str) -> None:
        entries = [{"name": name, "url": f"http://10.0.0.1:{ord(name)}"} for name in listed]
        (tmp_path / "new").write_bytes(orjson.dumps({"replicas": entries, "size": len(entries)}))
        (tmp_path / "new").rename(tmp_path / "llm.json")

    write("a", "b")
    sources.create("llm", {"name": "file", "file": {"path": "llm.json"}, "resync_s": 1}, "anna")
    until(lambda: names() == {"a", "b"})
    write("a", "b", "c")
    until(lambda: "c" in names())
    (tmp_path / "llm.json").unlink()
    until(lambda: DiscoverySourceStatus.objects.get().state == "failing")
    assert names() == {"a", "b", "c"}
    write()
    until(lambda: not names())  # declared; never passed, so they go at once
    leader.leads = False
    until(lambda: metrics.SOURCES_FOLLOWED._value.get() == 0)
    source = DiscoverySource.objects.get()
    token = DiscoverySourceStatus.objects.get().follower
    write("d")
    sources.update("llm", "file", {"resync_s": 2}, "anna")
    time.sleep(1.2)  # longer than a review and a list
    assert not names()
    leader.leads = True
    until(lambda: names() == {"d"})
    assert DiscoverySourceStatus.objects.get(source=source).follower == token + 1
