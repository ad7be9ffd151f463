"""The runner on real threads, files, database and Redis: it follows while it leads, and only then."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis

from controlplane.discovery import bell, last_lists
from controlplane.models import DiscoverySource, DiscoverySourceStatus, Event, Replica
from controlplane.observability import metrics
from controlplane.services import hardware, sources
from tests.controlplane.discovery.conftest import Leader, until
from tests.controlplane.discovery.kinds.api_server import ApiServer, endpoint, endpoint_slice, serving

pytestmark = pytest.mark.django_db(transaction=True)


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
    leader.leads = True
    until(lambda: names() == {"d"})
    assert DiscoverySourceStatus.objects.get(source=source).follower == token + 1


async def end_watches() -> None:
    """Those that say nothing would stay with their loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@pytest.fixture
def cluster(settings: Any) -> Iterator[ApiServer]:
    """An API server in a thread of its own."""
    server = ApiServer()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    context = serving(server)
    asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result(10)
    settings.KUBERNETES_URL = server.url
    settings.KUBERNETES_TOKEN_FILE = settings.KUBERNETES_CA_FILE = ""
    server.tell = loop.call_soon_threadsafe
    yield server
    asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result(10)
    asyncio.run_coroutine_threadsafe(end_watches(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


def test_a_watch_is_heard_at_once_and_what_it_loses_is_listed(
    leader: Leader, cluster: ApiServer, make_fleet: Callable[..., str], redis_client: "redis.Redis"
) -> None:
    make_fleet("llm")
    cluster.put(endpoint_slice("s", endpoint("llm-a"), endpoint("llm-b", "10.0.0.2")))
    service = {"namespace": "models", "service": "llm"}
    sources.create("llm", {"name": "old", "file": {"path": "none.yaml"}}, "anna")
    until(lambda: redis_client.hlen(last_lists.KEY) == 1)
    sources.create("llm", {"name": "pods", "kubernetes": service, "resync_s": 60}, "anna")
    until(lambda: names() == {"llm-a", "llm-b"} and cluster.watched.is_set())
    three = [endpoint(f"llm-{one}", f"10.0.0.{at}") for at, one in enumerate("abc", start=1)]
    cluster.put(endpoint_slice("s", *three))
    until(lambda: "llm-c" in names(), within_s=5.0)  # by the watch: the next list is due in a minute
    gone = DiscoverySource.objects.get(name="old")
    sources.delete("llm", "old", "anna")
    cluster.watch_fault = "silent"
    sources.update("llm", "pods", {"resync_s": 1}, "anna")
    cluster.put(endpoint_slice("s", *three, endpoint("llm-d", "10.0.0.4")))
    until(lambda: "llm-d" in names())
    until(lambda: not redis_client.hexists(last_lists.KEY, str(gone.uid)))


def test_one_that_is_paused_is_followed_no_longer_until_it_is_resumed(
    leader: Leader, make_fleet: Callable[..., str], settings: Any, tmp_path: Path
) -> None:
    settings.SOURCES_DIR = tmp_path
    make_fleet("llm")
    (tmp_path / "llm.json").write_bytes(orjson.dumps([{"name": "a", "url": "http://10.0.0.1:1"}]))
    sources.create("llm", {"name": "file", "file": {"path": "llm.json"}, "resync_s": 1}, "anna")
    until(lambda: names() == {"a"})
    sources.update("llm", "file", {"paused": True}, "anna")
    until(lambda: metrics.SOURCES_FOLLOWED._value.get() == 0)
    paused = DiscoverySourceStatus.objects.get()
    assert (paused.state, paused.reason) == ("paused", "paused: its replicas stay as they are")
    assert Event.objects.filter(text="anna paused source file; 1 of its replicas stay as they are").exists()
    (tmp_path / "llm.json").write_bytes(b'{"replicas": [], "size": 0}')
    sources.update("llm", "file", {"paused": None}, "anna")
    assert DiscoverySourceStatus.objects.get().state == "waiting"
    until(lambda: names() == set())


def test_a_resync_lists_at_once_and_tries_again_what_was_refused(
    leader: Leader,
    make_fleet: Callable[..., str],
    settings: Any,
    tmp_path: Path,
    redis_client: "redis.Redis",
) -> None:
    settings.SOURCES_DIR = tmp_path
    make_fleet("llm")
    listed = [{"name": "a", "url": "http://10.0.0.1:1", "hardware": "h100"}]
    (tmp_path / "llm.json").write_bytes(orjson.dumps(listed))
    sources.create("llm", {"name": "file", "file": {"path": "llm.json"}, "resync_s": 300}, "anna")
    until(lambda: "a is left out: " in DiscoverySourceStatus.objects.get().reason)
    hardware.create({"name": "h100", "weight": 2}, "anna")
    uid = str(DiscoverySource.objects.get().uid)
    until(lambda: bell.ring(redis_client, "resync", uid))
    until(lambda: names() == {"a"}, within_s=5.0)  # by the timer it would be five minutes
    assert DiscoverySourceStatus.objects.get().state == "followed"
