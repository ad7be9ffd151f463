"""Limits of client keys between real worker processes, from a fleet file, and on the admin listener."""

import http.client
import json
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from routing.contract.client_keys import new_key
from routing.contract.fleet_file import FleetFileError
from routing.contract.table import KeyLimits
from routing.master.standalone.fleet_file_watcher import read
from tests.proxy_process import Proxy, Replica, fleet_file, until

KEY, OTHER = new_key(), new_key()


def keyed_file(folder: Path, replicas: list[Replica], **limits: Any) -> Path:
    file = fleet_file(folder / "fleets.yaml", replicas)
    keys = [{"name": "web", "key": "env:SY_KEY", **limits}, {"name": "other", "key": "env:SY_OTHER"}]
    file.write_text(json.dumps({**json.loads(file.read_text()), "client_keys": keys}))
    return file


def ask(proxy: Proxy, key: str = KEY) -> tuple[int, int]:
    """On a connection of its own; status, and the seconds that it is told to wait."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    try:
        connection.request("GET", "/", headers={"x-api-key": key})
        response = connection.getresponse()
        response.read()
        return response.status, int(response.getheader("Retry-After", "0"))
    finally:
        connection.close()


def test_limits_are_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SY_KEY", KEY)
    monkeypatch.setenv("SY_OTHER", OTHER)
    numbers = {"requests_per_minute": 3, "max_concurrency": 2, "tokens_per_minute": 9}
    said = {"priority": "low", "weight": 0.5, **numbers}
    _, keys = read(keyed_file(tmp_path, [], **said))
    assert [*keys.limits] == [*keys.fleets]
    assert [*keys.limits.values()] == [KeyLimits(id="web", **said), KeyLimits(id="other")]
    for field in ("weight", *numbers):
        with pytest.raises(FleetFileError, match=rf"client_keys\[0\]\.{field}: must be"):
            read(keyed_file(tmp_path, [], **{field: 0}))
    with pytest.raises(FleetFileError, match=r"client_keys\[0\]\.priority: must be"):
        read(keyed_file(tmp_path, [], priority="highest"))


def burst(proxy: Proxy, count: int) -> Counter[int]:
    with ThreadPoolExecutor(16) as pool:
        return Counter(status for status, _ in pool.map(lambda _: ask(proxy), range(count)))


def test_two_workers_let_exactly_the_limit_in_and_tell_of_it(
    proxy: Callable[..., Proxy], replicas: list[Replica], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SY_KEY", KEY)
    monkeypatch.setenv("SY_OTHER", OTHER)
    file = keyed_file(tmp_path, replicas, requests_per_minute=40, priority="high")
    running = proxy("--fleets", str(file), "--workers", "2").ready()
    began = time.monotonic()
    assert burst(running, 100) == {200: 40, 429: 60}
    # Limits change at once, and what was used stays used.
    keyed_file(tmp_path, replicas, requests_per_minute=50)
    until(lambda: "table 2" in running.log, "the file has been read again")
    tries: list[int] = []

    def let_in() -> bool:
        tries.append(ask(running)[0])
        return tries[-1] == 200

    until(let_in, "the new limit holds")
    assert burst(running, 30) == {200: 9, 429: 21}
    status, wait_s = ask(running)
    assert status == 429
    assert 60 - (time.monotonic() - began) - 1 <= wait_s <= 60
    assert ask(running, OTHER)[0] == 200

    def counted() -> dict[str, dict[str, Any]]:
        return {row["id"]: row for row in running.status()["client_keys"]}

    def all_is_reported() -> bool:
        rows = counted()
        if set(rows) != {"web", "other"} or any(row["in_flight"] for row in rows.values()):
            return False
        return (rows["web"]["requests"], rows["web"]["limited"]) == (50 + limited, limited)

    limited = 60 + tries.count(429) + 21 + 1
    until(all_is_reported, "all has been reported")
    assert counted()["web"]["limited_by"] == {"requests_per_minute": limited}
    assert sum(replica.served for replica in replicas) == 51
    page = running.admin("/metrics")[1]
    assert f'switchyard_key_requests_total{{key="web"}} {counted()["web"]["requests"]}\n' in page
    of_limit = 'switchyard_key_limited_requests_total{key="web",limit="requests_per_minute"}'
    assert f"{of_limit} {limited}\n" in page
    assert 'switchyard_key_requests_in_flight{key="other"} 0\n' in page
    assert "sy-" not in page
    assert "sy-" not in running.admin("/status")[1]


def test_a_killed_worker_gives_back_what_keys_had_in_flight_there(
    proxy: Callable[..., Proxy], replicas: list[Replica], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SY_KEY", KEY)
    monkeypatch.setenv("SY_OTHER", OTHER)
    file = keyed_file(tmp_path, replicas, max_concurrency=1)
    running = proxy("--fleets", str(file), "--workers", "2").ready()
    held = socket.create_connection(("127.0.0.1", running.port), timeout=10)
    held.sendall(b"GET /stream HTTP/1.1\r\nHost: a\r\nx-api-key: %b\r\n\r\n" % KEY.encode())
    heard = b""
    while b"first" not in heard:
        heard += held.recv(65_536)
    # Whichever worker is asked.
    assert burst(running, 20) == {429: 20}
    for worker in running.workers():
        os.kill(worker, signal.SIGKILL)
        held.settimeout(0.5)
        try:
            if not held.recv(65_536):
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break

    def served() -> bool:
        try:
            return ask(running)[0] == 200
        except OSError:
            return False

    until(served, "the place is free again")
    until(lambda: all(served() for _ in range(20)), "in whichever worker")
    held.close()
