"""Descriptors used up, and places for clients taken: nobody hangs, nothing spins, and it ends by itself.

A limit on open files of 256 leaves 96 places for clients in each worker (routing/ipc/descriptors.py).
"""

import http.client
import json
import os
import re
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from routing.proxy.limits.connection_limit import IDLE_S, REFUSAL
from tests.proxy_process import Proxy, Publisher, Replica, fleet_file, snapshot, until

LIMIT = 256
PLACES = 96
REQUEST = b"GET /one HTTP/1.1\r\nHost: a.test\r\n\r\n"
UNKNOWN = REQUEST.replace(b"/one", b"/fleets/none/one")
"""The proxy itself answers it, and keeps the connection."""
Start = Callable[..., Proxy]


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def received(connection: socket.socket) -> bytes:
    """Everything up to the end, which must be no reset."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def fate(connection: socket.socket) -> bytes | None:
    """What has come so far; ``None``: nothing has, and the connection is open."""
    connection.setblocking(False)
    try:
        return connection.recv(65536)
    except BlockingIOError:
        return None
    finally:
        connection.settimeout(20)


def answer(client: http.client.HTTPConnection, path: str = "/one") -> tuple[int, str]:
    client.request("GET", path)
    response = client.getresponse()
    return response.status, response.read().decode()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def metric(proxy: Proxy, name: str) -> float:
    """The sum over workers."""
    found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", proxy.admin("/metrics")[1], re.M)
    assert found, name
    return sum(map(float, found))


def lowest_free(pid: int) -> int:
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    return next(number for number in range(len(taken) + 1) if number not in taken)


@contextmanager
def descriptors(pid: int, number: int) -> Iterator[None]:
    """Meanwhile the process may open none that is not below this number."""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (number, LIMIT))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))


@pytest.mark.row("F16")
@pytest.mark.parametrize("workers", [1, 2])
def test_idle_connections_beyond_all_places(
    tmp_path: Path, replicas: list[Replica], proxy: Start, workers: int
) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", replicas)
    running = proxy("--fleets", str(file), "--workers", str(workers), descriptors=LIMIT).ready()
    pids, port = running.workers(), running.port
    active = running.client()
    assert answer(active)[0] == 200
    before, began = [cpu_s(pid) for pid in pids], time.monotonic()
    with ExitStack() as open_ones:
        idle, refused = [], 0
        for _ in range(150 * workers):
            one = open_ones.enter_context(connect(port))
            one.sendall(UNKNOWN)
            said = one.recv(65536)
            if said == REFUSAL:
                refused += 1
            else:
                assert said.startswith(b"HTTP/1.1 404 ")
                idle.append(one)
        assert len(idle) == PLACES * workers - 1
        assert all(len(os.listdir(f"/proc/{pid}/fd")) < LIMIT - 64 for pid in pids)

        until(lambda: metric(running, "switchyard_worker_short") == workers, "it is reported")
        assert running.status()["workers"][0]["short_of"] == "connections"
        # Once they are idle for a while, they make room for new ones; the active one stays.
        assert answer(active)[0] == 200
        while time.monotonic() < began + IDLE_S + 0.1:
            assert answer(active)[0] == 200
        newcomers = [running.client() for _ in range(20)]
        assert [answer(one)[0] for one in newcomers] == [200] * 20
        evicted = [one for one in idle if fate(one) == b""]
        assert len(evicted) in range(20 - workers, 21)
        assert answer(active)[0] == 200
        spent = sum(cpu_s(pid) - s for pid, s in zip(pids, before, strict=True))
        assert spent < 0.7 * (time.monotonic() - began) + 0.3

        for name, number in (
            ("switchyard_evicted_connections_total", len(evicted)),
            ("switchyard_worker_client_connections", PLACES * workers),
        ):
            until(lambda name=name, number=number: metric(running, name) == number, f"{name} is {number}")
        assert metric(running, "switchyard_refused_connections_total") == refused
        assert metric(running, "switchyard_worker_max_client_connections") == PLACES * workers
        assert metric(running, "switchyard_worker_max_fds") == LIMIT * workers

        def counted() -> bool:
            row = running.status()["workers"][0]
            return bool(row["open_fds"] == len(os.listdir(f"/proc/{row['pid']}/fd")))

        until(counted, "its own count of descriptors is that of the kernel")
        assert running.log.count("connections are closed or refused for lack of places") == workers
        for client in newcomers:
            client.close()
    assert running.get("/one")[0] == 200
    if workers == 1:
        words = f"places for connections again; {refused} connections were refused, and 0 closed for others"
        until(lambda: words in running.log, "the end is told, with all that were refused")
        until(lambda: not metric(running, "switchyard_worker_short"), "the end is reported")
    assert running.workers() == pids


def test_a_flood_that_only_displaces_its_own_is_reported(
    tmp_path: Path, replicas: list[Replica], proxy: Start
) -> None:
    """Connections that send nothing give way, so that nobody is refused."""
    file = fleet_file(tmp_path / "fleets.yaml", replicas)
    running = proxy("--fleets", str(file), "--workers", "1", descriptors=LIMIT).ready()
    active = running.client()
    with ExitStack() as open_ones:
        for _ in range(3 * PLACES):
            open_ones.enter_context(connect(running.port))
        assert answer(active)[0] == 200
        until(lambda: metric(running, "switchyard_worker_short") == 1, "it is reported")
        assert running.status()["workers"][0]["short_of"] == "connections"
        until(lambda: "connections are closed or refused for lack of places" in running.log, "it is told")
        silent = 'switchyard_gave_way_total{reason="silent"}'
        until(lambda: metric(running, re.escape(silent)) >= 2 * PLACES, "they are counted")
        assert metric(running, "switchyard_refused_connections_total") == 0
        assert answer(active)[0] == 200
    words = r"places for connections again; 0 connections were refused, and \d{3} closed for others"
    until(lambda: re.search(words, running.log), "the end is told, with all that were closed")
    until(lambda: not metric(running, "switchyard_worker_short"), "the end is reported")


def test_connections_in_use_keep_their_places(tmp_path: Path, replicas: list[Replica], proxy: Start) -> None:
    [a, _] = replicas
    file = fleet_file(tmp_path / "fleets.yaml", [a])
    running = proxy("--fleets", str(file), "--workers", "1", "--max-connections", "2").ready()
    streams = [running.client() for _ in range(2)]
    responses = []
    for stream in streams:
        stream.request("GET", "/stream")
        responses.append(stream.getresponse())
        assert responses[-1].read(5) == b"first"
    # Also long after they began, and whether the request comes before or after the answer.
    time.sleep(IDLE_S)
    for request in (REQUEST, b""):
        with connect(running.port) as third:
            third.sendall(request)
            assert received(third) == REFUSAL
    a.release.set()
    assert [response.read() for response in responses] == [b"last", b"last"]
    for stream in streams:
        stream.close()
    until(lambda: running.get("/one")[0] == 200, "there is a place again")


def test_want_of_descriptors_is_not_the_replicas_fault(
    tmp_path: Path, replicas: list[Replica], proxy: Start
) -> None:
    lines, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    file, log = str(fleet_file(tmp_path / "f.yaml", replicas)), str(lines)
    running = proxy("--fleets", file, "--workers", "1", "--access-log", log, descriptors=LIMIT).ready()
    [pid] = running.workers()
    client = running.client()
    client.connect()
    until(lambda: metric(running, "switchyard_worker_client_connections") == 1, "it is connected")
    waiting = running.client()
    lines.rename(moved)
    with descriptors(pid, 5):
        before, began = cpu_s(pid), time.monotonic()
        for _ in range(12):
            client.request("GET", "/one")
            response = client.getresponse()
            said = json.loads(response.read())
            assert (response.status, said["code"]) == (503, "descriptors_exhausted")
            assert response.headers["Retry-After"] == "1"
        # Not even a spare descriptor helps here: a new connection waits, and the worker does not spin.
        waiting.request("GET", "/one")
        until(lambda: "descriptors are in use" in running.log, "it is told")
        while time.monotonic() < began + 1.0:
            assert running.admin("/livez")[0] == 200
            time.sleep(0.1)
        assert cpu_s(pid) - before < 0.6
        until(lambda: moved.read_text().count("descriptors_exhausted") == 12, "no line of the log is lost")
        assert running.log.count("the access log cannot be opened anew") == 1
    assert waiting.getresponse().read() in (b"a", b"b")
    assert answer(client)[0] == 200
    assert all(row["eligible"] for row in running.replicas("echo").values())
    until(lambda: metric(running, "switchyard_replica_succeeded_total") == 2, "the answers are reported")
    assert metric(running, "switchyard_replica_failed_total") == 0
    assert metric(running, "switchyard_replica_cancelled_total") == 0
    assert "ejected" not in running.log
    until(lines.exists, "the log is opened anew")


def test_redis_is_reached_again_once_there_are_descriptors(
    replicas: list[Replica], proxy: Start, publisher: Publisher, redis_url: str
) -> None:
    publisher.fleet(snapshot(1, replicas[:1]))
    publisher.manifest(1)
    running = proxy("--redis", redis_url, "--workers", "1", descriptors=LIMIT).ready()
    pids = running.workers()
    client = running.client()
    assert answer(client) == (200, "a")
    with descriptors(pids[0], 5):
        publisher.client.client_kill_filter(skipme=True)
        until(lambda: metric(running, "switchyard_table_source_connected") == 0, "it is cut off")
    publisher.fleet(snapshot(2, replicas[1:]))
    publisher.manifest(2)
    until(lambda: answer(client) == (200, "b"), "the new table is heard of")
    assert running.workers() == pids


def test_with_its_last_descriptor_the_worker_still_refuses_in_words(
    tmp_path: Path, replicas: list[Replica], proxy: Start
) -> None:
    running = proxy(
        "--fleets", str(fleet_file(tmp_path / "f.yaml", replicas)), "--workers", "1", descriptors=LIMIT
    ).ready()
    [pid] = running.workers()
    client = running.client()
    first = answer(client)
    assert first[0] == 200
    with descriptors(pid, lowest_free(pid)):
        # The connection to the other replica takes the place of the idle one to this.
        second = answer(client)
        assert second[0] == 200
        assert second != first
        until(lambda: "descriptors are in use" in running.log, "it is told")
        for _ in range(3):
            with connect(running.port) as refused:
                refused.sendall(REQUEST)
                assert received(refused) == REFUSAL
        assert answer(client)[0] == 200
    until(lambda: running.get("/one")[0] == 200, "connections are taken again", 5)
    assert answer(client)[0] == 200
    until(lambda: metric(running, "switchyard_refused_connections_total") >= 3, "the refusals are counted")


def test_the_admin_listener_answers_however_many_connect_to_it(
    tmp_path: Path, replicas: list[Replica], proxy: Start
) -> None:
    running = proxy(
        "--fleets", str(fleet_file(tmp_path / "f.yaml", replicas)), "--workers", "1", descriptors=LIMIT
    ).ready()
    with ExitStack() as open_ones:
        for _ in range(300):
            open_ones.enter_context(connect(running.admin_port))
        assert running.admin("/livez") == (200, "alive\n")
        assert running.status()["ready"]
    assert "system resource" not in running.log
