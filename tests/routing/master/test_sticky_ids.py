"""Responses that replicas keep are found by every worker, by its successor, and by other hosts' proxies."""

import asyncio
import http.client
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import msgspec
import pytest

from routing.contract import redis_keys
from routing.ipc.control_channel import ControlMessage, QuerySticky, StickyReply
from routing.shared.sticky_ids import ReplicaRef
from routing.worker.config.sticky_lookup import StickyLookup
from tests.proxy_process import Proxy, Publisher, Replica, fleet_file, snapshot, until


class Keeping(Replica):
    """Makes a response with each POST, and knows only its own."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.kept: set[str] = set()
        self.says = ""
        """The id of each response; empty: one of its own."""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/v1/responses":
            name = self.says or f"resp_{self.name}_{len(self.kept)}"
            self.kept.add(name)
            self._send(handler, 200, json.dumps({"id": name}).encode())
        else:
            known = handler.path.rpartition("/")[2] in self.kept
            self._send(handler, 200 if known else 404, b"{}")

    def _send(self, handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        # In one piece: of two, the second waits for the first to be acknowledged.
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n"
        handler.wfile.write(head.encode() + body)


@pytest.fixture
def keeping() -> Iterator[list[Keeping]]:
    both = [Keeping("a"), Keeping("b")]
    yield both
    for replica in both:
        replica.stop()


def exchange(running: Proxy, method: str, path: str) -> tuple[int, str, dict[str, str]]:
    """Status, replica and body, on a connection of its own, so that any worker may get it."""
    connection: http.client.HTTPConnection = running.client()
    try:
        body = b'{"model": "echo", "input": "x"}' if method == "POST" else None
        connection.request(method, path, body)
        response = connection.getresponse()
        replica = response.headers.get("x-switchyard-replica", "")
        return response.status, replica, json.loads(response.read())
    finally:
        connection.close()


def make(running: Proxy, count: int) -> dict[str, str]:
    """Responses, and the replica that made each."""
    answers = [exchange(running, "POST", "/v1/responses") for _ in range(count)]
    assert {replica for _, replica, _ in answers} == {"a", "b"}
    return {body["id"]: replica for _, replica, body in answers}


def found(running: Proxy, made: dict[str, str]) -> None:
    for name, replica in made.items():
        for _ in range(4):
            assert exchange(running, "GET", f"/v1/responses/{name}")[:2] == (200, replica)


def test_every_worker_and_every_successor_finds_them(
    tmp_path: Path, keeping: list[Keeping], proxy: Callable[..., Proxy]
) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", keeping, protocol="openai")
    running = proxy("--fleets", str(file), "--workers", "2").ready()
    made = make(running, 8)
    found(running, made)
    before = running.workers()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(set(running.workers()) - set(before)) == 2, "two successors serve")
    found(running, made)
    assert exchange(running, "GET", "/v1/responses/resp_nobody")[0] == 404


def test_every_worker_keeps_to_the_replica_that_was_heard_of_first(
    tmp_path: Path, keeping: list[Keeping], proxy: Callable[..., Proxy]
) -> None:
    """Also one that has heard the id from another replica first."""
    for replica in keeping:
        replica.says = "resp_same"
    file = fleet_file(tmp_path / "fleets.yaml", keeping, protocol="openai")
    running = proxy("--fleets", str(file), "--workers", "2").ready()
    _, first, _ = exchange(running, "POST", "/v1/responses")
    assert make(running, 12).keys() == {"resp_same"}
    until(
        lambda: {exchange(running, "GET", "/v1/responses/resp_same")[1] for _ in range(20)} == {first},
        "every worker knows the first one",
    )


def test_a_new_parent_finds_what_the_old_one_knew_and_learns_still(
    tmp_path: Path, keeping: list[Keeping], proxy: Callable[..., Proxy]
) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", keeping, protocol="openai")
    running = proxy("--fleets", str(file), "--workers", "1", "--min-drain-seconds", "0").ready()
    made = make(running, 6)
    (before,) = running.workers()
    client = running.client()
    client.connect()
    running.signal(signal.SIGUSR2)
    until(lambda: running.workers() not in ([], [before]), "the new one has taken over")
    # A connection of before is the old worker's.
    client.request("POST", "/v1/responses", b'{"model": "echo", "input": "x"}')
    late = client.getresponse()
    assert late.headers["Connection"] == "close"
    made[json.loads(late.read())["id"]] = late.headers["x-switchyard-replica"]
    client.close()
    found(running, made)


async def test_a_parent_that_does_not_answer_is_not_waited_for() -> None:
    sent: list[ControlMessage] = []
    elsewhere = StickyLookup(sent.append)
    async with asyncio.timeout(1):
        assert await elsewhere.find("resp_x") is None
    assert sent == [QuerySticky(question=1, name="resp_x")]
    # Too late; and what is asked next gets its own answer.
    replica_ref = ReplicaRef("f", "u", "a")
    elsewhere.resolve(StickyReply(question=1, replica_ref=None))
    asked = asyncio.ensure_future(elsewhere.find("resp_y"))
    await asyncio.sleep(0)
    elsewhere.resolve(StickyReply(question=1, replica_ref=None))
    elsewhere.resolve(StickyReply(question=2, replica_ref=replica_ref))
    assert await asked == replica_ref


def test_a_master_of_an_older_release_takes_what_redis_has_for_learned() -> None:
    """Once the package is replaced on disk, a worker that is started again is newer than its master."""
    sent: list[ControlMessage] = []
    StickyLookup(sent.append).on_stored_before("resp_x", ReplicaRef("f", "u", "a"))
    [encoded] = map(msgspec.to_builtins, sent)
    # Of version 0.1.0, which ignores further fields, and ends a worker that sends any other message.
    assert encoded.items() >= {"type": "learned", "name": "resp_x", "place": ("f", "u", "a")}.items()


def test_proxies_of_other_hosts_find_them_through_redis(
    keeping: list[Keeping], proxy: Callable[..., Proxy], publisher: Publisher, redis_url: str
) -> None:
    publisher.fleet(snapshot(1, keeping, protocol="openai"))
    publisher.manifest(1)
    one, two = [proxy("--redis", redis_url, "--workers", "1", "--name", name) for name in ("one", "two")]
    for running in (one, two):
        running.ready()
        until(lambda: running.status()["workers"][0]["redis_ok"], "it is connected")  # noqa: B023
    made = make(one, 6)
    until(
        lambda: all(publisher.client.exists(redis_keys.sticky_key(name)) for name in made), "all are stored"
    )
    assert all(0 < publisher.client.ttl(redis_keys.sticky_key(name)) <= 86_400 for name in made)
    found(two, made)
    # A Redis that does not answer is not waited for: what it would know is unknown then.
    publisher.client.client_pause(2000)
    began = time.monotonic()
    assert exchange(one, "GET", "/v1/responses/resp_nobody")[0] == 404
    assert time.monotonic() - began < 1.8
    found(one, made)
